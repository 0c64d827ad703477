//! The locks of atomic mode: which bytes of a file are isolated, among which ranks, and for how long.
//! This crate moves no data, and must not know how bytes move. It knows storage only by the locks of a
//! `DriverFile` ([`FileSystemLock`]).
//!
//! Every access in atomic mode passes through one point. Before the executor touches the file, it calls
//! [`Isolation::enter`] with the bytes of its plan. The bytes stay isolated until the [`Guard`] is
//! dropped, on success, error and panic alike. A nonatomic access has no isolation: it takes no lock and
//! makes no request.
//!
//! # Example
//! Two ranks of a node, here in one process. In a job their memory is a window that MPI shares among the
//! ranks.
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::AtomicU64;
//!
//! use capulet_atomic::{Isolation, NODE_LOCK_WORDS, NodeLock, Request, Waiting};
//! use capulet_comm::{NodeWords, Rank, WordMemory};
//!
//! let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
//! let memory: Arc<dyn WordMemory> = Arc::new(vec![part(), part()]);
//! let lock = |place| {
//!     let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
//!     NodeLock::new(words, vec![Rank(0), Rank(1)], None, || ())
//! };
//! let (first, second) = (lock(0), lock(1));
//!
//! let write = Request::contiguous(0..10, false);
//! let guard = first.enter(&write)?;
//! // Other bytes are free, the same bytes are not.
//! drop(second.enter(&Request::contiguous(10..20, false))?);
//! assert!(second.try_enter(&write, &mut Waiting::new())?.is_none());
//! drop(guard);
//! assert!(second.try_enter(&write, &mut Waiting::new())?.is_some());
//! # Ok::<(), capulet_atomic::Error>(())
//! ```
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | `lock` | [`ByteLock`]: a lock of any protocol of `capulet-protocol`, as an [`Isolation`] |
//! | `perform` | performs the effects of a protocol on some memory |
//! | `node` | memory of one node: [`NodeLock`] (ranges of bytes), [`NodeQueue`] (the whole file) |
//! | `world` | words of several nodes, by MPI's one-sided operations: [`world_lock`] |
//! | `two_level` | a queue on each node and one of nodes: [`two_level_lock`] |
//! | `file_system` | [`FileSystemLock`]: the locks of the storage |
//! | `pages` | [`PageLock`]: any lock, for storage whose nodes cache pages |
//! | `process` | whether another process of this machine is alive |

mod file_system;
mod lock;
mod node;
mod pages;
mod perform;
mod process;
mod two_level;
mod world;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capulet_comm::Rank;

pub use capulet_protocol::{INTERVALS_MAX, Request, are_disjoint};
pub use file_system::FileSystemLock;
pub use lock::{ByteLock, LockCounters};
pub use node::{NODE_LOCK_RANKS, NODE_LOCK_WORDS, NodeLock, NodeQueue};
pub use pages::PageLock;
pub use two_level::{NODE_PART_WORDS, two_level_lock};
pub use world::{WORLD_LOCK_WORDS, WorldProtocol, world_lock};

/// The reason why an access could not be isolated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage could not lock the bytes.
    #[error("the bytes of the access could not be locked: {0}")]
    Lock(#[from] capulet_drivers::Error),
    /// Other accesses held the bytes for longer than the time limit that the user has set.
    #[error("the bytes of the access were locked by {} for {} ms", named(.holders, *.are_nodes), .waited.as_millis())]
    TimedOut {
        /// How long the access waited.
        waited: Duration,
        /// The ranks that hold the bytes, or come before. Empty if they are not known.
        holders: Vec<Rank>,
        /// Whether `holders` has the first ranks of nodes, and the holders are any ranks of these nodes.
        are_nodes: bool,
    },
    /// The storage could not show what other nodes wrote, or could not publish what this access wrote.
    #[error("the bytes of the access could not be passed between the nodes: {0}")]
    Pages(#[source] capulet_drivers::Error),
    /// An operation of MPI on the lock has failed, now or before. The locked bytes are unknown.
    #[error("the lock of the file is broken: an MPI operation on it has failed")]
    Broken,
    /// MPI failed.
    #[error("the bytes of the access could not be locked: {0}")]
    Mpi(#[from] capulet_comm::Error),
    /// A process of the node has ended. It cannot release the locks that it may hold.
    #[error(
        "the process of rank {rank} has ended while its file is open: it is not known what it has locked"
    )]
    Died {
        /// The rank of the process.
        rank: Rank,
    },
}

fn named(ranks: &[Rank], are_nodes: bool) -> String {
    let of = if are_nodes { "the node of " } else { "" };
    match ranks {
        [] => "an unknown process".to_owned(),
        [rank] => format!("{of}rank {rank}"),
        ranks => format!("{of}ranks {}", ranks.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Isolates the bytes of an access until it is dropped.
#[derive(Debug)]
#[must_use = "the isolation ends when the guard is dropped"]
pub struct Guard<'a>(Holding<'a>);

#[derive(Debug)]
enum Holding<'a> {
    Nothing,
    /// A lock, released when the guard is dropped. Not boxed, because an allocation takes as long as the
    /// lock.
    Lock(&'a dyn Release),
    /// A value that is released by its own `Drop`.
    Other(#[expect(dead_code, reason = "only its `Drop` is used")] Box<dyn Debug + Send + 'a>),
}

/// A lock that is held.
trait Release: Debug + Send + Sync {
    fn release(&self);
}

impl<'a> Guard<'a> {
    /// A guard that holds nothing.
    pub fn empty() -> Self {
        Self(Holding::Nothing)
    }

    /// A guard that releases `held` by dropping it.
    pub fn holding(held: impl Debug + Send + 'a) -> Self {
        Self(Holding::Other(Box::new(held)))
    }

    /// A guard of a lock that is held.
    fn of(lock: &'a dyn Release) -> Self {
        Self(Holding::Lock(lock))
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Holding::Lock(lock) = self.0 {
            lock.release();
        }
    }
}

/// The one place where atomic mode hooks into an access.
pub trait Isolation: Debug + Send + Sync {
    /// Waits until the access may touch the bytes of the request. Meanwhile MPI and the operations under
    /// way make progress. Not collective; blocks.
    ///
    /// # Errors
    /// [`Error`] if the access cannot be isolated. Then the access must not touch the file.
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error>;

    /// As [`Isolation::enter`], but returns `None` where `enter` would have to wait for a holder of the
    /// bytes, also if the holder is this thread. The caller then calls it again and again, with the same
    /// [`Waiting`]. Not collective.
    ///
    /// # Errors
    /// As [`Isolation::enter`].
    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error>;

    /// Makes the bytes visible that were written under a guard. A writer calls it before it drops the guard. The
    /// default body is for storage on which a written byte is visible at once. Not collective; blocks for the
    /// storage.
    ///
    /// # Errors
    /// [`Error::Pages`]. Written bytes may be lost then.
    fn publish(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The lock of an open file.
pub trait FileLock: Isolation {
    /// The counters of this lock.
    fn counters(&self) -> &Arc<LockCounters>;

    /// Releases what a wait that was given up has acquired, as far as this is possible without waiting.
    /// True if nothing of that wait is left. Local; does not block. Every wait of this process calls it.
    fn settle(&self) -> bool;

    /// Waits until nothing is left of a wait that was given up. For the end of the lock, when no rank
    /// locks anything more. Not collective; blocks.
    ///
    /// # Errors
    /// [`Error::Died`] where the wait would never end; if MPI fails.
    fn finish(&self) -> Result<(), Error>;
}

/// The time at which an access began to wait, and the time of the last check whether the awaited
/// processes are alive.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    since: Instant,
    looked: Instant,
}

impl Waiting {
    /// A wait that begins now.
    #[allow(clippy::new_without_default, reason = "the value depends on the clock")]
    pub fn new() -> Self {
        let now = Instant::now();
        Self { since: now, looked: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug)]
    struct Held(Arc<AtomicBool>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }

    #[test]
    fn guard_releases_on_panic() {
        let held = Arc::new(AtomicBool::new(true));
        let inner = held.clone();
        let result = std::panic::catch_unwind(move || {
            let _guard = Guard::holding(Held(inner));
            panic!("inside the critical section");
        });
        assert!(result.is_err());
        assert!(!held.load(Ordering::SeqCst));
    }
}
