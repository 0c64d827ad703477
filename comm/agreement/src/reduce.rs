//! A reduction over the ranks of a node: every rank stores its values, all ranks meet at a barrier, and
//! every rank reads the values of all ranks.
//!
//! Each rank has two sets of lanes, which it uses alternately. A rank stores the values of reduction `n +
//! 2` into the set of reduction `n`. It does so only after barrier `n + 1`, at which every rank arrives
//! after it has read the values of reduction `n`. So no value changes while a rank still reads it, and a
//! reduction costs one barrier and not two.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::barrier::{Barrier, Line, Sleeper};
use crate::word::{Word, Word32, Word64};

/// The number of values in a set: one names the reduction, the others are reduced.
pub const LANES: usize = 32;

/// The values of one rank: two sets, used alternately. Zeroed memory is valid.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Lanes<W>(pub [Line<[W; LANES]>; 2]);

/// Ranks that meet are in different reductions. No value of the result is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch;

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ranks are in different collective operations")
    }
}

impl std::error::Error for Mismatch {}

/// Memory in which the ranks of a node meet.
pub trait Meeting {
    /// The words of the barrier.
    type W32: Word32;
    /// The words of the lanes.
    type W64: Word64;

    /// The number of ranks that meet.
    fn ranks(&self) -> usize;

    /// The barrier of the ranks.
    fn barrier(&self) -> &Barrier<Self::W32>;

    /// The lanes of a rank.
    fn lanes(&self, rank: usize) -> &Lanes<Self::W64>;

    /// The set of a rank in the reduction whose barrier has the number `generation`.
    fn set(&self, rank: usize, generation: u32) -> &[Self::W64; LANES] {
        &self.lanes(rank).0[(generation % 2) as usize].0
    }

    /// Reduces each value of `lanes` over all ranks with `combine(lane, left, right)`, in the order of
    /// the ranks. `rank` is this rank, and `which` names the reduction: it must be the same on all ranks.
    /// Blocks until all ranks have arrived; `wake` and `idle` are those of [`Barrier::arrive`] and
    /// [`Barrier::wait`]. At most one thread of a rank may be in a reduction of one meeting at a time.
    ///
    /// # Errors
    /// [`Mismatch`] if a rank passed another `which`, on every rank that sees the difference.
    ///
    /// # Panics
    /// If there are [`LANES`] values or more.
    fn reduce(
        &self,
        rank: usize,
        which: u64,
        lanes: &mut [u64],
        mut combine: impl FnMut(usize, u64, u64) -> u64,
        wake: impl FnOnce(&Self::W32),
        idle: impl FnMut(Sleeper<'_, Self::W32>),
    ) -> Result<(), Mismatch> {
        assert!(lanes.len() < LANES, "a set holds fewer values");
        let barrier = self.barrier();
        let own = self.set(rank, barrier.barriers());
        own[0].store(which, Ordering::Relaxed);
        for (lane, value) in own[1..].iter().zip(&*lanes) {
            lane.store(*value, Ordering::Relaxed);
        }
        let number = barrier.arrive(self.ranks() as u32, wake);
        barrier.wait(number, idle);
        for other in 0..self.ranks() {
            let theirs = self.set(other, number);
            if theirs[0].load(Ordering::Relaxed) != which {
                return Err(Mismatch);
            }
            for (at, (lane, value)) in lanes.iter_mut().zip(&theirs[1..]).enumerate() {
                let value = value.load(Ordering::Relaxed);
                *lane = if other == 0 { value } else { combine(at, *lane, value) };
            }
        }
        Ok(())
    }
}
