//! Protocols with one fault each. The checker must find every fault: otherwise its verdict on the correct
//! protocols means nothing.

use capulet_protocol::{
    Bakery, Effect, Event, Lock, Place, Queue, Rank, Request, Space, TwoLevel, WaitList, Words,
};

use super::system::model::Checked;
use super::system::{Checkable, Requests, System};

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wrong {
    /// A release reads the copy of the list that the acquisition fetched (Figure 6 of the paper as
    /// printed).
    StaleCopy,
    /// The next process is woken before the own word is cleared.
    ClearAfterWake,
    /// A process empties the queue without a check whether the queue has changed in between.
    NoCompareAndSwap,
    /// A process draws a number without announcing that it draws.
    NoDrawing,
    /// A process that has announced its wait does not check again whether the other process still comes
    /// before it.
    NoSecondLook,
    /// A try waits like an acquisition.
    TriesForGood,
}

/// A lock with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Mutant<L> {
    lock: L,
    wrong: Wrong,
    is_releasing: bool,
    list: Vec<u64>,
    /// The head of the process that was inspected last.
    head: u64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Plain,
    /// The list is read, and the own word is not cleared. The effect clears the word later.
    Reading(Effect),
    /// The next process is being woken. The effect clears the own word after that.
    Waking(Effect),
    Clearing,
    /// A word is compared in a step of its own before it is changed.
    Comparing(Place, u64, u64),
    Swapping(u64),
    /// The head of a process is being loaded.
    Looking,
    /// The bit is being set. After that the head is assumed to be unchanged.
    Announcing,
}

impl<L: Lock> Mutant<L> {
    fn new(lock: L, wrong: Wrong) -> Self {
        Self { lock, wrong, is_releasing: false, list: Vec::new(), head: 0, state: State::Plain }
    }

    /// The next effect of the correct lock, changed by the fault.
    fn spoiled(&mut self, effect: Effect) -> Effect {
        match (self.wrong, effect) {
            (Wrong::ClearAfterWake, effect @ Effect::Exchange { .. }) if self.is_releasing => {
                let Effect::Exchange { first, ref put, words } = effect else { unreachable!() };
                let put = Words::from_elem(1, put.len());
                self.state = State::Reading(effect);
                Effect::Exchange { first, put, words }
            }
            (Wrong::NoDrawing, Effect::Store(place, value)) if place.word == 0 && value & 1 == 1 => {
                self.lock.step(Event::Done)
            }
            (Wrong::NoSecondLook, Effect::Load(place)) if place.word == 0 => {
                self.state = State::Looking;
                Effect::Load(place)
            }
            (Wrong::NoSecondLook, Effect::SetBits(place, bits)) => {
                self.state = State::Announcing;
                Effect::SetBits(place, bits)
            }
            (Wrong::NoCompareAndSwap, Effect::CompareSwap(place, expected, value)) => {
                self.state = State::Comparing(place, expected, value);
                Effect::Load(place)
            }
            (_, effect) => effect,
        }
    }
}

impl<L: Lock> Lock for Mutant<L> {
    fn step(&mut self, event: Event<'_>) -> Effect {
        match event {
            Event::Acquire(_) => self.is_releasing = false,
            Event::Release => self.is_releasing = true,
            _ => {}
        }
        let event = match event {
            Event::Try(request) if self.wrong == Wrong::TriesForGood => Event::Acquire(request),
            event => event,
        };
        let effect = match (std::mem::replace(&mut self.state, State::Plain), event) {
            (State::Plain, Event::Words(_)) if self.wrong == Wrong::StaleCopy && self.is_releasing => {
                self.lock.step(Event::Words(&self.list.clone()))
            }
            (State::Plain, Event::Words(words)) => {
                self.list = words.to_vec();
                self.lock.step(event)
            }
            (State::Reading(clear), event) => {
                let next = self.lock.step(event);
                if !matches!(next, Effect::Wake(..)) {
                    self.state = State::Clearing;
                    return clear;
                }
                self.state = State::Waking(clear);
                return next;
            }
            (State::Waking(clear), event) => {
                self.lock.step(event);
                self.state = State::Clearing;
                return clear;
            }
            (State::Clearing, _) => return Effect::Free,
            (State::Comparing(place, expected, value), Event::Value(found)) if found == expected => {
                self.state = State::Swapping(found);
                return Effect::Swap(place, value);
            }
            (State::Looking, Event::Value(head)) => {
                self.head = head;
                self.lock.step(event)
            }
            (State::Announcing, event) => {
                self.lock.step(event);
                self.lock.step(Event::Value(self.head))
            }
            (State::Swapping(found), _) => self.lock.step(Event::Value(found)),
            (_, event) => self.lock.step(event),
        };
        self.spoiled(effect)
    }

    fn is_queued(&self) -> bool {
        self.lock.is_queued()
    }

    fn waits_for_holders(&self) -> bool {
        self.lock.waits_for_holders()
    }
}

/// The lock of byte ranges of 2005, as its authors published it. A process that meets a conflict takes
/// its flag back in a second epoch, waits for a wake-up, and retries. A process that releases between the
/// two epochs sees that the flag is set, and wakes no process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Retrying {
    me: Rank,
    ranks: u32,
    range: (u64, u64),
    state: Trying,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Trying {
    Free,
    Telling,
    TakingBack,
    Waiting,
    Held,
    Clearing,
    Waking(Rank),
}

/// The words of a process: flag, start, end.
const RETRYING_WORDS: u32 = 3;

impl Retrying {
    fn exchange(&self, flag: u64, range: (u64, u64)) -> Effect {
        Effect::Exchange {
            first: Place { space: Space::World, rank: 0, word: self.me * RETRYING_WORDS },
            put: Words::from_slice(&[flag, range.0, range.1]),
            words: self.ranks * RETRYING_WORDS,
        }
    }

    fn meets(&self, words: &[u64], flag: u64) -> Option<Rank> {
        (0..self.ranks).filter(|rank| *rank != self.me).find(|rank| {
            let slot = &words[(rank * RETRYING_WORDS) as usize..][..RETRYING_WORDS as usize];
            slot[0] == flag && self.range.0.max(slot[1]) < self.range.1.min(slot[2])
        })
    }
}

impl Lock for Retrying {
    fn step(&mut self, event: Event<'_>) -> Effect {
        let (state, effect) = match (self.state, event) {
            (Trying::Free, Event::Acquire(_)) | (Trying::Waiting, Event::Done) => {
                (Trying::Telling, self.exchange(1, self.range))
            }
            (Trying::Telling, Event::Words(words)) if self.meets(words, 1).is_some() => {
                (Trying::TakingBack, self.exchange(0, self.range))
            }
            (Trying::Telling, _) => (Trying::Held, Effect::Held),
            (Trying::TakingBack, _) => (Trying::Waiting, Effect::AwaitWake(Space::World)),
            (Trying::Held, _) => (Trying::Clearing, self.exchange(0, (0, 0))),
            (Trying::Clearing, Event::Words(words)) => match self.meets(words, 0) {
                Some(rank) => (Trying::Waking(rank), Effect::Wake(Space::World, rank)),
                None => (Trying::Free, Effect::Free),
            },
            (Trying::Waking(_), _) => (Trying::Free, Effect::Free),
            (state, event) => panic!("a lock in state {state:?} cannot step by {event:?}"),
        };
        self.state = state;
        effect
    }

    fn is_queued(&self) -> bool {
        self.state == Trying::Held
    }
}

pub(super) fn whole(times: usize) -> Requests {
    vec![vec![Request::whole(); times]]
}

/// The names of the properties that do not hold.
fn broken<L: Checkable>(ranks: u32, requests: Requests, make: impl Fn(Rank) -> L) -> Vec<&'static str> {
    let start = System::new(ranks, make);
    // These tests do not ask how often a process is passed.
    Checked { start, requests, bypass_max: u8::MAX, is_counted: |_| false }.check().1
}

#[track_caller]
pub(super) fn is_caught<L: Checkable>(
    name: &str,
    property: &str,
    requests: Requests,
    make: impl Fn(Rank) -> L,
) {
    let found = broken(2, requests, make);
    println!("{name}: {found:?}");
    assert!(found.contains(&property), "{name}: {found:?}");
}

pub(super) const WAITS: &str = "some process can take a step until all are done";
pub(super) const ALONE: &str = "no two processes hold conflicting requests";
pub(super) const BRIEF: &str = "no try waits for a holder";

#[test]
fn faults_of_wait_lists_are_found() {
    for wrong in [Wrong::StaleCopy, Wrong::ClearAfterWake] {
        is_caught(&format!("{wrong:?}"), WAITS, whole(2), |me| Mutant::new(WaitList::new(0, me, 2), wrong));
    }
}

#[test]
fn faults_of_queues_are_found() {
    let wrong = Wrong::NoCompareAndSwap;
    is_caught("queue", WAITS, whole(1), |me| Mutant::new(Queue::new(Space::World, 0, 0, me), wrong));
    is_caught("two levels", WAITS, whole(1), |me| Mutant::new(TwoLevel::new(0, me, me, 1), wrong));
}

#[test]
fn tries_that_wait_are_found() {
    let wrong = Wrong::TriesForGood;
    tries_badly("queue", |me| Mutant::new(Queue::new(Space::World, 0, 0, me), wrong));
    tries_badly("two levels", |me| Mutant::new(TwoLevel::new(0, me, me, 1), wrong));
    tries_badly("bakery", |me| Mutant::new(Bakery::new(Space::Node, 0, me, 2), wrong));
}

#[track_caller]
fn tries_badly<L: Checkable>(name: &str, make: impl Fn(Rank) -> L) {
    let start = System::new(2, make).trying(|_| true);
    let checked = Checked { start, requests: whole(1), bypass_max: u8::MAX, is_counted: |_| false };
    assert_eq!(checked.check().1, [BRIEF], "{name}");
}

#[test]
fn faults_of_bakeries_are_found() {
    let bakery = |me| Bakery::new(Space::Node, 0, me, 2);
    is_caught("bakery", ALONE, whole(1), |me| Mutant::new(bakery(me), Wrong::NoDrawing));
    is_caught("bakery", WAITS, whole(1), |me| Mutant::new(bakery(me), Wrong::NoSecondLook));
}

#[test]
fn ranges_that_retry_are_found() {
    let retrying = |me| Retrying { me, ranks: 2, range: (0, 10), state: Trying::Free };
    is_caught("ranges that retry", WAITS, whole(1), retrying);
}

#[test]
fn wrapper_without_a_fault_passes() {
    // A wait list has no compare-and-swap, so the wrapper changes nothing.
    let found = broken(2, whole(2), |me| Mutant::new(WaitList::new(0, me, 2), Wrong::NoCompareAndSwap));
    assert_eq!(found, [""; 0]);
}
