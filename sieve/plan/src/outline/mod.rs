//! What carrying out an access will take, before it is carried out: who moves what, when, and how much it costs.
//!
//! From the parts of all ranks and what is in force ([`Setup`]) to an [`Outline`], by the functions that the executors call. Where
//! a number depends on what cannot be known beforehand it is a range ([`Count`]):
//!
//! * files are taken to be long enough: a read that meets the end of the file stops earlier;
//! * where ranks write the same bytes, the rounds in which they do are filled a second time: at most twice the copies, and more
//!   barriers and messages;
//! * where a rank has more for other nodes than its area holds, a round takes more steps, and so more messages;
//! * beyond the [`Limits`] rounds are only bounded.

mod alone;
mod exchange;
mod rounds;

use std::ops::Range;

use crate::choice::{Agreed, Means, Plan, PlanHints, Summary, choose};
use crate::grid::{Grid, are_in_order, place_of};
use crate::side::FileSide;
use crate::way::{Heat, Holes};
use crate::{Direction, Way};

pub use rounds::{Round, Share, Totals, Window};

/// A number that is known, or between what bounds it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// No less.
    pub least: u64,
    /// No more.
    pub most: u64,
}

impl Count {
    /// A number that is known.
    pub const fn exactly(number: u64) -> Self {
        Self { least: number, most: number }
    }

    /// Whether it is known.
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

/// What one rank brings to an access.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where its bytes lie in the file.
    pub side: FileSide,
    /// Runs of its user memory.
    pub memory_runs: u64,
}

/// What an access meets: the same for all ranks.
#[derive(Debug, Clone)]
pub struct Setup {
    /// To the file or from it.
    pub direction: Direction,
    /// Whether all ranks take part in one call. If not, each acts alone.
    pub is_collective: bool,
    /// Which collectives are aggregated.
    pub hints: PlanHints,
    /// Whether storage is memory.
    pub in_memory: bool,
    /// Whether ranks that read alone have to wait for the storage.
    pub heat: Heat,
    /// The node of each rank.
    pub node_of: Vec<usize>,
    /// How many ranks of each node are aggregators. A node may have none, if another has some.
    pub aggregators: Vec<usize>,
    /// Bytes of an aggregator's window.
    pub window_bytes: u64,
    /// Bytes of shared memory that each rank has for one window: `window_bytes`, or more if another file asked for more.
    pub buffer_bytes: u64,
    /// Bytes of a stripe, 0 for none.
    pub stripe_bytes: u64,
    /// Whether nodes may move bytes of the file for each other.
    pub may_exchange: bool,
}

impl Setup {
    /// How many nodes there are.
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

    /// Bytes of shared memory of a node of `ranks` ranks for their windows, two each, among several nodes with as much again for what
    /// is sent and received, and the maps of the windows.
    pub fn shared_bytes(&self, ranks: usize) -> u64 {
        let windows = if self.nodes() > 1 { 4 } else { 2 };
        let bytes = (ranks as u64).saturating_mul(windows).saturating_mul(self.buffer_bytes);
        bytes.saturating_add(bytes / 8)
    }
}

/// How much is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Parts that ranks have in windows.
    pub shares: u64,
    /// Runs of the file.
    pub runs: u64,
}

impl Default for Limits {
    /// Some seconds and some hundred MiB.
    fn default() -> Self {
        Self { shares: 2_000_000, runs: 50_000_000 }
    }
}

/// What one rank does that acts alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    /// How.
    pub way: Way,
    /// Pieces handed to the driver: system calls, at most.
    pub pieces: Count,
    /// Batches that they are handed over in.
    pub batches: Count,
    /// Bytes copied between user memory and a buffer.
    pub copied_bytes: u64,
    /// Bytes of the buffer.
    pub buffer_bytes: u64,
}

/// Nodes that go through rounds together: all, or one by itself.
#[derive(Debug, Clone)]
pub struct Crew {
    /// Its nodes.
    pub nodes: Vec<usize>,
    /// Its rounds, as far as the limits go.
    pub rounds: Vec<Round>,
    /// What they take.
    pub totals: Totals,
    /// Whether those are all rounds.
    pub is_whole: bool,
    /// No more rounds than that.
    pub rounds_most: u64,
}

/// What ranks do that gather in windows.
#[derive(Debug, Clone)]
pub struct Together {
    /// How the windows lie.
    pub grid: Grid,
    /// Whether nodes exchange bytes: then all are one crew.
    pub exchanges: bool,
    /// Who goes through rounds together.
    pub crews: Vec<Crew>,
    /// Messages between nodes.
    pub messages: Count,
}

/// How an access is carried out.
#[derive(Debug, Clone)]
pub enum Course {
    /// Nothing is moved.
    Nothing,
    /// Each rank by itself.
    Alone(Vec<Alone>),
    /// In windows, round by round.
    Together(Together),
}

/// What carrying out an access will take.
#[derive(Debug, Clone)]
pub struct Outline {
    /// What the ranks agree on.
    pub agreed: Agreed,
    /// What they choose. `None` if there is nothing to choose: the access is independent.
    pub plan: Option<Plan>,
    /// What follows.
    pub course: Course,
}

/// Outlines an access.
///
/// # Panics
/// If there are not as many parts as ranks, or a rank is on no node.
pub fn outline(parts: &[Part], setup: &Setup, limits: Limits) -> Outline {
    assert_eq!(parts.len(), setup.node_of.len(), "every rank has a part and a node");
    assert!(setup.node_of.iter().all(|node| *node < setup.nodes()), "every rank is on a node");
    let summaries: Vec<Summary> = parts.iter().map(|part| Summary::of(&part.side)).collect();
    let agreed = Agreed::of(&summaries);
    let means = Means { window: true, in_memory: setup.in_memory };
    let plan = setup.is_collective.then(|| choose(setup.direction, &agreed, setup.hints, means));
    let course = match plan {
        Some(Plan::Nothing) => Course::Nothing,
        Some(Plan::TwoPhase(_)) => Course::Together(together(parts, setup, &agreed, limits)),
        Some(Plan::Independent(_)) | None => {
            // Between the bytes of one rank of a collective access there may be those of others.
            let holes = if setup.is_collective { Holes::Untouched } else { setup.hints.holes };
            let alone = |part| alone::outline(part, setup.direction, setup.heat, holes);
            Course::Alone(parts.iter().map(alone).collect())
        }
    };
    Outline { agreed, plan, course }
}

/// The aggregators of the windows of a round, in their order: by rank. A node by itself has at least one.
fn aggregators(setup: &Setup, ranks: &[Vec<usize>], nodes: &[usize], exchanges: bool) -> Vec<u32> {
    let least = usize::from(!exchanges);
    let of_node = |node: &usize| {
        let (ranks, count) = (&ranks[*node], setup.aggregators[*node].max(least));
        let rank = move |index| ranks[place_of(index, ranks.len(), count)] as u32;
        (0..count).map(rank).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of_node).collect()
}

/// First offset of any of these ranks and one past the last; empty if they have nothing.
fn span_of(parts: &[Part], ranks: &[usize]) -> Range<u64> {
    let spans = ranks.iter().map(|rank| parts[*rank].side.span());
    let spans = spans.filter(|span| !span.is_empty());
    spans.reduce(|all, span| all.start.min(span.start)..all.end.max(span.end)).unwrap_or(0..0)
}

fn together(parts: &[Part], setup: &Setup, agreed: &Agreed, limits: Limits) -> Together {
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
    // Where a node has no windows its bytes must go to others, wherever they lie.
    let has_idle = nodes > 1 && setup.aggregators.contains(&0);
    let exchanges = setup.may_exchange && (has_idle || !in_order);
    let crews: Vec<Vec<usize>> =
        if exchanges { vec![(0..nodes).collect()] } else { (0..nodes).map(|node| vec![node]).collect() };
    let mut left = limits;
    let crews: Vec<Crew> = crews
        .into_iter()
        .map(|nodes| rounds::walk(parts, setup, (grid, &ranks), nodes, exchanges, &mut left))
        .collect();
    let messages = messages(setup, exchanges, &crews);
    Together { grid, exchanges, crews, messages }
}

/// Messages between leaders: a reduction for each step, of which the first is the survey, and for each pair of nodes that meet
/// in a round a request, a receipt and for a read a reply.
fn messages(setup: &Setup, exchanges: bool, crews: &[Crew]) -> Count {
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
