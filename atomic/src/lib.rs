//! What must be isolated, and for how long. Moves no data.
//!
//! Every access passes through one point: [`Isolation::enter`], called by the executor with the [`Footprint`] of its
//! plan before it touches the file, and left when the [`Guard`] is dropped, on success, error and panic alike.
//! Nonatomic access takes no lock ([`NonAtomic`]). Atomic mode is refused by the file layer until its protocols land
//! here; nothing in this crate pretends to give it.

mod lock;
mod node;
mod perform;
mod process;

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use capulet_comm::Rank;

pub use lock::{LockCounters, NodeLock};
pub use node::NODE_LOCK_WORDS;

/// The bytes of the file that one access will touch, and whether it will change them.
///
/// The span covers every byte of the access, so a policy may treat the access as its span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    /// Offsets in the file, bytes, half-open.
    pub span: Range<u64>,
    /// Whether the access writes.
    pub writes: bool,
}

/// Isolation could not be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage could not lock the bytes.
    #[error("the bytes of the access could not be locked: {0}")]
    Lock(#[from] capulet_drivers::Error),
    /// The bytes were not to be had within the time that the user has set.
    #[error("the bytes of the access were locked by {} for {} ms", named(.holders), .waited.as_millis())]
    TimedOut {
        /// How long it waited.
        waited: Duration,
        /// Who holds them, or comes before.
        holders: Vec<Rank>,
    },
    /// A process of the node has ended and cannot let go of what it may hold.
    #[error(
        "the process of rank {rank} has ended while its file is open: nobody can tell what it has locked"
    )]
    Died {
        /// Which.
        rank: Rank,
    },
}

fn named(ranks: &[Rank]) -> String {
    match ranks {
        [] => "another thread".to_owned(),
        [rank] => format!("rank {rank}"),
        ranks => format!("ranks {}", ranks.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Holds an isolation until it is dropped.
#[derive(Debug)]
#[must_use = "isolation ends where the guard is dropped"]
pub struct Guard<'a> {
    /// What holds the lock, released by its own `Drop`.
    _held: Option<Box<dyn Debug + Send + 'a>>,
}

impl<'a> Guard<'a> {
    /// A guard that holds nothing.
    pub fn empty() -> Self {
        Self { _held: None }
    }

    /// A guard that releases `held` by dropping it.
    pub fn holding(held: impl Debug + Send + 'a) -> Self {
        Self { _held: Some(Box::new(held)) }
    }
}

/// The one place where atomicity hooks into an access.
pub trait Isolation: Debug + Send + Sync {
    /// Waits until the bytes of `footprint` may be touched.
    ///
    /// # Errors
    /// [`Error`] if isolation cannot be given; the access must then not touch the file.
    fn enter(&self, footprint: &Footprint) -> Result<Guard<'_>, Error>;
}

/// Nonatomic mode (MPI 4.1, 14.6.1): takes no lock, never waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct NonAtomic;

impl Isolation for NonAtomic {
    fn enter(&self, _footprint: &Footprint) -> Result<Guard<'_>, Error> {
        Ok(Guard::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
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

    #[test]
    fn nonatomic_access_never_waits() {
        let all = Footprint { span: 0..u64::MAX, writes: true };
        let first = NonAtomic.enter(&all).expect("no lock can fail");
        let second = NonAtomic.enter(&all).expect("no lock can fail");
        drop((first, second));
    }
}
