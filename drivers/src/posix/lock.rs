//! Locks of the operating system on byte ranges.
//!
//! The system's locks belong to an *open file description* (`fcntl(2)`, "Open file description locks"). Two locks through one
//! description never exclude each other, so every guard holds a description of its own; unlike the older process-owned locks, they
//! exclude threads too, and closing another descriptor of the file does not release them.

use super::io::uninterrupted;
use super::transfer::CallCounts;
use crate::{Access, LockGuard, LockMode};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// Descriptors of one file that hold no lock now, kept for the next one.
#[derive(Debug)]
pub(super) struct LockDescriptors {
    idle: Mutex<Vec<OwnedFd>>,
    counts: Arc<CallCounts>,
}

/// A descriptor that one guard will hold.
pub(super) struct LockDescriptor {
    fd: OwnedFd,
    home: Arc<LockDescriptors>,
}

impl LockDescriptors {
    /// More than this many idle descriptors are closed.
    const IDLE_MAX: usize = 4;

    /// None yet; what is done with them is counted in `counts`.
    pub(super) fn new(counts: Arc<CallCounts>) -> Self {
        Self { idle: Mutex::default(), counts }
    }

    fn counted(&self) {
        self.counts.other.fetch_add(1, Relaxed);
    }

    /// A descriptor for one guard: an idle one, or the file opened anew.
    pub(super) fn take(self: &Arc<Self>, file: &OwnedFd, access: Access) -> Result<LockDescriptor, Errno> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let fd = if let Some(fd) = idle {
            fd
        } else {
            self.counted();
            reopen(file, access)?
        };
        Ok(LockDescriptor { fd, home: Arc::clone(self) })
    }

    fn put_back(&self, fd: OwnedFd) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < Self::IDLE_MAX {
            idle.push(fd);
        }
    }
}

/// Opens the same file again, by its descriptor, so that neither a rename nor a deletion leads elsewhere.
fn reopen(file: &OwnedFd, access: Access) -> Result<OwnedFd, Errno> {
    let flags = match access {
        Access::Read => OFlag::O_RDONLY,
        Access::Write => OFlag::O_WRONLY,
        Access::ReadWrite => OFlag::O_RDWR,
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    uninterrupted(|| open(path.as_str(), flags | OFlag::O_CLOEXEC, Mode::empty()))
}

impl LockDescriptor {
    /// Locks `bytes` bytes from `start` on (zero: all that follow), if they are free.
    pub(super) fn try_lock(self, start: i64, bytes: i64, mode: LockMode) -> Result<Option<LockGuard>, Errno> {
        let kind = match mode {
            LockMode::Shared => libc::F_RDLCK,
            LockMode::Exclusive => libc::F_WRLCK,
        };
        let request = range_request(kind, start, bytes);
        self.home.counted();
        match uninterrupted(|| fcntl(&self.fd, FcntlArg::F_OFD_SETLK(&request))) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                self.home.put_back(self.fd);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        Ok(Some(LockGuard::new(move || {
            let release = range_request(libc::F_UNLCK, start, bytes);
            self.home.counted();
            // If it cannot be released it is closed, which releases it.
            if fcntl(&self.fd, FcntlArg::F_OFD_SETLK(&release)).is_ok() {
                self.home.put_back(self.fd);
            }
        })))
    }
}

fn range_request(kind: i32, start: i64, bytes: i64) -> libc::flock {
    // `l_pid` must be zero for these locks.
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: bytes,
        l_pid: 0,
    }
}
