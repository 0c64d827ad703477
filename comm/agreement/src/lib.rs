//! Barriers and reductions in memory that processes share.
//!
//! The crate knows no MPI, no clock and no system call: the caller supplies the memory, the way to sleep
//! and the way to wake. So the same code runs on shared memory between processes, and on the atomics of
//! `loom`, which explores every order of their operations (`tests/model.rs`).
//!
//! ```
//! use capulet_agreement::{Barrier, Lanes, Meeting};
//! use std::sync::atomic::{AtomicU32, AtomicU64};
//!
//! struct Memory {
//!     barrier: Barrier<AtomicU32>,
//!     lanes: [Lanes<AtomicU64>; 2],
//! }
//!
//! impl Meeting for Memory {
//!     type W32 = AtomicU32;
//!     type W64 = AtomicU64;
//!     fn ranks(&self) -> usize {
//!         2
//!     }
//!     fn barrier(&self) -> &Barrier<AtomicU32> {
//!         &self.barrier
//!     }
//!     fn lanes(&self, rank: usize) -> &Lanes<AtomicU64> {
//!         &self.lanes[rank]
//!     }
//! }
//!
//! let memory = Memory { barrier: Barrier::default(), lanes: Default::default() };
//! std::thread::scope(|scope| {
//!     for rank in 0..2 {
//!         let memory = &memory;
//!         scope.spawn(move || {
//!             let mut lanes = [rank as u64 + 1];
//!             let add = |_lane: usize, left: u64, right: u64| left + right;
//!             memory.reduce(rank, 7, &mut lanes, add, |_| (), |_| std::thread::yield_now()).unwrap();
//!             assert_eq!(lanes, [3]);
//!         });
//!     }
//! });
//! ```
//!
//! Cost of a reduction over N ranks: no message, one atomic addition per rank, N * (lanes + 1) loads per
//! rank, and a system call only for ranks that sleep.

mod barrier;
mod ids;
mod reduce;
mod word;

pub use barrier::{Barrier, Line, Sleeper};
pub use ids::Ids;
pub use reduce::{LANES, Lanes, Meeting, Mismatch};
pub use word::{Word, Word32, Word64};
