//! Ranges of bytes by numbers, as in a bakery: those that do not conflict have nothing to do with each other.

use std::mem;

use smallvec::SmallVec;

use crate::awaited::Awaited;
use crate::request::REQUEST_WORDS;
use crate::{Effect, Event, Lock, Place, Rank, Request, Space, Words, misled};

/// What the process is at, and since which of its acquisitions; then its number; then what it wants.
const HEAD: u32 = 0;
const NUMBER: u32 = 1;
const WANTED: u32 = 2;
/// A bit for each process that waits for this one.
const WAITING: u32 = WANTED + REQUEST_WORDS as u32;
const WAITING_BITS: u32 = u64::BITS;

/// In a head: the process draws its number. Above: how many times it has begun to.
const DRAWING: u64 = 1;
const DRAWN: u64 = 2;
const TIMES_SHIFT: u32 = 8;

/// A lock of bytes, after Lamport's bakery: who wants some tells what, draws a number higher than all that it sees, and waits for those
/// that conflict and have a lower one. Each process stores to its own words alone, except for a bit where it waits for another
/// one, so a lock that nobody wants is had by loads of one line of each other process, and let go of by two stores of one's own. No
/// one waits for a process that it does not conflict with.
///
/// First come, first served: who has drawn before another one begins to is served before. Those that draw at the same time come in
/// the order of numbers and ranks. Who releases wakes those whose bits it finds, and whoever takes a bit away owes or saves one
/// wake-up, so none is left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bakery {
    space: Space,
    base: u32,
    me: Rank,
    ranks: u32,
    /// Acquisitions begun.
    times: u64,
    request: Option<Request>,
    number: u64,
    is_try: bool,
    /// What the process that is looked at wants, in [`State::Confirming`].
    wanted: Words,
    /// Those that are woken, in [`State::Waking`].
    to_wake: SmallVec<[Rank; 4]>,
    awaited: Awaited,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum State {
    Free,
    Writing,
    Opening,
    /// The number of a process, beside the highest before.
    Counting(Rank, u64),
    Numbering,
    Showing,
    /// What a process is at.
    Looking(Rank),
    /// What it wants, if it is at the same still.
    Reading(Rank, u64),
    /// Whether it is: else what was fetched means nothing.
    Confirming(Rank, u64),
    /// It is about to have drawn.
    Drawing(Rank),
    /// Its number.
    Comparing(Rank, u64),
    /// It comes before: it is told that it is waited for.
    Telling(Rank, u64),
    /// Whether it still does.
    Rechecking(Rank, u64),
    Asleep(Rank),
    /// It does not: is there a wake-up to come?
    Withdrawing(Rank),
    /// It is not waited for any more: is there a wake-up to come?
    GivingUp(Rank),
    /// There is.
    Expecting,
    Held,
    Leaving,
    Closing,
    /// Who waits: words of bits, one after the other.
    Asking(u32),
    Calling(u32),
    Waking(u32),
}

impl Bakery {
    /// The lock for process `me` of `ranks`, with [`Bakery::words`] words of each process, from `base` on.
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

    /// Words of each of so many processes.
    pub const fn words(ranks: u32) -> u32 {
        WAITING + ranks.div_ceil(WAITING_BITS)
    }

    fn place(&self, rank: Rank, word: u32) -> Place {
        Place { space: self.space, rank, word: self.base + word }
    }

    fn head(&self, is: u64) -> u64 {
        self.times << TIMES_SHIFT | is
    }

    /// The bit of this process at another one.
    fn bit(&self, at: Rank) -> (Place, u64) {
        (self.place(at, WAITING + self.me / WAITING_BITS), 1 << (self.me % WAITING_BITS))
    }

    fn go_on(&mut self, state: State, effect: Effect) -> Effect {
        self.state = state;
        effect
    }

    /// The numbers from that of process `rank` on.
    fn count(&mut self, rank: Rank, highest: u64) -> Effect {
        let rank = if rank == self.me { rank + 1 } else { rank };
        if rank < self.ranks {
            return self.go_on(State::Counting(rank, highest), Effect::Load(self.place(rank, NUMBER)));
        }
        self.number = highest + 1;
        self.go_on(State::Numbering, Effect::Store(self.place(self.me, NUMBER), self.number))
    }

    /// Those from process `rank` on.
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

    /// Those that wait for this one, from a word of bits on.
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

    /// What another process wants was read between two looks at what it is at.
    fn confirmed(&mut self, rank: Rank, head: u64, now: u64) -> Effect {
        // Who is at another acquisition has begun to draw after this one had drawn.
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

    /// What follows from a word that was fetched.
    fn fetched(&mut self, value: u64) -> Effect {
        match (self.state, value) {
            (State::Counting(rank, highest), number) => self.count(rank + 1, highest.max(number)),
            // Nobody, or somebody who comes later and sees this one.
            (State::Looking(rank), 0) => self.look(rank + 1),
            (State::Looking(rank), head) => {
                let first = self.place(rank, WANTED);
                let effect = Effect::Fetch { first, words: REQUEST_WORDS as u32 };
                self.go_on(State::Reading(rank, head), effect)
            }
            (State::Confirming(rank, head), now) => self.confirmed(rank, head, now),
            (State::Comparing(rank, head), number) => {
                // Without a number it is about to go.
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
