//! Two-phase: all ranks of a node gather in shared windows, and aggregators move full windows. Nodes whose bytes lie among those of
//! others exchange what they have for each other's windows (`between`).
//!
//! A round covers `aggregators x window` bytes of the file, from the lowest byte that any rank of the node still needs. Each
//! aggregator has two windows, used by turns, so that the ranks fill one while the other is being written:
//!
//! * Write: every rank marks its bytes in the windows of a round and copies them there straight from user memory. Barrier. Each
//!   aggregator writes the marked runs of its window, and all ranks fill the windows of the next round. Barrier.
//! * Read: every rank marks the units that it wants. Barrier. Each aggregator reads them into its window, and all ranks mark
//!   those of the next round. Barrier. Every rank copies its bytes straight to user memory, and so on.
//!
//! So there is one barrier a round, and one more. A rank never leaves early: an aggregator that fails publishes the offset up to
//! which its window is good, and all ranks leave at the same barrier. No rank waits in MPI: the barrier belongs to the window,
//! and [`Operation`] can be polled.
//!
//! Bytes that several ranks write in one operation are those of the highest rank. Whoever finds a byte marked already leaves
//! the window alone and says so; if any rank did, the ranks fill the windows of that round again, one after the other
//! by turns. That costs one barrier for each rank, and only where ranks overlap.
//!
//! Among several nodes a round covers the windows of all of them, and there is a second barrier a round: between the two, the
//! leaders of the nodes exchange what their ranks have packed for other nodes, and agree on what the ranks tell each other.

mod between;
mod executor;
mod io;
mod rounds;
mod slots;
mod window;

use std::sync::Arc;

use capulet_comm::NodeShared;

use crate::access::Access;
use crate::{Direction, Target, Transferred};

pub use capulet_plan::grid::PAGE_BYTES;
use capulet_plan::grid::{Grid, place_of};

pub use between::{Between, Nodes, decline};
pub use executor::Operation;
pub use slots::TURN_SLOT;

/// The ranks of a node and how they share the work.
#[derive(Debug, Clone)]
pub struct NodeTeam {
    shared: Arc<dyn NodeShared>,
    /// None only on a node that has no windows while the nodes exchange.
    aggregators: usize,
    window_bytes: u64,
    align_bytes: u64,
    unit_bytes: u64,
    /// No rank asks for bytes of the file from here on.
    end: u64,
    /// From one of an aggregator's two windows to the other.
    buffer_bytes: usize,
    between: Option<Between>,
    /// The windows of a round that lie before those of this node.
    windows_before: u64,
    /// All windows of a round.
    windows: u64,
}

impl NodeTeam {
    /// A team on `shared`, with at most `aggregators` of its ranks as aggregators, windows of at most `window_bytes` (two of
    /// them must fit in `shared`), and windows that begin at whole stripes where a window holds whole stripes. `grain` has
    /// every bit that any rank's file offsets or run lengths have: it tells in which units bytes can be marked. All ranks
    /// of the node must pass the same values.
    pub fn new(
        shared: Arc<dyn NodeShared>,
        aggregators: usize,
        window_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        let aggregators = aggregators.clamp(1, shared.ranks());
        let buffer_bytes = shared.bytes() / 2;
        let team = Self {
            shared,
            aggregators,
            window_bytes: 0,
            align_bytes: 0,
            unit_bytes: 0,
            end: u64::MAX,
            buffer_bytes,
            between: None,
            windows_before: 0,
            windows: aggregators as u64,
        };
        team.with_windows(window_bytes, stripe_bytes, grain)
    }

    /// A team of one of several nodes, that exchanges with the others where their bytes meet. As [`NodeTeam::new`], but four
    /// windows must fit in `shared` (two are for what is sent and received), the nodes have the numbers of
    /// aggregators, and the ranks of all nodes must pass the same window, stripe and grain.
    pub fn among(
        between: Between,
        shared: Arc<dyn NodeShared>,
        window_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        debug_assert!(between.nodes.own_aggregators() <= shared.ranks(), "every aggregator is a rank");
        // As long as the nodes do not exchange, each needs one.
        let aggregators = between.nodes.own_aggregators().max(1);
        let buffer_bytes = shared.bytes() / 4;
        let team = Self {
            aggregators,
            buffer_bytes,
            between: Some(between),
            windows: aggregators as u64,
            ..Self::new(shared, aggregators, window_bytes, stripe_bytes, grain)
        };
        team.with_windows(window_bytes, stripe_bytes, grain)
    }

    /// Tells the team that no rank, of all nodes, asks for bytes of the file at `end` or after it: marks are looked for only
    /// before it. All ranks must pass the same.
    #[must_use]
    pub fn ending_at(self, end: u64) -> Self {
        Self { end, ..self }
    }

    fn with_windows(mut self, window_bytes: u64, stripe_bytes: u64, grain: u64) -> Self {
        let largest = self.buffer_bytes as u64;
        let grid = Grid::new(window_bytes, largest, stripe_bytes, grain);
        let Grid { window_bytes, align_bytes, unit_bytes } = grid;
        (self.window_bytes, self.align_bytes, self.unit_bytes) = (window_bytes, align_bytes, unit_bytes);
        self
    }

    /// The rank of the node that is aggregator `index`.
    fn rank_of(&self, index: usize) -> usize {
        place_of(index, self.shared.ranks(), self.aggregators)
    }

    /// Which aggregator this rank is, if it is one.
    fn own_index(&self) -> Option<usize> {
        (0..self.aggregators).find(|index| self.rank_of(*index) == self.shared.place())
    }

    /// How windows lie in the file.
    fn grid(&self) -> Grid {
        let Self { window_bytes, align_bytes, unit_bytes, .. } = *self;
        Grid { window_bytes, align_bytes, unit_bytes }
    }

    fn read_unit_bytes(&self) -> u64 {
        self.grid().read_unit_bytes()
    }
}

/// Carries out one rank's part of a collective access, together with all ranks of its node. Every rank of the node
/// must call it, those with nothing to move too. `first` is the lowest file offset that any rank of the node needs,
/// `u64::MAX` if none does, the same on all of them; among several nodes, that any rank of all of them needs. Blocks for the
/// storage and the other ranks, and keeps MPI progressing while it waits.
///
/// # Panics
/// If `access` is not monotone: the planner never lets one come here.
pub fn run(target: Target, team: NodeTeam, access: Access, direction: Direction, first: u64) -> Transferred {
    Operation::start(target, team, access, direction, first).wait()
}
