//! Errors of the file layer. Each variant maps to one MPI error class.

use std::path::PathBuf;

use capulet_comm::ErrorClass;

/// Result of the file layer.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The standard does not allow this access mode.
    #[error("access mode {bits:#x}: {reason}")]
    Mode {
        /// The bits of the mode.
        bits: u32,
        /// The rule that the mode breaks.
        reason: &'static str,
    },
    /// An argument is wrong. Nothing was done.
    #[error("{what}")]
    Argument {
        /// The MPI error class that the standard names for the argument.
        class: ErrorClass,
        /// Which argument is wrong, and why.
        what: String,
    },
    /// Ranks passed different values where the standard requires equal ones. Nothing was done.
    #[error("{what} differs between ranks")]
    NotSame {
        /// The argument that differs.
        what: &'static str,
    },
    /// The access mode of the file does not permit the operation.
    #[error("{path}: the access mode of the file does not permit to {what}")]
    Denied {
        /// `MPI_ERR_READ_ONLY` for a write to a read-only file, else `MPI_ERR_ACCESS`.
        class: ErrorClass,
        /// The file.
        path: PathBuf,
        /// The operation that was tried.
        what: &'static str,
    },
    /// The operation is not implemented, or not possible on this storage.
    #[error("unsupported: {what}")]
    Unsupported {
        /// The operation.
        what: &'static str,
    },
    /// The storage failed on this rank.
    #[error("{failure}")]
    Storage {
        /// The cause.
        #[source]
        failure: capulet_sieve::Failure,
    },
    /// MPI failed.
    #[error(transparent)]
    Comm(#[from] capulet_comm::Error),
    /// Another rank failed. The part of this rank may have been carried out.
    #[error("the operation failed on another rank: {class}")]
    Remote {
        /// The error class that all ranks return.
        class: ErrorClass,
    },
}

impl Error {
    /// An error about an argument.
    pub fn argument(class: ErrorClass, what: impl Into<String>) -> Self {
        Self::Argument { class, what: what.into() }
    }

    /// The one MPI error class of this error (MPI 4.1, 14.7 and 9.4).
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Mode { .. } => ErrorClass::Amode,
            Self::Argument { class, .. } | Self::Denied { class, .. } | Self::Remote { class } => *class,
            Self::NotSame { .. } => ErrorClass::NotSame,
            Self::Unsupported { .. } => ErrorClass::UnsupportedOperation,
            Self::Storage { failure } => failure.class(),
            Self::Comm(error) => error.class(),
        }
    }
}

impl From<capulet_drivers::Error> for Error {
    fn from(error: capulet_drivers::Error) -> Self {
        Self::Storage { failure: error.into() }
    }
}

impl From<capulet_atomic::Error> for Error {
    fn from(error: capulet_atomic::Error) -> Self {
        Self::Storage { failure: error.into() }
    }
}

impl From<capulet_sieve::Failure> for Error {
    fn from(failure: capulet_sieve::Failure) -> Self {
        Self::Storage { failure }
    }
}
