//! The plan estimate: what an access takes before it is carried out. The estimate names the ranks that
//! move bytes, the rounds, and the cost.
//!
//! [`estimate()`] makes an [`Estimate`] from the parts of all ranks and the settings in force ([`Setup`]).
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

mod count;
mod exchange;
mod independent;
mod rounds;
mod setup;
mod values;

use crate::Direction;
use crate::choice::{Agreed, Plan, Resources, Summary, choose};
use crate::grid::{Grid, gathers_per_node, shared_bytes};
use crate::way::Holes;
use crate::wire::DIRECT_NODES_MAX;

pub use count::Count;
use setup::span_of;
pub use setup::{Limits, RankPart, Setup};
pub use values::{
    BufferEstimate, CollectiveSteps, Estimate, IndependentSteps, NodeSet, Round, Share, Steps, Totals,
};

/// Estimates what an access takes. Pure.
///
/// # Panics
/// If the number of parts is not the number of ranks, or a rank is on no node.
pub fn estimate(parts: &[RankPart], setup: &Setup, limits: Limits) -> Estimate {
    assert_eq!(parts.len(), setup.node_of.len(), "every rank has a part and a node");
    assert!(setup.node_of.iter().all(|node| *node < setup.nodes()), "every rank is on a node");
    let summaries: Vec<Summary> = parts.iter().map(|part| Summary::of(&part.side)).collect();
    let agreed = Agreed::of(&summaries);
    let resources = Resources { shared_memory: true, in_memory: setup.in_memory };
    let plan = setup.is_collective.then(|| choose(setup.direction, &agreed, setup.hints, resources));
    let steps = match plan {
        Some(Plan::Nothing) => Steps::Nothing,
        Some(Plan::TwoPhase(_)) => Steps::Collective(two_phase(parts, setup, &agreed, limits)),
        Some(Plan::Independent(_)) | None => {
            // Between the runs of one rank of a collective access there may be runs of other ranks.
            let holes = if setup.is_collective { Holes::Untouched } else { setup.hints.holes };
            let estimate = |part| independent::estimate(part, setup.direction, setup.cache_state, holes);
            Steps::Independent(parts.iter().map(estimate).collect())
        }
    };
    Estimate { agreed, plan, steps }
}

fn two_phase(parts: &[RankPart], setup: &Setup, agreed: &Agreed, limits: Limits) -> CollectiveSteps {
    let grid =
        Grid::new(setup.collective_buffer_bytes, setup.allocated_bytes, setup.stripe_bytes, agreed.grain);
    let nodes = setup.nodes();
    let mut before = 0..0;
    let mut shared = Some(0_u64);
    let ranks = setup.ranks_by_node();
    for ranks in &ranks {
        let span = span_of(parts, ranks);
        let more = shared_bytes(&before, &span);
        shared = shared.zip(more).map(|(shared, more)| shared.saturating_add(more));
        if before.is_empty() {
            before = span;
        } else if !span.is_empty() {
            before = before.start.min(span.start)..before.end.max(span.end);
        }
    }
    // The bytes of a node without collective buffers must go to other nodes, wherever they lie.
    let has_idle = nodes > 1 && setup.aggregators.contains(&0);
    let gathers_per_node = gathers_per_node(setup.direction, shared, before.end - before.start);
    let exchanges = setup.may_exchange && (has_idle || !gathers_per_node);
    let node_sets: Vec<Vec<usize>> =
        if exchanges { vec![(0..nodes).collect()] } else { (0..nodes).map(|node| vec![node]).collect() };
    let mut left = limits;
    let node_sets: Vec<NodeSet> = node_sets
        .into_iter()
        .map(|nodes| rounds::walk(parts, setup, (grid, &ranks), nodes, exchanges, &mut left))
        .collect();
    let messages = count_messages(setup, exchanges, &node_sets);
    CollectiveSteps { grid, exchanges, node_sets, messages }
}

/// Messages between leaders: a reduction for each step, of which the first is the survey, and the messages
/// for each pair of nodes that meet in a round. A few leaders reduce directly: a write then has one request
/// from each leader to each other in a round, a read a request and a reply for each pair that meets. More
/// leaders reduce along a tree, and have a receipt for each request.
fn count_messages(setup: &Setup, exchanges: bool, node_sets: &[NodeSet]) -> Count {
    let nodes = setup.nodes() as u64;
    let is_direct = nodes <= DIRECT_NODES_MAX;
    let reduction = if is_direct { nodes * (nodes - 1) } else { 2 * (nodes - 1) };
    if nodes == 1 || !exchanges {
        return Count::exactly(reduction);
    }
    let totals = &node_sets[0].totals;
    let data = match (setup.direction, is_direct) {
        (Direction::Write, true) => totals.rounds.saturating_mul(reduction),
        (Direction::Write, false) | (Direction::Read, true) => totals.pairs.saturating_mul(2),
        (Direction::Read, false) => totals.pairs.saturating_mul(3),
    };
    let steps = 1 + totals.rounds + 1;
    let known = (reduction * steps).saturating_add(data);
    let is_exact = node_sets[0].is_whole && !totals.is_split && !totals.is_overlapped;
    Count { least: known, most: if is_exact { known } else { u64::MAX } }
}
