//! The file layers of the MPIs, and how to start a program on each.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launcher;

/// An MPI whose own file layers are peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mpi {
    /// Name of the build folder.
    pub(crate) name: &'static str,
    /// Debian's launcher. `None` if the MPI comes from `PyPI`.
    debian: Option<&'static str>,
    /// The MPI's own file layers.
    pub(crate) peers: &'static [Layer],
}

/// A file layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layer {
    /// Name that the measuring program reports.
    pub(crate) name: &'static str,
    /// Environment variables that make the MPI choose this layer.
    variables: &'static [(&'static str, &'static str)],
}

/// A file layer that Capulet is measured against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A layer of the MPI.
    Own(Layer),
    /// Another build of Capulet's library.
    Library(PathBuf),
}

impl Peer {
    /// Name in tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Own(layer) => layer.name,
            Self::Library(_) => "other build",
        }
    }

    /// Name that the measuring program reports.
    pub(crate) fn reported_name(&self) -> &'static str {
        match self {
            Self::Own(layer) => layer.name,
            Self::Library(_) => CAPULET.name,
        }
    }
}

/// Capulet's file layer.
pub(crate) const CAPULET: Layer = Layer { name: "capulet", variables: &[] };
/// A program that is started without a file layer of a contender, for benches without files.
pub(crate) const PLAIN: Layer = Layer { name: "plain", variables: &[] };

const OMPIO: Layer = Layer { name: "ompio", variables: &[("OMPI_MCA_io", "ompio")] };

/// The MPIs in the order in which they are measured: Debian's first, then those from `PyPI`.
const MPIS: [Mpi; 4] = [
    Mpi {
        name: "openmpi",
        debian: Some("mpiexec.openmpi"),
        peers: &[OMPIO, Layer { name: "romio", variables: &[("OMPI_MCA_io", "romio321")] }],
    },
    Mpi { name: "mpich", debian: Some("mpiexec.mpich"), peers: &[Layer { name: "romio", variables: &[] }] },
    Mpi {
        name: "openmpi5",
        debian: None,
        peers: &[OMPIO, Layer { name: "romio", variables: &[("OMPI_MCA_io", "romio341")] }],
    },
    Mpi { name: "mpich5", debian: None, peers: &[Layer { name: "romio", variables: &[] }] },
];

/// The MPIs with these names, or Debian's MPIs if there are no names.
pub(crate) fn chosen(names: &[String]) -> impl Iterator<Item = &'static Mpi> {
    MPIS.iter().filter(move |mpi| match names {
        [] => mpi.debian.is_some(),
        names => names.iter().any(|name| name == mpi.name),
    })
}

/// Settings for Open MPI. Without them Open MPI refuses to run as root and refuses more ranks than cores,
/// and it spins in its waits.
const SETTINGS: [(&str, &str); 5] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// Variables that would change the behavior of a contender.
const FOREIGN: [&str; 7] = [
    "CAPULET_DRIVER",
    "CAPULET_FAULTS",
    "CAPULET_HINTS",
    "CAPULET_LOG",
    "CAPULET_STATS",
    "LD_PRELOAD",
    "ROMIO_HINTS",
];

impl Mpi {
    /// The layer named `name`: Capulet, or one of this MPI's own.
    pub(crate) fn layer(&self, name: &str) -> Option<Layer> {
        std::iter::once(CAPULET).chain(self.peers.iter().copied()).find(|layer| layer.name == name)
    }

    /// The launcher. MPIs from `PyPI` lie beside the builds, in `env`, where `make setup` has installed
    /// them.
    fn launcher(&self) -> PathBuf {
        if let Some(name) = self.debian {
            return name.into();
        }
        let executable = env::current_exe().unwrap_or_default();
        let builds = executable.ancestors().nth(3).unwrap_or(Path::new("target"));
        builds.join("env").join(self.name).join("bin/mpiexec")
    }

    /// The command that runs `program` as [`Mpi::command`] does, on a peer.
    pub(crate) fn peer_command(
        &self,
        peer: &Peer,
        ranks: u32,
        program: &Path,
        words: &[OsString],
    ) -> Command {
        match peer {
            Peer::Own(layer) => self.command(layer, ranks, program, words, false),
            Peer::Library(library) => {
                let mut preload = OsString::from("LD_PRELOAD=");
                preload.push(library);
                let words: Vec<OsString> =
                    [preload, program.into()].into_iter().chain(words.iter().cloned()).collect();
                self.command(&PLAIN, ranks, Path::new("env"), &words, false)
            }
        }
    }

    /// The command that runs `program` with the arguments `words` on `ranks` ranks through `layer`. For
    /// Capulet the ranks start this `capulet` command, which passes `--stats` if `counting` is set.
    pub(crate) fn command(
        &self,
        layer: &Layer,
        ranks: u32,
        program: &Path,
        words: &[OsString],
        counting: bool,
    ) -> Command {
        let mut command = Command::new(self.launcher());
        command.arg("-n").arg(ranks.to_string());
        if *layer == CAPULET {
            command.arg(env::current_exe().unwrap_or_else(|_| "capulet".into())).arg("run");
            command.args(counting.then_some("--stats")).arg("--");
        }
        command.arg(program).args(words);
        for name in launcher::variables().chain(FOREIGN.map(OsString::from)) {
            command.env_remove(name);
        }
        command.envs(SETTINGS).envs(layer.variables.iter().copied());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn peers_run_the_program_directly_and_capulet_by_its_command() {
        let [openmpi, mpich, ..] = MPIS;
        let program = Path::new("/x/bench");
        let romio = openmpi.command(&openmpi.peers[1], 4, program, &["--suite".into()], false);
        assert_eq!(words(&romio), ["-n", "4", "/x/bench", "--suite"]);
        assert!(romio.get_envs().any(|set| set == ("OMPI_MCA_io".as_ref(), Some("romio321".as_ref()))));
        let ours = mpich.command(&CAPULET, 2, program, &[], true);
        assert_eq!(words(&ours)[3..], ["run", "--stats", "--", "/x/bench"]);
        assert_eq!(ours.get_program(), "mpiexec.mpich");
        assert!(ours.get_envs().any(|set| set == ("CAPULET_HINTS".as_ref(), None)));
    }

    #[test]
    fn another_build_is_preloaded() {
        let [openmpi, ..] = MPIS;
        let peer = Peer::Library("/x/libcapulet_openmpi.so".into());
        let command = openmpi.peer_command(&peer, 2, Path::new("/x/bench"), &["--suite".into()]);
        assert_eq!(
            words(&command),
            ["-n", "2", "env", "LD_PRELOAD=/x/libcapulet_openmpi.so", "/x/bench", "--suite"]
        );
        assert_eq!((peer.name(), peer.reported_name()), ("other build", "capulet"));
    }

    #[test]
    fn mpis_from_pypi_are_chosen_by_name_and_have_own_launchers() {
        let names = |names: &[String]| chosen(names).map(|mpi| mpi.name).collect::<Vec<_>>();
        assert_eq!(names(&[]), ["openmpi", "mpich"]);
        assert_eq!(names(&["mpich5".to_owned(), "openmpi".to_owned()]), ["openmpi", "mpich5"]);
        let romio = MPIS[2].layer("romio").expect("the MPI has the layer");
        let command = MPIS[2].command(&romio, 2, Path::new("/x/verify"), &[], false);
        assert!(Path::new(command.get_program()).ends_with("env/openmpi5/bin/mpiexec"));
        assert!(command.get_envs().any(|set| set == ("OMPI_MCA_io".as_ref(), Some("romio341".as_ref()))));
    }
}
