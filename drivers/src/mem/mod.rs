//! Files in the memory of this process, for tests and for data that ends with the program.
//!
//! Each [`MemDriver`] is a separate namespace that its clones share. Nothing is global. Names are flat:
//! folders do not exist, and two spellings of a path are two files. Files are sparse: the bytes are kept
//! in pages of 4,096 bytes, and a page that was never written takes no memory. Permissions are ignored.
//! The space can be limited, so a test can fill the storage.

mod node;
mod range_locks;

use self::node::{Node, Space};
use crate::{
    Access, Batch, BatchResult, Caps, Completion, Direction, Driver, DriverFile, Error, ErrorKind,
    FileIdentity, FileLayout, LockGuard, LockMode, OpenOptions, Operation, Result, SystemCalls,
};
use nix::errno::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::node::PAGE_BYTES;

/// The driver of files in memory. Clones share one namespace.
#[derive(Debug, Clone)]
pub struct MemDriver {
    files: Arc<Mutex<HashMap<PathBuf, Arc<Node>>>>,
    space: Arc<Space>,
}

impl MemDriver {
    /// An empty namespace, limited only by the memory of the process.
    pub fn new() -> Self {
        Self::with_space(Space::unlimited())
    }

    /// An empty namespace with space for `capacity_bytes` bytes, counted in whole pages of [`PAGE_BYTES`].
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        Self::with_space(Space::limited(capacity_bytes))
    }

    fn with_space(space: Space) -> Self {
        Self { files: Arc::default(), space: Arc::new(space) }
    }

    /// Bytes of storage that are used or reserved, in whole pages. Files that are deleted but still open
    /// count.
    pub fn used_bytes(&self) -> u64 {
        self.space.used_bytes()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Node>>> {
        // Each change of the map is one insertion or removal, so a panic of another thread leaves it valid.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for MemDriver {
    fn name(&self) -> &'static str {
        "mem"
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        let failed = |code: Errno| Error::system(Operation::Open, path, code);
        check_name(Operation::Open, path)?;
        let node = match self.files().entry(path.to_path_buf()) {
            Entry::Occupied(_) if options.create && options.exclusive => return Err(failed(Errno::EEXIST)),
            Entry::Occupied(entry) => Arc::clone(entry.get()),
            Entry::Vacant(_) if !options.create => return Err(failed(Errno::ENOENT)),
            Entry::Vacant(entry) => Arc::clone(entry.insert(Arc::new(Node::new(Arc::clone(&self.space))))),
        };
        Ok(Arc::new(MemFile { node: Some(node), path: path.to_path_buf(), access: options.access }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        check_name(Operation::Delete, path)?;
        let removed = self.files().remove(path);
        removed.map(drop).ok_or_else(|| Error::system(Operation::Delete, path, Errno::ENOENT))
    }
}

/// Refuses names that no operating system accepts for a file, so that a program that works with this driver
/// works with files of the system too.
fn check_name(operation: Operation, path: &Path) -> Result<()> {
    const NAME_BYTES_MAX: usize = 255;
    const PATH_BYTES_MAX: usize = 4095;
    let bytes = path.as_os_str().as_bytes();
    let code = if bytes.is_empty() {
        Errno::ENOENT
    } else if bytes.contains(&0) {
        let reason = "a file name cannot contain a NUL byte";
        return Err(Error::message(ErrorKind::BadName, operation, path, reason));
    } else if bytes.len() > PATH_BYTES_MAX
        || bytes.split(|byte| *byte == b'/').any(|name| name.len() > NAME_BYTES_MAX)
    {
        Errno::ENAMETOOLONG
    } else if matches!(bytes.rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b"..")) {
        Errno::EISDIR
    } else {
        return Ok(());
    };
    Err(Error::system(operation, path, code))
}

#[derive(Debug)]
struct MemFile {
    /// `None` after the close.
    node: Option<Arc<Node>>,
    path: PathBuf,
    access: Access,
}

impl MemFile {
    fn node(&self, operation: Operation) -> Result<&Node> {
        self.node.as_deref().ok_or_else(|| Error::closed(operation, &self.path))
    }

    fn failed(&self, operation: Operation, code: Errno) -> Error {
        Error::system(operation, &self.path, code)
    }

    fn refuse_unless_writable(&self, operation: Operation) -> Result<()> {
        if self.access.writable() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ReadOnly, operation, &self.path, Errno::EBADF))
    }

    fn refuse_too_large(&self, operation: Operation, bytes: u64) -> Result<()> {
        if i64::try_from(bytes).is_ok() {
            return Ok(());
        }
        Err(self.failed(operation, Errno::EFBIG).at(bytes))
    }

    fn read(&self, node: &Node, batch: &Batch<'_>) -> BatchResult {
        if !self.access.readable() {
            let error = Error::new(ErrorKind::Permission, Operation::Read, &self.path, Errno::EBADF);
            return BatchResult::failed(0, error);
        }
        let mut moved = 0;
        for transfer in batch.transfers().iter().filter(|transfer| transfer.memory.bytes() > 0) {
            if let Err(error) = self.refuse_too_far(Operation::Read, transfer.offset, transfer.memory.bytes())
            {
                return BatchResult::failed(moved, error);
            }
            let bytes = node.read(transfer.offset, &transfer.memory);
            moved += bytes as u64;
            if bytes < transfer.memory.bytes() {
                break;
            }
        }
        BatchResult::moved(moved)
    }

    fn write(&self, node: &Node, batch: &Batch<'_>) -> BatchResult {
        if let Err(error) = self.refuse_unless_writable(Operation::Write) {
            return BatchResult::failed(0, error);
        }
        let mut moved = 0;
        for transfer in batch.transfers().iter().filter(|transfer| transfer.memory.bytes() > 0) {
            if let Err(error) =
                self.refuse_too_far(Operation::Write, transfer.offset, transfer.memory.bytes())
            {
                return BatchResult::failed(moved, error);
            }
            let bytes = node.write(transfer.offset, &transfer.memory);
            moved += bytes as u64;
            if bytes < transfer.memory.bytes() {
                let error = self.failed(Operation::Write, Errno::ENOSPC).at(transfer.offset + bytes as u64);
                return BatchResult::failed(moved, error);
            }
        }
        BatchResult::moved(moved)
    }

    fn refuse_too_far(&self, operation: Operation, offset: u64, bytes: usize) -> Result<()> {
        // A saturated sum is beyond every allowed offset.
        self.refuse_too_large(operation, offset.saturating_add(bytes as u64))
            .map_err(|error| error.at(offset))
    }
}

impl DriverFile for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn caps(&self) -> Caps {
        Caps::LOCKS | Caps::IMMEDIATE_VISIBILITY | Caps::BYTE_WRITES | Caps::UNLINK_OPEN | Caps::IN_MEMORY
    }

    fn layout(&self) -> FileLayout {
        FileLayout::unstriped(PAGE_BYTES)
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn submit(&self, batch: Batch<'_>) -> Completion {
        let operation = match batch.direction() {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        };
        Completion::ready(match self.node(operation) {
            Err(error) => BatchResult::failed(0, error),
            Ok(_) if batch.bytes() == 0 => BatchResult::moved(0),
            Ok(node) if operation == Operation::Read => self.read(node, &batch),
            Ok(node) => self.write(node, &batch),
        })
    }

    fn would_wait(&self, _offset: u64) -> Option<bool> {
        self.node.as_ref().map(|_| false)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.node(Operation::Length)?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let node = self.node(Operation::SetLength)?;
        self.refuse_unless_writable(Operation::SetLength)?;
        self.refuse_too_large(Operation::SetLength, bytes)?;
        node.set_len(bytes);
        Ok(())
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        let node = self.node(Operation::Preallocate)?;
        self.refuse_unless_writable(Operation::Preallocate)?;
        self.refuse_too_large(Operation::Preallocate, bytes)?;
        if node.reserve(bytes) { Ok(()) } else { Err(self.failed(Operation::Preallocate, Errno::ENOSPC)) }
    }

    fn sync(&self) -> Result<()> {
        self.node(Operation::Sync).map(|_| ())
    }

    fn refresh(&self) -> Result<()> {
        self.node(Operation::Refresh).map(|_| ())
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        let node = self.node(Operation::Lock)?;
        if range.is_empty() {
            return Ok(Some(LockGuard::nothing()));
        }
        if mode == LockMode::Exclusive {
            self.refuse_unless_writable(Operation::Lock)?;
        }
        self.refuse_too_large(Operation::Lock, range.start)?;
        Ok(node.locks.try_lock(range, mode))
    }

    fn system_calls(&self) -> SystemCalls {
        SystemCalls::default()
    }

    fn close(&mut self) -> Result<()> {
        let node = self.node.take();
        node.map(drop).ok_or_else(|| Error::closed(Operation::Close, &self.path))
    }
}
