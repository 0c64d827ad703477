//! The plan estimate agrees with the executors: each access is estimated, and then carried out with
//! counters.

#[path = "nodes/placement.rs"]
mod placement;
#[path = "nodes/scenario.rs"]
#[allow(dead_code, reason = "shared with the tests of several nodes")]
mod scenario;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_plan::estimate::{
    CollectiveSteps, Count, Estimate, Limits, NodeSet, RankPart, Setup, Steps, estimate,
};
use capulet_plan::{CacheState, CollectiveMode, PlanHints};
use capulet_sieve::{Access, Counters, Direction, Holes, Memory, Sieves, Target, independent};
use proptest::prelude::*;

use scenario::{Call, FILE_BYTES, Outcomes, Scenario, Shape, contents, expected, file_of, plain, run};

const ALWAYS: PlanHints =
    PlanHints { read: CollectiveMode::Enable, write: CollectiveMode::Enable, holes: Holes::Untouched };

fn shape() -> impl Strategy<Value = Shape> {
    let runs = prop::collection::vec((1usize..150, 1usize..120), 0..60).prop_map(|pairs| {
        let mut at = 0;
        let run = |(gap, len): (usize, usize)| {
            let start = at + gap;
            at = start + len;
            (start, len)
        };
        Shape::Runs(pairs.into_iter().map(run).collect())
    });
    let row = (0usize..2000, 0usize..200, 1usize..20, 0usize..60)
        .prop_map(|(start, count, len, gap)| Shape::Row { start, count, len, stride: len + gap });
    prop_oneof![runs, row]
}

/// Ranks that write no byte twice: they alternate in a row, or each rank has its own parts of the file.
fn apart(ranks: usize) -> impl Strategy<Value = Vec<Shape>> {
    let row = (0usize..500, 0usize..300, 1usize..12).prop_map(move |(start, count, len)| {
        let row = |rank: usize| Shape::Row { start: start + rank * len, count, len, stride: ranks * len };
        (0..ranks).map(row).collect::<Vec<_>>()
    });
    let lists = prop::collection::vec((0..ranks, 0usize..30, 1usize..40), 0..300).prop_map(move |runs| {
        let (mut at, mut lists) = (0, vec![Vec::new(); ranks]);
        for (rank, gap, len) in runs {
            lists[rank].push((at + gap, len));
            at += gap + len;
        }
        lists.into_iter().map(Shape::Runs).collect::<Vec<_>>()
    });
    prop_oneof![row, lists]
}

fn scenarios(is_apart: bool) -> impl Strategy<Value = Scenario> {
    let placement = prop_oneof![
        (1usize..4, 1usize..4).prop_map(|(nodes, each)| (0..nodes * each).map(|rank| rank / each).collect()),
        (1usize..4, 1usize..4).prop_map(|(nodes, each)| (0..nodes * each).map(|rank| rank % nodes).collect()),
    ];
    let placement = placement.prop_map(|placement: Vec<usize>| placement);
    let shapes = placement.prop_flat_map(move |placement| {
        let ranks = placement.len();
        let shapes =
            if is_apart { apart(ranks).boxed() } else { prop::collection::vec(shape(), ranks).boxed() };
        (Just(placement), shapes)
    });
    let unit = prop::sample::select(vec![1usize, 4, 8, 64]);
    let buffer = prop::sample::select(vec![64u64, 300, 512, 4096, 12_288]);
    // A node may have no aggregator if another node has one.
    let aggregators = (prop::collection::vec(0usize..4, 9), any::<bool>()).prop_map(|(mut counts, all)| {
        for count in &mut counts {
            *count = (*count).max(usize::from(all));
        }
        counts[0] = counts[0].max(1);
        counts
    });
    (shapes, aggregators, buffer, unit, any::<bool>(), any::<bool>(), (0usize..6, any::<bool>())).prop_map(
        |(
            (placement, shapes),
            aggregators,
            collective_buffer_bytes,
            unit,
            reads,
            is_spread,
            (withheld, is_promised),
        )| {
            let direction = if reads { Direction::Read } else { Direction::Write };
            let ranks = placement.len();
            let may_exchange = (0..ranks).map(|node| node != withheld).collect();
            Scenario {
                aggregators,
                collective_buffer_bytes,
                calls: vec![Call { direction, unit, is_spread, shapes }],
                schedule: (0..ranks).collect(),
                holes: if is_promised { Holes::Rewritten } else { Holes::Untouched },
                seed: 7,
                may_exchange,
                without: None,
                is_surveyed: false,
                placement,
            }
        },
    )
}

/// The plan estimate of the only call of a scenario.
fn estimate_of(scenario: &Scenario, hints: PlanHints, limits: Limits) -> Estimate {
    let call = &scenario.calls[0];
    let part = |rank: usize| {
        let mut memory = vec![0; call.bytes_of(rank).count() * call.step()];
        let access = call.access(rank, &mut memory);
        RankPart { side: access.side().clone(), memory_runs: access.memory_run_count() }
    };
    let parts: Vec<RankPart> = (0..scenario.ranks()).map(part).collect();
    let nodes = scenario.node_count();
    let setup = Setup {
        direction: call.direction,
        is_collective: true,
        hints: PlanHints { holes: scenario.holes, ..hints },
        in_memory: false,
        cache_state: CacheState::Cached,
        node_of: scenario.placement.clone(),
        aggregators: placement::aggregators_of(&scenario.placement, &scenario.aggregators),
        collective_buffer_bytes: scenario.collective_buffer_bytes,
        // One of four parts of the shared memory. The data of a simulated buffer has a power of two of
        // bytes, and at least a page.
        allocated_bytes: (4 * scenario.collective_buffer_bytes).max(4096).next_power_of_two() / 4,
        stripe_bytes: 0,
        may_exchange: scenario.may_exchange[..nodes].iter().all(|may| *may),
    };
    estimate(&parts, &setup, limits)
}

fn run_checked(scenario: &Scenario) -> Outcomes {
    let file = file_of(&MemDriver::new());
    let (mut buffers, after, expected) = expected(scenario);
    let outcomes = run(scenario, &vec![file.clone(); scenario.ranks()], &mut buffers, &plain);
    // If the nodes may not exchange, overlapping writes of different nodes have no order.
    let is_ordered = scenario.may_exchange[..scenario.node_count()].iter().all(|may| *may);
    assert!(!is_ordered || (contents(file.as_ref()) == expected && buffers == after));
    outcomes
}

fn sum(outcomes: &Outcomes, count: fn(&Counters) -> &AtomicU64) -> u64 {
    outcomes.counters.iter().map(|counters| Counters::get(count(counters))).sum()
}

fn together(estimate: &Estimate) -> Option<&CollectiveSteps> {
    match &estimate.steps {
        Steps::Collective(together) => Some(together),
        Steps::Nothing => None,
        Steps::Independent(_) => panic!("the hints enforce two-phase"),
    }
}

fn total(together: &CollectiveSteps, count: fn(&NodeSet) -> Count) -> Count {
    together.node_sets.iter().map(count).sum()
}

/// Checks that the counters are equal to the estimate, or within its bounds.
fn agree(scenario: &Scenario, together: &CollectiveSteps, outcomes: &Outcomes) {
    let ranks = |node_set: &NodeSet| {
        node_set.nodes.iter().map(|node| scenario.ranks_of(*node).len() as u64).sum::<u64>()
    };
    let rounds: u64 =
        together.node_sets.iter().map(|node_set| node_set.totals.rounds * ranks(node_set)).sum();
    assert!(
        together
            .node_sets
            .iter()
            .all(|node_set| node_set.is_whole && node_set.rounds_most == node_set.totals.rounds)
    );
    let is_split = together.node_sets.iter().any(|node_set| node_set.totals.is_split);
    let is_read = scenario.calls[0].direction == Direction::Read;
    if !(is_split && is_read) {
        // A read that requests the rest of a round may learn of the next round earlier.
        assert_eq!(sum(outcomes, |counters| &counters.rounds), rounds);
        let pieces = total(together, |node_set| node_set.totals.pieces);
        let batches = total(together, |node_set| node_set.totals.batches);
        assert_eq!(pieces, Count::exactly(sum(outcomes, |counters| &counters.pieces)));
        assert_eq!(batches, Count::exactly(sum(outcomes, |counters| &counters.batches)));
    }
    let copied = total(together, |node_set| node_set.totals.copied_bytes);
    assert!(copied.allows(sum(outcomes, |counters| &counters.copied_bytes)), "{copied:?}");
    let exchanged = total(together, |node_set| node_set.totals.exchanged_bytes);
    let bytes = sum(outcomes, |counters| &counters.exchanged_bytes);
    assert!(exchanged.allows(bytes), "{exchanged:?} {bytes}");
    assert!(
        together.messages.allows(outcomes.messages[0]),
        "{:?} {:?}",
        together.messages,
        outcomes.messages
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn estimate_is_exact_for_ranks_that_do_not_overlap(scenario in scenarios(true)) {
        let estimate = estimate_of(&scenario, ALWAYS, Limits::default());
        let outcomes = run_checked(&scenario);
        let Some(together) = together(&estimate) else { return Ok(()) };
        agree(&scenario, together, &outcomes);
        let payload: usize = (0..scenario.ranks()).map(|rank| scenario.calls[0].bytes_of(rank).count()).sum();
        let is_split = together.node_sets.iter().any(|node_set| node_set.totals.is_split);
        prop_assert_eq!(total(together, |node_set| node_set.totals.copied_bytes), Count::exactly(payload as u64));
        prop_assert!(is_split || together.messages.is_exact());
        prop_assert!(is_split || total(together, |node_set| node_set.totals.exchanged_bytes).is_exact());
        let shares = together.node_sets.iter().flat_map(|node_set| &node_set.rounds).flat_map(|round| &round.buffers);
        let shares: u64 = shares.flat_map(|buffer| &buffer.shares)
            .map(|share| share.part.end - share.part.start).sum();
        prop_assert_eq!(shares, payload as u64);
    }

    #[test]
    fn estimate_bounds_ranks_that_may_overlap(scenario in scenarios(false)) {
        let estimate = estimate_of(&scenario, ALWAYS, Limits::default());
        let outcomes = run_checked(&scenario);
        if let Some(together) = together(&estimate) {
            agree(&scenario, together, &outcomes);
        }
    }

    #[test]
    fn estimate_cut_by_limits_bounds_the_whole_one(
        scenario in scenarios(true),
        shares in 1u64..40,
        runs in 0u64..200,
    ) {
        let whole = estimate_of(&scenario, ALWAYS, Limits::default());
        let cut = estimate_of(&scenario, ALWAYS, Limits { shares, runs });
        let (Some(whole), Some(cut)) = (together(&whole), together(&cut)) else { return Ok(()) };
        for (whole, cut) in whole.node_sets.iter().zip(&cut.node_sets) {
            prop_assert!(cut.totals.rounds <= whole.totals.rounds);
            prop_assert!(cut.rounds_most >= whole.totals.rounds);
            if cut.is_whole {
                prop_assert!(cut.totals.pieces.allows(whole.totals.pieces.least));
                prop_assert!(cut.totals.batches.allows(whole.totals.batches.least));
                prop_assert!(cut.totals.copied_bytes.allows(whole.totals.copied_bytes.least));
                prop_assert!(
                    cut.totals.is_split
                        || cut.totals.exchanged_bytes.allows(whole.totals.exchanged_bytes.least)
                );
            }
        }
        prop_assert!(cut.messages.allows(whole.messages.least));
    }

    #[test]
    fn estimate_holds_for_an_independent_access(
        shape in shape(),
        (unit, is_spread, reads) in (prop::sample::select(vec![1usize, 8, 64]), any::<bool>(), any::<bool>()),
    ) {
        let direction = if reads { Direction::Read } else { Direction::Write };
        let call = Call { direction, unit, is_spread, shapes: vec![shape] };
        let mut memory = vec![1; call.bytes_of(0).count() * call.step()];
        let access = call.access(0, &mut memory);
        alone(&access, direction, FILE_BYTES as u64);
    }
}

/// Carries an access out and compares the counters with the estimate.
fn alone(access: &Access, direction: Direction, file_bytes: u64) -> independent::Way {
    let part = RankPart { side: access.side().clone(), memory_runs: access.memory_run_count() };
    let setup = Setup {
        direction,
        is_collective: false,
        hints: PlanHints::default(),
        in_memory: false,
        cache_state: CacheState::Cached,
        node_of: vec![0],
        aggregators: vec![1],
        collective_buffer_bytes: 1 << 20,
        allocated_bytes: 1 << 20,
        stripe_bytes: 0,
        may_exchange: true,
    };
    let estimate = estimate(&[part], &setup, Limits::default());
    assert_eq!(estimate.plan, None);
    let Steps::Independent(ranks) = &estimate.steps else { panic!("the access is independent") };
    let counters = Arc::new(Counters::default());
    let file = file_of(&MemDriver::new());
    file.set_len(file_bytes).expect("the file in memory grows");
    let target = Target {
        file,
        isolation: None,
        counters: counters.clone(),
        holes: Holes::Untouched,
        sieves: Sieves::default(),
    };
    let done = independent::run(&target, access, direction);
    assert!(done.error.is_none() && done.bytes == access.bytes());
    let [pieces, batches, copied] =
        [&counters.pieces, &counters.batches, &counters.copied_bytes].map(Counters::get);
    let estimated = &ranks[0];
    assert!(
        estimated.pieces.allows(pieces) && estimated.batches.allows(batches),
        "{estimated:?}: {pieces}, {batches}"
    );
    assert_eq!(estimated.copied_bytes, copied, "{estimated:?}");
    assert_eq!(estimated.way, independent::choose(access, direction, CacheState::Cached, Holes::Untouched));
    estimated.way
}

/// Variables that alternate in memory: chunks of several variables are moved together.
fn alternating() -> independent::Way {
    let double = Datatype::named(Named::Double);
    let (variables, cells) = (24, 20_480);
    let array =
        Datatype::contiguous(cells, &Datatype::resized(0, 192, &double).expect("the datatype is valid"))
            .expect("the datatype is valid");
    let memory = Datatype::hvector(variables, 1, 8, &array).expect("the datatype is valid");
    let view = Datatype::vector(variables, cells, 4 * cells as i64, &double).expect("the datatype is valid");
    let tiled = |datatype: &Datatype| Tiled::new(datatype.layout().clone(), 1).expect("the tiling is small");
    let mut bytes = vec![0_u8; 192 * cells as usize];
    // SAFETY: `# Safety` of `Memory::new`: `memory` reaches no byte beyond `bytes`, which outlives the
    // access.
    let user = unsafe { Memory::new(bytes.as_mut_ptr(), tiled(&memory)) };
    let access =
        Access::new(0, &tiled(&view), 0, user, 8 * variables * cells).expect("the offsets are small");
    alone(&access, Direction::Write, access.span().end)
}

/// Accesses that take more than one buffer, in each way.
#[test]
fn estimate_holds_for_long_independent_accesses() {
    let byte = Datatype::named(Named::Byte);
    let mut ways = Vec::new();
    for (count, block, stride, memory_step) in
        [(3_000, 500, 700, 1), (60, 500, 900_000, 2), (20, 4096, 900_000, 2), (90_000, 8, 64, 1)]
    {
        let vector = Datatype::hvector(count, block, stride, &byte).expect("the datatype is valid");
        let view = Tiled::new(vector.layout().clone(), 1).expect("the tiling is small");
        let element = Datatype::resized(0, memory_step, &byte).expect("the datatype is valid");
        let tiled = Tiled::new(element.layout().clone(), count * block).expect("the tiling is small");
        let mut memory = vec![0; (count * block * memory_step as u64) as usize];
        for direction in [Direction::Read, Direction::Write] {
            // SAFETY: `# Safety` of `Memory::new`: the layout has as many bytes as `memory`, which
            // outlives the access.
            let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled.clone()) };
            let access = Access::new(0, &view, 0, user, count * block).expect("the offsets are small");
            ways.push(alone(&access, direction, access.span().end));
        }
    }
    ways.push(alternating());
    for way in [independent::Way::List, independent::Way::Packed, independent::Way::SieveBuffer] {
        assert!(ways.contains(&way), "{ways:?}");
    }
}
