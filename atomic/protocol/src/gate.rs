//! A lock for one at a time that is held for a moment, among processes that outnumber the processors.

use crate::{Effect, Event, Lock, Place, Queue, Rank, Space, misled};

/// Words of a process, of which those after the two of the queue are used at the home rank only.
pub const GATE_WORDS: u32 = 5;

/// A word that whoever comes may take, and a [`Queue`] for those who find it taken several times in a row. A queue alone hands the lock to
/// processes that are not running: while they are woken all others come too and wait behind them, and so on for ever, though the lock
/// is hardly ever held. Here they pass meanwhile. Only the first of the queue waits for the word, and announces that it
/// sleeps, so that who opens wakes it: whoever takes the announcement away owes exactly one wake-up. After so many have passed the first of the
/// queue, all that come join the queue until it has entered.
///
/// One that is queued is passed by at most `passes_max` and as many as there are other processes for each that is queued before it, and
/// for itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gate {
    queue: Queue,
    space: Space,
    base: u32,
    home: Rank,
    me: Rank,
    tries_max: u32,
    passes_max: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// How many have passed the first of the queue.
    Looking,
    /// The word, for so many times.
    Taking(u32),
    /// Whether somebody is queued, whom it has passed.
    Passing,
    Counting,
    Noting,
    Queueing,
    /// As the first of the queue: the word.
    First,
    Announcing,
    /// The word once more, for whoever had it may have looked before the announcement.
    Again,
    /// It has the word: is there a wake-up to come?
    Withdrawing,
    /// Yes: it is taken.
    Owed,
    Asleep,
    /// Nobody has passed the next one.
    Clearing,
    /// Leaving the queue.
    Leaving,
    Held,
    Opening,
    /// Whether the first of the queue sleeps.
    Asking,
    Calling,
    Waking,
}

impl Gate {
    /// For process `me`, with its words from `base` on; the shared ones are at `home`. Who finds it taken `tries_max` times joins the
    /// queue, and so does who comes after `passes_max` have passed the first there.
    pub fn new(space: Space, base: u32, home: Rank, me: Rank, tries_max: u32, passes_max: u64) -> Self {
        let queue = Queue::new(space, base, home, me);
        Self { queue, space, base, home, me, tries_max, passes_max, state: State::Free }
    }

    fn place(&self, word: u32) -> Place {
        Place { space: self.space, rank: self.home, word: self.base + word }
    }

    fn tail(&self) -> Place {
        self.place(0)
    }

    /// Who has it, plus 1.
    fn taken(&self) -> Place {
        self.place(2)
    }

    /// Who sleeps as the first of the queue, plus 1.
    fn announced(&self) -> Place {
        self.place(3)
    }

    /// How many have passed the first of the queue.
    fn passed(&self) -> Place {
        self.place(4)
    }

    fn own(&self) -> u64 {
        u64::from(self.me) + 1
    }

    fn take(&self) -> Effect {
        Effect::CompareSwap(self.taken(), 0, self.own())
    }

    fn go_on(&mut self, state: State, effect: Effect) -> Effect {
        self.state = state;
        effect
    }

    fn at_queue(&mut self, event: Event<'_>) -> Effect {
        let effect = self.queue.step(event);
        match (self.state, effect) {
            (State::Queueing, Effect::Held) => self.go_on(State::First, self.take()),
            (State::Leaving, Effect::Free) => self.go_on(State::Held, Effect::Held),
            (_, effect) => effect,
        }
    }

    fn join(&mut self) -> Effect {
        self.state = State::Queueing;
        self.at_queue(Event::Acquire(&crate::Request::whole()))
    }

    /// What follows from a word that was fetched.
    fn fetched(&mut self, value: u64) -> Effect {
        match (self.state, value) {
            (State::Looking, passed) if passed >= self.passes_max => self.join(),
            (State::Looking, _) => self.go_on(State::Taking(1), self.take()),
            (State::Taking(_), 0) => self.go_on(State::Passing, Effect::Load(self.tail())),
            (State::Taking(tries), _) if tries < self.tries_max => {
                self.go_on(State::Taking(tries + 1), self.take())
            }
            (State::Taking(_), _) => self.join(),
            (State::Passing, 0) => self.go_on(State::Held, Effect::Held),
            (State::Passing, _) => self.go_on(State::Counting, Effect::Load(self.passed())),
            (State::Counting, passed) => self.go_on(State::Noting, Effect::Store(self.passed(), passed + 1)),
            (State::First, 0) => self.go_on(State::Clearing, Effect::Store(self.passed(), 0)),
            (State::First, _) => self.go_on(State::Announcing, Effect::Store(self.announced(), self.own())),
            (State::Again, 0) => self.go_on(State::Withdrawing, Effect::Swap(self.announced(), 0)),
            (State::Again, _) => self.go_on(State::Asleep, Effect::AwaitWake(self.space)),
            (State::Withdrawing, 0) => self.go_on(State::Owed, Effect::AwaitWake(self.space)),
            (State::Withdrawing, _) => self.go_on(State::Clearing, Effect::Store(self.passed(), 0)),
            (State::Asking | State::Calling, 0) => self.go_on(State::Free, Effect::Free),
            (State::Asking, _) => self.go_on(State::Calling, Effect::Swap(self.announced(), 0)),
            (State::Calling, first) => {
                self.go_on(State::Waking, Effect::Wake(self.space, (first - 1) as Rank))
            }
            (state, value) => misled(&state, Event::Value(value)),
        }
    }
}

impl Lock for Gate {
    fn step(&mut self, event: Event<'_>) -> Effect {
        match (self.state, event) {
            (State::Queueing | State::Leaving, event) => self.at_queue(event),
            (State::Free, Event::Acquire(_)) => self.go_on(State::Looking, Effect::Load(self.passed())),
            (State::Noting, Event::Done) => self.go_on(State::Held, Effect::Held),
            (State::Announcing, Event::Done) => self.go_on(State::Again, self.take()),
            (State::Asleep, Event::Done) => self.go_on(State::First, self.take()),
            (State::Owed, Event::Done) => self.go_on(State::Clearing, Effect::Store(self.passed(), 0)),
            (State::Clearing, Event::Done) => {
                self.state = State::Leaving;
                self.at_queue(Event::Release)
            }
            (State::Held, Event::Release) => self.go_on(State::Opening, Effect::Store(self.taken(), 0)),
            (State::Opening, Event::Done) => self.go_on(State::Asking, Effect::Load(self.announced())),
            (State::Waking, Event::Done) => self.go_on(State::Free, Effect::Free),
            (_, Event::Value(value)) => self.fetched(value),
            (state, event) => misled(&state, event),
        }
    }

    fn is_queued(&self) -> bool {
        match self.state {
            State::Queueing => self.queue.is_queued(),
            State::Free | State::Looking | State::Taking(_) // before it
            | State::Opening | State::Asking | State::Calling | State::Waking => false, // after it
            _ => true,
        }
    }
}
