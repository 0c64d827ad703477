//! A list of who waits, at one process (Latham, Ross and Thakur 2005).

use smallvec::smallvec;

use crate::awaited::Awaited;
use crate::{Effect, Event, Lock, Place, Rank, Space, misled};

/// A lock for one at a time. A process that wants it says so in its word at the home rank, and looks at those of the others in the
/// same epoch: if no word is set it has the lock, else it waits to be woken. Who releases it clears its word, looks again, and
/// wakes the first one behind itself, round the ranks: so each other process has the lock at most once while one waits.
///
/// What the paper prints as Figure 6 looks at the list of the acquisition; with that copy a process that came since is never
/// woken. Its two locks differ in how a process waits, which is up to who performs [`Effect::AwaitWake`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WaitList {
    home: Rank,
    me: Rank,
    ranks: u32,
    /// Who has it, or waits.
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
    /// The lock at rank `home`, for process `me` of `ranks`. It has one word of the home rank for each of them.
    pub fn new(home: Rank, me: Rank, ranks: u32) -> Self {
        Self { home, me, ranks, awaited: Awaited::default(), state: State::Free }
    }

    fn place(&self) -> Place {
        Place { space: Space::World, rank: self.home, word: self.me }
    }

    fn exchange(&self, mine: u64) -> Effect {
        Effect::Exchange { first: self.place(), put: smallvec![mine], words: self.ranks, is_exclusive: true }
    }

    /// Those on the list, but this one.
    fn note(&mut self, list: &[u64]) {
        let others = list.iter().zip(0..).filter(|(word, rank)| **word == WANTED && *rank != self.me);
        self.awaited.set(others.map(|(_, rank)| rank));
    }

    /// The first process behind this one that waits.
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
