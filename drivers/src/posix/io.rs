//! The system calls whose failures are many-sided: behind a trait, so that tests can script them.

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

/// Calls that can be interrupted, told to come again, or do less than was asked for. Real or scripted.
pub(super) trait SystemIo: Debug + Send + Sync {
    /// One call that reads from `offset` on into the pieces of `memory`, in order.
    ///
    /// # Safety
    /// Every piece is valid for writes for the time of the call.
    unsafe fn read(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize>;

    /// One call that writes the pieces of `memory`, in order, from `offset` on.
    ///
    /// # Safety
    /// Every piece is valid for reads for the time of the call.
    unsafe fn write(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize>;

    /// Reserves storage for `bytes` bytes from `offset` on.
    fn reserve(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64) -> Result<(), Errno>;

    /// Maps bytes of a file; counts its calls.
    fn map(&self, fd: BorrowedFd<'_>, range: &Range<u64>, calls: &AtomicU64) -> Result<Mapping, Unmapped>;

    /// Whether the page of the byte at `offset` is in the page cache, or the byte behind the end, counted: nothing begins to be read for
    /// it. `None` where the system cannot tell. Counts its calls.
    fn counts_as_cached(&self, fd: BorrowedFd<'_>, offset: i64, calls: &AtomicU64) -> Option<bool>;

    /// Whether the byte at `offset` can be read without a wait; `None` where the system cannot tell. May have what follows it read ahead.
    fn reads_at_once(&self, fd: BorrowedFd<'_>, offset: i64) -> Option<bool>;

    /// Whether the byte at `offset` is in no hole.
    fn has_data(&self, fd: BorrowedFd<'_>, offset: i64) -> bool;

    /// Has bytes read into the cache, and does not wait for them. An error is one of the call that needs them, too.
    fn send_for(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64);

    /// Brings everything to stable storage.
    fn sync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Another descriptor of the same open file description.
    fn duplicate(&self, fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno>;

    /// Closes a descriptor. It is released whatever the answer (close(2)).
    fn close(&self, fd: OwnedFd) -> Result<(), Errno>;

    /// Lets time pass.
    fn pause(&self, time: Duration);
}

/// The operating system.
#[derive(Debug)]
pub(super) struct RealIo;

impl SystemIo for RealIo {
    unsafe fn read(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize> {
        let moved = match memory {
            // SAFETY: the caller promises that the piece is valid for writes; the descriptor is borrowed, hence open.
            [piece] => unsafe { libc::pread(fd.as_raw_fd(), piece.iov_base, piece.iov_len, offset) },
            // SAFETY: the same for every piece; the list is a slice, and its length is at most `SEGMENTS_MAX`.
            _ => unsafe { libc::preadv(fd.as_raw_fd(), memory.as_ptr(), memory.len() as i32, offset) },
        };
        counted(moved)
    }

    unsafe fn write(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize> {
        let moved = match memory {
            // SAFETY: the caller promises that the piece is valid for reads; the descriptor is borrowed, hence open.
            [piece] => unsafe { libc::pwrite(fd.as_raw_fd(), piece.iov_base, piece.iov_len, offset) },
            // SAFETY: the same for every piece; the list is a slice, and its length is at most `SEGMENTS_MAX`.
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

    fn counts_as_cached(&self, fd: BorrowedFd<'_>, offset: i64, calls: &AtomicU64) -> Option<bool> {
        calls.fetch_add(1, Relaxed);
        let pages = cached::pages(fd, offset as u64).ok()?;
        if pages > 0 {
            return Some(true);
        }
        calls.fetch_add(1, Relaxed);
        let (bytes, has_cache) = cached::length(fd).ok()?;
        has_cache.then_some(offset as u64 >= bytes)
    }

    fn reads_at_once(&self, fd: BorrowedFd<'_>, offset: i64) -> Option<bool> {
        let mut byte = 0_u8;
        let memory = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: the list has one piece, a byte on this stack that nothing else uses; the descriptor is borrowed, hence open.
        let read = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const memory, 1, offset, libc::RWF_NOWAIT) };
        match counted(read) {
            Ok(_) => Some(true),
            Err(error) => (error.raw_os_error() == Some(libc::EAGAIN)).then_some(false),
        }
    }

    fn has_data(&self, fd: BorrowedFd<'_>, offset: i64) -> bool {
        nix::unistd::lseek(fd, offset, nix::unistd::Whence::SeekData) == Ok(offset)
    }

    fn send_for(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64) {
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

/// The count of a call, or the error that it left behind.
fn counted(moved: isize) -> io::Result<usize> {
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Calls until no signal interrupts.
pub(super) fn uninterrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            answer => return answer,
        }
    }
}

/// Calls until no signal interrupts and the system no longer says "again"; gives up after [`Backoff::TOTAL`].
pub(super) fn persistent<T>(
    io: &dyn SystemIo,
    mut call: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
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
/// A call that a signal interrupts has reserved nothing: tmpfs undoes what it has done (`shmem_fallocate`,
/// Linux 6.1). Where signals come faster than the range is reserved, as those of a profiler do, the same
/// call would fail for ever. So the rest is reserved in steps of half the size.
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

/// Growing pauses between attempts, bounded in all.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    next: Duration,
    spent: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(50);
    /// Pauses in all before "again" becomes an error.
    pub(super) const TOTAL: Duration = Duration::from_secs(2);

    /// Pauses, or returns false if the time for it is used up.
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
