//! Agreement between ranks, as a trait. Code on top of the trait also runs with threads as ranks.

use std::fmt::Debug;

use crate::class::ErrorClass;
use crate::error::Result;
use crate::rank::Rank;

/// The operation that reduces the values of one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum. It saturates at `u64::MAX` and never wraps.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The bits that are set in at least one value.
    BitOr,
    /// The bits that are set in all values.
    BitAnd,
}

impl ReduceOp {
    /// Reduces two values to one.
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

/// The number of values that are combined in the order of the nodes.
pub const NODE_LANES: usize = 3;

/// Combines the values of two neighboring ranges of nodes, the lower nodes on the left. Associative.
pub type Join = fn([u64; NODE_LANES], [u64; NODE_LANES]) -> [u64; NODE_LANES];

/// Values that are combined in the order of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeValues {
    /// The values of this rank.
    pub values: [u64; NODE_LANES],
    /// The operations that reduce the values of the ranks of one node.
    pub ops: [ReduceOp; NODE_LANES],
    /// The operation that combines the values of nodes.
    pub join: Join,
}

/// The result of [`NodeValues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CombinedOfNodes {
    /// The values of this node.
    pub own: [u64; NODE_LANES],
    /// The values of all nodes.
    pub all: [u64; NODE_LANES],
}

/// A sequence of reductions or messages on a channel. The reductions of one track follow one another. Those
/// of different tracks are independent. Track 0 belongs to the blocking calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Track(pub(crate) u32);

impl Track {
    /// The track of the blocking calls.
    pub const WAITING: Self = Self(0);
    /// The number of tracks for nonblocking operations. The other tracks are `WAITING`, and those of the
    /// node leaders and of wake-ups.
    pub const SPARE: u32 = 4;
    /// The track on which the leader of node 0 tells the other leaders which operation comes next.
    pub(crate) const OPERATION_ORDER: Self = Self(Self::SPARE + 1);
    /// The track of the messages that the node leaders send each other in an operation.
    pub(crate) const LEADERS: Self = Self(Self::SPARE + 2);
    /// The track of wake-up messages, which end a wait and carry no payload.
    pub(crate) const WAKE_UPS: Self = Self(Self::SPARE + 3);

    /// The track of the nonblocking operation `number`, counted from 0. The operations take the `SPARE`
    /// tracks in cyclic order.
    pub const fn of(number: u64) -> Self {
        Self(1 + (number % Self::SPARE as u64) as u32)
    }
}

/// The number of bits of a tag that select the track of a channel: 3. The other bits select the channel.
/// MPI-4.0 section 9.1.2 guarantees tags of at least 15 bits.
pub(crate) const TRACK_BITS: u32 = (Track::WAKE_UPS.0 + 1).ilog2();

/// A reduction in progress.
pub trait Pending: Debug + Send {
    /// Advances the reduction as far as possible without waiting. Returns the result once, when the part of
    /// this rank is complete. Returns `None` before and after that.
    ///
    /// # Errors
    /// If MPI fails.
    fn poll(&mut self) -> Result<Option<Vec<u64>>>;
}

/// A group of ranks that can agree. Every method except `rank` and `size` is collective: all ranks call the
/// same methods in the same order, with the same number of lanes and the same root. All methods except
/// `rank`, `size` and `start_allreduce` wait for other ranks. A wait sleeps instead of spinning, and drives
/// MPI. At most one thread of a rank may be in a method at a time.
pub trait Agree: Debug + Send + Sync {
    /// This rank.
    fn rank(&self) -> Rank;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// Returns when every rank has called this method.
    ///
    /// # Errors
    /// If MPI fails.
    fn barrier(&self) -> Result<()>;

    /// Reduces each lane over all ranks with the operation of that lane. Every rank gets the result in
    /// `lanes`.
    ///
    /// # Errors
    /// If the numbers of operations and lanes differ, or if MPI fails.
    fn allreduce(&self, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()>;

    /// As [`Agree::allreduce`], and combines `of_nodes` in the same reduction. Returns the combined values.
    /// `None` on all ranks if the ranks reduce without regard to nodes.
    ///
    /// # Errors
    /// As [`Agree::allreduce`].
    fn allreduce_with_nodes(
        &self,
        lanes: &mut [u64],
        ops: &[ReduceOp],
        of_nodes: NodeValues,
    ) -> Result<Option<CombinedOfNodes>> {
        let _ = of_nodes;
        self.allreduce(lanes, ops)?;
        Ok(None)
    }

    /// As [`Agree::allreduce`], but does not wait: [`Pending::poll`] returns the result. All ranks start
    /// the reductions of one track in the same order. A rank starts the next reduction of a track only
    /// after its part of the previous one is complete.
    ///
    /// # Errors
    /// If the numbers of operations and lanes differ, or if MPI fails.
    fn start_allreduce(&self, track: Track, lanes: &[u64], ops: &[ReduceOp]) -> Result<Box<dyn Pending>>;

    /// Every rank gets the bytes of `root` in `data`. The previous contents of `data` on the other ranks
    /// are dropped.
    ///
    /// # Errors
    /// If there is no rank `root`, if memory is short, or if MPI fails.
    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()>;

    /// Every rank gets the value of every rank, in the order of ranks.
    ///
    /// # Errors
    /// If MPI fails.
    fn allgather(&self, value: u64) -> Result<Vec<u64>>;

    /// Rank 0 gets the bytes of every rank, in the order of ranks. The other ranks get `None`. The total
    /// must be less than 1 GiB.
    ///
    /// # Errors
    /// On all ranks if the total is too large. Also if MPI fails.
    fn gather(&self, data: &[u8]) -> Result<Option<Vec<Vec<u8>>>>;

    /// Agrees on the outcome of a collective operation: `None` on all ranks if `mine` is `None` on all
    /// ranks, else the same class on all ranks.
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
    fn reduce_operations_match_their_names() {
        assert_eq!(ReduceOp::Sum.apply(u64::MAX, 1), u64::MAX);
        assert_eq!(ReduceOp::Sum.apply(2, 3), 5);
        assert_eq!((ReduceOp::Min.apply(2, 3), ReduceOp::Max.apply(2, 3)), (2, 3));
        assert_eq!(
            (ReduceOp::BitOr.apply(0b0110, 0b1100), ReduceOp::BitAnd.apply(0b0110, 0b1100)),
            (0b1110, 0b0100)
        );
    }
}
