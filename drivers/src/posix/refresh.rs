//! Discards what a node has cached of a file, on file systems where each node caches what it reads.
//!
//! No step discards a dirty page. There are three steps, because no single call works on every file system:
//! * *A byte lock* is taken and released. NFS clients treat a lock as a point of coherency, and so may
//!   others. The Linux client of NFS writes its dirty pages back before it takes a lock. Then it invalidates
//!   its cached pages and attributes. It does so with the mount option `nolock` too ("locking acts as a cache
//!   coherency point", `do_setlk` in `fs/nfs/file.c`). The next step alone is not enough on NFS: while a file
//!   is open for writing, a client may see a new change time and keep its pages. On other file systems that
//!   refuse locks, the file is opened once more instead: clients look at the server at an open (close-to-open
//!   consistency).
//! * *Length and change time* are requested from the server (`AT_STATX_FORCE_SYNC`, statx(2)). FUSE and SMB
//!   clients discard pages that are older than the answer.
//! * *Clean pages* are discarded (`POSIX_FADV_DONTNEED`, `posix_fadvise(2)`: "pages that have not yet been
//!   written out will be unaffected"). The call is advice, so the file system may keep pages that are in use.
//!   No page is mapped here, because only files of local file systems are mapped. If several machines write,
//!   nothing is read ahead ([`Cached::stop_reading_ahead`]), so a page that no access holds is not in use.
//!
//! If several machines write to a file of NFS, the lock stays until the next refresh releases it and takes it
//! again. The Linux client extends a write to its whole cached page, or to a larger unit, unless the file is
//! locked (`nfs_can_extend_write` in `fs/nfs/write.c`). This lock is a second guard of the bytes of other
//! nodes.

use super::filesystem::FilesystemKind;
use super::io::{SystemIo, retried, uninterrupted};
use super::lock::{range_request, reopen};
use crate::Access;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, PosixFadviseAdvice, fcntl, posix_fadvise};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The offset of the byte that a refresh locks: the largest one that a lock can name. Locks of data do not
/// reach this byte, unless they lock the whole file.
const LOCKED_BYTE: i64 = i64::MAX - 1;
/// The number of bytes that a descriptor tries which cannot take a shared lock.
const BYTES_TRIED: i64 = 32;

/// An open file whose data the node may cache.
pub(super) struct Cached<'a> {
    pub(super) io: &'a dyn SystemIo,
    pub(super) fd: BorrowedFd<'a>,
    /// Counts the system calls.
    pub(super) calls: &'a AtomicU64,
}

impl Cached<'_> {
    /// Asks the system to read only the pages that an access needs. Otherwise the system may read a page at
    /// any time, and the page may be older than a refresh that takes place meanwhile.
    pub(super) fn stop_reading_ahead(&self) {
        self.count();
        let _ = posix_fadvise(self.fd, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM);
    }

    /// Runs the steps of the module documentation. Blocks until the server has answered. With `keeps_lock` the
    /// lock stays.
    pub(super) fn refresh(
        &self,
        kind: FilesystemKind,
        access: Access,
        keeps_lock: bool,
    ) -> Result<(), Errno> {
        match self.pass_a_lock(access, keeps_lock) {
            Err(error) if kind == FilesystemKind::Nfs => return Err(error),
            Err(_) => self.open_again(access)?,
            Ok(()) => {}
        }
        self.discard()
    }

    /// The last two steps, for a process that has just taken a lock.
    pub(super) fn discard(&self) -> Result<(), Errno> {
        self.count();
        uninterrupted(|| ask_the_server(self.fd))?;
        self.count();
        let _ = posix_fadvise(self.fd, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        Ok(())
    }

    /// Opens the file once more, and closes it.
    fn open_again(&self, access: Access) -> Result<(), Errno> {
        self.count();
        let opened = reopen(self.fd, access)?;
        self.count();
        self.io.close(opened).or_else(|error| if error == Errno::EINTR { Ok(()) } else { Err(error) })
    }

    fn count(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Takes a byte lock, and releases it. With `keeps_lock` the other way round. This descriptor holds no
    /// other lock: locks of ranges belong to other descriptions (module `lock`).
    fn pass_a_lock(&self, access: Access, keeps_lock: bool) -> Result<(), Errno> {
        let set = |kind: i32, byte: i64, bytes: i64| {
            self.count();
            let request = range_request(kind, byte, bytes);
            fcntl(self.fd, FcntlArg::F_OFD_SETLK(&request)).map(drop)
        };
        let release = || uninterrupted(|| set(libc::F_UNLCK, LOCKED_BYTE - BYTES_TRIED, BYTES_TRIED + 1));
        if keeps_lock {
            release()?;
        }
        if access.readable() {
            retried(self.io, || set(libc::F_RDLCK, LOCKED_BYTE, 1))?;
        } else {
            // Only a descriptor that can read takes a shared lock, and an exclusive lock needs a byte of its own.
            let first = i64::from(std::process::id()) % BYTES_TRIED;
            let bytes = (0..BYTES_TRIED).map(|at| LOCKED_BYTE - 1 - (first + at) % BYTES_TRIED);
            let mut answers = bytes.map(|byte| uninterrupted(|| set(libc::F_WRLCK, byte, 1)));
            let is_other = |answer: &Result<(), Errno>| !matches!(answer, Err(Errno::EAGAIN | Errno::EACCES));
            answers.find(is_other).unwrap_or(Err(Errno::EAGAIN))?;
        }
        if keeps_lock { Ok(()) } else { release() }
    }
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
            (FilesystemKind::Nfs, &OpenOptions::write(), 4),
            (FilesystemKind::Fuse, &both, 4),
            (FilesystemKind::Unknown(7), &both, 4),
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
    fn lock_stays_on_nfs_if_several_machines_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let several = OpenOptions::read_write().create(true).machines(2);
        for (kind, stays) in [(FilesystemKind::Nfs, true), (FilesystemKind::Fuse, false)] {
            let file = PosixDriver::assuming(kind).open(&path, &several).unwrap();
            let other = PosixDriver::new().open(&path, &OpenOptions::read_write()).unwrap();
            for _ in 0..2 {
                file.refresh().unwrap();
                let is_refused = other.try_lock(0..u64::MAX, LockMode::Exclusive).unwrap().is_none();
                assert_eq!(is_refused, stays, "{kind}");
                assert!(other.try_lock(0..1 << 60, LockMode::Exclusive).unwrap().is_some(), "{kind}");
            }
            drop(file);
            assert!(other.try_lock(0..u64::MAX, LockMode::Exclusive).unwrap().is_some(), "{kind}");
        }
    }

    #[test]
    fn writers_that_cannot_read_refresh_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = OpenOptions::write().create(true).machines(2);
        let driver = PosixDriver::assuming(FilesystemKind::Nfs);
        let files: Vec<_> = (0..4).map(|_| driver.open(&path, &options).unwrap()).collect();
        for file in files.iter().chain(&files) {
            file.refresh().unwrap();
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
