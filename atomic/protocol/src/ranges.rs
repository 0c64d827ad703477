//! Ranges of bytes by atomic exchanges with one process. Processes whose requests do not conflict hold the
//! lock at the same time.

use std::mem;

use smallvec::SmallVec;

use crate::awaited::Awaited;
use crate::request::{REQUEST_WORDS, STAMP_SHIFT};
use crate::{Effect, Event, Lock, Place, Rank, Request, Space, Words, misled};

/// The number of words of a process's slot at the home rank.
pub const SLOT_WORDS: u32 = REQUEST_WORDS as u32;

/// A lock of ranges of bytes. Each process has a slot at the home rank. A process that wants bytes stores
/// its request in its slot and fetches all slots, in one atomic exchange. The conflicting requests that it
/// finds came before. The process waits for one wake-up from each of them. A process that releases clears its
/// slot and fetches all slots, in one atomic exchange. The conflicting requests that it finds came later,
/// because those before have woken it already. It wakes each of them. So a free lock costs one exchange to
/// acquire and one to release. No process retries, and every wait is for an earlier request, so the waits
/// contain no cycle.
///
/// A process can leave before its turn: a try that finds a conflict, and a wait that is given up. It clears
/// its slot as in a release. A process before it that is gone by then found its request, and wakes it. A
/// process before it that is still there will not find its request. So the number of wake-ups that it has to
/// take is known. They are on their way, and it takes them before the lock is free. For this, each request
/// has a stamp, which the process counts up: a process can be gone and have a later request by then.
///
/// A try first fetches the slots without a store, so a try that fails mostly disturbs no other process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ranges {
    home: Rank,
    me: Rank,
    ranks: u32,
    /// The stamp of the last request.
    stamp: u64,
    request: Option<Request>,
    is_try: bool,
    /// The conflicting requests that came before, by the first words of their slots. Empty when their
    /// wake-ups are taken.
    before: SmallVec<[(Rank, u64); 4]>,
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// The request is a try. Fetches all slots.
    Looking,
    /// Stores the request and fetches all slots.
    Telling,
    /// Waits for so many wake-ups of processes that came before.
    Waiting(u32),
    Held,
    /// Clears the slot and fetches all slots. The value is the number of wake-ups that were taken before.
    Leaving(u32),
    /// Wakes a process. The values are the processes that are left to wake, and the number of wake-ups to
    /// take after that.
    Waking(Vec<Rank>, u32),
    /// Takes wake-ups that are on their way. The value is their number.
    Expecting(u32),
}

impl Ranges {
    /// The part of process `me` of `ranks` in the lock at rank `home`. The lock has [`SLOT_WORDS`] words of
    /// the home rank for each process.
    pub fn new(home: Rank, me: Rank, ranks: u32) -> Self {
        Self {
            home,
            me,
            ranks,
            stamp: 0,
            request: None,
            is_try: false,
            before: SmallVec::new(),
            awaited: Awaited::default(),
            state: State::Free,
        }
    }

    /// Stores the first words of the own slot, and fetches all slots.
    fn exchange(&mut self, state: State, put: Words) -> Effect {
        let first = Place { space: Space::World, rank: self.home, word: self.me * SLOT_WORDS };
        self.go_on(state, Effect::Exchange { first, put, words: self.ranks * SLOT_WORDS })
    }

    fn tell(&mut self) -> Effect {
        self.stamp += 1;
        let mut put = self.request.as_ref().map(Request::words).unwrap_or_default();
        put[0] |= self.stamp << STAMP_SHIFT;
        self.exchange(State::Telling, put)
    }

    fn leave(&mut self, taken: u32) -> Effect {
        self.exchange(State::Leaving(taken), Words::from_elem(0, 1))
    }

    /// The other processes whose slots conflict with the request, with the first words of their slots.
    fn conflicting<'a>(&'a self, words: &'a [u64]) -> impl Iterator<Item = (Rank, u64)> + 'a {
        let slots = (0..).zip(words.chunks_exact(SLOT_WORDS as usize));
        let conflicts =
            |slot: &[u64]| self.request.as_ref().is_some_and(|request| request.conflicts_with(slot));
        let others = slots.filter(move |(rank, slot)| *rank != self.me && conflicts(slot));
        others.map(|(rank, slot)| (rank, slot[0]))
    }

    fn go_on(&mut self, state: State, effect: Effect) -> Effect {
        self.state = state;
        effect
    }

    fn wait(&mut self, count: u32) -> Effect {
        if count > 0 {
            return self.go_on(State::Waiting(count), Effect::AwaitWake(Space::World));
        }
        self.before.clear();
        self.go_on(State::Held, Effect::Held)
    }

    /// The slot is cleared, and `taken` wake-ups of processes that came before were taken.
    fn left(&mut self, words: &[u64], taken: u32) -> Effect {
        let before = mem::take(&mut self.before);
        let later = self.conflicting(words).filter(|found| !before.contains(found));
        let to_wake = later.map(|(rank, _)| rank).collect();
        let is_gone = |(rank, head): &&(Rank, u64)| words[(*rank * SLOT_WORDS) as usize] != *head;
        let gone = before.iter().filter(is_gone).count() as u32;
        self.wake(to_wake, gone.saturating_sub(taken))
    }

    fn wake(&mut self, mut to_wake: Vec<Rank>, owed: u32) -> Effect {
        match to_wake.pop() {
            None => self.expect(owed),
            Some(rank) => self.go_on(State::Waking(to_wake, owed), Effect::Wake(Space::World, rank)),
        }
    }

    fn expect(&mut self, owed: u32) -> Effect {
        match owed {
            0 => self.go_on(State::Free, Effect::Free),
            owed => self.go_on(State::Expecting(owed), Effect::AwaitWake(Space::World)),
        }
    }
}

impl Lock for Ranges {
    fn step(&mut self, event: Event<'_>) -> Effect {
        match (&mut self.state, event) {
            (State::Free, Event::Acquire(request)) => {
                (self.request, self.is_try) = (Some(request.clone()), false);
                self.tell()
            }
            (State::Free, Event::Try(request)) => {
                (self.request, self.is_try) = (Some(request.clone()), true);
                self.exchange(State::Looking, Words::new())
            }
            (State::Looking, Event::Words(words)) => {
                let before: SmallVec<[Rank; 4]> = self.conflicting(words).map(|(rank, _)| rank).collect();
                if before.is_empty() {
                    return self.tell();
                }
                self.awaited.set(before);
                self.go_on(State::Free, Effect::Free)
            }
            (State::Telling, Event::Words(words)) => {
                self.before = self.conflicting(words).collect();
                self.awaited.set(self.before.iter().map(|(rank, _)| *rank));
                let count = self.before.len() as u32;
                if self.is_try && count > 0 { self.leave(0) } else { self.wait(count) }
            }
            (State::Waiting(count), Event::Done) => {
                let left = *count - 1;
                self.wait(left)
            }
            (State::Waiting(count), Event::GiveUp) => {
                let taken = self.before.len() as u32 - *count;
                self.leave(taken)
            }
            (State::Held, Event::Release) => self.leave(0),
            (State::Leaving(taken), Event::Words(words)) => {
                let taken = *taken;
                self.left(words, taken)
            }
            (State::Waking(to_wake, owed), Event::Done) => {
                let (to_wake, owed) = (mem::take(to_wake), *owed);
                self.wake(to_wake, owed)
            }
            (State::Expecting(owed), Event::Done) => {
                let left = *owed - 1;
                self.expect(left)
            }
            (state, event) => misled(state, event),
        }
    }

    fn is_queued(&self) -> bool {
        matches!(self.state, State::Waiting(_) | State::Held)
    }

    // A wake-up that is on its way comes from a process that has left already.
    fn waits_for_holders(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    fn can_give_up(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }
}
