//! A queue of processes. Each process knows the next one (after Mellor-Crummey and Scott).

use crate::awaited::Awaited;
use crate::{Effect, Event, Lock, Place, Rank, Space, misled};

/// A word at the home rank: the last entry of the queue plus 1, or 0 if the queue is empty.
const TAIL: u32 = 0;
/// A word of an entry: the process to wake plus 1, or 0 if none is known.
const NEXT: u32 = 1;
/// The number of words that a queue needs of each process.
pub(crate) const QUEUE_WORDS: u32 = 2;

/// A mutex, first come, first served. A process in the queue stores itself at the entry before it, and
/// the process of that entry wakes it. An acquisition accesses the home rank once. A release accesses the
/// home rank only if no process waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    space: Space,
    /// The number of the queue's first word.
    base: u32,
    home: Rank,
    /// The process whose words the entry uses.
    entry: Rank,
    /// The process that is woken.
    me: Rank,
    /// The entry before this one. It may wait as well.
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// Tries to become the only entry of the queue.
    Trying,
    /// Becomes the last entry.
    Joining,
    /// Stores itself at the entry before.
    Linking,
    Waiting,
    Held,
    /// Fetches the next process.
    Asking,
    /// No next process is known. Empties the queue, unless another entry has joined.
    Leaving,
    /// Another entry has joined, and its process is about to store itself here.
    Expecting,
    /// Fetches the next process again.
    Hearing,
    Waking,
}

impl Queue {
    /// The part of process `me` in the lock at rank `home`. The lock has two words of each process, from
    /// word `base` on.
    pub fn new(space: Space, base: u32, home: Rank, me: Rank) -> Self {
        Self { space, base, home, entry: me, me, awaited: Awaited::default(), state: State::Free }
    }

    /// The same lock, with an entry that several processes use one after the other. The process that
    /// releases the lock may be another one than the process that acquired it.
    pub(crate) fn with_entry(self, entry: Rank) -> Self {
        Self { entry, ..self }
    }

    /// Sets whether this process holds the lock, so that it can release what another process of the same
    /// entry acquired.
    pub(crate) fn set_held(&mut self, is_held: bool) {
        self.state = if is_held { State::Held } else { State::Free };
    }

    fn tail(&self) -> Place {
        Place { space: self.space, rank: self.home, word: self.base + TAIL }
    }

    fn next_of(&self, entry: Rank) -> Place {
        Place { space: self.space, rank: entry, word: self.base + NEXT }
    }

    /// The word in which the process behind this entry stores itself.
    pub(crate) fn next_place(&self) -> Place {
        self.next_of(self.entry)
    }

    fn take_next(&self) -> Effect {
        Effect::Swap(self.next_place(), 0)
    }
}

impl Lock for Queue {
    fn step(&mut self, event: Event<'_>) -> Effect {
        let name = u64::from(self.entry) + 1;
        let (state, effect) = match (self.state, event) {
            (State::Free, Event::Acquire(_)) => (State::Joining, Effect::Swap(self.tail(), name)),
            (State::Free, Event::Try(_)) => (State::Trying, Effect::CompareSwap(self.tail(), 0, name)),
            (State::Trying | State::Joining, Event::Value(0)) | (State::Waiting, Event::Done) => {
                (State::Held, Effect::Held)
            }
            (State::Trying, Event::Value(last)) => {
                self.awaited.set([(last - 1) as Rank]);
                (State::Free, Effect::Free)
            }
            (State::Joining, Event::Value(before)) => {
                let before = (before - 1) as Rank;
                self.awaited.set([before]);
                (State::Linking, Effect::Store(self.next_of(before), u64::from(self.me) + 1))
            }
            (State::Linking, Event::Done) => (State::Waiting, Effect::AwaitWake(self.space)),
            (State::Held, Event::Release) => (State::Asking, self.take_next()),
            (State::Asking, Event::Value(0)) => (State::Leaving, Effect::CompareSwap(self.tail(), name, 0)),
            (State::Asking | State::Hearing, Event::Value(next)) if next > 0 => {
                (State::Waking, Effect::Wake(self.space, (next - 1) as Rank))
            }
            (State::Leaving, Event::Value(last)) if last == name => (State::Free, Effect::Free),
            (State::Leaving, Event::Value(_)) => {
                (State::Expecting, Effect::AwaitChange(self.next_place(), 0))
            }
            (State::Expecting, Event::Done) => (State::Hearing, self.take_next()),
            (State::Waking, Event::Done) => (State::Free, Effect::Free),
            (state, event) => misled(&state, event),
        };
        self.state = state;
        effect
    }

    fn is_queued(&self) -> bool {
        matches!(self.state, State::Linking | State::Waiting | State::Held)
    }

    fn waits_for_holders(&self) -> bool {
        self.state == State::Waiting
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }
}
