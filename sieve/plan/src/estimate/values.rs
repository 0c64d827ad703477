//! The result of the estimate.

use std::ops::Range;

use super::count::Count;
use crate::Way;
use crate::choice::{Agreed, Plan};
use crate::grid::Grid;

/// The part of one rank that acts independently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndependentSteps {
    /// How the access is carried out.
    pub way: Way,
    /// Pieces handed to the driver: an upper bound of the system calls.
    pub pieces: Count,
    /// Batches in which the pieces are handed over.
    pub batches: Count,
    /// Bytes copied between user memory and a buffer.
    pub copied_bytes: u64,
    /// Bytes of the buffer.
    pub buffer_bytes: u64,
}

/// A set of nodes that take the same rounds: all nodes, or one node on its own.
#[derive(Debug, Clone)]
pub struct NodeSet {
    /// The nodes of the set.
    pub nodes: Vec<usize>,
    /// The rounds, as far as the limits allow.
    pub rounds: Vec<Round>,
    /// Totals of the rounds.
    pub totals: Totals,
    /// Whether `rounds` has all rounds.
    pub is_whole: bool,
    /// Upper bound of the number of rounds.
    pub rounds_most: u64,
}

/// A two-phase access: ranks gather their bytes in collective buffers.
#[derive(Debug, Clone)]
pub struct CollectiveSteps {
    /// Which bytes of the file the collective buffers cover.
    pub grid: Grid,
    /// Whether nodes exchange bytes. If so, all nodes form one set.
    pub exchanges: bool,
    /// The sets of nodes that take the same rounds.
    pub node_sets: Vec<NodeSet>,
    /// Messages between nodes.
    pub messages: Count,
}

/// The steps of an access.
#[derive(Debug, Clone)]
pub enum Steps {
    /// No byte is moved.
    Nothing,
    /// Each rank acts independently.
    Independent(Vec<IndependentSteps>),
    /// Two-phase: round by round through collective buffers.
    Collective(CollectiveSteps),
}

/// The plan estimate: what an access takes before it is carried out.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// The combined summary on which the ranks agree.
    pub agreed: Agreed,
    /// The plan that the ranks choose. `None` for an independent access, which has no choice.
    pub plan: Option<Plan>,
    /// The steps that carry the plan out.
    pub steps: Steps,
}

/// The bytes of one rank in one collective buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The rank.
    pub rank: u32,
    /// Bytes of the rank's access, counted from its start.
    pub part: Range<u64>,
}

/// One collective buffer in one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferEstimate {
    /// The rank that moves the buffer between memory and file.
    pub aggregator: u32,
    /// The bytes of the file that the buffer covers.
    pub file: Range<u64>,
    /// The parts of the ranks that lie in it.
    pub shares: Vec<Share>,
    /// Pieces handed to the driver: an upper bound of the system calls.
    pub pieces: Count,
    /// Batches in which the pieces are handed over.
    pub batches: Count,
    /// Whether several ranks write the same bytes of it.
    pub is_overlapped: bool,
}

/// One round: the collective buffers in which some rank has bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The file offset at which the round begins.
    pub base: u64,
    /// The collective buffers, ordered by file offset.
    pub buffers: Vec<BufferEstimate>,
    /// Pairs of nodes in which one node has bytes in collective buffers of the other.
    pub pairs: u64,
}

/// Totals of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of rounds.
    pub rounds: u64,
    /// Pieces handed to the driver: an upper bound of the system calls.
    pub pieces: Count,
    /// Batches in which the pieces are handed over.
    pub batches: Count,
    /// Bytes copied between user memory and collective buffers, or between user memory and packed data of
    /// other nodes.
    pub copied_bytes: Count,
    /// The part of them that lies in collective buffers of other nodes.
    pub remote_bytes: u64,
    /// Pairs of nodes in which one node has bytes in collective buffers of the other, summed over all
    /// rounds.
    pub pairs: u64,
    /// Bytes that leaders send for these pairs: data, and the description of where the data go.
    pub exchanged_bytes: Count,
    /// Barriers of each rank with the other ranks of its node.
    pub barriers: Count,
    /// Whether several ranks write the same bytes.
    pub is_overlapped: bool,
    /// Whether some rank may have more bytes for other nodes than its area holds.
    pub is_split: bool,
}
