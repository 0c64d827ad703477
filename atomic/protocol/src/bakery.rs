//! Ranges of bytes by numbers, after Lamport's bakery. Processes whose requests do not conflict never
//! wait for each other.

use std::mem;

use smallvec::SmallVec;

use crate::awaited::Awaited;
use crate::request::REQUEST_WORDS;
use crate::{Effect, Event, Lock, Place, Rank, Request, Space, Words, misled};

/// The head word of a process: its stage, and its count of acquisitions. 0 while the process wants
/// nothing.
const HEAD: u32 = 0;
/// The number that the process has drawn, or 0.
const NUMBER: u32 = 1;
/// The first word of the request.
const WANTED: u32 = 2;
/// The first of the words that have one bit for each process that waits for this one.
const WAITING: u32 = WANTED + REQUEST_WORDS as u32;
const WAITING_BITS: u32 = u64::BITS;

/// A stage in the head word: the process draws its number.
const DRAWING: u64 = 1;
/// A stage in the head word: the process has drawn its number.
const DRAWN: u64 = 2;
/// The bits of the head word from here on count the acquisitions of the process.
const TIMES_SHIFT: u32 = 8;

/// A lock of ranges of bytes, after Lamport's bakery. A process that wants bytes publishes its request,
/// draws a number higher than all numbers that it reads, and waits for the processes that conflict and
/// have a lower number. A process stores only to its own words, except for one bit at another process
/// that it waits for. So a process acquires a free lock by loads of one cache line of each other process,
/// and releases it by two stores to its own words. No process waits for a process that it does not
/// conflict with.
///
/// First come, first served: a process that has drawn its number before another one begins to draw is
/// served before it. Processes that draw at the same time are served in the order of (number, rank). A
/// process that releases wakes the processes whose bits it finds set. The process that clears a bit
/// accounts for one wake-up: the releasing process sends it, and a waiting process that takes back its
/// own bit makes it unnecessary. So no wake-up is left over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bakery {
    space: Space,
    base: u32,
    me: Rank,
    ranks: u32,
    /// The number of acquisitions that this process has begun.
    times: u64,
    request: Option<Request>,
    number: u64,
    is_try: bool,
    /// The fetched request of the process under inspection, in [`State::Confirming`].
    wanted: Words,
    /// The processes to wake, in [`State::Waking`].
    to_wake: SmallVec<[Rank; 4]>,
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    /// Stores the request.
    Writing,
    /// Stores the head with [`DRAWING`].
    Opening,
    /// Loads the number of a process. The value is the highest number of the processes before.
    Counting(Rank, u64),
    /// Stores the own number.
    Numbering,
    /// Stores the head with [`DRAWN`].
    Showing,
    /// Loads the head of a process.
    Looking(Rank),
    /// Fetches the request of a process, whose head had this value.
    Reading(Rank, u64),
    /// Loads the head again. If the acquisition is another one, the fetched request is not valid.
    Confirming(Rank, u64),
    /// Waits until a process that conflicts has drawn its number.
    Drawing(Rank),
    /// Loads the number of a process that conflicts.
    Comparing(Rank, u64),
    /// Sets the own bit at a process that comes before.
    Telling(Rank, u64),
    /// Loads the head of that process again, to see whether it still comes before.
    Rechecking(Rank, u64),
    /// Waits for the wake-up of a process that comes before.
    Asleep(Rank),
    /// The process no longer comes before. Clears the own bit there. If the bit was cleared already, a
    /// wake-up is on its way.
    Withdrawing(Rank),
    /// This process gives up its wait. Clears the own bit. If the bit was cleared already, a wake-up is
    /// on its way.
    GivingUp(Rank),
    /// Waits for the wake-up that is on its way after giving up.
    Expecting,
    Held,
    /// Clears the own number.
    Leaving,
    /// Clears the own head.
    Closing,
    /// Loads a word of bits of the waiting processes. The words are read one after the other.
    Asking(u32),
    /// Takes the bits of that word.
    Calling(u32),
    /// Wakes a process of that word.
    Waking(u32),
}

impl Bakery {
    /// The part of process `me` of `ranks`. The lock has [`Bakery::words`] words of each process, from
    /// word `base` on.
    pub fn new(space: Space, base: u32, me: Rank, ranks: u32) -> Self {
        Self {
            space,
            base,
            me,
            ranks,
            times: 0,
            request: None,
            number: 0,
            is_try: false,
            wanted: Words::new(),
            to_wake: SmallVec::new(),
            awaited: Awaited::default(),
            state: State::Free,
        }
    }

    /// The number of words of each process, for `ranks` processes.
    pub const fn words(ranks: u32) -> u32 {
        WAITING + ranks.div_ceil(WAITING_BITS)
    }

    fn place(&self, rank: Rank, word: u32) -> Place {
        Place { space: self.space, rank, word: self.base + word }
    }

    fn head(&self, is: u64) -> u64 {
        self.times << TIMES_SHIFT | is
    }

    /// The bit of this process at another process.
    fn bit(&self, at: Rank) -> (Place, u64) {
        (self.place(at, WAITING + self.me / WAITING_BITS), 1 << (self.me % WAITING_BITS))
    }

    fn go_on(&mut self, state: State, effect: Effect) -> Effect {
        self.state = state;
        effect
    }

    /// Reads the numbers of the processes from `rank` on; after the last one, draws the own number.
    fn count(&mut self, rank: Rank, highest: u64) -> Effect {
        let rank = if rank == self.me { rank + 1 } else { rank };
        if rank < self.ranks {
            return self.go_on(State::Counting(rank, highest), Effect::Load(self.place(rank, NUMBER)));
        }
        self.number = highest + 1;
        self.go_on(State::Numbering, Effect::Store(self.place(self.me, NUMBER), self.number))
    }

    /// Inspects the processes from `rank` on; after the last one, the lock is held.
    fn look(&mut self, rank: Rank) -> Effect {
        let rank = if rank == self.me { rank + 1 } else { rank };
        if rank < self.ranks {
            return self.go_on(State::Looking(rank), Effect::Load(self.place(rank, HEAD)));
        }
        self.go_on(State::Held, Effect::Held)
    }

    fn leave(&mut self) -> Effect {
        self.go_on(State::Leaving, Effect::Store(self.place(self.me, NUMBER), 0))
    }

    /// Reads the words of bits of the waiting processes from `word` on; after the last one, the lock is
    /// free.
    fn ask(&mut self, word: u32) -> Effect {
        if word < self.ranks.div_ceil(WAITING_BITS) {
            return self.go_on(State::Asking(word), Effect::Load(self.place(self.me, WAITING + word)));
        }
        self.go_on(State::Free, Effect::Free)
    }

    fn wake(&mut self, word: u32) -> Effect {
        match self.to_wake.pop() {
            None => self.ask(word + 1),
            Some(rank) => self.go_on(State::Waking(word), Effect::Wake(self.space, rank)),
        }
    }

    /// Judges the request of another process. It was fetched between two loads of that process's head:
    /// `head`, then `now`.
    fn confirmed(&mut self, rank: Rank, head: u64, now: u64) -> Effect {
        // A process that is at another acquisition by now has begun to draw after this one had drawn, so
        // it comes later.
        let is_same = now >> TIMES_SHIFT == head >> TIMES_SHIFT && now != 0;
        let wanted = mem::take(&mut self.wanted);
        let conflicts = || self.request.as_ref().is_some_and(|request| request.conflicts_with(&wanted));
        match (is_same && conflicts(), now & DRAWING != 0) {
            (false, _) => self.look(rank + 1),
            (true, true) => {
                self.awaited.set([rank]);
                self.go_on(State::Drawing(rank), Effect::AwaitChange(self.place(rank, HEAD), now))
            }
            (true, false) => self.go_on(State::Comparing(rank, now), Effect::Load(self.place(rank, NUMBER))),
        }
    }

    /// The next effect after one word was fetched.
    fn fetched(&mut self, value: u64) -> Effect {
        match (self.state, value) {
            (State::Counting(rank, highest), number) => self.count(rank + 1, highest.max(number)),
            // The process wants nothing, or has not begun to draw: then it comes later, and sees the
            // request of this one.
            (State::Looking(rank), 0) => self.look(rank + 1),
            (State::Looking(rank), head) => {
                let first = self.place(rank, WANTED);
                let effect = Effect::Fetch { first, words: REQUEST_WORDS as u32 };
                self.go_on(State::Reading(rank, head), effect)
            }
            (State::Confirming(rank, head), now) => self.confirmed(rank, head, now),
            (State::Comparing(rank, head), number) => {
                // A process without a number is about to leave. Until it has left, it comes before.
                if number != 0 && (number, rank) > (self.number, self.me) {
                    return self.look(rank + 1);
                }
                self.awaited.set([rank]);
                if self.is_try {
                    return self.leave();
                }
                let (place, bit) = self.bit(rank);
                self.go_on(State::Telling(rank, head), Effect::SetBits(place, bit))
            }
            (State::Telling(rank, head), _) => {
                self.go_on(State::Rechecking(rank, head), Effect::Load(self.place(rank, HEAD)))
            }
            (State::Rechecking(rank, head), now) if now == head => {
                self.go_on(State::Asleep(rank), Effect::AwaitWake(self.space))
            }
            (State::Rechecking(rank, _), _) => {
                let (place, bit) = self.bit(rank);
                self.go_on(State::Withdrawing(rank), Effect::ClearBits(place, bit))
            }
            (State::Withdrawing(rank), before) if before & self.bit(rank).1 != 0 => self.look(rank + 1),
            (State::GivingUp(rank), before) if before & self.bit(rank).1 != 0 => self.leave(),
            (State::GivingUp(_), _) => self.go_on(State::Expecting, Effect::AwaitWake(self.space)),
            (State::Withdrawing(rank), _) => self.go_on(State::Asleep(rank), Effect::AwaitWake(self.space)),
            (State::Asking(word), 0) => self.ask(word + 1),
            (State::Asking(word), _) => {
                self.go_on(State::Calling(word), Effect::Swap(self.place(self.me, WAITING + word), 0))
            }
            (State::Calling(word), bits) => {
                let first = word * WAITING_BITS;
                let to_wake = (0..WAITING_BITS).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit);
                self.to_wake.extend(to_wake);
                self.wake(word)
            }
            (state, value) => misled(&state, Event::Value(value)),
        }
    }
}

impl Lock for Bakery {
    fn step(&mut self, event: Event<'_>) -> Effect {
        match (self.state, event) {
            (State::Free, Event::Acquire(request) | Event::Try(request)) => {
                self.request = Some(request.clone());
                self.is_try = matches!(event, Event::Try(_));
                self.times += 1;
                let put = Effect::Put { first: self.place(self.me, WANTED), put: request.words() };
                self.go_on(State::Writing, put)
            }
            (State::Writing, Event::Done) => {
                let drawing = Effect::Store(self.place(self.me, HEAD), self.head(DRAWING));
                self.go_on(State::Opening, drawing)
            }
            (State::Opening, Event::Done) => self.count(0, 0),
            (State::Numbering, Event::Done) => {
                let drawn = Effect::Store(self.place(self.me, HEAD), self.head(DRAWN));
                self.go_on(State::Showing, drawn)
            }
            (State::Showing, Event::Done) => self.look(0),
            (State::Reading(rank, head), Event::Words(words)) => {
                self.wanted = words.into();
                self.go_on(State::Confirming(rank, head), Effect::Load(self.place(rank, HEAD)))
            }
            (State::Drawing(rank), Event::Done) => self.look(rank),
            (State::Asleep(rank), Event::Done) => self.look(rank + 1),
            (State::Held, Event::Release)
            | (State::Drawing(_), Event::GiveUp)
            | (State::Expecting, Event::Done) => self.leave(),
            (State::Asleep(rank), Event::GiveUp) => {
                let (place, bit) = self.bit(rank);
                self.go_on(State::GivingUp(rank), Effect::ClearBits(place, bit))
            }
            (State::Leaving, Event::Done) => {
                self.go_on(State::Closing, Effect::Store(self.place(self.me, HEAD), 0))
            }
            (State::Closing, Event::Done) => self.ask(0),
            (State::Waking(word), Event::Done) => self.wake(word),
            (_, Event::Value(value)) => self.fetched(value),
            (state, event) => misled(&state, event),
        }
    }

    fn is_queued(&self) -> bool {
        !matches!(
            self.state,
            State::Free
                | State::Writing
                | State::Opening
                | State::Counting(..)
                | State::Numbering
                | State::GivingUp(_)
                | State::Expecting
                | State::Leaving
                | State::Closing
                | State::Asking(_)
                | State::Calling(_)
                | State::Waking(..)
        )
    }

    fn waits_for_holders(&self) -> bool {
        matches!(self.state, State::Asleep(_))
    }

    fn can_give_up(&self) -> bool {
        matches!(self.state, State::Asleep(_) | State::Drawing(_))
    }

    fn awaited(&self) -> &[Rank] {
        self.awaited.ranks()
    }
}
