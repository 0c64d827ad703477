//! Ranges of bytes behind a gate. Processes whose requests do not conflict hold the lock at the same
//! time.

use smallvec::SmallVec;

use crate::awaited::Awaited;
use crate::request::REQUEST_WORDS;
use crate::{Effect, Event, Lock, Place, Rank, Request, Space, Words, misled};

/// The number of words of a process's slot at the home rank.
pub const SLOT_WORDS: u32 = REQUEST_WORDS as u32;

/// A lock of ranges of bytes. A process that wants bytes stores its request in its slot at the home rank,
/// counts the conflicting requests in the other slots, and waits for one wake-up from each of them. A
/// process that releases wakes the processes whose requests conflict with its own. All of these came
/// later, because the conflicting processes that came before have woken it already. No process retries,
/// no process holds a part of its request, and every wait is for an earlier request. So the waits contain
/// no cycle. A gate makes the store and the count one atomic step. It is held for one exchange with the
/// home rank, and never longer.
///
/// A wake-up of the gate and a wake-up for bytes use the same counter, and are never mistaken for each
/// other. While a process waits at the gate, no process owes it a wake-up for bytes: to acquire, its slot
/// is still empty, so no conflicting process counts on it; to release, all conflicting processes before
/// it have woken it already.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ranges<G> {
    gate: G,
    space: Space,
    /// The number of the first word of rank 0's slot at the home rank.
    base: u32,
    home: Rank,
    me: Rank,
    ranks: u32,
    request: Option<Request>,
    is_try: bool,
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// Acquires the gate.
    Coming,
    /// Stores the request and fetches all slots.
    Telling,
    /// The request is a try, and a conflicting process came before. Clears the slot before any other
    /// process reads it.
    Refused,
    /// Releases the gate. The value is the number of processes to wait for.
    Told(u32),
    /// Waits for so many wake-ups.
    Waiting(u32),
    Held,
    /// Acquires the gate in order to release the bytes.
    Going,
    /// Clears the slot and fetches all slots.
    Clearing,
    /// Releases the gate. The value is the processes to wake.
    Cleared(Vec<Rank>),
    /// Wakes a process. The value is the processes that are left to wake.
    Waking(Vec<Rank>),
}

impl<G: Lock> Ranges<G> {
    /// The part of process `me` of `ranks` in the lock at rank `home`. The lock has [`SLOT_WORDS`] words
    /// of the home rank for each process, from word `base` on. The gate must be a mutex that uses other
    /// words.
    pub fn new(gate: G, space: Space, base: u32, home: Rank, me: Rank, ranks: u32) -> Self {
        let (awaited, state) = (Awaited::default(), State::Free);
        Self { gate, space, base, home, me, ranks, request: None, is_try: false, awaited, state }
    }

    /// Stores the first words of the own slot, and fetches all slots.
    fn exchange(&self, put: Words) -> Effect {
        let first = Place { space: self.space, rank: self.home, word: self.base + self.me * SLOT_WORDS };
        Effect::Exchange { first, put, words: self.base + self.ranks * SLOT_WORDS, is_exclusive: false }
    }

    /// The other processes whose slots conflict with the request.
    fn conflicting<'a>(&'a self, words: &'a [u64]) -> impl Iterator<Item = Rank> + 'a {
        let slots = words[self.base as usize..].chunks_exact(SLOT_WORDS as usize).zip(0..);
        let others = slots.filter(|(_, rank)| *rank != self.me);
        let conflicts =
            |slot: &[u64]| self.request.as_ref().is_some_and(|request| request.conflicts_with(slot));
        others.filter(move |(slot, _)| conflicts(slot)).map(|(_, rank)| rank)
    }

    fn go_on(&mut self, state: State, effect: Effect) -> Effect {
        self.state = state;
        effect
    }

    /// Steps the gate.
    fn at_gate(&mut self, event: Event<'_>) -> Effect {
        let effect = self.gate.step(event);
        match (&mut self.state, effect) {
            (State::Coming, Effect::Held) => {
                let put = self.request.as_ref().map(Request::words).unwrap_or_default();
                let effect = self.exchange(put);
                self.go_on(State::Telling, effect)
            }
            (State::Going, Effect::Held) => {
                let effect = self.exchange(Words::from_elem(0, 1));
                self.go_on(State::Clearing, effect)
            }
            (State::Told(count), Effect::Free) => {
                let count = *count;
                self.wait(count)
            }
            (State::Cleared(to_wake), Effect::Free) => {
                let to_wake = std::mem::take(to_wake);
                self.wake(to_wake)
            }
            (_, effect) => effect,
        }
    }

    fn wait(&mut self, count: u32) -> Effect {
        match count {
            0 => self.go_on(State::Held, Effect::Held),
            count => self.go_on(State::Waiting(count), Effect::AwaitWake(self.space)),
        }
    }

    fn wake(&mut self, mut to_wake: Vec<Rank>) -> Effect {
        match to_wake.pop() {
            None => self.go_on(State::Free, Effect::Free),
            Some(rank) => self.go_on(State::Waking(to_wake), Effect::Wake(self.space, rank)),
        }
    }
}

impl<G: Lock> Lock for Ranges<G> {
    fn step(&mut self, event: Event<'_>) -> Effect {
        match (&mut self.state, event) {
            (State::Free, Event::Acquire(request) | Event::Try(request)) => {
                self.request = Some(request.clone());
                self.is_try = matches!(event, Event::Try(_));
                self.state = State::Coming;
                self.at_gate(Event::Acquire(request))
            }
            (State::Telling, Event::Words(words)) => {
                let before: SmallVec<[Rank; 4]> = self.conflicting(words).collect();
                let count = before.len() as u32;
                self.awaited.set(before);
                if self.is_try && count > 0 {
                    let effect = self.exchange(Words::from_elem(0, 1));
                    return self.go_on(State::Refused, effect);
                }
                self.state = State::Told(count);
                self.at_gate(Event::Release)
            }
            (State::Refused, Event::Words(_)) => {
                // No process has read the slot, so no process waits for this one.
                self.state = State::Cleared(Vec::new());
                self.at_gate(Event::Release)
            }
            (State::Waiting(count), Event::Done) => {
                let left = *count - 1;
                self.wait(left)
            }
            (State::Held, Event::Release) => {
                self.state = State::Going;
                let whole = Request::whole();
                self.at_gate(Event::Acquire(&whole))
            }
            (State::Clearing, Event::Words(words)) => {
                let to_wake = self.conflicting(words).collect();
                self.state = State::Cleared(to_wake);
                self.at_gate(Event::Release)
            }
            (State::Waking(to_wake), Event::Done) => {
                let to_wake = std::mem::take(to_wake);
                self.wake(to_wake)
            }
            (State::Coming | State::Told(_) | State::Going | State::Cleared(_), event) => self.at_gate(event),
            (state, event) => misled(state, event),
        }
    }

    fn is_queued(&self) -> bool {
        match self.state {
            // A process that passes the gate later counts this one.
            State::Coming => self.gate.is_queued(),
            State::Free | State::Refused | State::Cleared(_) | State::Waking(_) => false,
            _ => true,
        }
    }

    // At the gate the process waits only for processes that are about to leave the gate.
    fn waits_for_holders(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }
}
