//! The input of the estimate.

use std::ops::Range;

use crate::Direction;
use crate::choice::PlanHints;
use crate::side::FileSide;
use crate::way::CacheState;

/// One rank's part of an access.
#[derive(Debug, Clone)]
pub struct RankPart {
    /// Where the bytes of the rank lie in the file.
    pub side: FileSide,
    /// Runs of the rank's user memory.
    pub memory_runs: u64,
}

/// The settings in force for an access. They are the same for all ranks.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Whether bytes go to the file or come from it.
    pub direction: Direction,
    /// Whether all ranks take part in one call. If not, each rank acts independently.
    pub is_collective: bool,
    /// Hints that say which collective accesses are aggregated.
    pub hints: PlanHints,
    /// Whether the storage is memory.
    pub in_memory: bool,
    /// The cache state: whether independent reads wait for the storage.
    pub cache_state: CacheState,
    /// The node of each rank.
    pub node_of: Vec<usize>,
    /// The number of aggregators of each node. A node may have none if another node has one.
    pub aggregators: Vec<usize>,
    /// Bytes of an aggregator's collective buffer.
    pub collective_buffer_bytes: u64,
    /// Bytes of shared memory that each rank has for one collective buffer: `collective_buffer_bytes`, or
    /// more if another file asked for more.
    pub allocated_bytes: u64,
    /// Bytes of a stripe, 0 for none.
    pub stripe_bytes: u64,
    /// Whether nodes may move bytes of the file for each other.
    pub may_exchange: bool,
}

impl Setup {
    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.aggregators.len()
    }

    /// The ranks of each node, in order.
    pub fn ranks_by_node(&self) -> Vec<Vec<usize>> {
        let mut ranks = vec![Vec::new(); self.nodes()];
        for (rank, node) in self.node_of.iter().enumerate() {
            ranks[*node].push(rank);
        }
        ranks
    }

    /// Bytes of shared memory of a node with `ranks` ranks: two collective buffers for each rank, as much
    /// again for sent and received data if there are several nodes, and the maps of the buffers.
    pub fn shared_bytes(&self, ranks: usize) -> u64 {
        let buffers = if self.nodes() > 1 { 4 } else { 2 };
        let bytes = (ranks as u64).saturating_mul(buffers).saturating_mul(self.allocated_bytes);
        bytes.saturating_add(bytes / 8)
    }
}

/// How much work an estimate may take before it falls back to bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The parts of ranks in collective buffers that are visited.
    pub shares: u64,
    /// The runs of the file that are visited.
    pub runs: u64,
}

impl Default for Limits {
    /// Enough for some seconds and some hundred MiB.
    fn default() -> Self {
        Self { shares: 2_000_000, runs: 50_000_000 }
    }
}

/// First offset of any of these ranks and the offset after the last; empty if they have no bytes.
pub(super) fn span_of(parts: &[RankPart], ranks: &[usize]) -> Range<u64> {
    let spans = ranks.iter().map(|rank| parts[*rank].side.span());
    let spans = spans.filter(|span| !span.is_empty());
    spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end)).unwrap_or(0..0)
}
