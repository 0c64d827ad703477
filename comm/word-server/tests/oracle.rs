//! Operations of several clients and the owner against a model of the words.

mod support;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use capulet_word_server::{Client, Result, Server};
use proptest::prelude::*;
use support::{client_of, wait};

/// The owner or a client.
enum Access<'a> {
    Owner(&'a Server),
    Client(Client),
}

impl Access<'_> {
    fn load(&self, at: usize) -> Result<u64> {
        match self {
            Self::Owner(server) => server.load(at),
            Self::Client(client) => client.load(at, wait()),
        }
    }

    fn swap(&self, at: usize, value: u64) -> Result<u64> {
        match self {
            Self::Owner(server) => server.swap(at, value),
            Self::Client(client) => client.swap(at, value, wait()),
        }
    }

    fn add(&self, at: usize, value: u64) -> Result<u64> {
        match self {
            Self::Owner(server) => server.add(at, value),
            Self::Client(client) => client.add(at, value, wait()),
        }
    }

    fn add32(&self, at: usize, value: u32) -> Result<u32> {
        match self {
            Self::Owner(server) => server.add(at, value),
            Self::Client(client) => client.add(at, value, wait()),
        }
    }

    fn compare_swap(&self, at: usize, expected: u32, value: u32) -> Result<u32> {
        match self {
            Self::Owner(server) => server.compare_swap(at, expected, value),
            Self::Client(client) => client.compare_swap(at, expected, value, wait()),
        }
    }

    fn exchange(&self, base: usize, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        match self {
            Self::Owner(server) => server.exchange(base, first, put, words),
            Self::Client(client) => client.exchange(base, first, put, words, wait()),
        }
    }

    fn claim(&self, base: usize, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        match self {
            Self::Owner(server) => server.claim_if_none(base, at, value, words),
            Self::Client(client) => client.claim_if_none(base, at, value, words, wait()),
        }
    }
}

const CLIENTS: u64 = 5;
const ROUNDS: u64 = 300;
/// Keeps the sum of 32 bits from wrapping.
const MAX_OWNER_ROUNDS: u64 = 200_000;
const CLAIM_ROUNDS: usize = 100;

// The words of the concurrent test.
const SUM: usize = 0;
const SUM32: usize = 1;
const CHAIN: usize = 2;
const LOCK: usize = 3;
const COUNTER: usize = 4;
const TABLE: usize = 5;
const TABLE_WORDS: usize = 40;
const CLAIMS: usize = TABLE + TABLE_WORDS;

/// What one thread saw.
#[derive(Default)]
struct Seen {
    /// Value before, value added.
    adds: Vec<(u64, u64)>,
    adds32: Vec<(u32, u32)>,
    /// Value before, value stored.
    swaps: Vec<(u64, u64)>,
    /// How often the thread incremented the counter in the lock.
    counts: u64,
    requests: u64,
}

/// Random operations of one thread, until `is_over` is true for their number. `me` is not 0.
fn play(access: &Access<'_>, me: u64, is_over: impl Fn(u64) -> bool) -> Seen {
    let mut seen = Seen::default();
    let mut random = me.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for round in (1..).take_while(|round| !is_over(*round)) {
        // xorshift64 (Marsaglia, 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let stamp = me << 32 | round;
        match random % 5 {
            0 => {
                let value = random % 1000 + 1;
                seen.adds.push((access.add(SUM, value).unwrap(), value));
            }
            1 => {
                let value = (random % 1000 + 1) as u32;
                seen.adds32.push((access.add32(SUM32, value).unwrap(), value));
            }
            2 => seen.swaps.push((access.swap(CHAIN, stamp).unwrap(), stamp)),
            3 => {
                let table = access.exchange(TABLE, 0, &[stamp; TABLE_WORDS], TABLE_WORDS).unwrap();
                assert_eq!(table, [stamp; TABLE_WORDS], "an exchange returns the words that it stored");
            }
            _ => {
                let table = access.exchange(TABLE, 0, &[], TABLE_WORDS).unwrap();
                assert!(table.iter().all(|word| *word == table[0]), "a torn exchange: {table:?}");
            }
        }
        seen.requests += 1;
        if round % 10 == 0 {
            seen.requests += count_in_lock(access, me as u32);
            seen.counts += 1;
        }
    }
    seen
}

/// Increments the counter under a lock by compare-and-swap. Returns the number of operations.
fn count_in_lock(access: &Access<'_>, me: u32) -> u64 {
    let (start, mut tries) = (Instant::now(), 1);
    while access.compare_swap(LOCK, 0, me).unwrap() != 0 {
        tries += 1;
        assert!(start.elapsed() < Duration::from_secs(20), "the lock is lost");
        thread::yield_now();
    }
    let count = access.load(COUNTER).unwrap();
    assert_eq!(access.swap(COUNTER, count + 1).unwrap(), count, "another thread was inside of the lock");
    assert_eq!(access.compare_swap(LOCK, me, 0).unwrap(), me);
    tries + 3
}

/// Checks that `steps` (value before, value after) form one chain from 0 to `last`.
fn assert_one_chain(steps: impl Iterator<Item = (u64, u64)>, last: u64) {
    let mut next = HashMap::new();
    for (before, after) in steps {
        assert!(next.insert(before, after).is_none(), "two operations fetched {before}");
    }
    let mut value = 0;
    while let Some(after) = next.remove(&value) {
        value = after;
    }
    assert!(next.is_empty(), "operations outside of the chain: {next:?}");
    assert_eq!(value, last);
}

#[test]
fn concurrent_operations_have_one_order() {
    let server = Server::start(CLAIMS + 1).unwrap();
    let start = Barrier::new(CLIENTS as usize + 1);
    let playing = AtomicU64::new(CLIENTS);
    let as_client = |me| {
        let client = client_of(&server);
        client.connect(wait()).unwrap();
        let access = Access::Client(client);
        start.wait();
        let seen = catch_unwind(AssertUnwindSafe(|| play(&access, me, |round| round > ROUNDS)));
        playing.fetch_sub(1, Ordering::Relaxed);
        let seen = seen.unwrap_or_else(|panic| resume_unwind(panic));
        let Access::Client(client) = access else { unreachable!("made above") };
        assert_eq!(client.requests(), seen.requests, "one round trip per operation");
        seen
    };
    // The owner is much faster than a client, so it goes on until the clients have finished. One thread serves
    // all clients: only the owner competes with it for the words.
    let as_owner = || {
        start.wait();
        play(&Access::Owner(&server), CLIENTS + 1, |round| {
            playing.load(Ordering::Relaxed) == 0 || round > MAX_OWNER_ROUNDS
        })
    };
    let seen: Vec<Seen> = thread::scope(|scope| {
        let as_client = &as_client;
        let clients: Vec<_> = (1..=CLIENTS).map(|me| scope.spawn(move || as_client(me))).collect();
        let owner = scope.spawn(as_owner);
        clients.into_iter().chain([owner]).map(|thread| thread.join().unwrap()).collect()
    });
    let load = |at| server.load::<u64>(at).unwrap();
    let adds = seen.iter().flat_map(|seen| &seen.adds);
    assert_one_chain(adds.map(|(before, value)| (*before, before + value)), load(SUM));
    let adds = seen.iter().flat_map(|seen| &seen.adds32);
    let wide = |(before, value): &(u32, u32)| ((*before).into(), (before + value).into());
    assert_one_chain(adds.map(wide), load(SUM32));
    assert_one_chain(seen.iter().flat_map(|seen| seen.swaps.iter().copied()), load(CHAIN));
    // The order of each thread is kept.
    assert!(seen.iter().all(|seen| seen.adds.is_sorted()));
    assert_eq!(load(COUNTER), seen.iter().map(|seen| seen.counts).sum::<u64>());
    let (owner, clients) = seen.split_last().unwrap();
    assert!(owner.requests > 0);
    assert_eq!(server.requests(), clients.iter().map(|seen| seen.requests).sum::<u64>());
}

#[test]
fn exactly_one_claim_wins() {
    let server = Server::start(CLAIMS + 8).unwrap();
    let meet = Barrier::new(4);
    // Per thread and round, the number of claims that were there before. No assertion stands between the
    // barriers, because the other threads would wait for a thread that has panicked.
    let found: Vec<Vec<usize>> = thread::scope(|scope| {
        let (meet, server) = (&meet, &server);
        let play = move |me: usize| {
            let access = if me == 0 { Access::Owner(server) } else { Access::Client(client_of(server)) };
            let mut found = Vec::new();
            for _ in 0..CLAIM_ROUNDS {
                meet.wait();
                let before = access.claim(CLAIMS, me, me as u64 + 1, 4).unwrap_or_default();
                found.push(before.iter().filter(|word| **word != 0).count());
                if meet.wait().is_leader() {
                    server.exchange(CLAIMS, 0, &[0; 4], 4).unwrap();
                }
            }
            found
        };
        let threads: Vec<_> = (0..4).map(|me| scope.spawn(move || play(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for round in 0..CLAIM_ROUNDS {
        let mut found: Vec<_> = found.iter().map(|found| found[round]).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 1, 1], "one claim finds none, the others find that one");
    }
}

#[test]
fn threads_share_one_client() {
    let server = Server::start(1).unwrap();
    let client = client_of(&server);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    client.add(0, 1_u64, wait()).unwrap();
                }
            });
        }
    });
    assert_eq!(server.load::<u64>(0).unwrap(), 800);
    assert_eq!((client.requests(), server.requests()), (800, 800));
}

/// The words of the sequential test.
const WORDS: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    Load(usize),
    Load32(usize),
    Swap(usize, u64),
    Add32(usize, u32),
    CompareSwap(usize, u32, u32),
    Exchange(usize, usize, Vec<u64>, usize),
    Claim(usize, usize, u64, usize),
}

fn steps() -> impl Strategy<Value = Step> {
    let at = 0..WORDS + 2;
    let small = 0_u32..3;
    prop_oneof![
        at.clone().prop_map(Step::Load),
        at.clone().prop_map(Step::Load32),
        (at.clone(), any::<u64>()).prop_map(|(at, value)| Step::Swap(at, value)),
        (at.clone(), any::<u32>()).prop_map(|(at, value)| Step::Add32(at, value)),
        (at.clone(), small.clone(), small).prop_map(|(at, old, new)| Step::CompareSwap(at, old, new)),
        (at.clone(), at.clone(), prop::collection::vec(0_u64..3, 0..5), at.clone())
            .prop_map(|(base, first, put, words)| Step::Exchange(base, first, put, words)),
        (at.clone(), at.clone(), any::<u64>(), at)
            .prop_map(|(base, at, value, words)| Step::Claim(base, at, value, words)),
    ]
}

/// The step on a plain array. `None` if the step reaches beyond the array.
fn model(words: &mut [u64; WORDS], step: &Step) -> Option<Vec<u64>> {
    const LOW: u64 = u32::MAX as u64;
    Some(match *step {
        Step::Load(at) => vec![*words.get(at)?],
        Step::Load32(at) => vec![words.get(at)? & LOW],
        Step::Swap(at, value) => vec![std::mem::replace(words.get_mut(at)?, value)],
        Step::Add32(at, value) => {
            let before = *words.get(at)?;
            words[at] = before & !LOW | u64::from((before as u32).wrapping_add(value));
            vec![before & LOW]
        }
        Step::CompareSwap(at, expected, value) => {
            let before = *words.get(at)?;
            if before & LOW == u64::from(expected) {
                words[at] = before & !LOW | u64::from(value);
            }
            vec![before & LOW]
        }
        Step::Exchange(base, first, ref put, count) => {
            let span = words.get_mut(base..base + count)?;
            span.get_mut(first..first + put.len())?.copy_from_slice(put);
            span.to_vec()
        }
        Step::Claim(base, at, value, count) => {
            let span = words.get_mut(base..base + count)?;
            let before = span.to_vec();
            let target = span.get_mut(at)?;
            if before.iter().all(|word| *word == 0) {
                *target = value;
            }
            before
        }
    })
}

fn perform(access: &Access<'_>, step: &Step) -> Result<Vec<u64>> {
    let load32 = |at| match access {
        Access::Owner(server) => server.load::<u32>(at),
        Access::Client(client) => client.load::<u32>(at, wait()),
    };
    match *step {
        Step::Load(at) => access.load(at).map(|word| vec![word]),
        Step::Load32(at) => load32(at).map(|word| vec![word.into()]),
        Step::Swap(at, value) => access.swap(at, value).map(|word| vec![word]),
        Step::Add32(at, value) => access.add32(at, value).map(|word| vec![word.into()]),
        Step::CompareSwap(at, expected, value) => {
            access.compare_swap(at, expected, value).map(|word| vec![word.into()])
        }
        Step::Exchange(base, first, ref put, count) => access.exchange(base, first, put, count),
        Step::Claim(base, at, value, count) => access.claim(base, at, value, count),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// An operation outside of the words is an error, and the client stays usable.
    #[test]
    fn operations_in_turn_equal_those_on_an_array(
        steps in prop::collection::vec((any::<bool>(), steps()), 1..60)
    ) {
        let server = Server::start(WORDS).unwrap();
        let all = [Access::Owner(&server), Access::Client(client_of(&server))];
        let mut words = [0; WORDS];
        for (is_client, step) in &steps {
            let done = perform(&all[usize::from(*is_client)], step);
            prop_assert_eq!(done.ok(), model(&mut words, step), "{:?}", step);
        }
        prop_assert_eq!(server.exchange(0, 0, &[], WORDS).unwrap(), words);
    }
}
