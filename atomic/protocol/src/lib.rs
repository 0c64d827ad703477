//! Protocols of locks between processes.
//!
//! Each protocol is a value, [`Lock`]: one per process, stepped by what happened to the effect that it returned last. It makes no
//! call, reads no clock and holds no shared memory, so that the same code runs under a model checker, in simulations of 10,000
//! processes, and on MPI. Whoever performs the effects needs:
//!
//! - per process a few words of 64 bits that all processes reach, zero at the start ([`Place`]);
//! - wake-ups: [`Effect::Wake`] leaves one at a process, [`Effect::AwaitWake`] takes one. They carry nothing, are never lost, and
//!   may be late. Messages without content are such; so is a counter in shared memory with a futex, or one that is polled.
//!
//! | protocol | order | who waits | free acquire and release | memory a process |
//! |---|---|---|---|---|
//! | [`WaitList`] | each other enters at most once before | until woken | two exclusive epochs | N words at home |
//! | [`Queue`] | first come, first served | until woken | swap; swap of one's own word and compare-and-swap | 2 words |
//! | [`TwoLevel`] | as a queue, but a node keeps the lock for so many of its own at a time | until woken | two queues | 5 words |
//! | [`Ranges`] | first come, first served among those that conflict | until woken, by each that it conflicts with | a gate's, twice | a slot at home |
//! | [`Bakery`] | first come, first served among those that conflict | until woken, by each that it conflicts with | loads of each other's words, stores to one's own | 23 words |
//!
//! [`WaitList`] is the lock of Latham, Ross and Thakur (Implementing MPI-IO Atomic Mode Without File System Support, 2005,
//! sections 3 and 4); the others follow Mellor-Crummey and Scott's queue.

mod awaited;
mod bakery;
mod queue;
mod ranges;
mod request;
mod two_level;
mod wait_list;

pub use bakery::Bakery;
pub use queue::Queue;
pub use ranges::{Ranges, SLOT_WORDS};
pub use request::{INTERVALS_MAX, Request, are_disjoint};
pub use two_level::TwoLevel;
pub use wait_list::WaitList;

use std::fmt::Debug;
use std::hash::Hash;

use smallvec::SmallVec;

/// A process, by its rank among those that share the lock.
pub type Rank = u32;

/// Words of a process.
pub type Words = SmallVec<[u64; 8]>;

/// Which of a process's words and wake-ups are meant. A lock of two levels uses both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Those that the processes of its node reach.
    Node,
    /// Those that all processes reach.
    World,
}

/// A word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Which memory.
    pub space: Space,
    /// Whose.
    pub rank: Rank,
    /// Its number there.
    pub word: u32,
}

/// What a lock wants done. It must be stepped with the event that is named, and with nothing before that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Stores `put` at `first`, and fetches as many `words` from the start of that process's memory, with what was put among them.
    /// If `is_exclusive`, no other such effect at that process comes between the two; nothing is promised of their order else.
    /// Then [`Event::Words`].
    Exchange {
        /// Where the first word is stored.
        first: Place,
        /// What is stored.
        put: Words,
        /// How many words are fetched.
        words: u32,
        /// Whether storing and fetching are one step for all processes.
        is_exclusive: bool,
    },
    /// Fetches as many `words` from the start of that process's memory, and stores `value` at `place` if all of them are zero, in one
    /// step. Then [`Event::Words`], those before.
    ClaimIfNone {
        /// Where it is stored.
        place: Place,
        /// What is stored.
        value: u64,
        /// How many words are fetched.
        words: u32,
    },
    /// Stores a value and fetches the one before, in one step. Then [`Event::Value`].
    Swap(Place, u64),
    /// Stores a value if the word has the first of the two; fetches the one before, in one step. Then [`Event::Value`].
    CompareSwap(Place, u64, u64),
    /// Fetches a word. Then [`Event::Value`].
    Load(Place),
    /// Stores a word. Then [`Event::Done`].
    Store(Place, u64),
    /// Stores words of this process's own. Not in one step: nobody reads them meanwhile who does not find out. Then [`Event::Done`].
    Put {
        /// Where the first is stored.
        first: Place,
        /// What is stored.
        put: Words,
    },
    /// Fetches so many words of a process, which may be storing them. Then [`Event::Words`].
    Fetch {
        /// The first.
        first: Place,
        /// How many.
        words: u32,
    },
    /// Sets bits of a word and fetches the word before, in one step. Then [`Event::Value`].
    SetBits(Place, u64),
    /// Clears bits of a word and fetches the word before, in one step. Then [`Event::Value`].
    ClearBits(Place, u64),
    /// Waits until a word is not that value. Then [`Event::Done`]. Another process is about to store it: it waits for nobody.
    AwaitChange(Place, u64),
    /// Leaves a wake-up at a process. Does not wait. Then [`Event::Done`].
    Wake(Space, Rank),
    /// Waits for a wake-up and takes it. Then [`Event::Done`].
    AwaitWake(Space),
    /// The lock is held. Next is [`Event::Release`].
    Held,
    /// It is not held, not any more or not by this try. Next is [`Event::Acquire`] or [`Event::Try`].
    Free,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The lock is wanted.
    Acquire(&'a Request),
    /// It is wanted if it is free: else nothing is kept of it. Who tries waits for no holder, only for those that are about to leave a
    /// gate, to draw a number, or to say that they have joined a queue.
    Try(&'a Request),
    /// It is no longer needed.
    Release,
    /// It is not waited for any more: what the last effect waits for is not done. Only where [`Lock::can_give_up`] says so.
    GiveUp,
    /// A word was fetched.
    Value(u64),
    /// Words were fetched.
    Words(&'a [u64]),
    /// What was asked for is done.
    Done,
}

/// One process's part of a lock.
pub trait Lock: Clone + Debug + Send + 'static {
    /// What is to be done next.
    ///
    /// # Panics
    /// If the event is not one that the last effect leads to.
    fn step(&mut self, event: Event<'_>) -> Effect;

    /// Whether it has got its place before all that come later. True from some step of an acquisition on, until it is released.
    fn is_queued(&self) -> bool;

    /// Whether it waits for others that hold what it wants, and not for what another process is just about to do.
    fn waits_for_holders(&self) -> bool {
        false
    }

    /// Whether [`Event::GiveUp`] may be next: it waits, and can go without keeping those waiting who come after it.
    fn can_give_up(&self) -> bool {
        false
    }

    /// Whom it waits for, or was refused by, as far as it knows: those that hold what it wants or come before. For messages.
    fn awaited(&self) -> &[Rank] {
        &[]
    }

    /// Whether it knows no more of them than their nodes: [`Lock::awaited`] has the first process of each then.
    fn awaits_nodes(&self) -> bool {
        false
    }
}

/// For events that no correct caller can bring about.
#[cold]
#[track_caller]
fn misled(state: &dyn Debug, event: Event<'_>) -> ! {
    panic!("a lock in state {state:?} cannot step by {event:?}")
}
