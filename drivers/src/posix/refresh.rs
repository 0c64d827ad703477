//! Discards what a node has cached of a file, on file systems where each node caches what it reads.
//!
//! No step discards a dirty page. There are three steps, because no single call works on every file system:
//! * *NFS, if the file is read*: a byte lock is taken and released. The Linux client writes its dirty pages
//!   back before it takes a lock. Then it invalidates its cached pages and attributes. It does so with the
//!   mount option `nolock` too ("locking acts as a cache coherency point", `do_setlk` in `fs/nfs/file.c`).
//!   The next step alone is not enough on NFS: while a file is open for writing, a client may see a new
//!   change time and keep its pages.
//! * *Length and change time* are requested from the server (`AT_STATX_FORCE_SYNC`, statx(2)). FUSE and SMB
//!   clients discard pages that are older than the answer.
//! * *Clean pages* are discarded (`POSIX_FADV_DONTNEED`, `posix_fadvise(2)`: "pages that have not yet been
//!   written out will be unaffected"). The call is advice, so the file system may keep pages that are in use.
//!   No page is mapped here, because only files of local file systems are mapped.

use super::filesystem::FilesystemKind;
use super::io::{SystemIo, retried, uninterrupted};
use super::lock::range_request;
use crate::Access;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, PosixFadviseAdvice, fcntl, posix_fadvise};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The offset of the locked byte: the largest one that a lock can name. Locks of data do not reach this byte,
/// unless they lock the whole file.
const LOCKED_BYTE: i64 = i64::MAX - 1;

/// Runs the steps of the module documentation. Blocks until the server has answered. Counts its calls.
pub(super) fn refresh(
    io: &dyn SystemIo,
    fd: BorrowedFd<'_>,
    kind: FilesystemKind,
    access: Access,
    calls: &AtomicU64,
) -> Result<(), Errno> {
    // A shared lock needs a descriptor that can read. A descriptor that cannot read returns no old bytes.
    if kind == FilesystemKind::Nfs && access.readable() {
        let set = |kind: i32| {
            calls.fetch_add(1, Relaxed);
            let request = range_request(kind, LOCKED_BYTE, 1);
            retried(io, || fcntl(fd, FcntlArg::F_OFD_SETLK(&request)))
        };
        // This descriptor holds no other lock: locks of ranges belong to other descriptions (module `lock`).
        set(libc::F_RDLCK)?;
        set(libc::F_UNLCK)?;
    }
    calls.fetch_add(1, Relaxed);
    uninterrupted(|| ask_the_server(fd))?;
    calls.fetch_add(1, Relaxed);
    let _ = posix_fadvise(fd, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    Ok(())
}

fn ask_the_server(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: contract of `mem::zeroed`: `statx` consists of integers, for which zero is a valid value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC;
    let wanted = libc::STATX_SIZE | libc::STATX_MTIME | libc::STATX_CTIME;
    // SAFETY: statx(2): the descriptor is borrowed, hence open. The path is a terminated string. The kernel
    // writes only to `status`, which lives on this stack during the call.
    let answer = unsafe { libc::statx(fd.as_raw_fd(), c"".as_ptr(), flags, wanted, &raw mut status) };
    Errno::result(answer).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::super::PosixDriver;
    use super::*;
    use crate::{Driver, DriverFileExt, LockMode, OpenOptions};

    #[test]
    fn refresh_calls_the_system_only_where_nodes_cache_and_loses_no_dirty_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let both = OpenOptions::read_write().create(true);
        for (kind, options, expected) in [
            (FilesystemKind::Ext, &both, 0),
            (FilesystemKind::CephFs, &both, 0),
            (FilesystemKind::Nfs, &both, 4),
            (FilesystemKind::Nfs, &OpenOptions::read(), 4),
            (FilesystemKind::Nfs, &OpenOptions::write(), 2),
            (FilesystemKind::Fuse, &both, 2),
            (FilesystemKind::Unknown(7), &both, 2),
        ] {
            let file = PosixDriver::assuming(kind).open(&path, options).unwrap();
            let writer = PosixDriver::new().open(&path, &OpenOptions::read_write()).unwrap();
            // Without a sync the pages stay dirty.
            writer.write_all_at(0, &vec![0xa5; 100_000]).unwrap();
            let before = file.system_calls().total();
            file.refresh().unwrap();
            assert_eq!(file.system_calls().total() - before, expected, "{kind} {options:?}");
            let mut found = vec![0; 100_000];
            assert_eq!(writer.read_at(0, &mut found).unwrap(), found.len());
            assert!(found.iter().all(|byte| *byte == 0xa5), "a dirty byte is lost on {kind}");
            // The refresh has released its lock.
            assert!(writer.try_lock(0..u64::MAX, LockMode::Exclusive).unwrap().is_some());
        }
    }

    #[test]
    fn refresh_of_a_locked_file_ends_as_busy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = OpenOptions::read_write().create(true);
        let io = std::sync::Arc::new(super::super::scripted::ScriptedIo::default());
        let driver = PosixDriver { io, assumed: Some(FilesystemKind::Nfs) };
        let (file, other) = (driver.open(&path, &options).unwrap(), driver.open(&path, &options).unwrap());
        let guard = other.try_lock(0..u64::MAX, LockMode::Exclusive).unwrap();
        let error = file.refresh().unwrap_err();
        assert_eq!((error.kind(), error.operation()), (crate::ErrorKind::Busy, crate::Operation::Refresh));
        drop(guard);
        file.refresh().unwrap();
    }
}
