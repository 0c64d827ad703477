//! Why `capulet run` cannot start a program, with advice and an exit code.

use std::io;
use std::path::PathBuf;

use crate::mpi::{Family, Mpi};

/// The program's MPI cannot be found out, or Capulet does not serve it.
const EXIT_NO_MPI: u8 = 64;
/// The launcher belongs to another MPI than the program.
const EXIT_LAUNCHER: u8 = 65;
/// The Capulet library for the program's MPI is missing or unfit.
const EXIT_LIBRARY: u8 = 66;
/// The program was found but cannot be executed. Shells use the same code.
const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program was not found. Shells use the same code.
const EXIT_NOT_FOUND: u8 = 127;

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{program}: not found")]
    NotFound { program: String },
    #[error("{program}: cannot be executed: {cause}")]
    NotExecutable { program: String, cause: io::Error },
    #[error("{path}: cannot be read: {cause}", path = path.display())]
    Unreadable { path: PathBuf, cause: String },
    #[error("{path}: statically linked, so no library can be loaded before its MPI", path = path.display())]
    Static { path: PathBuf },
    #[error("{program}: no MPI library among its dependencies")]
    NoMpi { program: String },
    #[error("{program}: uses more than one MPI library: {libraries}")]
    SeveralMpis { program: String, libraries: String },
    #[error("{program}: uses {soname}, the standard ABI of MPI 5, for which Capulet has no library yet")]
    StandardAbi { program: String, soname: String },
    #[error("{program}: uses {soname}, an MPI for which Capulet has no library")]
    ForeignMpi { program: String, soname: String },
    #[error("{program}: needs {soname}, which the loader does not find")]
    MpiNotFound { program: String, soname: String },
    #[error("{program}: uses {seen}, not {given} as --mpi says")]
    OtherMpi { program: String, seen: Mpi, given: Mpi },
    #[error("{interpreter}: the probe for this Python's MPI failed: {cause}")]
    Probe { interpreter: String, cause: String },
    #[error("{program} uses {library}, but was started by the launcher of {launcher}")]
    Launcher { program: String, library: Mpi, launcher: Family },
    #[error("{name}, which serves {mpi}, is not in {searched}")]
    NoLibrary { name: String, mpi: Mpi, searched: String },
    #[error("{path}: is not a Capulet library for {mpi}: {cause}", path = path.display())]
    UnfitLibrary { path: PathBuf, mpi: Mpi, cause: String },
    #[error("{path}: a path with a space or a colon cannot be preloaded", path = path.display())]
    UnpreloadablePath { path: PathBuf },
}

impl Error {
    /// The exit code of the command.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => EXIT_NOT_FOUND,
            Self::NotExecutable { .. } | Self::Unreadable { .. } => EXIT_NOT_EXECUTABLE,
            Self::Static { .. }
            | Self::NoMpi { .. }
            | Self::SeveralMpis { .. }
            | Self::StandardAbi { .. }
            | Self::ForeignMpi { .. }
            | Self::MpiNotFound { .. }
            | Self::OtherMpi { .. }
            | Self::Probe { .. } => EXIT_NO_MPI,
            Self::Launcher { .. } => EXIT_LAUNCHER,
            Self::NoLibrary { .. } | Self::UnfitLibrary { .. } | Self::UnpreloadablePath { .. } => {
                EXIT_LIBRARY
            }
        }
    }

    /// Advice to the user, if there is any.
    pub(crate) fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NoMpi { .. } => "if it is a wrapper, put `capulet run` after it, directly before the MPI \
                 program; if it loads its MPI only while it runs, name the MPI with --mpi"
                .to_owned(),
            Self::Static { .. } => {
                "link it to the shared MPI library, or to Capulet's library before -lmpi".to_owned()
            }
            Self::MpiNotFound { .. } => {
                "set LD_LIBRARY_PATH to the folder of this MPI; the program needs it too".to_owned()
            }
            Self::Probe { .. } => {
                "the probe imports mpi4py with the interpreter and the options of the program".to_owned()
            }
            Self::Launcher { library, .. } => {
                let example = match library.family() {
                    Family::OpenMpi => "mpiexec.openmpi",
                    Family::Mpich => "mpiexec.mpich",
                };
                format!("every rank would run alone; use the mpiexec of its own MPI (on Debian {example})")
            }
            Self::NoLibrary { .. } => "build it (`make build`), or set CAPULET_LIBDIR to its folder; \
                 `capulet doctor` lists what is served"
                .to_owned(),
            Self::UnpreloadablePath { .. } => {
                "LD_PRELOAD separates its entries with both; move the file to a path without them".to_owned()
            }
            _ => return None,
        })
    }
}
