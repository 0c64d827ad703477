//! Locks between processes, as pure state machines. Each protocol is a value of a type that implements
//! [`Lock`]. Each process has one such value. A step takes the [`Event`] that followed the last
//! [`Effect`], and returns the next effect. This crate must not know MPI, files, clocks or shared memory:
//! a protocol makes no call, reads no clock and holds no shared memory. So the same code runs under a
//! model checker, in simulations of 10,000 processes, and on MPI.
//!
//! # Example
//! Two processes and one lock. A map stands for the shared words, and one thread steps both processes.
//! ```
//! use std::collections::BTreeMap;
//!
//! use capulet_protocol::{Effect, Event, Lock, Queue, Request, Space};
//!
//! let (mut words, mut wakes) = (BTreeMap::new(), [0; 2]);
//! // Steps one process until the lock is held, free, or waiting for a wake-up.
//! let mut run = |me: usize, lock: &mut Queue, event: Event<'_>| {
//!     let mut effect = lock.step(event);
//!     loop {
//!         let event = match effect {
//!             Effect::Swap(place, value) => Event::Value(words.insert(place, value).unwrap_or(0)),
//!             Effect::CompareSwap(place, expected, value) => {
//!                 let word = words.entry(place).or_insert(0);
//!                 let before = *word;
//!                 *word = if before == expected { value } else { before };
//!                 Event::Value(before)
//!             }
//!             Effect::Store(place, value) => {
//!                 words.insert(place, value);
//!                 Event::Done
//!             }
//!             Effect::Wake(_, rank) => {
//!                 wakes[rank as usize] += 1;
//!                 Event::Done
//!             }
//!             Effect::AwaitWake(_) if wakes[me] > 0 => {
//!                 wakes[me] -= 1;
//!                 Event::Done
//!             }
//!             effect => return effect,
//!         };
//!         effect = lock.step(event);
//!     }
//! };
//!
//! let file = Request::whole();
//! let [mut first, mut second] = [0, 1].map(|me| Queue::new(Space::Node, 0, 0, me));
//! assert_eq!(run(0, &mut first, Event::Acquire(&file)), Effect::Held);
//! assert_eq!(run(1, &mut second, Event::Acquire(&file)), Effect::AwaitWake(Space::Node));
//! assert_eq!(run(0, &mut first, Event::Release), Effect::Free);
//! // The release has left a wake-up at process 1.
//! assert_eq!(run(1, &mut second, Event::Done), Effect::Held);
//! assert_eq!(run(1, &mut second, Event::Release), Effect::Free);
//! ```
//!
//! # What the caller provides
//! The caller performs the effects. For that it needs:
//!
//! - a few words of 64 bits per process. All processes reach them, and they are zero at the start
//!   ([`Place`]);
//! - wake-ups: [`Effect::Wake`] leaves a wake-up at a process, and [`Effect::AwaitWake`] takes one. A
//!   wake-up has no content, is never lost, and may be late. Three implementations qualify: messages
//!   without content, a counter in shared memory with a futex, and a counter that is polled.
//!
//! # Protocols
//! | protocol | order of entry | free acquire and release | memory per process |
//! |---|---|---|---|
//! | [`WaitList`] | each other process at most once before | 2 exchanges with home | N words at home |
//! | [`Queue`] | first come, first served | 2 swaps, 1 compare-and-swap | 2 words |
//! | [`TwoLevel`] | nodes in a queue, their processes in a queue | two queues | 5 words |
//! | [`Ranges`] | first come, first served | 2 exchanges with home | a slot at home |
//! | [`Bakery`] | first come, first served | loads of others' words, stores to own ones | 22 words, N bits |
//!
//! With [`TwoLevel`] a node keeps the lock for a limited number of its own processes in a row. [`Ranges`]
//! and [`Bakery`] lock bytes, and order only the requests that conflict: a process waits for a wake-up
//! from each conflicting process before it. The others lock the whole file, and a process waits for one
//! wake-up. The words of [`Bakery`] are 23 for up to 64 processes.
//!
//! [`WaitList`] is the lock of Ross, Latham, Gropp, Thakur and Toonen (Implementing MPI-IO Atomic Mode
//! Without File System Support, 2005, sections 2.1 and 2.2). [`Queue`] follows the queue of
//! Mellor-Crummey and Scott, and [`TwoLevel`] is two such queues. [`Bakery`] follows Lamport's bakery.
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | `request` | [`Request`]: the bytes to lock, their form as words, and the test for conflicts |
//! | `wait_list`, `queue`, `two_level`, `ranges`, `bakery` | one protocol each |
//! | `awaited` | the processes that a process waits for, for error messages |

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

/// A process, by its rank among the processes that share the lock.
pub type Rank = u32;

/// Values of consecutive words.
pub type Words = SmallVec<[u64; 8]>;

/// Selects one of the two sets of words and wake-ups of a process. A lock of two levels uses both sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// The set that the processes of the same node reach.
    Node,
    /// The set that all processes reach.
    World,
}

/// The address of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The memory that has the word.
    pub space: Space,
    /// The process whose word it is.
    pub rank: Rank,
    /// The number of the word in that process's memory.
    pub word: u32,
}

/// An operation that a lock asks its caller for. After it the caller steps the lock with the named event,
/// and with no other event before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Stores `put` at `first`, and fetches `words` words from the start of that process's memory, in one
    /// atomic step. The fetched words contain the stored ones. `put` may be empty. Followed by
    /// [`Event::Words`].
    Exchange {
        /// The address of the first stored word.
        first: Place,
        /// The stored values.
        put: Words,
        /// The number of fetched words.
        words: u32,
    },
    /// Fetches `words` words from the start of that process's memory, and stores `value` at `place` if
    /// all fetched words are zero, in one atomic step. Followed by [`Event::Words`] with the words before
    /// the store.
    ClaimIfNone {
        /// The address of the stored word.
        place: Place,
        /// The stored value.
        value: u64,
        /// The number of fetched words.
        words: u32,
    },
    /// Stores a value and fetches the previous one, in one atomic step. Followed by [`Event::Value`].
    Swap(Place, u64),
    /// Stores the second value if the word has the first one, and fetches the previous value, in one
    /// atomic step. Followed by [`Event::Value`].
    CompareSwap(Place, u64, u64),
    /// Fetches a word. Followed by [`Event::Value`].
    Load(Place),
    /// Stores a word. Followed by [`Event::Done`].
    Store(Place, u64),
    /// Stores several words of this process. Not atomic: a concurrent reader detects a torn read, because
    /// it loads the head word before and after ([`Bakery`]). Followed by [`Event::Done`].
    Put {
        /// The address of the first stored word.
        first: Place,
        /// The stored values.
        put: Words,
    },
    /// Fetches several words of a process, which may store them at the same time. Not atomic. Followed by
    /// [`Event::Words`].
    Fetch {
        /// The address of the first word.
        first: Place,
        /// The number of words.
        words: u32,
    },
    /// Sets bits of a word and fetches the previous value, in one atomic step. Followed by
    /// [`Event::Value`].
    SetBits(Place, u64),
    /// Clears bits of a word and fetches the previous value, in one atomic step. Followed by
    /// [`Event::Value`].
    ClearBits(Place, u64),
    /// Waits until a word differs from the value. Followed by [`Event::Done`]. The wait is short: another
    /// process is about to store the word, and that process waits for no other before the store.
    AwaitChange(Place, u64),
    /// Leaves a wake-up at a process. Does not wait. Followed by [`Event::Done`].
    Wake(Space, Rank),
    /// Waits for a wake-up and takes it. Followed by [`Event::Done`].
    AwaitWake(Space),
    /// The lock is held. The next event is [`Event::Release`].
    Held,
    /// The lock is not held: it was released, or a try has failed. The next event is [`Event::Acquire`]
    /// or [`Event::Try`].
    Free,
}

/// The input of a step: a wish of the caller, or the result of the last effect.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The process wants the lock, and waits for it.
    Acquire(&'a Request),
    /// The process wants the lock if it is free. If it is not, nothing of the request remains. A try
    /// waits for no holder. It waits only for a process that is about to draw a number, to link itself
    /// into a queue, or to send a wake-up.
    Try(&'a Request),
    /// The process no longer needs the lock.
    Release,
    /// The process stops waiting. The last effect, which is a wait, is not done. Only where
    /// [`Lock::can_give_up`] is true.
    GiveUp,
    /// The result of an effect that fetches one word.
    Value(u64),
    /// The result of an effect that fetches several words.
    Words(&'a [u64]),
    /// The last effect is done.
    Done,
}

/// One process's part of a lock.
pub trait Lock: Clone + Debug + Send + 'static {
    /// Takes the event that followed the last effect, and returns the next effect.
    ///
    /// # Panics
    /// If the event cannot follow the last effect.
    fn step(&mut self, event: Event<'_>) -> Effect;

    /// Whether this process has its place before all processes that come later. True from some step of an
    /// acquisition on, until the release.
    fn is_queued(&self) -> bool;

    /// Whether this process waits for processes that hold what it wants. False while it waits for a step
    /// that another process is about to make.
    fn waits_for_holders(&self) -> bool {
        false
    }

    /// Whether [`Event::GiveUp`] may be the next event: this process waits, and can leave without
    /// delaying the processes behind it.
    fn can_give_up(&self) -> bool {
        false
    }

    /// The processes that this process waits for, or that refused its try, as far as it knows: those that
    /// hold what it wants or come before it. For messages.
    fn awaited(&self) -> &[Rank] {
        &[]
    }

    /// Whether only the nodes of the awaited processes are known. Then [`Lock::awaited`] has the first
    /// process of each node.
    fn awaits_nodes(&self) -> bool {
        false
    }
}

/// Panics. For events that no correct caller can produce.
#[cold]
#[track_caller]
fn misled(state: &dyn Debug, event: Event<'_>) -> ! {
    panic!("a lock in state {state:?} cannot step by {event:?}")
}
