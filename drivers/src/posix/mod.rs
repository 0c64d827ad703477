//! The driver of the operating system's files, on any mounted file system.
//!
//! Each open asks for the kind of file system ([`FilesystemKind`]). The kind decides the capabilities,
//! whether pieces may be stored through a mapping (`mapped`), and how a file is closed and refreshed.
//!
//! # Budget of system calls
//! * Open: 4 (open, status, kind of file system, flags).
//! * Batch: 1 for each stretch of transfers that follow each other in the file, and 1 more for every
//!   1,024 segments or 2,147,479,552 bytes of the stretch. Each short or interrupted call adds 1. A read
//!   that reaches the end of the file adds 1. No copy, and no allocation for stretches of up to 16
//!   segments.
//! * Batch of 64 or more small pieces near each other, on a local file system (`mapped`): 4 in all, or 3
//!   with a kept mapping, and a copy of each piece. On a file system in memory: 6.
//! * Larger batch of one of several writers to a file in memory (`mapped`): 5, and 1 for every 256 KiB, and 1
//!   for every 4 MiB. A kept mapping saves 2. The batch may still have to be written by calls after some of
//!   these.
//! * Batch of 16 or more runs at least 16 KiB apart, on a local disk (`readahead`): 1 to ask whether the
//!   first bytes are cached. If they are not: 1 more, 1 to request each run ahead, and for writes 1 to ask
//!   whether there is data.
//! * Lock and its release: 2, and 1 more if no descriptor of an earlier lock is idle.
//! * Close: 1, and 1 for each idle descriptor of a lock. 2 more where the file system sends data away at
//!   close (`close`).
//! * Refresh: 0 where nodes see each other's bytes immediately, 4 on NFS, otherwise 2 (`refresh`).
//!
//! # Limits of the process
//! A write beyond the file size limit (`RLIMIT_FSIZE`) raises `SIGXFSZ` before it fails, as for any program.
//! Only a process that ignores this signal gets the error.

mod cached;
mod close;
mod file;
mod filesystem;
mod io;
mod lock;
mod mapped;
#[cfg(test)]
mod mapped_tests;
mod readahead;
mod refresh;
#[cfg(test)]
mod scripted;
mod transfer;

pub use filesystem::{FilesystemKind, filesystem_kind};

use self::file::PosixFile;
use self::io::{RealIo, SystemIo};
use crate::{Driver, DriverFile, Error, OpenOptions, Operation, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The driver of the operating system's own files. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PosixDriver {
    io: Arc<dyn SystemIo>,
    assumed: Option<FilesystemKind>,
}

impl PosixDriver {
    /// A driver that asks for the kind of each file's file system.
    pub fn new() -> Self {
        Self { io: Arc::new(RealIo), assumed: None }
    }

    /// A driver that treats every file system as `kind`.
    #[cfg(test)]
    fn assuming(kind: FilesystemKind) -> Self {
        Self { io: Arc::new(RealIo), assumed: Some(kind) }
    }

    /// A driver whose calls go to `io` instead of the system.
    #[cfg(test)]
    fn with_io(io: Arc<dyn SystemIo>) -> Self {
        Self { io, assumed: None }
    }
}

impl Default for PosixDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for PosixDriver {
    fn name(&self) -> &'static str {
        "posix"
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        Ok(Arc::new(PosixFile::open(&self.io, self.assumed, path, options)?))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        io::uninterrupted(|| nix::unistd::unlink(path))
            .map_err(|source| system_error(Operation::Delete, path, source))
    }

    fn lasting_path(&self, path: &Path) -> PathBuf {
        // Without a working folder no absolute path exists, and the given path is the best answer.
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

/// The error of a system call on a path or a descriptor.
fn system_error(operation: Operation, path: &Path, source: impl Into<std::io::Error>) -> Error {
    let source = source.into();
    // `EINVAL` means that the file system cannot hold the name, or that the name contains a NUL byte.
    let names = matches!(operation, Operation::Open | Operation::Delete);
    if names && source.raw_os_error() == Some(libc::EINVAL) {
        return Error::new(crate::ErrorKind::BadName, operation, path, source);
    }
    Error::system(operation, path, source)
}

#[cfg(test)]
mod tests;
