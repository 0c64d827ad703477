//! One open file of the operating system.

use super::filesystem::{self, FilesystemKind};
use super::io::{SystemIo, reserve, retried, uninterrupted};
use super::lock::LockDescriptors;
use super::mapped::{self, KeptMapping, Unmapped};
use super::readahead::{CacheQuestion, ReadAhead};
use super::transfer::{CallCounts, Transferring, operation};
use super::{close, refresh, system_error};
use crate::{
    Access, Batch, BatchResult, Caps, Completion, Direction, DriverFile, Error, ErrorKind, FileIdentity,
    FileLayout, LockGuard, LockMode, OpenOptions, Operation, Result, SystemCalls, Transfer,
};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{Whence, ftruncate, lseek};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;

/// An open file: its descriptor, the properties read at open, and its mapping and locks.
#[derive(Debug)]
pub(super) struct PosixFile {
    io: Arc<dyn SystemIo>,
    /// `None` after the close.
    fd: Option<OwnedFd>,
    path: PathBuf,
    access: Access,
    kind: FilesystemKind,
    is_block_device: bool,
    block_bytes: u64,
    identity: FileIdentity,
    counts: Arc<CallCounts>,
    locks: Arc<LockDescriptors>,
    mapping: KeptMapping,
    /// Whether stores are not safe on this file system, or a mapping has failed, so that no other is tried.
    unmappable: AtomicBool,
    cache_question: CacheQuestion,
    /// Whether a refresh leaves its lock in place ([`refresh`]).
    keeps_lock: bool,
    /// For a file in memory, the number of processes that can make each other wait when they write. 0 for any
    /// other file.
    writers_in_memory: u64,
    /// The first failure of a sync. Linux reports a failure only once, and drops the pages, so the next sync
    /// would succeed although data is lost.
    sync_error: OnceLock<Error>,
}

/// The number of writers that can run at the same time: at most one per core.
fn concurrent_writers(writers: u32) -> u64 {
    static CORES: OnceLock<u64> = OnceLock::new();
    let cores = || thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    if writers > 1 { u64::from(writers).min(*CORES.get_or_init(cores)) } else { 1 }
}

impl PosixFile {
    /// Opens a file. Refuses a folder, a pipe or a socket without waiting.
    pub(super) fn open(
        io: &Arc<dyn SystemIo>,
        assumed: Option<FilesystemKind>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self> {
        let failed = |source: Errno| system_error(Operation::Open, path, source);
        let mode = Mode::from_bits_truncate(options.permissions & 0o7777);
        let fd = retried(io.as_ref(), || open(path, flags(options), mode)).map_err(failed)?;
        let status = uninterrupted(|| fstat(&fd)).map_err(failed)?;
        refuse_non_files(path, &status)?;
        // Only the open must be nonblocking, because the open of a pipe would wait for its other end.
        uninterrupted(|| fcntl(&fd, FcntlArg::F_SETFL(OFlag::empty()))).map_err(failed)?;
        let (kind, unit_bytes) = match assumed {
            Some(kind) => (kind, 1),
            None => uninterrupted(|| filesystem::kind_of(&fd)).map_err(failed)?,
        };
        let counts = Arc::new(CallCounts::default());
        counts.other.store(if assumed.is_some() { 3 } else { 4 }, Relaxed);
        let shares_pages = options.machines > 1 && !kind.caps().contains(Caps::BYTE_WRITES);
        if shares_pages {
            refresh::Cached { io: io.as_ref(), fd: fd.as_fd(), calls: &counts.other }.stop_reading_ahead();
        }
        let is_block_device = file_type(&status) == SFlag::S_IFBLK;
        let in_memory = !is_block_device && kind.caps().contains(Caps::IN_MEMORY);
        Ok(Self {
            io: Arc::clone(io),
            fd: Some(fd),
            path: path.to_path_buf(),
            access: options.access,
            kind,
            is_block_device,
            block_bytes: u64::try_from(status.st_blksize).unwrap_or(1),
            identity: FileIdentity { device: status.st_dev, file: status.st_ino },
            locks: Arc::new(LockDescriptors::new(Arc::clone(io), Arc::clone(&counts))),
            counts,
            mapping: KeptMapping::new(unit_bytes),
            unmappable: AtomicBool::new(!kind.takes_stores()),
            cache_question: CacheQuestion::new(kind),
            keeps_lock: shares_pages && kind == FilesystemKind::Nfs,
            writers_in_memory: if in_memory { concurrent_writers(options.writers) } else { 0 },
            sync_error: OnceLock::new(),
        })
    }

    fn fd(&self, operation: Operation) -> Result<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd).ok_or_else(|| Error::closed(operation, &self.path))
    }

    fn failed(&self, operation: Operation, source: Errno) -> Error {
        system_error(operation, &self.path, source)
    }

    fn count_call(&self) {
        self.counts.other.fetch_add(1, Relaxed);
    }

    /// Returns an error if the file was opened for reading only.
    fn refuse_unless_writable(&self, operation: Operation) -> Result<()> {
        if self.access.writable() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ReadOnly, operation, &self.path, Errno::EBADF))
    }

    fn refuse_unless_readable(&self) -> Result<()> {
        if self.access.readable() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Permission, Operation::Read, &self.path, Errno::EBADF))
    }

    fn signed(&self, operation: Operation, bytes: u64) -> Result<i64> {
        i64::try_from(bytes).map_err(|_| self.failed(operation, Errno::EFBIG).at(bytes))
    }

    fn transfer(&self, batch: &Batch<'_>) -> BatchResult {
        let fd = match self.fd(operation(batch.direction())) {
            Ok(fd) => fd,
            Err(error) => return BatchResult::failed(0, error),
        };
        if let Some(bytes) = self.store(fd, batch) {
            return BatchResult::moved(bytes);
        }
        let Self { io, path, counts, .. } = self;
        let ahead = self.ahead(fd, batch.direction()).filter(|ahead| ahead.is_useful(batch.transfers()));
        Transferring { io: io.as_ref(), fd, path, counts, ahead }.run(batch)
    }

    /// Requests pieces ahead. `None` if the file is not on a disk of this machine or cannot be read.
    fn ahead<'a>(&'a self, fd: BorrowedFd<'a>, direction: Direction) -> Option<ReadAhead<'a>> {
        let is_on_disk = self.kind.is_local() && !self.is_block_device && self.writers_in_memory == 0;
        (is_on_disk && self.access.readable()).then(|| ReadAhead {
            io: self.io.as_ref(),
            fd,
            calls: &self.counts.other,
            direction,
            question: &self.cache_question,
        })
    }

    /// Stores a batch through a mapping, and returns the number of bytes. `None` if calls are better, or
    /// if no mapping is possible.
    fn store(&self, fd: BorrowedFd<'_>, batch: &Batch<'_>) -> Option<u64> {
        let can_be = self.access == Access::ReadWrite && !self.is_block_device;
        if !can_be || self.unmappable.load(Relaxed) {
            return None;
        }
        let plan = mapped::plan(batch, self.writers_in_memory)?;
        let calls = &self.counts.other;
        match self.mapping.store(self.io.as_ref(), fd, (&plan, batch), calls) {
            Ok(stored) => {
                let is_seen = !stored.is_unseen || self.update_change_time(fd, batch);
                is_seen.then_some(stored.bytes)
            }
            Err(Unmapped::NotThis) => None,
            Err(Unmapped::Never) => {
                // Either no mapping of this file will ever work, or the storage is full. Calls report how
                // much fits.
                self.unmappable.store(true, Relaxed);
                None
            }
        }
    }

    /// Updates the change time of a file that has not noticed the stores: writes the last byte of the batch
    /// again, by a call. Returns false if the file refuses this write; the batch then must not count as
    /// written.
    fn update_change_time(&self, fd: BorrowedFd<'_>, batch: &Batch<'_>) -> bool {
        let Some(last) = batch.transfers().iter().rfind(|transfer| transfer.memory.bytes() > 0) else {
            return true;
        };
        let place = last.memory.bytes() - 1;
        let byte = [libc::iovec { iov_base: last.memory.address().wrapping_add(place).cast(), iov_len: 1 }];
        self.counts.writes.fetch_add(1, Relaxed);
        // SAFETY: `# Safety` of `SystemIo::write`: the piece is one byte of a segment of the batch. A
        // segment is valid for reads while the batch lives (`# Safety` of `Segment::from_raw`, or a
        // borrowed reference).
        let written = unsafe { self.io.write(fd, &byte, last.offset as i64 + place as i64) };
        matches!(written, Ok(1..))
    }

    /// Reserves storage where the file system cannot, by writing zeros behind the end of the file. There
    /// no byte can be lost, and a preallocation may leave any data (MPI-4.1, section 14.2.5). Holes
    /// before the end stay holes.
    fn write_zeros_behind_end(&self, bytes: u64) -> Result<()> {
        const CHUNK: usize = 64 << 10;
        const CHUNKS_PER_BATCH: u64 = 64;
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        let mut end = self.len()?;
        while end < bytes {
            let target = bytes.min(end + CHUNK as u64 * CHUNKS_PER_BATCH);
            let mut batch = Batch::with_capacity(Direction::Write, CHUNKS_PER_BATCH as usize);
            while end < target {
                let chunk = (target - end).min(CHUNK as u64);
                batch.push(Transfer::from_memory(end, &ZEROS[..chunk as usize]));
                end += chunk;
            }
            if let Some(error) = self.transfer(&batch).error {
                let offset = error.offset().unwrap_or(end);
                return Err(
                    Error::system(Operation::Preallocate, &self.path, system_source(&error)).at(offset)
                );
            }
        }
        Ok(())
    }
}

impl DriverFile for PosixFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn caps(&self) -> Caps {
        // The node of a block device may lie in memory (tmpfs), but its data does not.
        if self.is_block_device { self.kind.caps().without(Caps::IN_MEMORY) } else { self.kind.caps() }
    }

    fn layout(&self) -> FileLayout {
        let writes_bytes = self.caps().contains(Caps::BYTE_WRITES);
        let write_unit_bytes = if writes_bytes { 1 } else { mapped::page_bytes() as u64 };
        FileLayout { write_unit_bytes, ..FileLayout::unstriped(self.block_bytes) }
    }

    fn identity(&self) -> Option<FileIdentity> {
        Some(self.identity)
    }

    fn submit(&self, batch: Batch<'_>) -> Completion {
        let operation = operation(batch.direction());
        let allowed = self.fd(operation).and_then(|_| match batch.direction() {
            _ if batch.bytes() == 0 => Ok(()),
            Direction::Read => self.refuse_unless_readable(),
            Direction::Write => self.refuse_unless_writable(operation),
        });
        Completion::ready(match allowed {
            Ok(()) if batch.bytes() == 0 => BatchResult::moved(0),
            Ok(()) => self.transfer(&batch),
            Err(error) => BatchResult::failed(0, error),
        })
    }

    fn would_wait(&self, offset: u64) -> Option<bool> {
        let fd = self.fd.as_ref()?.as_fd();
        if self.caps().contains(Caps::IN_MEMORY) {
            return Some(false);
        }
        let offset = i64::try_from(offset).ok()?;
        self.ahead(fd, Direction::Read)?.is_cached(offset).map(|is_cached| !is_cached)
    }

    fn len(&self) -> Result<u64> {
        let fd = self.fd(Operation::Length)?;
        self.count_call();
        let bytes = if self.is_block_device {
            // The status of a device has length zero. No transfer uses the file position, so moving it
            // does not matter.
            lseek(fd, 0, Whence::SeekEnd)
        } else {
            uninterrupted(|| fstat(fd)).map(|status| status.st_size)
        };
        let bytes = bytes.map_err(|source| self.failed(Operation::Length, source))?;
        u64::try_from(bytes).map_err(|_| self.failed(Operation::Length, Errno::EOVERFLOW))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let fd = self.fd(Operation::SetLength)?;
        self.refuse_unless_writable(Operation::SetLength)?;
        let length = self.signed(Operation::SetLength, bytes)?;
        self.count_call();
        retried(self.io.as_ref(), || ftruncate(fd, length))
            .map_err(|source| self.failed(Operation::SetLength, source))
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        let fd = self.fd(Operation::Preallocate)?;
        self.refuse_unless_writable(Operation::Preallocate)?;
        let length = self.signed(Operation::Preallocate, bytes)?;
        if length == 0 {
            return Ok(());
        }
        match reserve(self.io.as_ref(), fd, 0..length, &self.counts.other) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => self.write_zeros_behind_end(bytes),
            answer => answer.map_err(|source| self.failed(Operation::Preallocate, source)),
        }
    }

    fn sync(&self) -> Result<()> {
        let fd = self.fd(Operation::Sync)?;
        if let Some(error) = self.sync_error.get() {
            return Err(error.clone());
        }
        self.count_call();
        match uninterrupted(|| self.io.sync(fd)) {
            // Special files that store no data (for example `/dev/null`) refuse a sync with `EINVAL`.
            Ok(()) | Err(Errno::EINVAL) => Ok(()),
            Err(Errno::EROFS) if !self.access.writable() => Ok(()),
            Err(source) => {
                let error = self.failed(Operation::Sync, source);
                Err(self.sync_error.get_or_init(|| error).clone())
            }
        }
    }

    fn refresh(&self) -> Result<()> {
        let fd = self.fd(Operation::Refresh)?;
        if self.caps().contains(Caps::IMMEDIATE_VISIBILITY) {
            return Ok(());
        }
        let cached = refresh::Cached { io: self.io.as_ref(), fd, calls: &self.counts.other };
        cached
            .refresh(self.kind, self.access, self.keeps_lock)
            .map_err(|source| self.failed(Operation::Refresh, source))
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        let fd = self.fd(Operation::Lock)?;
        if range.is_empty() {
            return Ok(Some(LockGuard::nothing()));
        }
        if mode == LockMode::Exclusive {
            self.refuse_unless_writable(Operation::Lock)?;
        }
        let start = self.signed(Operation::Lock, range.start)?;
        // fcntl(2): the length zero means all bytes that follow.
        let bytes = i64::try_from(range.end).map_or(0, |end| end - start);
        let descriptor =
            self.locks.take(fd, self.access).map_err(|source| self.failed(Operation::Lock, source))?;
        // A shared lock needs a descriptor that can read. An exclusive lock is stricter, hence correct too.
        let mode = if self.access.readable() { mode } else { LockMode::Exclusive };
        let failed = |source| self.failed(Operation::Lock, source);
        let guard = descriptor.try_lock(start, bytes, mode).map_err(failed)?;
        if guard.is_some() && !self.caps().contains(Caps::IMMEDIATE_VISIBILITY) {
            refresh::Cached { io: self.io.as_ref(), fd, calls: &self.counts.other }
                .discard()
                .map_err(failed)?;
        }
        Ok(guard)
    }

    fn system_calls(&self) -> SystemCalls {
        SystemCalls {
            reads: self.counts.reads.load(Relaxed),
            writes: self.counts.writes.load(Relaxed),
            other: self.counts.other.load(Relaxed),
            incomplete: self.counts.incomplete.load(Relaxed),
        }
    }

    fn close(&mut self) -> Result<()> {
        let fd = self.fd.take().ok_or_else(|| Error::closed(Operation::Close, &self.path))?;
        let unmapped = self.mapping.end();
        let unlocked = self.locks.close();
        let flushes = self.kind.flushes_at_close();
        let closed = close::close(self.io.as_ref(), fd, flushes, &self.counts.other);
        closed.and(unlocked).and(unmapped).map_err(|source| self.failed(Operation::Close, source))
    }
}

impl Drop for PosixFile {
    fn drop(&mut self) {
        if self.fd.is_some()
            && let Err(error) = self.close()
        {
            tracing::error!(%error, "data may be lost: a file was dropped, and its close failed");
        }
    }
}

fn flags(options: &OpenOptions) -> OFlag {
    let mut flags = OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    flags |= match options.access {
        Access::Read => OFlag::O_RDONLY,
        Access::Write => OFlag::O_WRONLY,
        Access::ReadWrite => OFlag::O_RDWR,
    };
    flags.set(OFlag::O_CREAT, options.create);
    flags.set(OFlag::O_EXCL, options.create && options.exclusive);
    flags
}

fn file_type(status: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits())
}

fn refuse_non_files(path: &Path, status: &FileStat) -> Result<()> {
    let kind = file_type(status);
    if kind == SFlag::S_IFDIR {
        return Err(system_error(Operation::Open, path, Errno::EISDIR));
    }
    if kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK {
        let reason = "a pipe or socket has no offsets";
        return Err(Error::message(ErrorKind::Unsupported, Operation::Open, path, reason));
    }
    Ok(())
}

/// The reason of `error`, for an error of a different operation.
fn system_source(error: &Error) -> std::io::Error {
    error
        .system_code()
        .map_or_else(|| std::io::Error::other(error.to_string()), std::io::Error::from_raw_os_error)
}
