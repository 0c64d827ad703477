//! A list of the waiting processes, at one process (Ross, Latham, Gropp, Thakur and Toonen 2005).

use smallvec::smallvec;

use crate::awaited::Awaited;
use crate::{Effect, Event, Lock, Place, Rank, Space, misled};

/// A mutex. A process that wants it sets its word at the home rank, and reads the words of the other
/// processes in the same epoch. If no other word is set, the process has the lock. Otherwise it waits for
/// a wake-up. A process that releases the lock clears its word, reads the other words in the same epoch,
/// and wakes the first waiting process behind itself, in the cyclic order of ranks. So each other process
/// has the lock at most once while a process waits.
///
/// The paper's Figure 6 reads the copy of the list that was made at the acquisition. With that copy a
/// process that came after the acquisition is never woken. The paper's two locks differ only in how a
/// process waits. That is up to the caller, which performs [`Effect::AwaitWake`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitList {
    home: Rank,
    me: Rank,
    ranks: u32,
    /// The processes that hold the lock or wait for it.
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    Trying,
    Entering,
    Waiting,
    Held,
    Leaving,
    Waking,
}

const WANTED: u64 = 1;

impl WaitList {
    /// The part of process `me` of `ranks` in the lock at rank `home`. The lock has one word of the home
    /// rank for each process.
    pub fn new(home: Rank, me: Rank, ranks: u32) -> Self {
        Self { home, me, ranks, awaited: Awaited::default(), state: State::Free }
    }

    fn place(&self) -> Place {
        Place { space: Space::World, rank: self.home, word: self.me }
    }

    fn exchange(&self, mine: u64) -> Effect {
        Effect::Exchange { first: self.place(), put: smallvec![mine], words: self.ranks }
    }

    /// Notes the other processes on the list.
    fn note(&mut self, list: &[u64]) {
        let others = list.iter().zip(0..).filter(|(word, rank)| **word == WANTED && *rank != self.me);
        self.awaited.set(others.map(|(_, rank)| rank));
    }

    /// The first process behind this one, in the cyclic order of ranks, whose word is set.
    fn next(&self, list: &[u64]) -> Option<Rank> {
        let behind = (self.me + 1..self.ranks).chain(0..self.me);
        behind.into_iter().find(|rank| list[*rank as usize] == WANTED)
    }
}

impl Lock for WaitList {
    fn step(&mut self, event: Event<'_>) -> Effect {
        let (state, effect) = match (self.state, event) {
            (State::Free, Event::Acquire(_)) => (State::Entering, self.exchange(WANTED)),
            (State::Free, Event::Try(_)) => {
                let claim = Effect::ClaimIfNone { place: self.place(), value: WANTED, words: self.ranks };
                (State::Trying, claim)
            }
            (State::Trying, Event::Words(list)) if self.next(list).is_some() => {
                self.note(list);
                (State::Free, Effect::Free)
            }
            (State::Entering, Event::Words(list)) if self.next(list).is_some() => {
                self.note(list);
                (State::Waiting, Effect::AwaitWake(Space::World))
            }
            (State::Entering | State::Trying, Event::Words(_)) | (State::Waiting, Event::Done) => {
                (State::Held, Effect::Held)
            }
            (State::Held, Event::Release) => (State::Leaving, self.exchange(0)),
            (State::Leaving, Event::Words(list)) => match self.next(list) {
                Some(next) => (State::Waking, Effect::Wake(Space::World, next)),
                None => (State::Free, Effect::Free),
            },
            (State::Waking, Event::Done) => (State::Free, Effect::Free),
            (state, event) => misled(&state, event),
        };
        self.state = state;
        effect
    }

    fn is_queued(&self) -> bool {
        matches!(self.state, State::Waiting | State::Held)
    }

    fn waits_for_holders(&self) -> bool {
        self.state == State::Waiting
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }
}
