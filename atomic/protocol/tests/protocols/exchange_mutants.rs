//! Locks whose exchange is not atomic, and range locks with one fault each. The checker must find every
//! fault.

use capulet_protocol::{Effect, Event, Lock, Ranges, Rank, Request, WaitList, Words};

use super::exhaustive::tells;
use super::mutants::{ALONE, BRIEF, WAITS, is_caught, whole};
use super::system::model::Checked;
use super::system::{Requests, System};

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fault {
    /// No fault.
    None,
    /// An exchange stores in one step, and fetches in a later one.
    StoresFirst,
    /// An exchange fetches in one step, and stores in a later one.
    FetchesFirst,
    /// A release wakes no process.
    WakesNobody,
    /// A release wakes each process twice.
    WakesTwice,
    /// A try waits for holders.
    TriesForGood,
    /// A try that has failed leaves its request in its slot.
    TryStays,
    /// A process that leaves before its turn does not wake the processes that found its request.
    LeavesSilently,
    /// A process that leaves before its turn does not take the wake-ups that are on their way.
    LeavesWakes,
    /// A request has no stamp.
    NoStamp,
}

/// A lock with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Faulty<L> {
    lock: L,
    fault: Fault,
    /// Whether the process has held the lock since its last request.
    was_held: bool,
    rest: Rest,
}

/// What is left to do of the last effect of the correct lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Rest {
    Nothing,
    /// Performs this effect. Then the correct lock takes its next step.
    Perform(Effect),
    /// Performs this exchange. The correct lock gets the words of the effect before.
    Store(Effect),
    /// The correct lock gets these words.
    Answer(Vec<u64>),
}

impl<L: Lock> Faulty<L> {
    fn new(lock: L, fault: Fault) -> Self {
        Self { lock, fault, was_held: false, rest: Rest::Nothing }
    }

    /// The next effect of the correct lock, changed by the fault.
    fn spoiled(&mut self, effect: Effect) -> Effect {
        let leaves_early = !self.was_held;
        self.was_held |= effect == Effect::Held;
        match (self.fault, effect) {
            (Fault::StoresFirst, Effect::Exchange { first, put, words }) => {
                self.rest = Rest::Perform(Effect::Exchange { first, put: Words::new(), words });
                Effect::Exchange { first, put, words }
            }
            (Fault::FetchesFirst, Effect::Exchange { first, put, words }) => {
                self.rest = Rest::Store(Effect::Exchange { first, put, words });
                Effect::Exchange { first, put: Words::new(), words }
            }
            (Fault::TryStays, Effect::Exchange { first, put, words }) if leaves_early && put[..] == [0] => {
                Effect::Exchange { first, put: Words::new(), words }
            }
            (Fault::NoStamp, Effect::Exchange { first, mut put, words }) => {
                put.iter_mut().take(1).for_each(|head| *head &= 0xFFFF);
                Effect::Exchange { first, put, words }
            }
            (Fault::WakesNobody, Effect::Wake(..)) => self.answered(Event::Done),
            (Fault::LeavesSilently, Effect::Wake(..)) if leaves_early => self.answered(Event::Done),
            (Fault::LeavesWakes, Effect::AwaitWake(_)) if leaves_early && !self.lock.waits_for_holders() => {
                self.answered(Event::Done)
            }
            (Fault::WakesTwice, Effect::Wake(space, rank)) => {
                self.rest = Rest::Perform(Effect::Wake(space, rank));
                Effect::Wake(space, rank)
            }
            (_, effect) => effect,
        }
    }

    fn answered(&mut self, event: Event<'_>) -> Effect {
        let effect = self.lock.step(event);
        self.spoiled(effect)
    }
}

impl<L: Lock> Lock for Faulty<L> {
    fn step(&mut self, event: Event<'_>) -> Effect {
        if matches!(event, Event::Acquire(_) | Event::Try(_)) {
            self.was_held = false;
        }
        match (std::mem::replace(&mut self.rest, Rest::Nothing), event) {
            (Rest::Perform(effect), _) => effect,
            (Rest::Store(effect), Event::Words(words)) => {
                self.rest = Rest::Answer(words.to_vec());
                effect
            }
            (Rest::Answer(words), _) => self.answered(Event::Words(&words)),
            (_, Event::Try(request)) if self.fault == Fault::TriesForGood => {
                self.answered(Event::Acquire(request))
            }
            (_, event) => self.answered(event),
        }
    }

    fn is_queued(&self) -> bool {
        self.lock.is_queued()
    }

    fn waits_for_holders(&self) -> bool {
        self.lock.waits_for_holders()
    }

    fn can_give_up(&self) -> bool {
        self.rest == Rest::Nothing && self.lock.can_give_up()
    }
}

const CLEAN: &str = "no value and no wake-up is left at the end";

fn ranges(fault: Fault) -> impl Fn(Rank) -> Faulty<Ranges> {
    ranges_of(2, fault)
}

fn ranges_of(ranks: u32, fault: Fault) -> impl Fn(Rank) -> Faulty<Ranges> {
    move |me| Faulty::new(Ranges::new(0, me, ranks), fault)
}

/// The names of the properties that do not hold for `ranks` processes where all may try, or may give up.
fn broken(ranks: u32, requests: Requests, tries: bool, gives_up: bool, fault: Fault) -> Vec<&'static str> {
    let start = System::new(ranks, ranges_of(ranks, fault)).trying(|_| tries).giving_up(|_| gives_up);
    let found = Checked { start, requests, bypass_max: u8::MAX, is_counted: tells }.check().1;
    println!("{fault:?}, tries: {tries}, gives up: {gives_up}: {found:?}");
    found
}

/// Requests with which one of three processes comes back.
fn one_comes_back() -> Requests {
    [1, 2, 1].map(|times| vec![Request::whole(); times]).into()
}

#[test]
fn exchanges_that_are_not_atomic_are_found() {
    // If both processes store before they fetch, each finds the other.
    is_caught("list", WAITS, whole(2), |me| Faulty::new(WaitList::new(0, me, 2), Fault::StoresFirst));
    is_caught("ranges", WAITS, whole(1), ranges(Fault::StoresFirst));
    // If both fetch before they store, none finds the other.
    is_caught("list", ALONE, whole(1), |me| Faulty::new(WaitList::new(0, me, 2), Fault::FetchesFirst));
    is_caught("ranges", ALONE, whole(1), ranges(Fault::FetchesFirst));
}

#[test]
fn releases_that_wake_wrongly_are_found() {
    is_caught("ranges that wake nobody", WAITS, whole(1), ranges(Fault::WakesNobody));
    assert_eq!(broken(2, whole(1), false, false, Fault::WakesTwice), [CLEAN]);
    // The second wake-up lets a process in before its turn.
    is_caught("ranges that wake twice", ALONE, whole(3), ranges(Fault::WakesTwice));
}

#[test]
fn faults_of_tries_are_found() {
    assert_eq!(broken(2, whole(1), true, false, Fault::TriesForGood), [BRIEF]);
    assert!(broken(2, whole(2), true, false, Fault::TryStays).contains(&WAITS));
    assert!(broken(2, whole(2), true, false, Fault::LeavesSilently).contains(&WAITS));
    assert!(broken(2, whole(1), true, false, Fault::LeavesWakes).contains(&CLEAN));
    // With two processes, the wake-up that is left over replaces the one that is missing.
    assert!(broken(3, one_comes_back(), true, false, Fault::NoStamp).contains(&WAITS));
}

#[test]
fn faults_of_waits_that_are_given_up_are_found() {
    assert!(broken(2, whole(2), false, true, Fault::LeavesSilently).contains(&WAITS));
    assert!(broken(2, whole(1), false, true, Fault::LeavesWakes).contains(&CLEAN));
    assert!(broken(3, one_comes_back(), false, true, Fault::NoStamp).contains(&ALONE));
}

#[test]
fn wrapper_without_a_fault_passes() {
    assert_eq!(broken(2, whole(2), true, true, Fault::None), [""; 0]);
}
