//! Questions about the pages of a file in the page cache.

use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of cachestat(2), which Linux has since 6.5, on all architectures but MIPS and Alpha. On
/// these two no system call has this number.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of the kernel.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat` of the kernel, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    under_writeback: u64,
    evicted: u64,
    evicted_recently: u64,
}

/// The number of pages of the byte at `offset` in the cache of the file itself: 0 or 1. Makes one system
/// call, which starts no read.
///
/// # Errors
/// `ENOSYS` before Linux 6.5. `EPERM` for another user's file that may only be read, or where a sandbox
/// forbids the call.
pub(super) fn pages(fd: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno> {
    let (range, mut pages) = (Range { offset, bytes: 1 }, Pages::default());
    // SAFETY: cachestat(2): the descriptor is borrowed, hence open. The kernel reads `range` and writes
    // `pages`. Both have the layout of the kernel's types and live on this stack during the call.
    let status = unsafe { libc::syscall(CACHESTAT, fd.as_raw_fd(), &raw const range, &raw mut pages, 0_u32) };
    Errno::result(status).map(|_| pages.cached)
}

/// The length of a file in bytes, and whether reads go through the page cache, which is not so with DAX.
/// Makes one system call.
///
/// # Errors
/// Any error of statx(2).
pub(super) fn length(fd: BorrowedFd<'_>) -> Result<(u64, bool), Errno> {
    // SAFETY: contract of `mem::zeroed`: `statx` consists of integers, for which zero is a valid value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: statx(2): the descriptor is borrowed, hence open. The path is a terminated string. The kernel
    // writes only to `status`, which lives on this stack during the call.
    let answer =
        unsafe { libc::statx(fd.as_raw_fd(), c"".as_ptr(), flags, libc::STATX_SIZE, &raw mut status) };
    Errno::result(answer).map(|_| (status.stx_size, status.stx_attributes & libc::STATX_ATTR_DAX as u64 == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn written_page_is_cached_and_a_page_behind_the_end_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        assert_eq!(length(file.as_fd()), Ok((10_000, true)));
        let kind = super::super::filesystem_kind(&path).unwrap();
        match pages(file.as_fd(), 9_999) {
            Err(Errno::ENOSYS | Errno::EPERM) => println!("skipped: no cachestat here"),
            _ if !kind.has_pages() => println!("skipped: pages of {kind} are not those of its files"),
            there => assert_eq!((there, pages(file.as_fd(), 1 << 20)), (Ok(1), Ok(0))),
        }
    }

    #[test]
    fn file_without_pages_has_no_cached_page() {
        let pipe = nix::unistd::pipe().unwrap().0;
        assert_ne!(pages(pipe.as_fd(), 0), Ok(1));
        let null = File::open("/dev/null").unwrap();
        assert_ne!(pages(null.as_fd(), 0), Ok(1));
    }
}
