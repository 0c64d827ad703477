//! Test program: words that all ranks reach, in both kinds of epochs; wake-ups; and the sharing of windows
//! between files.

#[path = "support/mod.rs"]
mod support;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use capulet_comm::{Agree, Backoff, Channel, Epochs, Mechanism, Notifier, WorldWords};
use support::group_of;

/// The argument `multiple` selects `MPI_THREAD_MULTIPLE`. The argument `passive` asserts that the words of a
/// rank that computes are reached. The arguments `server` and `messages` select these mechanisms instead of
/// windows.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let (rank, size) = if has("multiple") { support::init_multiple() } else { support::init() };
    let group = group_of(support::world()).expect("a group");
    let channel = group.channel().expect("a channel");
    let named = [Mechanism::Server, Mechanism::Messages].into_iter().find(|named| has(named.name()));
    let mechanism = named.unwrap_or(Mechanism::Window);
    let words = channel.world_words(Epochs::Standing, mechanism).expect("MPI works").expect("words");
    assert_eq!((words.rank(), words.ranks(), words.mechanism()), (rank, size, mechanism));
    single_words(&words, &channel);
    let table = channel.world_words(Epochs::Exclusive, mechanism).expect("MPI works").expect("words");
    for words in [&words, &table].into_iter().filter(|words| words.is_exclusive()) {
        tables(words, &channel);
    }
    assert_eq!((words.is_exclusive(), table.is_exclusive()), (mechanism != Mechanism::Window, true));
    wake_ups(&mut channel.notifier(), rank, size);
    // The measurement is late if another process has the core. All ranks measure equally often, and one
    // result in time is enough.
    let answers = [(); 5].map(|()| words.is_passive(&channel).expect("MPI works"));
    let is_passive = answers.contains(&true);
    assert!(is_passive || !has("passive"), "the operation waited for the home rank");
    channel.barrier().expect("a barrier");
    drop(channel);
    apart(rank, size);
    // The larger number exceeds the number of windows that MPICH can have.
    let is_window = mechanism == Mechanism::Window;
    many(size, mechanism, if is_window && has("multiple") && size <= 2 { 2200 } else { 60 });
    support::finish("world");
}

fn single_words(words: &WorldWords, channel: &Channel) {
    let (me, ranks, home) = (words.rank(), words.ranks(), words.home());
    // All ranks count at each rank.
    for target in 0..ranks {
        for _ in 0..50 {
            words.add(target, 0, 1_u32).expect("MPI works");
        }
    }
    channel.barrier().expect("a barrier");
    assert_eq!(words.load::<u32>(me, 0).expect("MPI works"), 50 * ranks);
    // A lock word: at most one rank holds it at a time.
    for _ in 0..20 {
        let mut backoff = Backoff::new();
        while words.compare_swap(home, 1, 0, me + 1).expect("MPI works") != 0 {
            backoff.pause();
        }
        let inside = words.swap(home, 2, 1_u32).expect("MPI works");
        assert_eq!((inside, words.swap(home, 2, 0_u32).expect("MPI works")), (0, 1));
        assert_eq!(words.compare_swap(home, 1, me + 1, 0).expect("MPI works"), me + 1);
    }
    channel.barrier().expect("a barrier");
    assert_eq!(words.load::<u32>(home, 1).expect("MPI works"), 0);
    assert_eq!(words.swap(me, 0, 0).expect("MPI works"), 50 * ranks);
    let wide = u64::MAX - 5;
    words.add(home, 4, wide / u64::from(ranks)).expect("MPI works");
    channel.barrier().expect("a barrier");
    let sum = wide / u64::from(ranks) * u64::from(ranks);
    assert_eq!(words.load::<u64>(home, 4).expect("MPI works"), sum);
    channel.barrier().expect("a barrier");
    if me == home {
        assert_eq!(words.swap(home, 4, 0).expect("MPI works"), sum);
    }
}

/// Each rank changes its own entry of the table, one after another and at the same time, and reads entries of
/// the other ranks that are not torn.
fn tables(words: &WorldWords, channel: &Channel) {
    let (me, ranks) = (words.rank() as usize, words.ranks() as usize);
    let entry = WorldWords::ENTRY_WORDS;
    for round in 1..20_u64 {
        for writer in 0..ranks {
            if writer == me {
                let put = vec![round; entry - 1];
                let all = words.exchange(me * entry, &put, ranks * entry).expect("MPI works");
                for (rank, theirs) in all.chunks(entry).enumerate() {
                    let expected = if rank <= me { round } else { round - 1 };
                    assert!(theirs[..entry - 1].iter().all(|word| *word == expected), "{round} {theirs:?}");
                    assert_eq!(theirs[entry - 1], 0);
                }
            }
            channel.barrier().expect("a barrier");
        }
    }
    // All ranks exchange at the same time. Any two exchanges are ordered, so a rank finds all words of another
    // rank as they were before or after an exchange.
    let counted = words.counters().word_operations();
    for round in 1..200_u64 {
        let all = words.exchange(me * entry, &vec![round; entry - 1], ranks * entry).expect("MPI works");
        for theirs in all.chunks(entry) {
            let theirs = &theirs[..entry - 1];
            assert!(theirs.iter().all(|word| *word == theirs[0]), "{round} {theirs:?}");
        }
        assert_eq!(all[me * entry], round);
    }
    let is_home = words.rank() == words.home();
    assert_eq!(words.counters().word_operations() - counted, if is_home { 0 } else { 199 });
    channel.barrier().expect("a barrier");
    words.exchange(me * entry, &vec![0; entry], ranks * entry).expect("MPI works");
    channel.barrier().expect("a barrier");
}

/// Wake-ups go around the ranks, one more in each round, and none is left over.
fn wake_ups(notifier: &mut Notifier, rank: u32, size: u32) {
    for round in 0..5 {
        for _ in 0..=round {
            notifier.wake((rank + 1) % size).expect("MPI works");
        }
        for _ in 0..=round {
            let mut backoff = Backoff::new();
            while !notifier.try_take().expect("MPI works") {
                backoff.pause();
            }
        }
    }
    thread::sleep(Duration::from_millis(1));
    while !notifier.is_sent().expect("MPI works") {}
    assert!(!notifier.try_take().expect("MPI works"));
}

/// Channels of several communicators whose ranks share nodes get different slots, also if one rank
/// has dropped a channel earlier than the other ranks.
fn apart(rank: u32, size: u32) {
    // With four ranks on two nodes, the first two ranks are one node in both groups.
    let parts = support::split(support::world(), rank / 3, rank);
    let all = group_of(support::world()).expect("a group");
    let part = group_of(parts).expect("a group");
    let early = all.channel().expect("a channel");
    let words_of = |channel: &Channel| channel.node_words(0, 4).expect("memory");
    let mut words = vec![words_of(&early)];
    // The last rank drops its channel early. The first rank does not, because it may be the rank that
    // assigns the slots and knows which ones are free.
    let early = (size == 1 || rank + 1 < size).then_some(early);
    let channels = [&all, &part, &all].map(|group| group.channel().expect("a channel"));
    words.extend(channels.iter().map(words_of));
    let own = || (1..).zip(&words).skip(usize::from(early.is_none()));
    for (value, words) in own() {
        words.word(words.place(), 1).store(value, Ordering::SeqCst);
    }
    for (value, words) in own() {
        assert_eq!(words.word(words.place(), 1).load(Ordering::SeqCst), value);
    }
    channels[0].barrier().expect("a barrier");
    drop((channels, early));
    support::free(parts);
}

/// Short-lived communicators get words in windows that persist: an MPI library cannot have as many windows.
fn many(size: u32, mechanism: Mechanism, communicators: usize) {
    for number in 0..communicators {
        let copy = support::duplicate(support::world());
        let group = group_of(copy).expect("a group");
        let channels: Vec<_> = (0..=number % 3).map(|_| group.channel().expect("a channel")).collect();
        let words: Vec<_> = channels
            .iter()
            .map(|channel| {
                let on_node = channel.node_words(0, 4).expect("memory");
                let in_world =
                    channel.world_words(Epochs::Standing, mechanism).expect("MPI works").expect("words");
                (on_node, in_world)
            })
            .collect();
        // Each channel has its own words: the stored values are still there after all channels have stored
        // theirs.
        for (value, (on_node, in_world)) in (1..).zip(&words) {
            on_node.word(on_node.place(), 0).store(value, Ordering::SeqCst);
            in_world.swap(in_world.rank(), 3, value as u32).expect("MPI works");
        }
        for channel in &channels {
            channel.barrier().expect("a barrier");
        }
        for (value, (on_node, in_world)) in (1..).zip(&words) {
            for place in 0..group.node().size() {
                assert_eq!(on_node.word(place, 0).load(Ordering::SeqCst), value);
            }
            for rank in 0..size {
                assert_eq!(in_world.load::<u32>(rank, 3).expect("MPI works"), value as u32);
            }
        }
        for channel in &channels {
            channel.barrier().expect("a barrier");
        }
        drop((channels, group));
        support::free(copy);
    }
}
