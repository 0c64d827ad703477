//! Agreement between ranks, as a trait, so that what is built on it also runs with ranks as threads.

use std::fmt::Debug;

use crate::class::ErrorClass;
use crate::error::Result;
use crate::rank::Rank;

/// How the values of one lane become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum, at most `u64::MAX`: a sum never wraps.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The bits that are set in any value.
    BitOr,
    /// The bits that are set in all values.
    BitAnd,
}

impl ReduceOp {
    /// Two values become one.
    pub fn apply(self, left: u64, right: u64) -> u64 {
        match self {
            ReduceOp::Sum => left.saturating_add(right),
            ReduceOp::Min => left.min(right),
            ReduceOp::Max => left.max(right),
            ReduceOp::BitOr => left | right,
            ReduceOp::BitAnd => left & right,
        }
    }
}

/// A line of its own for reductions: those of one track follow one another, and those of different tracks do not care about
/// each other. Track 0 belongs to the calls that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Track(pub(crate) u32);

impl Track {
    /// The track of the calls that wait.
    pub const WAITING: Self = Self(0);
    /// How many tracks there are beside it, and beside those of the leaders of nodes and of wake-ups.
    pub const SPARE: u32 = 4;
    /// The track on which a leader tells the others whose turn it is.
    pub(crate) const TURNS: Self = Self(Self::SPARE + 1);
    /// The track of what the leaders of nodes send each other in an operation.
    pub(crate) const LEADERS: Self = Self(Self::SPARE + 2);
    /// The track of messages that say nothing but that a wait is over.
    pub(crate) const WAKES: Self = Self(Self::SPARE + 3);

    /// The track of operation `number`, counted from 0: the spare ones by turns.
    pub const fn of(number: u64) -> Self {
        Self(1 + (number % Self::SPARE as u64) as u32)
    }
}

/// A reduction under way.
pub trait Pending: Debug + Send {
    /// Goes on as far as it can without waiting. The result, once: when this rank's part is over.
    ///
    /// # Errors
    /// If MPI fails.
    fn poll(&mut self) -> Result<Option<Vec<u64>>>;
}

/// A group of ranks that can agree. Every method except `rank` and `size` is collective: all ranks call the same methods
/// in the same order, with the same number of lanes and the same root. Methods wait for other ranks, but sleep instead of
/// spinning, and drive MPI while they wait. At most one thread of a rank may be in a method at a time.
pub trait Agree: Debug + Send + Sync {
    /// This rank.
    fn rank(&self) -> Rank;

    /// How many ranks there are.
    fn size(&self) -> u32;

    /// Returns when every rank has called it.
    ///
    /// # Errors
    /// If MPI fails.
    fn barrier(&self) -> Result<()>;

    /// Reduces each lane over all ranks with the operation of that lane; every rank gets the result in place.
    ///
    /// # Errors
    /// If there are not as many operations as lanes, or MPI fails.
    fn allreduce(&self, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()>;

    /// As [`Agree::allreduce`], but does not wait: the result comes from [`Pending::poll`]. Each rank starts the reductions of
    /// one track in the same order, and the next only when its part of the last is over.
    ///
    /// # Errors
    /// If there are not as many operations as lanes, or MPI fails.
    fn start_allreduce(&self, track: Track, lanes: &[u64], ops: &[ReduceOp]) -> Result<Box<dyn Pending>>;

    /// Every rank gets the bytes of `root`. What the others held is dropped.
    ///
    /// # Errors
    /// If there is no such root, no memory, or MPI fails.
    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()>;

    /// Every rank gets the value of every rank, in the order of ranks.
    ///
    /// # Errors
    /// If MPI fails.
    fn allgather(&self, value: u64) -> Result<Vec<u64>>;

    /// Rank 0 gets the bytes of every rank, in the order of ranks, less than 1 GiB in all; the others get `None`.
    ///
    /// # Errors
    /// On all ranks if the bytes are too many; if MPI fails.
    fn gather(&self, data: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;

    /// Agrees on the outcome of a collective operation: `None` if no rank brings an error, else the same class on all.
    ///
    /// # Errors
    /// If MPI fails.
    fn agree_on_outcome(&self, mine: Option<ErrorClass>) -> Result<Option<ErrorClass>> {
        let mut lanes = [mine.map_or(0, ErrorClass::to_wire)];
        self.allreduce(&mut lanes, &[ReduceOp::Max])?;
        Ok(ErrorClass::from_wire(lanes[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_their_names() {
        assert_eq!(ReduceOp::Sum.apply(u64::MAX, 1), u64::MAX);
        assert_eq!(ReduceOp::Sum.apply(2, 3), 5);
        assert_eq!((ReduceOp::Min.apply(2, 3), ReduceOp::Max.apply(2, 3)), (2, 3));
        assert_eq!(
            (ReduceOp::BitOr.apply(0b0110, 0b1100), ReduceOp::BitAnd.apply(0b0110, 0b1100)),
            (0b1110, 0b0100)
        );
    }
}
