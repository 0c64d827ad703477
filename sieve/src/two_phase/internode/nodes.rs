//! The nodes of a group, and how the ranks of one node reach the others.

use std::sync::Arc;

use capulet_comm::Leaders;

use super::survey::Surveyed;

/// The nodes of a group and the part of each in a round, seen from one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The number of this node.
    node: usize,
    /// For each node, the number of collective buffers of a round that belong to the nodes before it; the
    /// last value is the number of all buffers.
    buffers_before: Vec<u64>,
    /// The block (consecutive ranks of one node) of each rank of this node, by place.
    blocks: Vec<u32>,
    block_count: u32,
}

impl Nodes {
    /// The nodes as node `node` sees them. `aggregators` has the number of aggregators of each node, and
    /// so of its collective buffers in a round. A node may have none: its ranks only send and receive. If
    /// the nodes cannot exchange, one rank of such a node aggregates for the node. The ranks of the
    /// group, in order, form `block_count` blocks of ranks of one node each; `blocks` has the block of
    /// each rank of this node, by place.
    ///
    /// # Panics
    /// If no node has an aggregator, or there is no such node.
    pub fn new(node: usize, aggregators: &[usize], blocks: Vec<u32>, block_count: u32) -> Self {
        assert!(node < aggregators.len() && aggregators.iter().any(|count| *count > 0));
        let mut buffers_before = vec![0];
        for count in aggregators {
            buffers_before.push(buffers_before[buffers_before.len() - 1] + *count as u64);
        }
        Self { node, buffers_before, blocks, block_count }
    }

    /// The number of nodes.
    pub fn count(&self) -> usize {
        self.buffers_before.len() - 1
    }

    pub(in crate::two_phase) fn own_aggregators(&self) -> usize {
        (self.buffers_before[self.node + 1] - self.buffers_before[self.node]) as usize
    }

    pub(in crate::two_phase) fn own_buffers_before(&self) -> u64 {
        self.buffers_before[self.node]
    }

    pub(in crate::two_phase) fn buffers(&self) -> u64 {
        self.buffers_before[self.count()]
    }

    /// Whether some node has no collective buffers. The bytes of its ranks must go to other nodes,
    /// wherever they lie.
    pub(in crate::two_phase) fn has_idle(&self) -> bool {
        self.buffers_before.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The node to which collective buffer number `buffer` of a round belongs, and the numbers of all
    /// buffers of that node.
    pub(in crate::two_phase) fn owner_of(&self, buffer: u64) -> (usize, std::ops::Range<u64>) {
        let node = self.buffers_before.partition_point(|before| *before <= buffer) - 1;
        (node, self.buffers_before[node]..self.buffers_before[node + 1])
    }

    /// The places on this node of the ranks of a block.
    pub(in crate::two_phase) fn places_in(&self, block: u32) -> std::ops::Range<usize> {
        let start = self.blocks.partition_point(|theirs| *theirs < block);
        start..self.blocks.partition_point(|theirs| *theirs <= block)
    }

    pub(in crate::two_phase) fn block_count(&self) -> u32 {
        self.block_count
    }
}

/// How the ranks of a node reach the other nodes.
#[derive(Debug, Clone)]
pub struct NodeExchange {
    /// The nodes.
    pub nodes: Arc<Nodes>,
    /// The messages between the leaders. At the first rank of each node only, which is its leader.
    pub leaders: Option<Arc<dyn Leaders>>,
    /// Whether this node may move bytes of the file for other nodes. If one node may not, the nodes do
    /// not exchange.
    pub may_exchange: bool,
    /// Nodes that exchange nothing never write to one unit of the file of this many bytes. 1 if nodes may
    /// write to neighboring bytes at the same time.
    pub unit_bytes: u64,
    /// The number of the operation. It is the same on all nodes, and differs from the numbers of recent
    /// operations of the same leaders.
    pub operation: u32,
    /// The survey, if the ranks took it together with an agreement. It is the same on all ranks of a node, and
    /// the values of all nodes are the same on all ranks. `None` on all ranks if the survey is the first step
    /// of the operation.
    pub surveyed: Option<Surveyed>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_buffer_and_block_has_an_owner() {
        let nodes = Nodes::new(1, &[2, 3, 1], vec![1, 1, 4], 6);
        assert_eq!((nodes.count(), nodes.buffers(), nodes.own_aggregators()), (3, 6, 3));
        assert_eq!(nodes.owner_of(0), (0, 0..2));
        assert_eq!(nodes.owner_of(2), (1, 2..5));
        assert_eq!(nodes.owner_of(4), (1, 2..5));
        assert_eq!(nodes.owner_of(5), (2, 5..6));
        assert_eq!((nodes.places_in(1), nodes.places_in(4)), (0..2, 2..3));
        assert!(nodes.places_in(0).is_empty() && nodes.places_in(5).is_empty());
        assert!(!nodes.has_idle());
    }

    #[test]
    fn node_without_aggregators_owns_no_collective_buffer() {
        let nodes = Nodes::new(2, &[0, 2, 0, 0, 1, 0], vec![2], 6);
        assert_eq!((nodes.buffers(), nodes.own_aggregators(), nodes.own_buffers_before()), (3, 0, 2));
        assert_eq!(nodes.owner_of(0), (1, 0..2));
        assert_eq!(nodes.owner_of(1), (1, 0..2));
        assert_eq!(nodes.owner_of(2), (4, 2..3));
        assert!(nodes.has_idle());
    }
}
