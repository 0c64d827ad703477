//! The exchange between nodes in a collective access. The collective buffers of a round belong to
//! aggregators of all nodes, so all bytes for one place of the file meet in one buffer, whichever rank
//! they come from.
//!
//! A rank copies the bytes that lie in collective buffers of its own node there, as on a single node. It
//! packs the bytes for buffers of another node into its area ([`outgoing`]), as message fragments that
//! tell where the bytes go ([`fragment`]). The leaders exchange the fragments ([`exchange`]), and put the
//! bytes of remote ranks into the buffers ([`remote_ranks`]). They do so in common steps, each of which
//! ends with a reduction over all leaders ([`mod@leader_reduction`]).

mod exchange;
mod fragment;
mod leader_reduction;
mod outgoing;
mod remote_ranks;

use std::sync::Arc;

use capulet_comm::{Backoff, Leaders, work};
use capulet_plan::grid::are_in_order;

pub(super) use exchange::{Exchange, Step};
pub(super) use leader_reduction::Lanes;
pub(super) use outgoing::{Area, Outgoing};

use super::round_status::RoundStatus;
use crate::{Direction, Failure};

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

    pub(super) fn own_aggregators(&self) -> usize {
        (self.buffers_before[self.node + 1] - self.buffers_before[self.node]) as usize
    }

    pub(super) fn own_buffers_before(&self) -> u64 {
        self.buffers_before[self.node]
    }

    pub(super) fn buffers(&self) -> u64 {
        self.buffers_before[self.count()]
    }

    /// Whether some node has no collective buffers. The bytes of its ranks must go to other nodes,
    /// wherever they lie.
    pub(super) fn has_idle(&self) -> bool {
        self.buffers_before.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The node to which collective buffer number `buffer` of a round belongs, and the numbers of all
    /// buffers of that node.
    pub(super) fn owner_of(&self, buffer: u64) -> (usize, std::ops::Range<u64>) {
        let node = self.buffers_before.partition_point(|before| *before <= buffer) - 1;
        (node, self.buffers_before[node]..self.buffers_before[node + 1])
    }

    /// The places on this node of the ranks of a block.
    pub(super) fn places_in(&self, block: u32) -> std::ops::Range<usize> {
        let start = self.blocks.partition_point(|theirs| *theirs < block);
        start..self.blocks.partition_point(|theirs| *theirs <= block)
    }

    pub(super) fn block_count(&self) -> u32 {
        self.block_count
    }
}

/// How the ranks of a node reach the other nodes.
#[derive(Debug, Clone)]
pub struct Between {
    /// The nodes.
    pub nodes: Arc<Nodes>,
    /// The messages between the leaders. At the first rank of each node only, which is its leader.
    pub leaders: Option<Arc<dyn Leaders>>,
    /// Whether this node may move bytes of the file for other nodes. If one node may not, the nodes do
    /// not exchange.
    pub may_exchange: bool,
    /// The number of the operation. It is the same on all nodes, and differs from the numbers of recent
    /// operations of the same leaders.
    pub operation: u32,
}

/// Summary of where the bytes of a range of nodes lie. It tells whether the nodes have bytes for each
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Survey {
    /// The first offset, `u64::MAX` if there are no bytes.
    pub(super) first: u64,
    /// The offset after the last.
    pub(super) end: u64,
    /// Whether the bytes of each node lie behind all bytes of the nodes before it.
    pub(super) ascending: bool,
    /// Whether every node has collective buffers and may exchange.
    pub(super) able: bool,
}

impl Survey {
    /// The summary of a node that has no shared memory.
    const UNABLE: Self = Self { first: u64::MAX, end: 0, ascending: true, able: false };

    fn lanes(self) -> Lanes {
        [self.first, self.end, u64::from(self.ascending) | u64::from(self.able) << 1]
    }

    pub(super) fn of_lanes([first, end, flags]: Lanes) -> Self {
        Self { first, end, ascending: flags & 1 != 0, able: flags & 2 != 0 }
    }

    /// Combines the summaries of two neighboring ranges of nodes, the lower nodes on the left.
    fn join(left: Lanes, right: Lanes) -> Lanes {
        let (left, right) = (Self::of_lanes(left), Self::of_lanes(right));
        let apart = are_in_order(&(left.first..left.end), &(right.first..right.end));
        let joined = Self {
            first: left.first.min(right.first),
            end: left.end.max(right.end),
            ascending: left.ascending && right.ascending && apart,
            able: left.able && right.able,
        };
        joined.lanes()
    }

    /// Whether the nodes exchange: they have bytes for each other, and collective buffers to put them in.
    /// `has_idle` is the result of [`Nodes::has_idle`].
    pub(super) fn needs_exchange(self, has_idle: bool) -> bool {
        self.able && (has_idle || !self.ascending)
    }
}

pub(super) fn status_of_lanes([next, good_end, flags]: Lanes) -> RoundStatus {
    RoundStatus::new(next, good_end, flags)
}

fn join_status(left: Lanes, right: Lanes) -> Lanes {
    let status = status_of_lanes(left).combine(status_of_lanes(right));
    [status.next, status.good_end, status.flags()]
}

/// Tells the other nodes that this node has no shared memory. Then the nodes do not exchange, and each
/// node that has shared memory gathers on its own. Called by the leader of such a node instead of an
/// [`Operation`](super::Operation). Blocks until the other leaders have taken the step too.
///
/// # Errors
/// If MPI fails.
pub fn decline(between: &Between) -> Result<(), Failure> {
    let Some(leaders) = &between.leaders else { return Ok(()) };
    let mut exchange = Exchange::new(Arc::clone(leaders), between.operation, Direction::Write);
    exchange.begin_survey(Survey::UNABLE);
    let mut backoff = Backoff::new();
    loop {
        if exchange.reduction.receive()?.is_some() {
            return Err(leader_reduction::DISAGREE.into());
        }
        if exchange.reduction.advance(true)?.is_some() {
            return Ok(());
        }
        backoff.pause();
        work::advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(first: u64, end: u64) -> Lanes {
        Survey { first, end, ascending: true, able: true }.lanes()
    }

    #[test]
    fn nodes_with_consecutive_bytes_do_not_exchange() {
        let none = survey(u64::MAX, 0);
        let joined = |all: &[Lanes]| {
            let whole = all.iter().copied().reduce(Survey::join).expect("there is a node");
            // the result does not depend on the grouping
            for cut in 1..all.len() {
                let part =
                    |part: &[Lanes]| part.iter().copied().reduce(Survey::join).expect("there is a node");
                assert_eq!(Survey::join(part(&all[..cut]), part(&all[cut..])), whole);
            }
            Survey::of_lanes(whole)
        };
        let ascending = joined(&[survey(0, 10), survey(10, 20), none, survey(25, 30)]);
        assert!(!ascending.needs_exchange(false) && ascending.needs_exchange(true));
        assert!(!joined(&[none, survey(3, 9), none]).needs_exchange(false));
        assert!(joined(&[survey(0, 11), survey(10, 20)]).needs_exchange(false));
        assert!(joined(&[survey(10, 20), none, survey(0, 10)]).needs_exchange(false));
        let unable = joined(&[survey(0, 11), Survey::UNABLE.lanes(), survey(10, 20)]);
        assert!(!unable.needs_exchange(false) && !unable.needs_exchange(true));
        assert_eq!(joined(&[survey(4, 11), survey(2, 20)]).first, 2);
    }

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
