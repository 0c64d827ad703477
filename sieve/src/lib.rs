//! Turns a sparse access into few large transfers: independently ([`independent`]: list I/O, packed, data
//! sieving), or together with the other ranks ([`two_phase`]). A plan is a value: [`plan::choose`] is
//! pure and makes a [`Plan`] from the values that the ranks agree on. The executors carry the plan out.
//! They know bytes, buffers and drivers. They must not know the rules of `MPI_File_*`.
//!
//! One rank writes 2 bytes of each 4:
//!
//! ```
//! use std::sync::Arc;
//!
//! use capulet_datatype::{Datatype, Named, Tiled};
//! use capulet_drivers::mem::MemDriver;
//! use capulet_drivers::{Driver, DriverFileExt, OpenOptions};
//! use capulet_sieve::{Access, Counters, Direction, Holes, Memory, Sieves, Target, independent};
//!
//! let file = MemDriver::new().open("data".as_ref(), &OpenOptions::read_write().create(true))?;
//! let byte = Datatype::named(Named::Byte);
//! let blocks = Datatype::hvector(3, 2, 4, &byte)?;
//! let view = Tiled::new(blocks.layout().clone(), 1)?;
//! let mut data = *b"abcdef";
//! let bytes = Tiled::new(byte.layout().clone(), 6)?;
//! // SAFETY: `bytes` describes the 6 bytes of `data`, which nothing else uses until the access is over.
//! let memory = unsafe { Memory::new(data.as_mut_ptr(), bytes) };
//! let access = Access::new(0, &view, 0, memory, 6)?;
//!
//! let counters = Arc::new(Counters::default());
//! let (holes, sieves) = (Holes::Untouched, Sieves::default());
//! let target = Target { file: file.clone(), isolation: None, counters, holes, sieves };
//! let done = independent::run(&target, &access, Direction::Write);
//! assert!(done.error.is_none() && done.bytes == 6);
//!
//! let mut found = [0; 10];
//! file.read_at(0, &mut found)?;
//! assert_eq!(&found, b"ab\0\0cd\0\0ef");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`access`] | [`Access`]: one rank's bytes of the file and of user [`Memory`] |
//! | [`plan`] | the choice of a plan (from `capulet-plan`) |
//! | [`independent`] | the executor of one rank on its own |
//! | [`two_phase`] | the executor of all ranks together, within a node and between nodes |
//! | [`footprint`] | the bytes that an access locks in atomic mode |
//! | [`marks`] | the map of the units of a collective buffer that ranks ask for (from `capulet-plan`) |
//! | [`counters`] | exact counts of copies, pieces, batches, messages, rounds and barriers |
//!
//! # Budget
//! For `B` payload bytes in `f` file runs and `m` memory runs:
//! * independent, list I/O: 0 bytes copied; one system call for each file run (adjacent runs are one) and
//!   1,024 memory runs; memory for 1,024 transfers.
//! * independent, packed: `B` bytes copied, once; one system call for each file run and 256 KiB; memory
//!   256 KiB.
//! * independent, a band of `g` runs whose bytes alternate in memory: `B` bytes copied, once; a system
//!   call for each run and chunk of 256 KiB / `g`, of 4 to 16 KiB; memory 256 KiB.
//! * independent, a read through a sieve buffer of `V` bytes: `B` bytes copied, once; at most
//!   `ceil(span / V)` system calls, and one more for each gap of more than `V` bytes; memory `V`.
//! * two-phase on a node with `A` aggregators and collective buffers of `W` bytes: `B` bytes copied,
//!   once, from user memory to the collective buffer that is written (or back); at most
//!   `ceil(touched span / (A W))` rounds, and one node barrier more than rounds; no message carries data;
//!   shared memory `2 N W (1 + 1/8)` for `N` ranks.
//! * two-phase between `k` nodes with `A` aggregators each: the leaders copy bytes for another node twice
//!   more; at most `ceil(touched span / (k A W))` rounds; the messages of
//!   each round are those of `docs/two-phase.md`; shared memory `4 N W (1 + 1/8)` for the `N` ranks of
//!   a node.
//!
//! A write writes the requested bytes and no other byte. No write reads bytes and writes them back,
//! unless the user promises that no other operation writes to the holes ([`Holes`]). With the promise, a
//! span with many runs is read by one call and written by one call where that costs less. An aggregator
//! takes 256 KiB of memory more for it.

pub mod access;
pub mod counters;
pub mod footprint;
pub mod independent;
pub mod two_phase;

pub use access::{Access, Memory};
pub use capulet_plan::{Agreed, CollectiveMode, Holes, Plan, PlanHints, Reason, Resources, Summary, choose};
pub use capulet_plan::{Sieve, SieveMode};
pub use capulet_plan::{choice as plan, marks};
pub use counters::Counters;

use std::sync::Arc;

use capulet_atomic::{Guard, Isolation, Request};
use capulet_comm::ErrorClass;
pub use capulet_drivers::Direction;
use capulet_drivers::{DriverFile, ErrorKind};

/// Outcome of one rank's part of an access.
#[derive(Debug, Default)]
pub struct Transferred {
    /// Bytes of the access, from its start, that were moved. Fewer than requested, without an error, if a
    /// read meets the end of the file.
    pub bytes: u64,
    /// The first error on this rank.
    pub error: Option<Failure>,
    /// The outcome of the access on all ranks, as far as all ranks know it.
    pub outcome: KnownOutcome,
}

/// The outcome of an access on all ranks. The value is the same on all ranks, or `Unknown` on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KnownOutcome {
    /// The ranks must agree on the outcome.
    #[default]
    Unknown,
    /// No rank had an error. The ranks need not agree.
    Good,
    /// Some rank had an error of this class, and no rank one of a higher class. The ranks need not agree.
    Failed(ErrorClass),
}

impl Transferred {
    /// The outcome of an access that moved nothing.
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
    /// The ranks of the node could not come to a barrier or exchange messages.
    #[error(transparent)]
    Team(#[from] capulet_comm::Error),
    /// The driver panicked while this rank aggregated for others. This is a bug; it is reported like any
    /// failure, so that no rank waits for ever.
    #[error("the storage driver panicked")]
    Panicked,
}

impl Failure {
    /// The MPI error class of the failure.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Driver(error)
            | Self::Isolation(capulet_atomic::Error::Lock(error) | capulet_atomic::Error::Pages(error)) => {
                class_of_kind(error.kind())
            }
            Self::Panicked => ErrorClass::Intern,
            _ => ErrorClass::Io,
        }
    }
}

/// The MPI error class of a storage error.
fn class_of_kind(kind: ErrorKind) -> ErrorClass {
    match kind {
        ErrorKind::NotFound => ErrorClass::NoSuchFile,
        ErrorKind::Exists => ErrorClass::FileExists,
        ErrorKind::Permission => ErrorClass::Access,
        ErrorKind::ReadOnly => ErrorClass::ReadOnly,
        ErrorKind::NoSpace | ErrorKind::TooLarge => ErrorClass::NoSpace,
        ErrorKind::Quota => ErrorClass::Quota,
        ErrorKind::BadName => ErrorClass::BadFile,
        ErrorKind::Busy => ErrorClass::FileInUse,
        ErrorKind::Unsupported => ErrorClass::UnsupportedOperation,
        _ => ErrorClass::Io,
    }
}

/// The resources of an executor: the open file and its policies. They are shared, so that an operation
/// can outlive the call that began it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The open file.
    pub file: Arc<dyn DriverFile>,
    /// The lock that admits accesses in atomic mode. `None` in nonatomic mode, where an access takes no
    /// lock.
    pub isolation: Option<Arc<dyn Isolation>>,
    /// Counts of what the executors do.
    pub counters: Arc<Counters>,
    /// Treatment of the holes of a write: the holes of one rank if it writes independently, of all ranks
    /// if they gather.
    pub holes: Holes,
    /// How one rank alone sieves.
    pub sieves: Sieves,
}

/// How one rank alone sieves: ranks need not agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sieves {
    /// Reads.
    pub read: Sieve,
    /// Writes whose holes may be written back ([`Holes`]).
    pub write: Sieve,
}

impl Target {
    /// Waits until the bytes of the request may be touched. Costs nothing in nonatomic mode.
    ///
    /// # Errors
    /// Those of [`Isolation::enter`]. After an error the file must not be touched.
    pub fn enter(&self, request: impl FnOnce() -> Request) -> Result<Guard<'_>, capulet_atomic::Error> {
        self.isolation.as_ref().map_or_else(|| Ok(Guard::empty()), |isolation| isolation.enter(&request()))
    }

    /// The same file, for accesses that are isolated already.
    #[must_use]
    pub fn isolated(self) -> Self {
        Self { isolation: None, ..self }
    }
}
