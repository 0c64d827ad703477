//! The system calls with many kinds of failure, behind a trait, so that tests can script the failures.

use super::cached;
use super::mapped::{Mapping, Unmapped};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, PosixFadviseAdvice};
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// System calls that can be interrupted, return `EAGAIN`, or do less than requested. Real or scripted.
pub(super) trait SystemIo: Debug + Send + Sync {
    /// Makes one call that reads from `offset` on into the pieces of `memory`, in order.
    ///
    /// # Safety
    /// Every piece is valid for writes during the call.
    unsafe fn read(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize>;

    /// Makes one call that writes the pieces of `memory`, in order, from `offset` on.
    ///
    /// # Safety
    /// Every piece is valid for reads during the call.
    unsafe fn write(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize>;

    /// Reserves storage for `bytes` bytes from `offset` on.
    fn reserve(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64) -> Result<(), Errno>;

    /// Maps a range of a file. Counts its calls.
    fn map(&self, fd: BorrowedFd<'_>, range: &Range<u64>, calls: &AtomicU64) -> Result<Mapping, Unmapped>;

    /// Whether the page of the byte at `offset` is in the page cache, or the byte is behind the end. Counts
    /// pages and starts no read. `None` if the system cannot tell. Counts its calls.
    fn counted_as_cached(&self, fd: BorrowedFd<'_>, offset: i64, calls: &AtomicU64) -> Option<bool>;

    /// Whether the byte at `offset` can be read without a wait. `None` if the system cannot tell. May start a
    /// read ahead of the bytes that follow.
    fn reads_without_wait(&self, fd: BorrowedFd<'_>, offset: i64) -> Option<bool>;

    /// Whether the byte at `offset` is data and not in a hole.
    fn has_data(&self, fd: BorrowedFd<'_>, offset: i64) -> bool;

    /// Requests that bytes are read into the cache, without waiting. Returns no error, because the call that
    /// needs the bytes reports it.
    fn read_ahead(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64);

    /// Brings the data of the file to stable storage.
    fn sync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Returns another descriptor of the same open file description.
    fn duplicate(&self, fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno>;

    /// Closes a descriptor. The descriptor is released also if an error is returned (close(2)).
    fn close(&self, fd: OwnedFd) -> Result<(), Errno>;

    /// Sleeps for `time`.
    fn pause(&self, time: Duration);
}

/// The operating system.
#[derive(Debug)]
pub(super) struct RealIo;

impl SystemIo for RealIo {
    unsafe fn read(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize> {
        let moved = match memory {
            // SAFETY: pread(2): the descriptor is borrowed, hence open. `# Safety` of `SystemIo::read`: the
            // piece is valid for writes.
            [piece] => unsafe { libc::pread(fd.as_raw_fd(), piece.iov_base, piece.iov_len, offset) },
            // SAFETY: preadv(2): the descriptor is borrowed, hence open. The list is a slice, whose
            // length is at most `SEGMENTS_MAX`. `# Safety` of `SystemIo::read`: every piece is valid for
            // writes.
            _ => unsafe { libc::preadv(fd.as_raw_fd(), memory.as_ptr(), memory.len() as i32, offset) },
        };
        counted(moved)
    }

    unsafe fn write(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize> {
        let moved = match memory {
            // SAFETY: pwrite(2): the descriptor is borrowed, hence open. `# Safety` of `SystemIo::write`: the
            // piece is valid for reads.
            [piece] => unsafe { libc::pwrite(fd.as_raw_fd(), piece.iov_base, piece.iov_len, offset) },
            // SAFETY: pwritev(2): the descriptor is borrowed, hence open. The list is a slice, whose
            // length is at most `SEGMENTS_MAX`. `# Safety` of `SystemIo::write`: every piece is valid for
            // reads.
            _ => unsafe { libc::pwritev(fd.as_raw_fd(), memory.as_ptr(), memory.len() as i32, offset) },
        };
        counted(moved)
    }

    fn reserve(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64) -> Result<(), Errno> {
        nix::fcntl::fallocate(fd, FallocateFlags::empty(), offset, bytes)
    }

    fn map(&self, fd: BorrowedFd<'_>, range: &Range<u64>, calls: &AtomicU64) -> Result<Mapping, Unmapped> {
        Mapping::new(fd, range, calls)
    }

    fn counted_as_cached(&self, fd: BorrowedFd<'_>, offset: i64, calls: &AtomicU64) -> Option<bool> {
        calls.fetch_add(1, Relaxed);
        let pages = cached::pages(fd, offset as u64).ok()?;
        if pages > 0 {
            return Some(true);
        }
        calls.fetch_add(1, Relaxed);
        let (bytes, has_cache) = cached::length(fd).ok()?;
        has_cache.then_some(offset as u64 >= bytes)
    }

    fn reads_without_wait(&self, fd: BorrowedFd<'_>, offset: i64) -> Option<bool> {
        let mut byte = 0_u8;
        let memory = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: preadv2(2): the descriptor is borrowed, hence open. The list has one piece, a byte on this
        // stack that no other code uses during the call.
        let read = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const memory, 1, offset, libc::RWF_NOWAIT) };
        match counted(read) {
            Ok(_) => Some(true),
            Err(error) => (error.raw_os_error() == Some(libc::EAGAIN)).then_some(false),
        }
    }

    fn has_data(&self, fd: BorrowedFd<'_>, offset: i64) -> bool {
        nix::unistd::lseek(fd, offset, nix::unistd::Whence::SeekData) == Ok(offset)
    }

    fn read_ahead(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64) {
        let _ = nix::fcntl::posix_fadvise(fd, offset, bytes, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
    }

    fn sync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        nix::unistd::fsync(fd)
    }

    fn duplicate(&self, fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        fd.try_clone_to_owned().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    fn close(&self, fd: OwnedFd) -> Result<(), Errno> {
        nix::unistd::close(fd)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The count that a call returned, or its `errno`.
fn counted(moved: isize) -> io::Result<usize> {
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Repeats a call while signals interrupt it.
pub(super) fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            answer => return answer,
        }
    }
}

/// Repeats a call while signals interrupt it or it returns `EAGAIN`. Returns `EAGAIN` after pauses of
/// [`Backoff::TOTAL`].
pub(super) fn retried<T>(io: &dyn SystemIo, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut backoff = Backoff::default();
    loop {
        match uninterrupted(&mut call) {
            Err(Errno::EAGAIN) if backoff.pause(io) => {}
            answer => return answer,
        }
    }
}

/// Reserves storage for a range of a file. Counts its calls.
///
/// A call that a signal interrupts has reserved nothing: tmpfs undoes what the call has done
/// (`shmem_fallocate`, Linux 6.1). If signals (for example of a profiler) come faster than the range is
/// reserved, the same call would fail forever. So the rest is reserved in steps of half the size.
pub(super) fn reserve(
    io: &dyn SystemIo,
    fd: BorrowedFd<'_>,
    range: Range<i64>,
    calls: &AtomicU64,
) -> Result<(), Errno> {
    const STEP_BYTES_MIN: i64 = 4096;
    let mut at = range.start;
    let mut step_bytes = range.end - range.start;
    let mut backoff = Backoff::default();
    while at < range.end {
        let bytes = step_bytes.min(range.end - at);
        calls.fetch_add(1, Relaxed);
        match io.reserve(fd, at, bytes) {
            Ok(()) => at += bytes,
            Err(Errno::EINTR) => step_bytes = (bytes / 2).max(STEP_BYTES_MIN),
            Err(Errno::EAGAIN) if backoff.pause(io) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Growing pauses between attempts, up to a bounded total.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    next: Duration,
    spent: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(50);
    /// The total of pauses before `EAGAIN` becomes an error.
    pub(super) const TOTAL: Duration = Duration::from_secs(2);

    /// Pauses, or returns false if the total is used up.
    pub(super) fn pause(&mut self, io: &dyn SystemIo) -> bool {
        if self.spent >= Self::TOTAL {
            return false;
        }
        self.next = (self.next * 2).clamp(Self::FIRST, Self::LONGEST);
        self.spent += self.next;
        io.pause(self.next);
        true
    }
}
