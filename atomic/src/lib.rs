//! What must be isolated, and for how long. Moves no data.
//!
//! Every access in atomic mode passes through one point: [`Isolation::enter`], called by the executor with the bytes of its plan
//! before it touches the file, and left when the [`Guard`] is dropped, on success, error and panic alike. Nonatomic access has no
//! isolation: it takes no lock and makes no request.

mod file_system;
mod lock;
mod node;
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
pub use two_level::{NODE_PART_WORDS, two_level_lock};
pub use world::{WORLD_LOCK_WORDS, WorldProtocol, world_lock};

/// Isolation could not be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage could not lock the bytes.
    #[error("the bytes of the access could not be locked: {0}")]
    Lock(#[from] capulet_drivers::Error),
    /// The bytes were not to be had within the time that the user has set.
    #[error("the bytes of the access were locked by {} for {} ms", named(.holders, *.are_nodes), .waited.as_millis())]
    TimedOut {
        /// How long it waited.
        waited: Duration,
        /// Who holds them, or comes before.
        holders: Vec<Rank>,
        /// It is ranks of the nodes that these are the first of.
        are_nodes: bool,
    },
    /// MPI has failed at the lock, now or before: nobody knows what is locked.
    #[error("the lock of the file is broken: MPI has failed at it")]
    Broken,
    /// MPI failed.
    #[error("the bytes of the access could not be locked: {0}")]
    Mpi(#[from] capulet_comm::Error),
    /// A process of the node has ended and cannot let go of what it may hold.
    #[error(
        "the process of rank {rank} has ended while its file is open: nobody can tell what it has locked"
    )]
    Died {
        /// Which.
        rank: Rank,
    },
}

fn named(ranks: &[Rank], are_nodes: bool) -> String {
    let of = if are_nodes { "the node of " } else { "" };
    match ranks {
        [] => "somebody".to_owned(),
        [rank] => format!("{of}rank {rank}"),
        ranks => format!("{of}ranks {}", ranks.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Holds an isolation until it is dropped.
#[derive(Debug)]
#[must_use = "isolation ends where the guard is dropped"]
pub struct Guard<'a>(Holding<'a>);

#[derive(Debug)]
enum Holding<'a> {
    Nothing,
    /// Released when the guard is dropped. Not boxed: to allocate takes as long as to lock.
    Lock(&'a dyn Release),
    /// Released by its own `Drop`.
    Other(#[expect(dead_code, reason = "it is held")] Box<dyn Debug + Send + 'a>),
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

/// The one place where atomicity hooks into an access.
pub trait Isolation: Debug + Send + Sync {
    /// Waits until the bytes of the request may be touched. Keeps MPI, and what is under way, progressing meanwhile.
    ///
    /// # Errors
    /// [`Error`] if isolation cannot be given; the access must then not touch the file.
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error>;

    /// As [`Isolation::enter`], but `None` where that would have to wait for whoever has the bytes, also if it is this thread. To be
    /// called again and again then, with the same [`Waiting`].
    ///
    /// # Errors
    /// As [`Isolation::enter`].
    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error>;
}

/// A lock that an open file has.
pub trait FileLock: Isolation {
    /// What it did.
    fn counters(&self) -> &Arc<LockCounters>;

    /// Lets go of what a wait that was given up has got, as far as that is possible without waiting. True if nothing is left of it.
    /// Every wait of this process does so.
    fn settle(&self) -> bool;

    /// Waits until nothing is left of what was given up: before the lock ends, when no rank will lock anything more.
    ///
    /// # Errors
    /// [`Error::Died`] where that would be for ever; if MPI fails.
    fn finish(&self) -> Result<(), Error>;
}

/// Since when an access waits, and when it was last looked whether those that it waits for live.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    since: Instant,
    looked: Instant,
}

impl Waiting {
    /// It begins to wait.
    #[allow(clippy::new_without_default, reason = "it reads the clock")]
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
    fn a_guard_releases_on_panic() {
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
