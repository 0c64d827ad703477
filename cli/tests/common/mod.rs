//! Programs compiled for each MPI, stand-ins for the Capulet libraries, and the command under test.

// Each test file uses only a part of this module.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The MPIs by their names in file names, with their SONAMEs.
pub(crate) const MPIS: [(&str, &str); 3] =
    [("openmpi", "libmpi.so.40"), ("mpich", "libmpich.so.12"), ("mpich5", "libmpi.so.12")];

/// Debian's Python, whose mpi4py uses Open MPI.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// The programs and libraries that all tests of a file share. They are compiled once.
pub(crate) struct Bench {
    folder: TempDir,
}

/// A finished command, with its output as text.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) complaints: String,
}

impl Outcome {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            complaints: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The values of the lines that start with `name`, in order.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let value = |line: &'_ str| -> Option<usize> {
            line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])).map(|_| name.len() + 1)
        };
        self.output.lines().filter_map(|line| value(line).map(|start| &line[start..])).collect()
    }

    /// The paths of the mapped MPI libraries, without repetition of neighbors.
    pub(crate) fn mapped(&self) -> Vec<&str> {
        let mut paths = self.values("mapped");
        paths.retain(|path| is_core(path));
        paths.dedup();
        paths
    }
}

/// Whether `path` is an MPI library itself, not its bindings or one of its parts.
fn is_core(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["libmpi.so.", "libmpich.so.", "libmpi_abi.so."].iter().any(|prefix| name.starts_with(prefix))
}

impl Bench {
    pub(crate) fn get() -> &'static Self {
        static BENCH: OnceLock<Bench> = OnceLock::new();
        BENCH.get_or_init(|| {
            let bench = Self { folder: TempDir::new().expect("a temporary folder is created") };
            for folder in ["bin", "lib"] {
                fs::create_dir(bench.path(folder)).expect("the folder is created");
            }
            for (mpi, _) in MPIS {
                compile(&compiler(mpi), &[&source("version.c"), Path::new("-o"), &bench.program(mpi)]);
                build_stand_in(&bench.libraries(), mpi, mpi);
            }
            bench
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of the stand-ins.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.path("lib")
    }

    /// The C program that is compiled for `mpi`.
    pub(crate) fn program(&self, mpi: &str) -> PathBuf {
        self.path("bin").join(mpi)
    }

    /// `capulet` with the stand-ins, and without the variables of this test's own launcher.
    pub(crate) fn capulet(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capulet"));
        clean(&mut command).env("CAPULET_LIBDIR", self.libraries());
        command
    }

    /// `capulet run` with `words`.
    pub(crate) fn run<W: AsRef<std::ffi::OsStr>>(&self, words: &[W]) -> Outcome {
        outcome(self.capulet().arg("run").args(words))
    }
}

/// Builds in `folder` a library that claims to serve `name` and is linked to `mpi`. Like the real ones,
/// it names no folder in which to search its MPI.
pub(crate) fn build_stand_in(folder: &Path, name: &str, mpi: &str) {
    let library = folder.join(format!("libcapulet_{name}.so"));
    let soname = format!("-Wl,-soname,libcapulet_{name}.so");
    let shared = ["-shared", "-fPIC", &soname, "-o"].map(Path::new);
    compile(Path::new("gcc"), &[&shared[..], &[&library, &source("stand_in.c"), &mpi_library(mpi)]].concat());
}

/// Removes the variables that a launcher or an outer `capulet run` may have set for this test.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["OMPI_COMM", "PMI_", "PMIX_", "HYDI_", "MPI_LOCAL", "CAPULET_", "LD_PRELOAD"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
}

pub(crate) fn outcome(command: &mut Command) -> Outcome {
    Outcome::of(&command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// The path of a file beside this one.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common").join(name)
}

/// The path of a part of `target/env`, which `make setup` installs.
pub(crate) fn environment(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/env").join(name);
    fs::canonicalize(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make setup`", path.display()))
}

/// The C compiler of an MPI.
pub(crate) fn compiler(mpi: &str) -> PathBuf {
    match mpi {
        "mpich5" => environment("mpich5/bin/mpicc"),
        debian => PathBuf::from(format!("mpicc.{debian}")),
    }
}

/// The launcher of an MPI for `ranks` ranks, with a time limit.
pub(crate) fn launcher(mpi: &str, ranks: u32) -> Command {
    let launcher = match mpi {
        "mpich5" | "openmpi5" => environment(mpi).join("bin/mpiexec"),
        debian => PathBuf::from(format!("mpiexec.{debian}")),
    };
    let mut command = Command::new("timeout");
    clean(&mut command).arg("240").arg(launcher).arg("-n").arg(ranks.to_string());
    command
}

/// The linker argument for the MPI library of `mpi`. It leaves no search path in the output.
pub(crate) fn mpi_library(mpi: &str) -> PathBuf {
    match mpi {
        "openmpi" => PathBuf::from("-l:libmpi.so.40"),
        "mpich" => PathBuf::from("-l:libmpich.so.12"),
        wheel => environment(wheel).join("lib/libmpi.so.12"),
    }
}

pub(crate) fn compile<W: AsRef<std::ffi::OsStr>>(compiler: &Path, words: &[W]) {
    let done = outcome(Command::new(compiler).args(words));
    assert_eq!(done.code, Some(0), "{}: {}", compiler.display(), done.complaints);
}

/// Writes an executable file. Another program copies it into place: a file that this process opens for
/// writing is also open in the children of other tests, and cannot be executed then.
pub(crate) fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let draft = path.with_extension("draft");
    fs::write(&draft, text).expect("the file is written");
    assert!(Command::new("cp").arg(&draft).arg(path).status().expect("cp starts").success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the permissions are set");
}
