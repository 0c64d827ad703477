//! How a sparse access becomes few large transfers: alone (list I/O), or together (two-phase).
//!
//! A plan is a value: [`plan::choose`] is pure, from what the ranks agreed on to a [`Plan`]. The executors
//! ([`independent`], [`two_phase`]) carry it out. They know bytes, windows and drivers, and none of the rules of
//! `MPI_File_*`.
//!
//! # Budget
//! For `B` payload bytes in `f` file runs and `m` memory runs:
//! * independent, list I/O: 0 bytes copied; one system call for each file run (runs that touch are one) and 1,024 memory runs;
//!   memory for 1,024 transfers.
//! * independent, packed: `B` bytes copied, once; one system call for each file run and 256 KiB; memory 256 KiB.
//! * independent, a band of `g` runs whose bytes alternate in memory: `B` bytes copied, once; a system call for each run and chunk of
//!   256 KiB / `g`, of 4 to 16 KiB; memory 256 KiB.
//! * independent, a read through a window of `V` bytes: `B` bytes copied, once; at most `ceil(span / V)` system calls and as
//!   many more as there are gaps of more than `V` bytes; memory `V`.
//! * two-phase on a node with `A` aggregators and windows of `W` bytes: `B` bytes copied, once, from user memory to the
//!   window that is written (or back); rounds at most `ceil(touched span / (A W))`, and one node barrier more than rounds; no
//!   message carries data; shared memory `2 N W (1 + 1/8)` for `N` ranks.
//! * two-phase between `k` nodes with `A` aggregators each: what is for another node is copied twice more, by the leaders; rounds at
//!   most `ceil(touched span / (k A W))`; for a round `2 (k - 1)` messages, and two (a read: three) for each pair of nodes that
//!   meet; shared memory `4 N W (1 + 1/8)` for the `N` ranks of a node.
//!
//! No write reads and writes back, the bytes that the ranks asked to write are written, and no other byte: unless the user promises
//! that nobody else writes in between ([`Holes`]). Then a span with many runs is read and written by one call each where that costs less; at
//! an aggregator with 256 KiB more of memory.

pub mod access;
pub mod counters;
pub mod footprint;
pub mod independent;
pub mod two_phase;

pub use access::{Access, Memory};
pub use capulet_plan::{Agreed, CollectiveMode, Holes, Means, Plan, PlanHints, Reason, Summary, choose};
pub use capulet_plan::{choice as plan, marks};
pub use counters::Counters;

use std::sync::Arc;

use capulet_atomic::{Guard, Isolation, Request};
pub use capulet_drivers::Direction;
use capulet_drivers::DriverFile;

/// What came of one rank's part of an access.
#[derive(Debug, Default)]
pub struct Transferred {
    /// Bytes of the access, from its start, that were moved. Short without an error at the end of the file.
    pub bytes: u64,
    /// The first thing that went wrong on this rank.
    pub error: Option<Failure>,
    /// Every rank of the access knows that nothing went wrong on any of them, and that no read met the end of the file: then it
    /// is set on all ranks, and they need not ask each other.
    pub is_known_good: bool,
}

impl Transferred {
    /// Nothing was moved.
    pub fn failed(error: impl Into<Failure>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }
}

/// Why a transfer failed on this rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The storage refused.
    #[error(transparent)]
    Driver(#[from] capulet_drivers::Error),
    /// The access could not be isolated.
    #[error(transparent)]
    Isolation(#[from] capulet_atomic::Error),
    /// The ranks of the node could not meet.
    #[error(transparent)]
    Team(#[from] capulet_comm::Error),
    /// The driver panicked while this rank aggregated for others: a bug, told like any failure so that no rank waits.
    #[error("the storage driver panicked")]
    Panicked,
}

/// What an executor works on: the open file and its policies. Shared, so that an operation can outlive the call that began it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The open file.
    pub file: Arc<dyn DriverFile>,
    /// Who lets accesses in, in atomic mode. Nonatomic access takes no lock.
    pub isolation: Option<Arc<dyn Isolation>>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// What may become of the holes of a write: of those of one rank alone, or of all ranks if they gather.
    pub holes: Holes,
}

impl Target {
    /// Waits until the bytes of the request may be touched. Costs nothing in nonatomic mode.
    ///
    /// # Errors
    /// As [`Isolation::enter`]; the file must not be touched then.
    pub fn enter(&self, request: impl FnOnce() -> Request) -> Result<Guard<'_>, capulet_atomic::Error> {
        self.isolation.as_ref().map_or_else(|| Ok(Guard::empty()), |isolation| isolation.enter(&request()))
    }

    /// The same file for accesses that are isolated already.
    #[must_use]
    pub fn isolated(self) -> Self {
        Self { isolation: None, ..self }
    }
}
