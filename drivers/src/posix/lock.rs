//! Locks of the operating system on byte ranges.
//!
//! These locks belong to an *open file description* (`fcntl(2)`, "Open file description locks"). Unlike the
//! older locks, which belong to a process, they exclude threads too, and a close of another descriptor of the
//! file does not release them. Two locks through one description never exclude each other, so every guard
//! holds its own description.

use super::io::{SystemIo, uninterrupted};
use super::transfer::CallCounts;
use crate::{Access, LockGuard, LockMode};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The descriptors of one file that serve its locks.
#[derive(Debug)]
pub(super) struct LockDescriptors {
    io: Arc<dyn SystemIo>,
    state: Mutex<State>,
    counts: Arc<CallCounts>,
}

#[derive(Debug)]
struct State {
    /// Descriptors that hold no lock now, kept for later locks. `None` after the close of the file.
    idle: Option<Vec<OwnedFd>>,
    /// The first error of closing a descriptor. It may concern the data of the file, and the system reports
    /// such an error on one descriptor only.
    close_result: Result<(), Errno>,
}

/// A descriptor for one guard.
pub(super) struct LockDescriptor {
    fd: OwnedFd,
    pool: Arc<LockDescriptors>,
}

impl LockDescriptors {
    /// At most this many idle descriptors are kept; others are closed.
    const IDLE_MAX: usize = 4;

    /// No descriptors yet. Counts the system calls in `counts`.
    pub(super) fn new(io: Arc<dyn SystemIo>, counts: Arc<CallCounts>) -> Self {
        let state = State { idle: Some(Vec::new()), close_result: Ok(()) };
        Self { io, state: Mutex::new(state), counts }
    }

    fn count_call(&self) {
        self.counts.other.fetch_add(1, Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment or one push, so a panic of another thread leaves the state valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor for one guard: an idle one, or a new one.
    pub(super) fn take(
        self: &Arc<Self>,
        file: BorrowedFd<'_>,
        access: Access,
    ) -> Result<LockDescriptor, Errno> {
        let idle = self.state().idle.as_mut().and_then(Vec::pop);
        let fd = if let Some(fd) = idle {
            fd
        } else {
            self.count_call();
            reopen(file, access)?
        };
        Ok(LockDescriptor { fd, pool: Arc::clone(self) })
    }

    /// Keeps a descriptor that holds no lock for later locks, or closes it.
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
                tracing::error!(%error, "cannot close the descriptor of a lock after the close of its file");
            }
            _ => state.close_result = state.close_result.and(closed),
        }
    }

    fn close_one(&self, fd: OwnedFd) -> Result<(), Errno> {
        self.count_call();
        match self.io.close(fd) {
            // The close of the file's own descriptor flushes what this one did not.
            Err(Errno::EINTR) => Ok(()),
            answer => answer,
        }
    }

    /// Closes the descriptors that hold no lock. Returns the first error of all descriptors closed so
    /// far. The descriptors of held locks are closed with their guards.
    pub(super) fn close(&self) -> Result<(), Errno> {
        let mut state = self.state();
        for fd in state.idle.take().unwrap_or_default() {
            state.close_result = state.close_result.and(self.close_one(fd));
        }
        state.close_result
    }
}

/// Opens the same file again through its descriptor, so that a rename or a deletion does not matter.
pub(super) fn reopen(file: BorrowedFd<'_>, access: Access) -> Result<OwnedFd, Errno> {
    let flags = match access {
        Access::Read => OFlag::O_RDONLY,
        Access::Write => OFlag::O_WRONLY,
        Access::ReadWrite => OFlag::O_RDWR,
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    uninterrupted(|| open(path.as_str(), flags | OFlag::O_CLOEXEC, Mode::empty()))
}

impl LockDescriptor {
    /// Locks `bytes` bytes from `start` on, if they are free. Zero `bytes` mean all bytes that follow.
    pub(super) fn try_lock(self, start: i64, bytes: i64, mode: LockMode) -> Result<Option<LockGuard>, Errno> {
        let kind = match mode {
            LockMode::Shared => libc::F_RDLCK,
            LockMode::Exclusive => libc::F_WRLCK,
        };
        let request = range_request(kind, start, bytes);
        self.pool.count_call();
        match uninterrupted(|| fcntl(&self.fd, FcntlArg::F_OFD_SETLK(&request))) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                self.pool.put_back(self.fd);
                return Ok(None);
            }
            Err(error) => {
                self.pool.put_back(self.fd);
                return Err(error);
            }
        }
        Ok(Some(LockGuard::new(move || {
            let release = range_request(libc::F_UNLCK, start, bytes);
            self.pool.count_call();
            // If the unlock fails, the close of the descriptor releases the lock.
            match fcntl(&self.fd, FcntlArg::F_OFD_SETLK(&release)) {
                Ok(_) => self.pool.put_back(self.fd),
                Err(_) => self.pool.discard(self.fd),
            }
        })))
    }
}

/// A request of an open file description for `bytes` bytes from `start` on.
pub(super) fn range_request(kind: i32, start: i64, bytes: i64) -> libc::flock {
    // fcntl(2): `l_pid` must be zero for open file description locks.
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: bytes,
        l_pid: 0,
    }
}
