//! A node group: its ranks, its aggregators and their collective buffers.

use std::sync::Arc;

use capulet_comm::NodeShared;
use capulet_plan::grid::{Grid, place_of};

use super::internode::NodeExchange;

/// The ranks of a node, and how they share the work.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    pub(super) shared: Arc<dyn NodeShared>,
    /// Number of aggregators. 0 only on a node without collective buffers, while the nodes exchange.
    pub(super) aggregators: usize,
    pub(super) collective_buffer_bytes: u64,
    align_bytes: u64,
    pub(super) unit_bytes: u64,
    /// No rank asks for bytes of the file at this offset or after it.
    pub(super) end: u64,
    /// Distance in bytes between the two collective buffers of an aggregator.
    pub(super) buffer_stride_bytes: usize,
    pub(super) internode: Option<NodeExchange>,
    /// The number of collective buffers of a round that belong to nodes before this one.
    pub(super) buffers_before: u64,
    /// The number of collective buffers of a round.
    pub(super) buffers: u64,
}

impl NodeGroup {
    /// A node group on `shared`, with at most `aggregators` of its ranks as aggregators and collective
    /// buffers of at most `collective_buffer_bytes`. Two of them must fit in `shared`. [`Grid::new`] aligns
    /// the buffers to stripes. Every bit that is set in a file offset or run length of any rank is set in
    /// `grain`, which decides the units in which bytes are marked. All ranks of the node must pass the same
    /// values.
    pub fn new(
        shared: Arc<dyn NodeShared>,
        aggregators: usize,
        collective_buffer_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        let aggregators = aggregators.clamp(1, shared.ranks());
        let buffer_stride_bytes = shared.bytes() / 2;
        let group = Self {
            shared,
            aggregators,
            collective_buffer_bytes: 0,
            align_bytes: 0,
            unit_bytes: 0,
            end: u64::MAX,
            buffer_stride_bytes,
            internode: None,
            buffers_before: 0,
            buffers: aggregators as u64,
        };
        group.with_grid(collective_buffer_bytes, stripe_bytes, grain)
    }

    /// A node group of one of several nodes, which exchanges bytes with the others where they interleave. It
    /// differs from [`NodeGroup::new`]: four collective buffers must fit in `shared`, two of them for sent
    /// and received data. The numbers of aggregators come from `internode`. The ranks of all nodes must pass
    /// the same `collective_buffer_bytes`, `stripe_bytes` and `grain`.
    pub fn among(
        internode: NodeExchange,
        shared: Arc<dyn NodeShared>,
        collective_buffer_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        debug_assert!(
            internode.nodes.own_aggregators() <= shared.ranks(),
            "no node has more aggregators than ranks"
        );
        // Every node needs an aggregator as long as the nodes do not exchange.
        let aggregators = internode.nodes.own_aggregators().max(1);
        let buffer_stride_bytes = shared.bytes() / 4;
        let group = Self {
            aggregators,
            buffer_stride_bytes,
            internode: Some(internode),
            buffers: aggregators as u64,
            ..Self::new(shared, aggregators, collective_buffer_bytes, stripe_bytes, grain)
        };
        group.with_grid(collective_buffer_bytes, stripe_bytes, grain)
    }

    /// Declares that no rank of any node asks for bytes of the file at `end` or after it: only the part
    /// of the maps before it is searched for marks. All ranks must pass the same value.
    #[must_use]
    pub fn ending_at(self, end: u64) -> Self {
        Self { end, ..self }
    }

    fn with_grid(mut self, collective_buffer_bytes: u64, stripe_bytes: u64, grain: u64) -> Self {
        let largest = self.buffer_stride_bytes as u64;
        let grid = Grid::new(collective_buffer_bytes, largest, stripe_bytes, grain);
        let Grid { collective_buffer_bytes, align_bytes, unit_bytes } = grid;
        (self.collective_buffer_bytes, self.align_bytes, self.unit_bytes) =
            (collective_buffer_bytes, align_bytes, unit_bytes);
        self
    }

    /// The rank of the node that is aggregator `index`.
    pub(super) fn rank_of(&self, index: usize) -> usize {
        place_of(index, self.shared.ranks(), self.aggregators)
    }

    /// The index of this rank among the aggregators, if it is one.
    pub(super) fn own_index(&self) -> Option<usize> {
        (0..self.aggregators).find(|index| self.rank_of(*index) == self.shared.place())
    }

    /// Which bytes of the file the collective buffers cover.
    pub(super) fn grid(&self) -> Grid {
        let Self { collective_buffer_bytes, align_bytes, unit_bytes, .. } = *self;
        Grid { collective_buffer_bytes, align_bytes, unit_bytes }
    }

    pub(super) fn read_unit_bytes(&self) -> u64 {
        self.grid().read_unit_bytes()
    }
}
