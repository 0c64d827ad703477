//! Storage drivers: one module per storage, and wrappers that go around any of them.
//!
//! A driver moves bytes between memory and one file. It sees offsets, lengths and memory; never a communicator, a file
//! view or a file pointer, and it never waits for another process. Everything above this
//! crate talks to `dyn Driver` and `dyn DriverFile`, and asks [`Caps`], never a name, what a storage can do.
//!
//! * [`Driver`] opens and deletes; [`DriverFile`] is one open file in one process.
//! * [`DriverFile::submit`] is the only way in which data moves: contiguous, vectored and list I/O are all one [`Batch`].
//! * Every error is an [`Error`]: a kind to act on, the path, the operation, the offset, and the system's own error.
//!
//! ```
//! use capulet_drivers::{Driver, DriverFileExt, OpenOptions, mem::MemDriver};
//! use std::path::Path;
//!
//! let driver = MemDriver::new();
//! let file = driver.open(Path::new("greeting"), &OpenOptions::read_write().create(true))?;
//! file.write_all_at(1 << 40, b"hello")?;
//! let mut bytes = [0; 5];
//! assert_eq!(file.read_at(1 << 40, &mut bytes)?, 5);
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), capulet_drivers::Error>(())
//! ```

mod batch;
mod caps;
mod completion;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod ext;
mod forward;
mod lock;
pub mod mem;
mod options;
pub mod posix;
mod registry;
#[cfg(feature = "conformance")]
pub mod template;
pub mod wrappers;

pub use batch::{Batch, Direction, Segment, Transfer};
pub use caps::{Caps, FileIdentity, FileLayout, SystemCalls};
pub use completion::{BatchResult, Completion, PendingBatch};
pub use error::{Error, ErrorKind, Operation, Result};
pub use ext::DriverFileExt;
pub use lock::{LockGuard, LockMode};
pub use options::{Access, OpenOptions};
pub use registry::Registry;

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A storage: opens and deletes files. Holds no open file itself, and may be used from many threads at once.
///
/// No call is collective: a caller that wants one process to create a file and the others to open it orders that itself.
pub trait Driver: Debug + Send + Sync {
    /// A short lower-case name for messages and statistics. Code must not branch on it: it asks [`DriverFile::caps`].
    fn name(&self) -> &'static str;

    /// Opens the file at `path`; blocks until the storage has answered.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no file and `options.create` is not set, [`ErrorKind::Exists`] if there is one
    /// and `create` and `exclusive` are both set, [`ErrorKind::BadName`] if the path names a directory or cannot name a
    /// file, and whatever else the storage reports.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>>;

    /// Removes the name `path`. Files that are open stay usable where [`Caps::UNLINK_OPEN`] is set.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such file, [`ErrorKind::BadName`] if it is a directory, and whatever else the
    /// storage reports.
    fn delete(&self, path: &Path) -> Result<()>;

    /// The path by which the same file is found when the process has gone to another folder; `path` itself where names do not
    /// depend on that. Touches no file.
    fn lasting_path(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// One open file in one process: bytes at offsets.
///
/// [`close`](Self::close) ends the file and tells what became of its data. Dropping the last reference
/// closes it too, but then an error of the storage can only be logged.
///
/// All methods may be called from many threads at once. Writes to disjoint byte ranges never disturb each other or any
/// byte outside them, whoever issues them, where [`Caps::BYTE_WRITES`] is set.
#[allow(
    clippy::len_without_is_empty,
    reason = "asking a storage for a length can fail and cost a round trip"
)]
pub trait DriverFile: Debug + Send + Sync {
    /// The path by which the file was opened, for messages. No system call.
    fn path(&self) -> &Path;

    /// What this file's storage can do. Does not change while the file is open; no system call.
    fn caps(&self) -> Caps;

    /// How the bytes lie on the storage, as a hint for alignment. Does not change while open; no system call.
    fn layout(&self) -> FileLayout;

    /// Which file this is, where the storage can tell. Does not change while the file is open; no system call.
    fn identity(&self) -> Option<FileIdentity>;

    /// Moves the bytes of `batch`, in its order, and reports how many of them in that order were moved.
    ///
    /// * The result counts a *prefix* of the batch: transfer after transfer, as if one were finished before the next is
    ///   begun. Where two writes of one batch overlap, the later one wins.
    /// * A write that is not complete reports an error. A read that meets the end of the file is no error: the count is
    ///   short, the batch ends there, and the memory that was not reached is left as it was. Holes read as zeros.
    /// * A transfer of no bytes does nothing, and does not extend the file.
    /// * Short transfers and interruptions by signals are dealt with inside.
    /// * The completion may be pending only if [`Batch::may_outlive_call`]; else the call blocks until all is done.
    ///
    /// # Errors
    /// In the result: [`ErrorKind::ReadOnly`] for a write to a file opened for reading, [`ErrorKind::Permission`] for a read of a
    /// file opened for writing alone, [`ErrorKind::TooLarge`] for a byte beyond what the storage can address,
    /// [`ErrorKind::NoSpace`] and [`ErrorKind::Quota`], and whatever else the storage reports.
    fn submit(&self, batch: Batch<'_>) -> Completion;

    /// Whether a read of the byte at `offset` would wait for the storage now, and not find it in a cache of this machine. `None` where nobody
    /// can tell. Two system calls at most, which do not wait for what they ask about; a file that is opened on demand is opened for it.
    fn would_wait(&self, offset: u64) -> Option<bool>;

    /// The length of the file in bytes, now.
    ///
    /// # Errors
    /// What the storage reports.
    fn len(&self) -> Result<u64>;

    /// Makes the file `bytes` long: cuts it, or extends it by a hole that reads as zeros.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if the file was opened for reading, [`ErrorKind::TooLarge`], and what the storage reports.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Reserves storage for the first `bytes` bytes, so that writing them does not run out of space. Extends the file to
    /// `bytes` if it is shorter; never cuts it and never changes a byte that was written before. New bytes read as zeros.
    /// A storage that cannot reserve below the end of the file reserves what it can and says so in its own documentation.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`], [`ErrorKind::Quota`], [`ErrorKind::ReadOnly`], [`ErrorKind::TooLarge`], and what the storage reports.
    fn preallocate(&self, bytes: u64) -> Result<()>;

    /// Returns when all that was written through this file is on stable storage. Once it has failed it goes on failing: the
    /// lost bytes do not come back by asking again.
    ///
    /// # Errors
    /// What the storage reports.
    fn sync(&self) -> Result<()>;

    /// Returns when later calls of this process on this file, reads and [`len`](Self::len), see what other
    /// nodes made visible before (by [`sync`](Self::sync) or [`close`](Self::close)). Discards no byte that
    /// this process wrote. Nothing to do, and no call to the storage, where [`Caps::IMMEDIATE_VISIBILITY`]
    /// is set; the default is for such storages. Blocks until the storage has answered.
    ///
    /// # Errors
    /// What the storage reports. Reads may give old bytes then.
    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    /// Locks a range of bytes against every other holder, in this process and in others, until the guard is dropped. `None` if it is
    /// not free: nobody waits here. An empty range locks nothing. Locks are advisory: [`submit`](Self::submit) does not look at them.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless [`Caps::LOCKS`], [`ErrorKind::ReadOnly`] for an exclusive lock on a file that was opened for
    /// reading where the storage forbids it, and what the storage reports.
    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>>;

    /// The system calls that this file has made so far, its close included; zeros for a storage that makes
    /// none.
    fn system_calls(&self) -> SystemCalls;

    /// Closes the file, and returns when the storage has said whether it took the data that was written
    /// before. Exclusive access proves that no other call is under way; the caller has waited for every
    /// [`Completion`] of this file. Local; blocks.
    ///
    /// The file is closed whatever the outcome, with one exception: a file behind an [`Arc`] that has other
    /// references stays open, and nothing is done. Locks that are still held keep their bytes locked until
    /// their guards are dropped.
    ///
    /// Each later call fails with [`ErrorKind::Closed`], a second `close` too. Only what was learned at
    /// open can still be asked: `path`, `caps`, `layout`, `identity`, and the counts of `system_calls`;
    /// [`would_wait`](Self::would_wait) knows nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the file is behind an [`Arc`] with other references or behind a plain
    /// reference. [`ErrorKind::Closed`] if it is closed already. What the storage reports: data that was
    /// written since the last successful [`sync`](Self::sync) may be lost then.
    fn close(&mut self) -> Result<()>;
}
