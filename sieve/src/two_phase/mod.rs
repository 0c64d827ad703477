//! Two-phase access: all ranks of a node gather their bytes in collective buffers in shared memory, and
//! aggregators move full buffers between memory and file. If the bytes of several nodes interleave, the
//! nodes exchange the bytes that belong in each other's collective buffers (`between`).
//!
//! A round covers `aggregators x W` bytes of the file, for collective buffers of `W` bytes
//! (`window_bytes`), from the lowest byte that any rank of the node still needs. Each aggregator has two
//! collective buffers and uses them alternately: ranks fill one while the aggregator writes the other.
//!
//! * Write: every rank marks its bytes in the collective buffers of a round, and copies them there
//!   straight from user memory. Barrier. Each aggregator writes the marked runs of its buffer, while all
//!   ranks fill the buffers of the next round. Barrier.
//! * Read: every rank marks the units that it wants. Barrier. Each aggregator reads them into its buffer,
//!   while all ranks mark the units of the next round. Barrier. Every rank copies its bytes straight to
//!   user memory, and so on.
//!
//! So there is one barrier for each round, and one more. No rank leaves early: an aggregator that fails
//! publishes the offset up to which its buffer is good, and all ranks leave at the same barrier. No rank
//! waits in MPI: the barrier belongs to the shared memory, and [`Operation`] can be polled.
//!
//! If several ranks write the same bytes in one operation, the bytes of the highest rank stand. A rank
//! that finds one of its units marked already does not copy into that buffer, and reports the overlap. If
//! any rank reports one, the ranks fill the buffers of that round again, one rank after the other (the
//! overlap replay). The replay costs one barrier for each rank, and takes place only where ranks overlap.
//!
//! Among several nodes a round covers the collective buffers of all nodes, and there is a second barrier
//! in each round. Between the two barriers the leaders of the nodes exchange what their ranks have packed
//! for other nodes, and combine the round status of all ranks.

mod between;
mod collective_buffer;
mod executor;
mod io;
mod round_status;
mod rounds;

use std::sync::Arc;

use capulet_comm::NodeShared;

use crate::access::Access;
use crate::{Direction, Target, Transferred};

pub use capulet_plan::grid::PAGE_BYTES;
use capulet_plan::grid::{Grid, place_of};

pub use between::{Between, Nodes, decline};
pub use executor::Operation;
pub use round_status::TURN_SLOT;

/// The ranks of a node, and how they share the work.
#[derive(Debug, Clone)]
pub struct NodeTeam {
    shared: Arc<dyn NodeShared>,
    /// Number of aggregators. 0 only on a node without collective buffers, while the nodes exchange.
    aggregators: usize,
    window_bytes: u64,
    align_bytes: u64,
    unit_bytes: u64,
    /// No rank asks for bytes of the file at this offset or after it.
    end: u64,
    /// Distance in bytes between the two collective buffers of an aggregator.
    buffer_stride_bytes: usize,
    between: Option<Between>,
    /// The number of collective buffers of a round that belong to nodes before this one.
    buffers_before: u64,
    /// The number of collective buffers of a round.
    buffers: u64,
}

impl NodeTeam {
    /// A team on `shared`, with at most `aggregators` of its ranks as aggregators and collective buffers
    /// of at most `window_bytes`. Two of them must fit in `shared`. If a buffer can hold whole stripes,
    /// each one begins at a stripe. The set bits of `grain` include those of every file offset and run
    /// length of all ranks; `grain` decides the units in which bytes are marked. All ranks of the node
    /// must pass the same values.
    pub fn new(
        shared: Arc<dyn NodeShared>,
        aggregators: usize,
        window_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        let aggregators = aggregators.clamp(1, shared.ranks());
        let buffer_stride_bytes = shared.bytes() / 2;
        let team = Self {
            shared,
            aggregators,
            window_bytes: 0,
            align_bytes: 0,
            unit_bytes: 0,
            end: u64::MAX,
            buffer_stride_bytes,
            between: None,
            buffers_before: 0,
            buffers: aggregators as u64,
        };
        team.with_grid(window_bytes, stripe_bytes, grain)
    }

    /// A team of one of several nodes, which exchanges bytes with the others where they interleave. Like
    /// [`NodeTeam::new`], with these differences: four collective buffers must fit in `shared` (two are
    /// for sent and received data), the numbers of aggregators come from `between`, and the ranks of all
    /// nodes must pass the same `window_bytes`, `stripe_bytes` and `grain`.
    pub fn among(
        between: Between,
        shared: Arc<dyn NodeShared>,
        window_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        debug_assert!(
            between.nodes.own_aggregators() <= shared.ranks(),
            "no node has more aggregators than ranks"
        );
        // Every node needs an aggregator as long as the nodes do not exchange.
        let aggregators = between.nodes.own_aggregators().max(1);
        let buffer_stride_bytes = shared.bytes() / 4;
        let team = Self {
            aggregators,
            buffer_stride_bytes,
            between: Some(between),
            buffers: aggregators as u64,
            ..Self::new(shared, aggregators, window_bytes, stripe_bytes, grain)
        };
        team.with_grid(window_bytes, stripe_bytes, grain)
    }

    /// Declares that no rank of any node asks for bytes of the file at `end` or after it: only the part
    /// of the maps before it is searched for marks. All ranks must pass the same value.
    #[must_use]
    pub fn ending_at(self, end: u64) -> Self {
        Self { end, ..self }
    }

    fn with_grid(mut self, window_bytes: u64, stripe_bytes: u64, grain: u64) -> Self {
        let largest = self.buffer_stride_bytes as u64;
        let grid = Grid::new(window_bytes, largest, stripe_bytes, grain);
        let Grid { window_bytes, align_bytes, unit_bytes } = grid;
        (self.window_bytes, self.align_bytes, self.unit_bytes) = (window_bytes, align_bytes, unit_bytes);
        self
    }

    /// The rank of the node that is aggregator `index`.
    fn rank_of(&self, index: usize) -> usize {
        place_of(index, self.shared.ranks(), self.aggregators)
    }

    /// The index of this rank among the aggregators, if it is one.
    fn own_index(&self) -> Option<usize> {
        (0..self.aggregators).find(|index| self.rank_of(*index) == self.shared.place())
    }

    /// Which bytes of the file the collective buffers cover.
    fn grid(&self) -> Grid {
        let Self { window_bytes, align_bytes, unit_bytes, .. } = *self;
        Grid { window_bytes, align_bytes, unit_bytes }
    }

    fn read_unit_bytes(&self) -> u64 {
        self.grid().read_unit_bytes()
    }
}

/// Carries out one rank's part of a collective access, together with all ranks of its node. Collective:
/// every rank of the node must call it, also a rank without bytes to move. `first` is the lowest file
/// offset that any rank of the node needs (among several nodes: any rank of any node), `u64::MAX` if none
/// needs one. It must be the same on all these ranks. Blocks for the storage and the other ranks, and
/// keeps MPI progressing while it waits.
///
/// # Panics
/// If `access` is not monotone. The planner never chooses two-phase for such an access.
///
/// # Safety
/// All ranks of the node, and of all nodes that exchange, are in the same operation: they pass the same `direction`, the same `first`, and
/// teams that were made from the same values on windows of the same memory. No other operation uses the memory meanwhile. Ranks that
/// disagree copy to and from the collective buffers at the same time, which is a data race.
pub unsafe fn run(
    target: Target,
    team: NodeTeam,
    access: Access,
    direction: Direction,
    first: u64,
) -> Transferred {
    // SAFETY: the contract of `start` is the contract of this function.
    unsafe { Operation::start(target, team, access, direction, first) }.wait()
}
