//! The plan estimate: what an access takes before it is carried out. The estimate names the ranks that
//! move bytes, the rounds, and the cost.
//!
//! [`outline()`] makes an [`Outline`] from the parts of all ranks and the settings in force ([`Setup`]).
//! It calls the functions that the executors call, so the two follow the same rules. A number that cannot
//! be known beforehand is a range ([`Count`]):
//!
//! * The estimate assumes that files are long enough. A read that meets the end of the file stops
//!   earlier.
//! * Rounds in which ranks write the same bytes are filled a second time: at most twice the copies, and
//!   more barriers and messages.
//! * If a rank has more bytes for other nodes than its area holds, a round takes more steps, and so more
//!   messages.
//! * Beyond the [`Limits`], rounds only have bounds.

mod exchange;
mod independent;
mod rounds;

use std::ops::Range;

use crate::choice::{Agreed, Means, Plan, PlanHints, Summary, choose};
use crate::grid::{Grid, are_in_order, place_of};
use crate::side::FileSide;
use crate::way::{Heat, Holes};
use crate::{Direction, Way};

pub use rounds::{Round, Share, Totals, Window};

/// A number that is known, or a range that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Lower bound.
    pub least: u64,
    /// Upper bound.
    pub most: u64,
}

impl Count {
    /// A number that is known.
    pub const fn exactly(number: u64) -> Self {
        Self { least: number, most: number }
    }

    /// Whether the number is known.
    pub fn is_exact(self) -> bool {
        self.least == self.most
    }

    /// Whether `number` is within the bounds.
    pub fn allows(self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl std::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| sum + count)
    }
}

/// One rank's part of an access.
#[derive(Debug, Clone)]
pub struct Part {
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
    pub heat: Heat,
    /// The node of each rank.
    pub node_of: Vec<usize>,
    /// The number of aggregators of each node. A node may have none if another node has one.
    pub aggregators: Vec<usize>,
    /// Bytes of an aggregator's collective buffer.
    pub window_bytes: u64,
    /// Bytes of shared memory that each rank has for one collective buffer: `window_bytes`, or more if
    /// another file asked for more.
    pub buffer_bytes: u64,
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
        let windows = if self.nodes() > 1 { 4 } else { 2 };
        let bytes = (ranks as u64).saturating_mul(windows).saturating_mul(self.buffer_bytes);
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

/// The part of one rank that acts independently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
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
pub struct Crew {
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
pub struct Together {
    /// Which bytes of the file the collective buffers cover.
    pub grid: Grid,
    /// Whether nodes exchange bytes. If so, all nodes form one set.
    pub exchanges: bool,
    /// The sets of nodes that take the same rounds.
    pub crews: Vec<Crew>,
    /// Messages between nodes.
    pub messages: Count,
}

/// The steps of an access.
#[derive(Debug, Clone)]
pub enum Course {
    /// No byte is moved.
    Nothing,
    /// Each rank acts independently.
    Alone(Vec<Alone>),
    /// Two-phase: round by round through collective buffers.
    Together(Together),
}

/// The plan estimate: what an access takes before it is carried out.
#[derive(Debug, Clone)]
pub struct Outline {
    /// The combined summary on which the ranks agree.
    pub agreed: Agreed,
    /// The plan that the ranks choose. `None` for an independent access, which has no choice.
    pub plan: Option<Plan>,
    /// The steps that carry the plan out.
    pub course: Course,
}

/// Estimates what an access takes. Pure.
///
/// # Panics
/// If the number of parts is not the number of ranks, or a rank is on no node.
pub fn outline(parts: &[Part], setup: &Setup, limits: Limits) -> Outline {
    assert_eq!(parts.len(), setup.node_of.len(), "every rank has a part and a node");
    assert!(setup.node_of.iter().all(|node| *node < setup.nodes()), "every rank is on a node");
    let summaries: Vec<Summary> = parts.iter().map(|part| Summary::of(&part.side)).collect();
    let agreed = Agreed::of(&summaries);
    let means = Means { window: true, in_memory: setup.in_memory };
    let plan = setup.is_collective.then(|| choose(setup.direction, &agreed, setup.hints, means));
    let course = match plan {
        Some(Plan::Nothing) => Course::Nothing,
        Some(Plan::TwoPhase(_)) => Course::Together(two_phase(parts, setup, &agreed, limits)),
        Some(Plan::Independent(_)) | None => {
            // Between the runs of one rank of a collective access there may be runs of other ranks.
            let holes = if setup.is_collective { Holes::Untouched } else { setup.hints.holes };
            let estimate = |part| independent::estimate(part, setup.direction, setup.heat, holes);
            Course::Alone(parts.iter().map(estimate).collect())
        }
    };
    Outline { agreed, plan, course }
}

/// The aggregators of the collective buffers of a round, by buffer. They are ordered by rank within a
/// node. A node that does not exchange has at least one.
fn aggregators(setup: &Setup, ranks: &[Vec<usize>], nodes: &[usize], exchanges: bool) -> Vec<u32> {
    let least = usize::from(!exchanges);
    let of_node = |node: &usize| {
        let (ranks, count) = (&ranks[*node], setup.aggregators[*node].max(least));
        let rank = move |index| ranks[place_of(index, ranks.len(), count)] as u32;
        (0..count).map(rank).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of_node).collect()
}

/// First offset of any of these ranks and the offset after the last; empty if they have no bytes.
fn span_of(parts: &[Part], ranks: &[usize]) -> Range<u64> {
    let spans = ranks.iter().map(|rank| parts[*rank].side.span());
    let spans = spans.filter(|span| !span.is_empty());
    spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end)).unwrap_or(0..0)
}

fn two_phase(parts: &[Part], setup: &Setup, agreed: &Agreed, limits: Limits) -> Together {
    let grid = Grid::new(setup.window_bytes, setup.buffer_bytes, setup.stripe_bytes, agreed.grain);
    let nodes = setup.nodes();
    let mut before = 0..0;
    let mut in_order = true;
    let ranks = setup.ranks_by_node();
    for ranks in &ranks {
        let span = span_of(parts, ranks);
        in_order &= are_in_order(&before, &span);
        if !span.is_empty() {
            before = before.start..before.end.max(span.end);
        }
    }
    // The bytes of a node without collective buffers must go to other nodes, wherever they lie.
    let has_idle = nodes > 1 && setup.aggregators.contains(&0);
    let exchanges = setup.may_exchange && (has_idle || !in_order);
    let crews: Vec<Vec<usize>> =
        if exchanges { vec![(0..nodes).collect()] } else { (0..nodes).map(|node| vec![node]).collect() };
    let mut left = limits;
    let crews: Vec<Crew> = crews
        .into_iter()
        .map(|nodes| rounds::walk(parts, setup, (grid, &ranks), nodes, exchanges, &mut left))
        .collect();
    let messages = count_messages(setup, exchanges, &crews);
    Together { grid, exchanges, crews, messages }
}

/// Messages between leaders: a reduction for each step, of which the first is the survey, and in each
/// round for each pair of nodes that meet a request, a receipt and, for a read, a reply.
fn count_messages(setup: &Setup, exchanges: bool, crews: &[Crew]) -> Count {
    let others = setup.nodes() as u64 - 1;
    if others == 0 || !exchanges {
        return Count::exactly(2 * others);
    }
    let totals = &crews[0].totals;
    let parcels = if setup.direction == Direction::Read { 3 } else { 2 };
    let steps = 1 + totals.rounds + 1;
    let known = (2 * others * steps).saturating_add(totals.pairs * parcels);
    let is_exact = crews[0].is_whole && !totals.is_split && !totals.is_overlapped;
    Count { least: known, most: if is_exact { known } else { u64::MAX } }
}
