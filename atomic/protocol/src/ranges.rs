//! Ranges of bytes, held by those that do not conflict.

use smallvec::SmallVec;

use crate::awaited::Awaited;
use crate::request::REQUEST_WORDS;
use crate::{Effect, Event, Lock, Place, Rank, Request, Space, Words, misled};

/// Words of a process at the home rank.
pub const SLOT_WORDS: u32 = REQUEST_WORDS as u32;

/// A lock of bytes: who wants some tells what, looks how many that came before conflict, and waits until each of them woke it. Who
/// releases wakes those that conflict with it: they all came later, for those that came before have woken it already. Nobody
/// tries again, nobody holds a part, and waits lead to earlier requests only, so none of them is in a circle. A gate, which
/// is held for one exchange with the home rank and never for longer, makes telling and looking one step.
///
/// Wake-ups of the gate and of the bytes are never mistaken for each other: while a process waits at the gate, nobody that it
/// conflicts with counts on it, or all that do have woken it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ranges<G> {
    gate: G,
    space: Space,
    /// Of the slot of rank 0 at the home rank.
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
    /// At the gate.
    Coming,
    Telling,
    /// It was a try, and somebody came before: takes back what it told before anybody else looks.
    Refused,
    /// Leaving the gate, with so many to wait for.
    Told(u32),
    /// For so many.
    Waiting(u32),
    Held,
    /// At the gate again.
    Going,
    Clearing,
    /// Leaving the gate, with those to wake.
    Cleared(Vec<Rank>),
    /// Those that are left.
    Waking(Vec<Rank>),
}

impl<G: Lock> Ranges<G> {
    /// The lock at rank `home`, for process `me` of `ranks`. It has [`SLOT_WORDS`] words of the home rank for each of them, from
    /// `base` on. The gate is a lock for one at a time of its own words.
    pub fn new(gate: G, space: Space, base: u32, home: Rank, me: Rank, ranks: u32) -> Self {
        let (awaited, state) = (Awaited::default(), State::Free);
        Self { gate, space, base, home, me, ranks, request: None, is_try: false, awaited, state }
    }

    /// Stores the slot's first words, and fetches all slots.
    fn exchange(&self, put: Words) -> Effect {
        let first = Place { space: self.space, rank: self.home, word: self.base + self.me * SLOT_WORDS };
        Effect::Exchange { first, put, words: self.base + self.ranks * SLOT_WORDS, is_exclusive: false }
    }

    /// Those that conflict.
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

    /// Lets the gate go on.
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
                // Nobody has seen what it told, so nobody waits for it.
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
            // Who comes through the gate later counts this one.
            State::Coming => self.gate.is_queued(),
            State::Free | State::Refused | State::Cleared(_) | State::Waking(_) => false,
            _ => true,
        }
    }

    // At the gate it waits only for processes that are about to leave it.
    fn waits_for_holders(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }
}
