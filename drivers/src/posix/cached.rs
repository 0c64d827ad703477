//! What of a file the page cache holds.

use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of cachestat(2) on all architectures but MIPS and Alpha, where this one is none; Linux has it from 6.5 on.
const CACHESTAT: libc::c_long = 451;

/// What to ask about, as the kernel takes it.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// What the kernel tells, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    under_writeback: u64,
    evicted: u64,
    evicted_recently: u64,
}

/// How many pages of the byte at `offset` are in the cache of the file itself: none or one. One system call, which has nothing read.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` for a file of somebody else that may only be read, or where a sandbox forbids the call.
pub(super) fn pages(fd: BorrowedFd<'_>, offset: u64) -> Result<u64, Errno> {
    let (range, mut pages) = (Range { offset, bytes: 1 }, Pages::default());
    // SAFETY: the descriptor is borrowed, hence open; the kernel reads the one and writes the other, both its own types in layout, which
    // live on this stack for the time of the call.
    let status = unsafe { libc::syscall(CACHESTAT, fd.as_raw_fd(), &raw const range, &raw mut pages, 0_u32) };
    Errno::result(status).map(|_| pages.cached)
}

/// The length of a file in bytes, and whether what is read of it goes through the page cache (not with DAX). One system call.
///
/// # Errors
/// What statx(2) says.
pub(super) fn length(fd: BorrowedFd<'_>) -> Result<(u64, bool), Errno> {
    // SAFETY: integers alone, for which zeros are a value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the descriptor is borrowed, hence open; the path is a string with its end; the kernel writes to the status, which lives on
    // this stack for the time of the call.
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
    fn what_was_written_is_cached_and_what_lies_behind_the_end_is_not() {
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
    fn what_has_no_pages_is_an_error_or_none() {
        let pipe = nix::unistd::pipe().unwrap().0;
        assert_ne!(pages(pipe.as_fd(), 0), Ok(1));
        let null = File::open("/dev/null").unwrap();
        assert_ne!(pages(null.as_fd(), 0), Ok(1));
    }
}
