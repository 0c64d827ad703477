//! The crate moves bytes between memory and one file: one driver for each storage, and wrappers around any
//! driver. It sees offsets, lengths and memory. It must not know MPI, datatypes, file views or file pointers,
//! and it never waits for another process. Upper layers use `dyn Driver` and `dyn DriverFile`. They read the
//! capabilities of a storage from [`Caps`], never from the name of a driver.
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
//!
//! # Modules
//! | module | contents |
//! |---|---|
//! | this one | [`Driver`], which opens and deletes, and [`DriverFile`], one open file in one process |
//! | `batch` | [`Batch`], the only form of a data access: contiguous, vectored and list I/O |
//! | `completion` | [`Completion`] and [`BatchResult`], the outcome of a batch |
//! | `options`, `caps`, `lock`, `error` | the types that the traits use |
//! | `ext`, `forward` | convenience methods, and the traits for pointers |
//! | `registry` | [`Registry`], which resolves a file name to a driver and a path |
//! | [`posix`] | files of the operating system |
//! | [`mem`] | files in the memory of this process |
//! | [`wrappers`] | drivers around a driver: events, counts, delays, faults, torn accesses |
//! | `conformance` | the contract as a test suite (feature `conformance`) |
//! | `template` | the smallest driver, a start for a new one (feature `conformance`) |

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

/// A storage: opens and deletes files. Holds no open file itself. Many threads may use it at the same time.
///
/// No call is collective. If one process must create a file before others open it, the caller orders the
/// calls.
pub trait Driver: Debug + Send + Sync {
    /// A short lower-case name for messages and statistics. Code must not branch on the name; it reads
    /// [`DriverFile::caps`].
    fn name(&self) -> &'static str;

    /// Opens the file at `path`. Blocks until the storage has answered.
    ///
    /// # Errors
    /// * [`ErrorKind::NotFound`] if the file does not exist and `options.create` is not set.
    /// * [`ErrorKind::Exists`] if the file exists and `create` and `exclusive` are both set.
    /// * [`ErrorKind::BadName`] if the path names a directory or cannot name a file.
    /// * Any other error that the storage reports.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>>;

    /// Removes the name `path`. Open files stay usable where [`Caps::UNLINK_OPEN`] is set.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the file does not exist, [`ErrorKind::BadName`] if the path names a
    /// directory, and any other error that the storage reports.
    fn delete(&self, path: &Path) -> Result<()>;

    /// A path that names the same file after the process has changed its working folder. Returns `path`
    /// itself where names do not depend on the working folder. Accesses no file.
    fn lasting_path(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// One open file in one process: bytes at offsets.
///
/// [`close`](Self::close) closes the file and reports whether the storage took its data. Dropping the last
/// reference closes the file too, but then an error of the storage is only logged.
///
/// All methods may be called from many threads at the same time. Where [`Caps::BYTE_WRITES`] is set, a
/// write changes no byte outside its range, and concurrent writes to disjoint ranges lose no byte, also
/// if they come from different processes or machines.
#[allow(
    clippy::len_without_is_empty,
    reason = "asking a storage for a length can fail and cost a round trip"
)]
pub trait DriverFile: Debug + Send + Sync {
    /// The path by which the file was opened, for messages. Makes no system call.
    fn path(&self) -> &Path;

    /// The capabilities of the file's storage. They do not change while the file is open. Makes no system
    /// call.
    fn caps(&self) -> Caps;

    /// The layout of the file, a hint for alignment. It does not change while the file is open. Makes no
    /// system call.
    fn layout(&self) -> FileLayout;

    /// The identity of the file. `None` if the storage has no identities. It does not change while the
    /// file is open. Makes no system call.
    fn identity(&self) -> Option<FileIdentity>;

    /// Moves the bytes of `batch`, in its order, and reports how many were moved.
    ///
    /// * The result counts a *prefix* of the batch, as if each transfer ended before the next one began.
    ///   Where two writes of one batch overlap, the later one wins.
    /// * A write that is not complete reports an error. A read that reaches the end of the file is no error:
    ///   the count is short, the batch ends there, and the remaining memory is unchanged. Holes read as
    ///   zeros.
    /// * A transfer of no bytes does nothing, and does not extend the file.
    /// * The driver itself continues after short transfers and interruptions by signals.
    /// * The completion may be pending only if [`Batch::may_outlive_call`] is true. Otherwise the call blocks
    ///   until the batch has completed.
    ///
    /// # Errors
    /// In the result:
    /// * [`ErrorKind::ReadOnly`] for a write to a file opened for reading only.
    /// * [`ErrorKind::Permission`] for a read of a file opened for writing only.
    /// * [`ErrorKind::TooLarge`] for a byte beyond the offsets of the storage.
    /// * [`ErrorKind::NoSpace`], [`ErrorKind::Quota`], and any other error that the storage reports.
    fn submit(&self, batch: Batch<'_>) -> Completion;

    /// Whether a read of the byte at `offset` would wait for the storage now, because no cache of this
    /// machine holds the byte. `None` if this is not known. Makes at most two system calls, which do not
    /// wait for the byte. A file that is opened on demand is opened by this call.
    fn would_wait(&self, offset: u64) -> Option<bool>;

    /// The present length of the file in bytes.
    ///
    /// # Errors
    /// Any error that the storage reports.
    fn len(&self) -> Result<u64>;

    /// Sets the length of the file to `bytes` bytes: truncates the file, or extends it by a hole that
    /// reads as zeros.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] if the file was opened for reading only, [`ErrorKind::TooLarge`], and any
    /// other error that the storage reports.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Reserves storage for the first `bytes` bytes, so that a later write to them does not run out of space.
    /// Extends a shorter file to `bytes`; new bytes read as zeros. Never truncates the file and never changes
    /// a byte that was written before. A storage that cannot reserve below the end of the file reserves what
    /// it can, and says so in its own documentation.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`], [`ErrorKind::Quota`], [`ErrorKind::ReadOnly`], [`ErrorKind::TooLarge`],
    /// and any other error that the storage reports.
    fn preallocate(&self, bytes: u64) -> Result<()>;

    /// Returns when all bytes written through this file are on stable storage. After one failure every later
    /// call fails too, because a second sync does not restore the lost bytes.
    ///
    /// # Errors
    /// Any error that the storage reports.
    fn sync(&self) -> Result<()>;

    /// Returns when later reads of this file and its [`len`](Self::len) in this process see what other nodes
    /// made visible before, by [`sync`](Self::sync) or [`close`](Self::close). Discards no byte that this
    /// process wrote. Blocks until the storage has answered. Where [`Caps::IMMEDIATE_VISIBILITY`] is set it
    /// does nothing and makes no call; the default body is for such storages.
    ///
    /// # Errors
    /// Any error that the storage reports. After an error reads may return old bytes.
    fn refresh(&self) -> Result<()> {
        Ok(())
    }

    /// Locks a range of bytes until the guard is dropped, against all other holders in this and in other
    /// processes. Returns `None` without waiting if the range is not free. An empty range locks nothing.
    /// Locks are advisory: [`submit`](Self::submit) ignores them. To take a lock has the effect of
    /// [`refresh`](Self::refresh).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] without [`Caps::LOCKS`]. [`ErrorKind::ReadOnly`] for an exclusive lock on a
    /// file opened for reading only, where the storage forbids it. Any other error that the storage reports.
    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>>;

    /// The system calls that this file has made so far, including its close. Zeros for a storage that
    /// makes no system calls.
    fn system_calls(&self) -> SystemCalls;

    /// Closes the file. Returns when the storage has said whether it took the data that was written before.
    /// Local; blocks. Exclusive access proves that no other call is in progress. The caller has waited for
    /// every [`Completion`] of this file before.
    ///
    /// The file is closed also if the call returns an error, with one exception: a file behind an [`Arc`]
    /// that has other references stays open and unchanged. Locks that are still held keep their bytes
    /// locked until their guards are dropped.
    ///
    /// Each later call fails with [`ErrorKind::Closed`], including a second `close`. Only `path`, `caps`,
    /// `layout`, `identity` and `system_calls` still answer. [`would_wait`](Self::would_wait) returns `None`.
    ///
    /// # Errors
    /// * [`ErrorKind::Busy`] if the file is behind an [`Arc`] with other references, or behind a plain
    ///   reference.
    /// * [`ErrorKind::Closed`] if the file is already closed.
    /// * Any error that the storage reports. Data that was written since the last successful
    ///   [`sync`](Self::sync) may be lost then.
    fn close(&mut self) -> Result<()>;
}
