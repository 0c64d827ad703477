//! A queue of processes, each of which knows the next (after Mellor-Crummey and Scott).

use crate::awaited::Awaited;
use crate::{Effect, Event, Lock, Place, Rank, Space, misled};

/// The last entry, plus 1, at the home rank; 0 if there is none.
const TAIL: u32 = 0;
/// Whom to wake, plus 1, at an entry; 0 if nobody is known.
const NEXT: u32 = 1;
/// Words that a queue takes of each process.
pub(crate) const QUEUE_WORDS: u32 = 2;

/// A lock for one at a time, first come, first served. A process in the queue stores itself at the one before, and is woken by it:
/// the home rank is asked once for an acquisition, and for a release only where nobody waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    space: Space,
    /// Of its first word.
    base: u32,
    home: Rank,
    /// Whose words the entry uses.
    entry: Rank,
    /// Who is woken.
    me: Rank,
    /// The one before, who may wait as well.
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// Becoming the only one.
    Trying,
    /// Becoming the last.
    Joining,
    /// Telling the one before.
    Linking,
    Waiting,
    Held,
    /// Asking who is next.
    Asking,
    /// Nobody is known: leaving, if nobody has come.
    Leaving,
    /// Somebody has come, and is about to say so.
    Expecting,
    /// Asking again.
    Hearing,
    Waking,
}

impl Queue {
    /// The lock at rank `home`, for process `me`. It has two words of each process, from `base` on.
    pub fn new(space: Space, base: u32, home: Rank, me: Rank) -> Self {
        Self { space, base, home, entry: me, me, awaited: Awaited::default(), state: State::Free }
    }

    /// The same, with an entry that several processes use, one after the other: another one may release than the one that
    /// acquired it.
    pub(crate) fn with_entry(self, entry: Rank) -> Self {
        Self { entry, ..self }
    }

    /// Makes it the holder, or not: so that a process can release what another one of its entry acquired.
    pub(crate) fn set_held(&mut self, is_held: bool) {
        self.state = if is_held { State::Held } else { State::Free };
    }

    fn tail(&self) -> Place {
        Place { space: self.space, rank: self.home, word: self.base + TAIL }
    }

    fn next_of(&self, entry: Rank) -> Place {
        Place { space: self.space, rank: entry, word: self.base + NEXT }
    }

    /// Where the one behind this entry says who it is.
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
