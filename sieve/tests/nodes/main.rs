//! Two-phase operations among several nodes, polled by one thread in the order of a seeded schedule.
//! Messages between nodes arrive in an order that another seed decides.
//!
//! The oracle is an array of bytes. It applies the operations one after the other, and in each write the
//! ranks in order.

mod faulty_leaders;
mod placement;
mod scenario;
mod timed_leaders;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capulet_comm::Leaders;
use capulet_comm::local::LocalLeaders;
use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Direction, Driver, OpenOptions};
use capulet_sieve::{Counters, Holes};
use proptest::prelude::*;

use faulty_leaders::{FaultyLeaders, MessageFault};
use scenario::{Call, FILE_BYTES, Scenario, Shape, contents, expected, file_of, first_contents, plain, run};

/// Runs of one rank in units, from alternating gaps and lengths.
fn runs() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((1usize..150, 1usize..120), 0..80).prop_map(|pairs| {
        let mut at = 0;
        let run = |(gap, len): (usize, usize)| {
            let start = at + gap;
            at = start + len;
            (start, len)
        };
        pairs.into_iter().map(run).collect()
    })
}

fn shapes() -> impl Strategy<Value = Shape> {
    let row = (0usize..2000, 0usize..200, 1usize..20, 0usize..60)
        .prop_map(|(start, count, len, gap)| Shape::Row { start, count, len, stride: len + gap });
    prop_oneof![runs().prop_map(Shape::Runs), row]
}

/// Shapes without overlap: the ranks alternate in a row of runs.
fn interleaved(ranks: usize) -> impl Strategy<Value = Vec<Shape>> {
    (0usize..500, 0usize..300, 1usize..12).prop_map(move |(start, count, len)| {
        (0..ranks)
            .map(|rank| Shape::Row { start: start + rank * len, count, len, stride: ranks * len })
            .collect()
    })
}

fn calls(ranks: usize) -> impl Strategy<Value = Vec<Call>> {
    let shapes = prop_oneof![
        2 => prop::collection::vec(shapes(), ranks).boxed(),
        1 => interleaved(ranks).boxed(),
    ];
    let unit = prop::sample::select(vec![1usize, 1, 4, 8, 64]);
    let call = (any::<bool>(), unit, any::<bool>(), shapes).prop_map(|(reads, unit, is_spread, shapes)| {
        let direction = if reads { Direction::Read } else { Direction::Write };
        Call { direction, unit, is_spread, shapes }
    });
    prop::collection::vec(call, 1..4)
}

/// Consecutive ranks on each node, or ranks dealt to the nodes one by one, or any placement.
fn placements() -> impl Strategy<Value = Vec<usize>> {
    (1usize..8).prop_flat_map(|ranks| {
        (1..=ranks).prop_flat_map(move |nodes| {
            let any = prop::collection::vec(0..nodes, ranks).prop_map(move |mut placement| {
                // every node has a rank, and nodes are numbered by their first ranks
                (0..nodes).for_each(|node| placement[node] = node);
                placement
            });
            prop_oneof![
                Just((0..ranks).map(|rank| rank * nodes / ranks).collect::<Vec<_>>()),
                Just((0..ranks).map(|rank| rank % nodes).collect()),
                any,
            ]
        })
    })
}

/// By node. A node without aggregators only sends and receives.
fn aggregators() -> impl Strategy<Value = Vec<usize>> {
    let same = (1usize..5).prop_map(|count| vec![count; 8]);
    let each = prop::collection::vec(prop::sample::select(vec![0usize, 0, 1, 2, 4]), 8);
    prop_oneof![same, each]
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (placements(), aggregators(), 0u32..4, any::<u32>()).prop_flat_map(
        |(placement, aggregators, size, seed)| {
            let nodes = placement.iter().max().expect("there is a rank") + 1;
            let mut aggregators = aggregators;
            aggregators.truncate(nodes);
            if aggregators.iter().all(|count| *count == 0) {
                aggregators[seed as usize % nodes] = 1;
            }
            let ranks = placement.len();
            (calls(ranks), prop::collection::vec(0..ranks, 1..40)).prop_map(move |(calls, mut schedule)| {
                schedule.extend(0..ranks);
                let collective_buffer_bytes = 1024 << size;
                let (placement, aggregators) = (placement.clone(), aggregators.clone());
                let may_exchange = vec![true; placement.len()];
                Scenario {
                    placement,
                    aggregators,
                    collective_buffer_bytes,
                    calls,
                    schedule,
                    holes: if seed % 2 == 0 { Holes::Untouched } else { Holes::Rewritten },
                    seed: seed.into(),
                    without: None,
                    may_exchange,
                    is_surveyed: seed % 3 == 0,
                }
            })
        },
    )
}

/// The number of cases, from `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn operations_take_effect_in_order_and_overlaps_in_rank_order(scenario in scenarios()) {
        let file = file_of(&MemDriver::new());
        let (mut buffers, after, expected) = expected(&scenario);
        let outcomes = run(&scenario, &vec![file.clone(); scenario.ranks()], &mut buffers, &plain);
        for (rank, calls) in outcomes.calls.iter().enumerate() {
            for (call, (bytes, failed)) in calls.iter().enumerate() {
                prop_assert!(!failed);
                prop_assert_eq!(*bytes, scenario.calls[call].bytes_of(rank).count() as u64);
            }
        }
        prop_assert!(contents(file.as_ref()) == expected);
        prop_assert!(buffers == after);
    }

    #[test]
    fn fault_ends_the_operation_on_all_ranks_with_correct_counts(
        scenario in scenarios(),
        at in 0u32..60,
        where_ in 0usize..8,
    ) {
        let scenario = Scenario { calls: scenario.calls[..1].to_vec(), ..scenario };
        let driver = Arc::new(MemDriver::new());
        let file = file_of(driver.as_ref());
        let plan = FaultPlan::parse(&format!("write@{at}:nospace;read@{at}:io"))
            .expect("the fault plan is valid");
        let faulty = Faulty::new(driver, plan).open("scenario".as_ref(), &OpenOptions::read_write())
            .expect("the file opens");
        let mut files = vec![file.clone(); scenario.ranks()];
        let where_ = where_ % scenario.ranks();
        files[where_] = faulty;
        let (mut buffers, after, expected) = expected(&scenario);
        let outcomes = run(&scenario, &files, &mut buffers, &plain);
        let call = &scenario.calls[0];
        let is_fault = outcomes.calls[where_][0].1;
        let written = contents(file.as_ref());
        for rank in 0..scenario.ranks() {
            let (bytes, own_failure) = outcomes.calls[rank][0];
            prop_assert!(!own_failure || rank == where_);
            let all = call.bytes_of(rank).count() as u64;
            prop_assert!(bytes <= all && (is_fault || bytes == all));
            let good = bytes as usize * call.step();
            prop_assert!(buffers[0][rank][..good] == after[0][rank][..good]);
            for at in call.bytes_of(rank).take(bytes as usize) {
                prop_assert_eq!(written[at], expected[at]);
            }
        }
        // A byte that no write covers has its old value.
        let mut asked = vec![false; FILE_BYTES];
        if call.direction == Direction::Write {
            (0..scenario.ranks()).for_each(|rank| call.bytes_of(rank).for_each(|at| asked[at] = true));
        }
        for (at, first) in first_contents().into_iter().enumerate() {
            prop_assert!(asked[at] || written[at] == first);
        }
    }

    #[test]
    fn short_file_gives_each_rank_the_bytes_before_its_end(
        scenario in scenarios(),
        keep in 0usize..FILE_BYTES,
    ) {
        let mut call = scenario.calls[0].clone();
        call.direction = Direction::Read;
        let scenario = Scenario { calls: vec![call], ..scenario };
        let file = file_of(&MemDriver::new());
        file.set_len(keep as u64).expect("the file in memory is truncated");
        let (mut buffers, after, _) = expected(&scenario);
        let untouched = buffers.clone();
        let outcomes = run(&scenario, &vec![file; scenario.ranks()], &mut buffers, &plain);
        for rank in 0..scenario.ranks() {
            let call = &scenario.calls[0];
            let there = call.bytes_of(rank).filter(|at| *at < keep).count();
            prop_assert_eq!(outcomes.calls[rank][0], (there as u64, false));
            let good = there * call.step();
            prop_assert!(buffers[0][rank][..good] == after[0][rank][..good]);
            prop_assert!(buffers[0][rank][good..] == untouched[0][rank][good..]);
        }
    }

    #[test]
    fn all_ranks_return_after_a_modified_request(
        scenario in scenarios(),
        at in 0usize..30,
        place in 0usize..300,
        with in 1u8..=255,
    ) {
        let scenario = Scenario { calls: scenario.calls[..1].to_vec(), ..scenario };
        let file = file_of(&MemDriver::new());
        let (mut buffers, _, _) = expected(&scenario);
        let seen = Arc::new(AtomicUsize::new(0));
        let wrap = |end: Arc<LocalLeaders>| -> Arc<dyn Leaders> {
            let fault = MessageFault::Request { at, place, with };
            Arc::new(FaultyLeaders { end, seen: seen.clone(), fault })
        };
        let outcomes = run(&scenario, &vec![file; scenario.ranks()], &mut buffers, &wrap);
        for (rank, calls) in outcomes.calls.iter().enumerate() {
            prop_assert!(calls[0].0 <= scenario.calls[0].bytes_of(rank).count() as u64);
        }
        prop_assert!(outcomes.is_one_outcome(), "some ranks agree on the outcome, others do not");
    }

    #[test]
    fn broken_channel_is_an_error_and_not_a_hang(scenario in scenarios(), at in 0usize..60, then in 1usize..9) {
        let scenario = Scenario { calls: scenario.calls[..1].to_vec(), ..scenario };
        let file = file_of(&MemDriver::new());
        let (mut buffers, _, expected) = expected(&scenario);
        let seen = Arc::new(AtomicUsize::new(0));
        let wrap = |end: Arc<LocalLeaders>| -> Arc<dyn Leaders> {
            Arc::new(FaultyLeaders { end, seen: seen.clone(), fault: MessageFault::Break { at: [at, at + then] } })
        };
        let outcomes = run(&scenario, &vec![file.clone(); scenario.ranks()], &mut buffers, &wrap);
        let is_broken = seen.load(Ordering::Relaxed) > at;
        let failed = outcomes.calls.iter().any(|calls| calls[0].1);
        prop_assert_eq!(failed, is_broken);
        prop_assert!(outcomes.is_one_outcome(), "some ranks agree on the outcome, others do not");
        let written = contents(file.as_ref());
        for (rank, calls) in outcomes.calls.iter().enumerate() {
            for at in scenario.calls[0].bytes_of(rank).take(calls[0].0 as usize) {
                prop_assert_eq!(written[at], expected[at]);
            }
        }
    }
}

/// Ranks that alternate in a row of runs. `placement` has the node of each rank, and `count` is the
/// number of runs of each rank.
fn rows(placement: Vec<usize>, direction: Direction, count: usize) -> Scenario {
    let (ranks, len) = (placement.len(), 8);
    let shapes = (0..ranks).map(|rank| Shape::Row { start: rank * len, count, len, stride: ranks * len });
    let call = Call { direction, unit: 1, is_spread: false, shapes: shapes.collect() };
    let schedule = (0..ranks).collect();
    let (aggregators, may_exchange) = (vec![ranks; ranks], vec![true; ranks]);
    Scenario {
        placement,
        aggregators,
        collective_buffer_bytes: 1024,
        calls: vec![call],
        schedule,
        holes: Holes::Untouched,
        seed: 3,
        without: None,
        may_exchange,
        is_surveyed: false,
    }
}

#[test]
fn each_pair_of_nodes_exchanges_one_request_per_round() {
    for (placement, nodes) in [(vec![0, 0, 1, 1], 2), (vec![0, 1, 2, 0, 1, 2], 3)] {
        for direction in [Direction::Write, Direction::Read] {
            // Each round has the collective buffers of all ranks, and all of them are full.
            let (rounds, ranks) = (3_u64, placement.len());
            let scenario = rows(placement.clone(), direction, rounds as usize * 1024 / 8);
            let file = file_of(&MemDriver::new());
            let (mut buffers, after, expected) = expected(&scenario);
            let outcomes = run(&scenario, &vec![file.clone(); ranks], &mut buffers, &plain);
            assert!(contents(file.as_ref()) == expected && buffers == after);
            let sum = |count: fn(&Counters) -> &std::sync::atomic::AtomicU64| -> u64 {
                outcomes.counters.iter().map(|counters| Counters::get(count(counters))).sum()
            };
            let pairs = nodes * (nodes - 1);
            let is_read = u64::from(direction == Direction::Read);
            assert_eq!(sum(|counters| &counters.rounds), rounds * ranks as u64);
            assert_eq!(sum(|counters| &counters.exchange_messages), rounds * pairs * (1 + is_read));
            // Each step has a direct reduction, and each request of a read a reply. The first step is the
            // survey.
            let steps = 1 + rounds + 1;
            let messages = pairs * steps + rounds * pairs * (1 + is_read);
            assert_eq!(outcomes.messages, [messages]);
            // Each byte is copied once from user memory, to whatever node it goes.
            let payload = rounds * 1024 * ranks as u64;
            assert_eq!(sum(|counters| &counters.copied_bytes), payload);
            let remote = payload * (nodes - 1) / nodes;
            let exchanged = sum(|counters| &counters.exchanged_bytes);
            assert!(exchanged >= remote && exchanged < remote + rounds * pairs * 2 * 200, "{exchanged}");
        }
    }
}

/// Nodes without collective buffers send all their bytes, and get no request.
#[test]
fn node_without_aggregators_moves_no_bytes_of_the_file() {
    for (aggregators, owners) in
        [(vec![2, 0, 0], 1), (vec![0, 2, 0], 1), (vec![1, 0, 1], 2), (vec![0, 0, 1], 1)]
    {
        for direction in [Direction::Write, Direction::Read] {
            let (placement, nodes) = (vec![0, 1, 2, 0, 1, 2], 3_u64);
            let buffers: u64 = aggregators.iter().map(|count| *count as u64).sum();
            // The rounds that fill the collective buffers of all nodes. Each round has bytes of all
            // ranks.
            let (rounds, ranks) = (4_u64, placement.len());
            let count = (rounds * buffers) as usize * 1024 / (8 * ranks);
            let mut scenario = rows(placement, direction, count);
            scenario.aggregators = aggregators.clone();
            let file = file_of(&MemDriver::new());
            let (mut buffers, after, expected) = expected(&scenario);
            let outcomes = run(&scenario, &vec![file.clone(); ranks], &mut buffers, &plain);
            assert!(contents(file.as_ref()) == expected && buffers == after);
            let of = |rank: usize, count: fn(&Counters) -> &std::sync::atomic::AtomicU64| -> u64 {
                Counters::get(count(&outcomes.counters[rank]))
            };
            let mut requests = 0;
            for rank in 0..ranks {
                let node = scenario.placement[rank];
                let is_owner = aggregators[node] > 0;
                assert_eq!(of(rank, |counters| &counters.rounds), rounds);
                let calls = of(rank, |counters| &counters.batches);
                assert!(is_owner || calls == 0, "{calls} calls at node {node} of {aggregators:?}");
                assert_eq!(of(rank, |counters| &counters.copied_bytes), count as u64 * 8);
                requests += of(rank, |counters| &counters.exchange_messages);
            }
            let pairs = owners * (nodes - 1);
            let is_read = u64::from(direction == Direction::Read);
            assert_eq!(requests, rounds * pairs * (1 + is_read));
        }
    }
}

/// The bytes of each node follow those of the node before, and go to collective buffers of another node
/// all the same.
#[test]
fn node_without_aggregators_sends_all_its_bytes() {
    let mut scenario = rows(vec![0, 0, 1, 1], Direction::Write, 200);
    scenario.aggregators = vec![1, 0];
    for (rank, shape) in scenario.calls[0].shapes.iter_mut().enumerate() {
        *shape = Shape::Row { start: (rank % 2) * 8 + (rank / 2) * 4000, count: 200, len: 8, stride: 16 };
    }
    let file = file_of(&MemDriver::new());
    let (mut buffers, _, expected) = expected(&scenario);
    let outcomes = run(&scenario, &vec![file.clone(); 4], &mut buffers, &plain);
    assert!(contents(file.as_ref()) == expected);
    assert!((2..4).all(|rank| Counters::get(&outcomes.counters[rank].batches) == 0));
    // Nodes that may not exchange move their own bytes, each by one rank.
    scenario.may_exchange[0] = false;
    let file = file_of(&MemDriver::new());
    let outcomes = run(&scenario, &vec![file.clone(); 4], &mut buffers, &plain);
    assert!(contents(file.as_ref()) == expected);
    let moves = |rank: usize| Counters::get(&outcomes.counters[rank].batches) > 0;
    assert_eq!((0..4).map(moves).collect::<Vec<_>>(), [true, false, true, false]);
}

#[test]
fn nodes_with_consecutive_bytes_send_only_the_survey() {
    let mut scenario = rows(vec![0, 0, 1, 1], Direction::Write, 200);
    for (rank, shape) in scenario.calls[0].shapes.iter_mut().enumerate() {
        *shape = Shape::Row { start: (rank % 2) * 8 + (rank / 2) * 4000, count: 200, len: 8, stride: 16 };
    }
    let file = file_of(&MemDriver::new());
    let (mut buffers, _, expected) = expected(&scenario);
    let outcomes = run(&scenario, &vec![file.clone(); 4], &mut buffers, &plain);
    assert!(contents(file.as_ref()) == expected);
    assert_eq!(outcomes.messages, [2]);
}

#[test]
fn one_node_that_may_not_exchange_stops_the_exchange() {
    for node in 0..2 {
        let mut scenario = rows(vec![0, 1, 0, 1], Direction::Write, 300);
        scenario.may_exchange[node] = false;
        // The holes between the bytes of one node hold bytes of the other, so the promise must not make
        // it write them back.
        let pieces = [Holes::Untouched, Holes::Rewritten].map(|holes| {
            scenario.holes = holes;
            let file = file_of(&MemDriver::new());
            let (mut buffers, _, expected) = expected(&scenario);
            let outcomes = run(&scenario, &vec![file.clone(); 4], &mut buffers, &plain);
            assert!(contents(file.as_ref()) == expected);
            assert_eq!(outcomes.messages, [2]);
            outcomes.counters.iter().map(|counters| Counters::get(&counters.pieces)).sum::<u64>()
        });
        assert_eq!(pieces[0], pieces[1]);
    }
}

/// The ranks of one node have no shared memory. Their leader reports it, and each other node gathers on
/// its own.
#[test]
fn node_without_shared_memory_delays_no_other_node() {
    for without in 0..3 {
        let scenario =
            Scenario { without: Some(without), ..rows(vec![0, 1, 2, 0, 1, 2], Direction::Write, 300) };
        let file = file_of(&MemDriver::new());
        let (mut buffers, _, expected) = expected(&scenario);
        let outcomes = run(&scenario, &vec![file.clone(); 6], &mut buffers, &plain);
        let written = contents(file.as_ref());
        for rank in 0..6 {
            let is_without = scenario.placement[rank] == without;
            assert_eq!(outcomes.calls[rank][0], (if is_without { 0 } else { 2400 }, false));
            let is_there = |at: usize| written[at] == expected[at];
            assert!(is_without || scenario.calls[0].bytes_of(rank).all(is_there));
        }
        assert_eq!(outcomes.messages, [6]);
    }
}

#[test]
fn all_ranks_return_after_a_fault_at_any_call() {
    all_come_back(&[4, 4], &[0, 1, 2, 3]);
}

#[test]
fn all_ranks_return_after_a_fault_at_any_call_of_the_only_aggregating_node() {
    all_come_back(&[2, 0], &[0, 2]);
    all_come_back(&[0, 1], &[1]);
}

/// Ranks 0 and 2 are on the first of two nodes. Each rank of `meeting` meets a fault at some calls, and
/// no other rank does.
fn all_come_back(aggregators: &[usize], meeting: &[usize]) {
    for direction in [Direction::Write, Direction::Read] {
        for where_ in 0..4 {
            let mut met = 0;
            for at in 0.. {
                let scenario =
                    Scenario { aggregators: aggregators.to_vec(), ..rows(vec![0, 1, 0, 1], direction, 500) };
                let driver = Arc::new(MemDriver::new());
                let file = file_of(driver.as_ref());
                let plan = FaultPlan::parse(&format!("write@{at}:nospace;read@{at}:io"))
                    .expect("the fault plan is valid");
                let options = OpenOptions::read_write();
                let mut files = vec![file.clone(); 4];
                files[where_] =
                    Faulty::new(driver, plan).open("scenario".as_ref(), &options).expect("the file opens");
                let (mut buffers, after, expected) = expected(&scenario);
                let outcomes = run(&scenario, &files, &mut buffers, &plain);
                let failed: Vec<usize> = (0..4).filter(|rank| outcomes.calls[*rank][0].1).collect();
                if failed.is_empty() {
                    break;
                }
                assert_eq!(failed, [where_]);
                let written = contents(file.as_ref());
                for rank in 0..4 {
                    let bytes = outcomes.calls[rank][0].0 as usize;
                    assert!(buffers[0][rank][..bytes] == after[0][rank][..bytes]);
                    assert!(
                        scenario.calls[0].bytes_of(rank).take(bytes).all(|at| written[at] == expected[at])
                    );
                }
                assert!(
                    outcomes.calls.iter().any(|outcomes| outcomes[0].0 < 4000),
                    "at least one rank moves fewer bytes"
                );
                met += 1;
            }
            assert!(
                met >= 3 || (met == 0 && !meeting.contains(&where_)),
                "rank {where_} met faults at {met} calls"
            );
        }
    }
}
