//! Many processes in random orders, and the cost of a hand-off.

use capulet_protocol::{Bakery, Effect, Queue, Ranges, Rank, Request, Space, TwoLevel, WaitList};
use proptest::prelude::*;

use super::system::{Action, Checkable, Requests, System, Todo};

/// A pseudorandom number generator with the same sequence in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Counts of events in one run.
#[derive(Debug, Default)]
struct Counts {
    /// Entries into the critical section.
    entries: u64,
    wakes: u64,
    /// Accesses to the memory of another process.
    remote: u64,
}

/// Runs a system to its end. A list of the processes that may go on avoids a look at all processes in
/// each step.
fn run<L: Checkable>(system: &mut System<L>, requests: &Requests, seed: u64, checks: bool) -> Counts {
    let (mut counts, mut state) = (Counts::default(), seed);
    let mut awake: Vec<usize> = (0..system.processes.len()).collect();
    let mut asleep = vec![false; awake.len()];
    while !awake.is_empty() {
        let at = random(&mut state) as usize % awake.len();
        let of = awake[at];
        let actions: Vec<Action> = system.actions(of).collect();
        let Some(action) = actions.get(random(&mut state) as usize % actions.len().max(1)) else {
            awake.swap_remove(at);
            asleep[of] = true;
            continue;
        };
        let mut touched = None;
        match &system.processes[of].todo {
            Todo::Effect(Effect::Wake(_, rank)) => {
                counts.wakes += 1;
                touched = Some(*rank as usize);
            }
            Todo::Effect(Effect::Store(place, _)) => {
                counts.remote += u64::from(place.rank != of as Rank);
                // The processes of the entry may wait for this word.
                touched = Some(place.rank as usize);
            }
            Todo::Effect(
                Effect::Exchange { first: place, .. }
                | Effect::Swap(place, _)
                | Effect::CompareSwap(place, ..)
                | Effect::Load(place),
            ) => counts.remote += u64::from(place.rank != of as Rank),
            _ => {}
        }
        let was_inside = system.processes[of].todo == Todo::Inside;
        system.go(*action, requests);
        counts.entries += u64::from(!was_inside && system.processes[of].todo == Todo::Inside);
        if checks {
            assert!(system.is_exclusive(requests), "seed {seed}");
        }
        // Another process of the entry's node may wait for the word.
        let Some(first) = touched else { continue };
        // In a bakery, any process may wait for it.
        let first = if asleep.len() <= NODE_RANKS { 0 } else { first };
        for (woken, is_asleep) in asleep.iter_mut().enumerate().skip(first).take(NODE_RANKS) {
            if std::mem::take(is_asleep) {
                awake.push(woken);
            }
        }
    }
    assert!(
        system.is_over(),
        "seed {seed}: {} processes wait for ever",
        asleep.iter().filter(|is| **is).count()
    );
    assert!(system.wakes.is_empty(), "seed {seed}: wake-ups are left");
    counts
}

const NODE_RANKS: usize = 64;

fn whole(times: usize) -> Requests {
    vec![vec![Request::whole(); times]]
}

#[test]
fn hand_off_costs_the_same_among_10_000_processes() {
    let leader = |me: Rank| me / NODE_RANKS as Rank * NODE_RANKS as Rank;
    let mut per_entry = Vec::new();
    for ranks in [10, 100, 1000, 10_000] {
        let mut system = System::new(ranks, |me| TwoLevel::new(0, leader(me), me, 16));
        let counts = run(&mut system, &whole(2), 7, false);
        assert_eq!(counts.entries, 2 * u64::from(ranks));
        let (wakes, remote) =
            (counts.wakes as f64 / counts.entries as f64, counts.remote as f64 / counts.entries as f64);
        println!("two levels, {ranks} processes: {wakes:.2} wake-ups, {remote:.2} remote accesses per entry");
        per_entry.push(counts);
    }
    // Wake-ups: at most one on the node and one among nodes. Accesses to words: the two tails, the two
    // links, the next process, and the count of passes, which is read and written.
    assert!(per_entry.iter().all(|counts| counts.wakes <= 2 * counts.entries));
    assert!(per_entry.iter().all(|counts| counts.remote <= 12 * counts.entries));
}

#[test]
fn mutexes_keep_their_promises_in_random_orders() {
    for seed in 0..200 {
        let ranks = 1 + (seed % 16) as u32;
        run(&mut System::new(ranks, |me| WaitList::new(0, me, ranks)), &whole(3), seed, true);
        run(&mut System::new(ranks, |me| Queue::new(Space::Node, 0, 0, me)), &whole(3), seed, true);
        run(&mut System::new(ranks, |me| TwoLevel::new(0, me / 3 * 3, me, 2)), &whole(3), seed, true);
    }
}

/// Requests for ranges, patterns and whole files, shared and not shared.
fn request() -> impl Strategy<Value = Request> {
    let pieces = proptest::collection::vec((0..200_u64, 1..40_u64), 1..12);
    (pieces, any::<bool>(), 0..4_u64).prop_map(|(pieces, is_shared, kind)| {
        let ranges = pieces.iter().map(|(start, bytes)| *start..start + bytes);
        match kind {
            0 => Request::whole(),
            1 => Request::periodic(pieces[0].0..1000, 64, ranges.take(1), is_shared),
            _ => Request::ranges(ranges, is_shared),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn random_ranges_keep_their_promises_in_random_orders(
        requests in proptest::collection::vec(proptest::collection::vec(request(), 0..4), 1..9),
        seed in any::<u64>(),
    ) {
        let ranks = requests.len() as u32;
        let mut bakery = System::new(ranks, |me| Bakery::new(Space::Node, 0, me, ranks));
        run(&mut bakery, &requests, seed, true);
        let entries = requests.iter().map(|own| own.len() as u64).sum::<u64>();
        let mut system = System::new(ranks, |me| Ranges::new(0, me, ranks));
        let counts = run(&mut system, &requests, seed, true);
        // An exchange to acquire and one to release, from all processes but the home.
        let remote = 2 * (entries - requests[0].len() as u64);
        prop_assert_eq!((counts.entries, counts.remote), (entries, remote));
        let leaving = System::new(ranks, |me| Ranges::new(0, me, ranks));
        let counts = run(&mut leaving.trying(|_| true).giving_up(|_| true), &requests, seed, true);
        prop_assert_eq!(counts.entries, entries);
    }
}
