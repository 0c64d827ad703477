//! Locks of the operating system on byte ranges.
//!
//! The system's locks belong to an *open file description* (`fcntl(2)`, "Open file description locks"). Two locks through one
//! description never exclude each other, so every guard holds a description of its own; unlike the older process-owned locks, they
//! exclude threads too, and closing another descriptor of the file does not release them.

use super::io::{SystemIo, uninterrupted};
use super::transfer::CallCounts;
use crate::{Access, LockGuard, LockMode};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Descriptors of one file for its locks.
#[derive(Debug)]
pub(super) struct LockDescriptors {
    io: Arc<dyn SystemIo>,
    state: Mutex<State>,
    counts: Arc<CallCounts>,
}

#[derive(Debug)]
struct State {
    /// Those that hold no lock now, kept for the next one. None once the file is closed.
    idle: Option<Vec<OwnedFd>>,
    /// What the system said of those that were closed. It may be an error of the file's data, which no
    /// other descriptor is told.
    closed: Result<(), Errno>,
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
    pub(super) fn new(io: Arc<dyn SystemIo>, counts: Arc<CallCounts>) -> Self {
        let state = State { idle: Some(Vec::new()), closed: Ok(()) };
        Self { io, state: Mutex::new(state), counts }
    }

    fn counted(&self) {
        self.counts.other.fetch_add(1, Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment or one push: a panic elsewhere leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor for one guard: an idle one, or the file opened anew.
    pub(super) fn take(
        self: &Arc<Self>,
        file: BorrowedFd<'_>,
        access: Access,
    ) -> Result<LockDescriptor, Errno> {
        let idle = self.state().idle.as_mut().and_then(Vec::pop);
        let fd = if let Some(fd) = idle {
            fd
        } else {
            self.counted();
            reopen(file, access)?
        };
        Ok(LockDescriptor { fd, home: Arc::clone(self) })
    }

    /// Keeps a descriptor that holds no lock for the next one.
    fn put_back(&self, fd: OwnedFd) {
        {
            let mut state = self.state();
            if let Some(idle) = state.idle.as_mut().filter(|idle| idle.len() < Self::IDLE_MAX) {
                idle.push(fd);
                return;
            }
        }
        self.discard(fd);
    }

    fn discard(&self, fd: OwnedFd) {
        let closed = self.close_one(fd);
        let mut state = self.state();
        match closed {
            Err(error) if state.idle.is_none() => {
                tracing::error!(%error, "cannot close a lock of a file that is closed already");
            }
            _ => state.closed = state.closed.and(closed),
        }
    }

    fn close_one(&self, fd: OwnedFd) -> Result<(), Errno> {
        self.counted();
        match self.io.close(fd) {
            // What was not flushed is flushed at the close of the file's own descriptor.
            Err(Errno::EINTR) => Ok(()),
            answer => answer,
        }
    }

    /// Closes the descriptors that hold no lock, and tells what was said of all that are closed. The others
    /// are closed with their guards.
    pub(super) fn close(&self) -> Result<(), Errno> {
        let mut state = self.state();
        for fd in state.idle.take().unwrap_or_default() {
            state.closed = state.closed.and(self.close_one(fd));
        }
        state.closed
    }
}

/// Opens the same file again, by its descriptor, so that neither a rename nor a deletion leads elsewhere.
fn reopen(file: BorrowedFd<'_>, access: Access) -> Result<OwnedFd, Errno> {
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
            Err(error) => {
                self.home.put_back(self.fd);
                return Err(error);
            }
        }
        Ok(Some(LockGuard::new(move || {
            let release = range_request(libc::F_UNLCK, start, bytes);
            self.home.counted();
            // If it cannot be released it is closed, which releases it.
            match fcntl(&self.fd, FcntlArg::F_OFD_SETLK(&release)) {
                Ok(_) => self.home.put_back(self.fd),
                Err(_) => self.home.discard(self.fd),
            }
        })))
    }
}

/// A request for `bytes` bytes from `start` on, of an open file description.
pub(super) fn range_request(kind: i32, start: i64, bytes: i64) -> libc::flock {
    // `l_pid` must be zero for these locks.
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: bytes,
        l_pid: 0,
    }
}
