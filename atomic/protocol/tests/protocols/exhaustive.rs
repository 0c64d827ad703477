//! Model checks of every order in which 2 to 4 processes can take each step of each protocol. The tests
//! print the numbers of states.

use capulet_protocol::{Bakery, Place, Queue, Ranges, Rank, Request, SLOT_WORDS, Space, TwoLevel, WaitList};

use super::system::model::Checked;
use super::system::{Checkable, Requests, System};

fn whole(times: usize) -> Requests {
    vec![vec![Request::whole(); times]]
}

fn all(_: Place) -> bool {
    true
}

#[track_caller]
fn holds<L: Checkable>(name: &str, ranks: u32, bypass_max: u8, requests: Requests, make: impl Fn(Rank) -> L) {
    holds_but_for(name, ranks, bypass_max, requests, make, all);
}

#[track_caller]
fn holds_but_for<L: Checkable>(
    name: &str,
    ranks: u32,
    bypass_max: u8,
    requests: Requests,
    make: impl Fn(Rank) -> L,
    is_counted: fn(Place) -> bool,
) {
    let start = System::new(ranks, make);
    let (states, broken) = Checked { start, requests, bypass_max, is_counted }.check();
    println!("{name}, {ranks} processes: {states} states");
    assert_eq!(broken, [""; 0], "{name}, {ranks} processes");
    assert!(states > 10, "{name}: too few states were explored");
}

#[test]
fn wait_list_keeps_its_promises() {
    for (ranks, times) in [(1, 3), (2, 3), (3, 3), (4, 2)] {
        // Each other process enters at most once while a process waits, and one of them came before it.
        let bypass_max = (ranks as u8).saturating_sub(2);
        holds("wait list", ranks, bypass_max, whole(times), |me| WaitList::new(ranks / 2, me, ranks));
    }
}

#[test]
fn queue_keeps_its_promises() {
    for (ranks, times) in [(1, 3), (2, 3), (3, 3), (4, 2)] {
        holds("queue", ranks, 0, whole(times), |me| Queue::new(Space::Node, 0, ranks / 2, me));
    }
}

/// As [`holds`], for systems in which some processes try first.
#[track_caller]
fn holds_where_some_try<L: Checkable>(name: &str, bypass_max: u8, make: impl Fn(u32, Rank) -> L) {
    for (ranks, triers, times) in [(2, 2, 2), (3, 1, 2), (3, 3, 1)] {
        let start = System::new(ranks, |me| make(ranks, me)).trying(|of| of < triers);
        let checked = Checked { start, requests: whole(times), bypass_max, is_counted: all };
        let (states, broken) = checked.check();
        println!("{name}, {triers} of {ranks} processes try: {states} states");
        assert_eq!(broken, [""; 0], "{name}, {triers} of {ranks}");
    }
}

#[test]
fn mutexes_keep_their_promises_with_tries() {
    holds_where_some_try("wait list", 1, |ranks, me| WaitList::new(0, me, ranks));
    holds_where_some_try("queue", 0, |_, me| Queue::new(Space::World, 0, 0, me));
    holds_where_some_try("two levels", 0, |_, me| two_level(me, 1));
    holds_where_some_try("two levels", 1, |_, me| two_level(me, 2));
}

#[test]
fn wait_list_lets_later_processes_pass() {
    let start = System::new(3, |me| WaitList::new(0, me, 3));
    let checked = Checked { start, requests: whole(2), bypass_max: 0, is_counted: all };
    assert_eq!(checked.check().1, ["no process is passed more often than promised"]);
}

/// A lock of two levels on nodes of two processes.
fn two_level(me: Rank, passes_max: u64) -> TwoLevel {
    TwoLevel::new(0, me / 2 * 2, me, passes_max)
}

#[test]
fn two_level_lock_keeps_its_promises() {
    for (ranks, times, passes_max) in [(2, 3, 1), (3, 2, 1), (3, 3, 2), (4, 1, 2), (4, 2, 2)] {
        // A process is passed by the processes of the other node, except the first of them.
        let bypass_max = if ranks > 2 { passes_max as u8 - 1 } else { 0 };
        holds("two levels", ranks, bypass_max, whole(times), |me| two_level(me, passes_max));
    }
}

fn ranges(ranks: u32) -> impl Fn(Rank) -> Ranges {
    move |me| Ranges::new(0, me, ranks)
}

/// Whether a word must be zero at the end: the first word of a slot. The other words of an empty slot are not
/// read.
pub(super) fn tells(place: Place) -> bool {
    place.word.is_multiple_of(SLOT_WORDS)
}

fn exclusive(start: u64, end: u64) -> Request {
    Request::contiguous(start..end, false)
}

fn shared(start: u64, end: u64) -> Request {
    Request::contiguous(start..end, true)
}

#[test]
fn ranges_keep_their_promises_when_they_conflict_in_part() {
    let chain = vec![
        vec![exclusive(0, 10), exclusive(5, 25)],
        vec![exclusive(5, 15), exclusive(0, 30)],
        vec![exclusive(12, 20)],
    ];
    for ranks in [2, 3, 4] {
        holds_but_for("ranges in a chain", ranks, 0, chain.clone(), ranges(ranks), tells);
    }
}

#[test]
fn ranges_keep_their_promises_with_readers_and_writers() {
    let mixed = vec![vec![shared(0, 10), exclusive(0, 5)], vec![shared(5, 20)], vec![exclusive(8, 9)]];
    for ranks in [2, 3] {
        holds_but_for("ranges of readers and writers", ranks, 0, mixed.clone(), ranges(ranks), tells);
    }
}

/// Checks ranges where some processes try first, or give up a wait.
#[track_caller]
fn ranges_leave(name: &str, ranks: u32, triers: usize, quitters: usize, requests: &Requests) {
    let start =
        System::new(ranks, self::ranges(ranks)).trying(|of| of < triers).giving_up(|of| of < quitters);
    let checked = Checked { start, requests: requests.clone(), bypass_max: 0, is_counted: tells };
    let (states, broken) = checked.check();
    println!("{name}, {triers} of {ranks} processes try, {quitters} give up: {states} states");
    assert_eq!(broken, [""; 0], "{name}, {triers} and {quitters} of {ranks}");
}

#[test]
fn ranges_keep_their_promises_with_tries_and_when_waits_are_given_up() {
    let chain =
        vec![vec![exclusive(0, 10), exclusive(5, 25)], vec![exclusive(5, 15)], vec![exclusive(12, 20)]];
    // A process that has left comes back with bytes that no other process wants, or with the same bytes.
    let back = vec![
        vec![exclusive(0, 10), exclusive(90, 95), exclusive(0, 10)],
        vec![exclusive(5, 15), exclusive(5, 15)],
    ];
    let mixed = vec![vec![shared(0, 10), exclusive(0, 5)], vec![shared(5, 20)], vec![exclusive(4, 9)]];
    for (triers, quitters) in [(2, 0), (0, 2), (2, 2)] {
        ranges_leave("ranges that come back", 2, triers, quitters, &back);
        ranges_leave("whole ranges", 2, triers, quitters, &whole(3));
    }
    for (triers, quitters) in [(1, 0), (3, 0), (0, 3), (3, 3)] {
        ranges_leave("ranges in a chain", 3, triers, quitters, &chain);
        ranges_leave("ranges of readers and writers", 3, triers, quitters, &mixed);
        ranges_leave("whole ranges", 3, triers, quitters, &whole(1));
    }
    ranges_leave("whole ranges", 3, 3, 0, &whole(2));
    ranges_leave("whole ranges", 3, 0, 3, &whole(2));
    ranges_leave("whole ranges", 4, 1, 0, &whole(1));
    ranges_leave("whole ranges", 4, 0, 4, &whole(1));
}

/// Whether a word must be zero at the end: any word of a bakery, except those of a request.
fn tells_in_a_bakery(place: Place) -> bool {
    !(2..2 + SLOT_WORDS).contains(&place.word)
}

fn bakery(name: &str, ranks: u32, triers: usize, requests: Requests) {
    let start = System::new(ranks, |me| Bakery::new(Space::Node, 0, me, ranks)).trying(|of| of < triers);
    // Each process that draws at the same time may get a lower number.
    let bypass_max = ranks as u8 - 1;
    let checked = Checked { start, requests, bypass_max, is_counted: tells_in_a_bakery };
    let (states, broken) = checked.check();
    println!("bakery, {name}, {triers} of {ranks} processes try: {states} states");
    assert_eq!(broken, [""; 0], "{name}, {triers} of {ranks}");
}

#[test]
fn bakery_keeps_its_promises() {
    let chain = vec![vec![exclusive(0, 10), exclusive(5, 25)], vec![exclusive(5, 15), exclusive(0, 30)]];
    bakery("in a chain", 2, 0, chain.clone());
    bakery("in a chain", 2, 2, chain);
    let mixed = vec![vec![shared(0, 10), exclusive(0, 5)], vec![shared(5, 20), exclusive(3, 4)]];
    bakery("readers and writers", 2, 0, mixed);
    let three = vec![vec![exclusive(0, 10)], vec![exclusive(5, 15)], vec![exclusive(12, 20)]];
    bakery("in a chain", 3, 0, three);
    bakery("whole", 3, 0, whole(1));
}

#[test]
fn bakery_keeps_its_promises_when_waits_are_given_up() {
    let requests = vec![vec![exclusive(0, 10), exclusive(5, 25)], vec![exclusive(5, 15), exclusive(0, 30)]];
    let start = System::new(2, |me| Bakery::new(Space::Node, 0, me, 2)).giving_up(|_| true);
    let checked = Checked { start, requests, bypass_max: 1, is_counted: tells_in_a_bakery };
    let (states, broken) = checked.check();
    println!("bakery, 2 of 2 processes give up: {states} states");
    assert_eq!(broken, [""; 0]);
}
