//! Files of the operating system: whatever is mounted, through its system calls.
//!
//! The kind of file system is asked once per open ([`FilesystemKind`]). It decides the capabilities,
//! whether pieces may be stored through a mapping (`mapped`), and how a file is closed and refreshed.
//!
//! # Budget
//! Opening: 4 system calls (open, status, kind of file system, flags). A batch: one call for every stretch of transfers
//! that follow each other in the file, and one more for every 1,024 segments or 2,147,479,552 bytes of it; a short
//! or interrupted call adds one. A read that meets the end of the file adds one. No copy, and no allocation for batches of up
//! to 16 segments a stretch. A batch of 64 small pieces or more that lie near each other, on a local file system: four calls in all,
//! or three in a mapping that was kept, and a copy of each piece; in memory six, or larger ones of one of several writers five and one
//! for every 256 KiB and every 4 MiB, which may turn out to be in vain (`mapped`), two fewer in a mapping that was kept. A batch of 16 runs or more that lie 16 KiB apart or more, on a local disk: one call to ask
//! whether they are cached, and if not one more, one for each run to send for it, and for writes one to ask whether there is data
//! (`cold`). A lock and its release: two calls, and one more where no descriptor of an earlier lock is idle.
//!
//! A close: one call, and one for each idle descriptor of a lock; two more where the file system sends
//! data away at close (`close`). A refresh: no call where nodes see each other's bytes at once, else two, and
//! four on NFS (`refresh`).
//!
//! # Limits that are the process's own
//! A write beyond the file size limit (`RLIMIT_FSIZE`) raises `SIGXFSZ` before it fails, as for any program: only a process that
//! ignores that signal sees the error.

mod cached;
mod close;
mod cold;
mod file;
mod filesystem;
mod io;
mod lock;
mod mapped;
#[cfg(test)]
mod mapped_tests;
mod refresh;
#[cfg(test)]
mod scripted;
mod transfer;
mod xfs;

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
    /// A driver that asks each file's file system what it is.
    pub fn new() -> Self {
        Self { io: Arc::new(RealIo), assumed: None }
    }

    /// A driver that takes every file system for `kind`: for mounts whose kind cannot be seen, such as one behind FUSE.
    pub fn assuming(kind: FilesystemKind) -> Self {
        Self { io: Arc::new(RealIo), assumed: Some(kind) }
    }

    /// A driver whose data calls go to `io` instead of the system.
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
        // Where there is no folder to count from, the path says more than nothing.
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

/// The error of a call that took a path or a descriptor.
fn system_error(operation: Operation, path: &Path, source: impl Into<std::io::Error>) -> Error {
    let source = source.into();
    // The system says "invalid argument" of a name that the file system cannot hold or that has a NUL byte in it.
    let names = matches!(operation, Operation::Open | Operation::Delete);
    if names && source.raw_os_error() == Some(libc::EINVAL) {
        return Error::new(crate::ErrorKind::BadName, operation, path, source);
    }
    Error::system(operation, path, source)
}

#[cfg(test)]
mod tests;
