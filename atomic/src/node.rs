//! Locks among the ranks of one node, in memory that they share.
//!
//! The words of a rank: the counter of its wake-ups, then the identity of its process, then the words of
//! the protocol.

use std::fmt::{self, Debug};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use capulet_comm::{NodeWords, Rank};
use capulet_protocol::{Bakery, Effect, Event, Lock, Place, Queue, Space};

use crate::Error;
use crate::lock::ByteLock;
use crate::perform::Memory;
use crate::process::Identity;

/// The identity of the rank's process: number and start time.
const PROCESS_WORD: usize = 0;
/// The identity of the rank's process: PID name space.
const SPACE_WORD: usize = 1;
/// The first word of the protocol.
pub(crate) const LOCK_WORD: u32 = 2;

/// The largest number of ranks of a node that can share a lock.
pub const NODE_LOCK_RANKS: usize = 256;
/// The number of words of a rank, with the counter of its wake-ups.
pub const NODE_LOCK_WORDS: usize = 1 + LOCK_WORD as usize + Bakery::words(NODE_LOCK_RANKS as u32) as usize;

/// The memory of a lock of one node.
pub struct NodeLockMemory {
    words: NodeWords,
    ranks: u32,
    own: Option<Identity>,
    /// The words that were fetched last. Kept so that a fetch does not allocate.
    fetched: Vec<u64>,
}

impl Debug for NodeLockMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NodeLockMemory").field("words", &self.words).finish_non_exhaustive()
    }
}

impl NodeLockMemory {
    pub(crate) fn new(words: NodeWords, ranks: u32) -> Self {
        let own = Identity::own();
        let memory = Self { words, ranks, own, fetched: Vec::new() };
        memory.introduce(own);
        memory
    }

    /// Publishes the identity of this process, or takes it back.
    fn introduce(&self, identity: Option<Identity>) {
        let Identity { process, space } = identity.unwrap_or(Identity { process: 0, space: 0 });
        let own = |word| self.words.word(self.words.place(), word);
        own(SPACE_WORD).store(space, Ordering::Relaxed);
        own(PROCESS_WORD).store(process, Ordering::Release);
    }

    /// Sets the first `words` words of this rank's part of the lock to zero. For use before any rank uses
    /// the lock.
    pub(crate) fn clear(&self, words: u32) {
        for word in LOCK_WORD..LOCK_WORD + words {
            self.words.word(self.words.place(), word as usize).store(0, Ordering::Release);
        }
    }

    /// The identity of the process of a rank.
    fn identity(&self, place: usize) -> Identity {
        let process = self.words.word(place, PROCESS_WORD).load(Ordering::Acquire);
        Identity { process, space: self.words.word(place, SPACE_WORD).load(Ordering::Relaxed) }
    }

    fn words_from(&self, first: Place) -> &[AtomicU64] {
        &self.words.words(first.rank as usize)[first.word as usize..]
    }

    fn word(&self, place: Place) -> &AtomicU64 {
        debug_assert_eq!(place.space, Space::Node, "a lock of one node uses words of that node only");
        self.words.word(place.rank as usize, place.word as usize)
    }
}

impl Memory for NodeLockMemory {
    fn bed(&self, _: Space) -> Option<NodeWords> {
        Some(self.words.clone())
    }

    fn dead(&self) -> Option<usize> {
        let own = self.own?;
        (0..self.ranks as usize).find(|place| self.identity(*place).is_dead(own))
    }

    fn leave(&mut self) -> Result<bool, Error> {
        // From now on this process may end without being reported as dead.
        self.introduce(None);
        Ok(true)
    }

    fn perform(&mut self, effect: &Effect) -> Result<Option<Event<'_>>, Error> {
        Ok(Some(match *effect {
            Effect::Swap(place, value) => Event::Value(self.word(place).swap(value, Ordering::SeqCst)),
            Effect::CompareSwap(place, expected, value) => {
                let word = self.word(place);
                let swapped = word.compare_exchange(expected, value, Ordering::SeqCst, Ordering::SeqCst);
                Event::Value(swapped.unwrap_or_else(|found| found))
            }
            Effect::Load(place) => Event::Value(self.word(place).load(Ordering::SeqCst)),
            Effect::Store(place, value) => {
                self.word(place).store(value, Ordering::SeqCst);
                Event::Done
            }
            Effect::SetBits(place, bits) => Event::Value(self.word(place).fetch_or(bits, Ordering::SeqCst)),
            Effect::ClearBits(place, bits) => {
                Event::Value(self.word(place).fetch_and(!bits, Ordering::SeqCst))
            }
            Effect::AwaitChange(place, value) if self.word(place).load(Ordering::SeqCst) == value => {
                return Ok(None);
            }
            Effect::AwaitChange(..) => Event::Done,
            Effect::Put { first, ref put } => {
                // A process that fetches one of the words stored below, and then loads the head, finds
                // that the previous acquisition has ended: this process stored that end before the fence.
                fence(Ordering::Release);
                for (word, value) in self.words_from(first).iter().zip(put) {
                    word.store(*value, Ordering::Relaxed);
                }
                Event::Done
            }
            Effect::Fetch { first, words } => {
                let mut fetched = mem::take(&mut self.fetched);
                fetched.clear();
                let words = &self.words_from(first)[..words as usize];
                fetched.extend(words.iter().map(|word| word.load(Ordering::Relaxed)));
                self.fetched = fetched;
                // The protocol loads the head again after this fence, to detect a store during the fetch.
                fence(Ordering::Acquire);
                Event::Words(&self.fetched)
            }
            Effect::Exchange { .. } | Effect::ClaimIfNone { .. } => {
                unreachable!("a lock of one node has no home rank")
            }
            Effect::Wake(_, rank) => {
                self.words.wake(rank as usize);
                Event::Done
            }
            Effect::AwaitWake(_) if self.words.try_take() => Event::Done,
            Effect::AwaitWake(_) => return Ok(None),
            Effect::Held | Effect::Free => unreachable!("the effect needs no operation"),
        }))
    }
}

/// A lock of ranges of bytes among the ranks of a node. Conflicting accesses are served first come, first
/// served. Accesses that do not conflict are served at once.
pub type NodeLock = ByteLock<Bakery, NodeLockMemory>;

/// A lock of the whole file among the ranks of a node, first come, first served.
pub type NodeQueue = ByteLock<Queue, NodeLockMemory>;

/// A protocol that needs only words of the ranks of one node.
pub trait OfNode: Sized {
    /// The part of the rank with number `me` on the node, among `ranks` ranks.
    fn of_node(me: u32, ranks: u32) -> Self;
}

impl OfNode for Bakery {
    fn of_node(me: u32, ranks: u32) -> Self {
        Bakery::new(Space::Node, LOCK_WORD, me, ranks)
    }
}

impl OfNode for Queue {
    fn of_node(me: u32, _: u32) -> Self {
        Queue::new(Space::Node, LOCK_WORD, 0, me)
    }
}

impl<L: Lock + OfNode> ByteLock<L, NodeLockMemory> {
    /// This rank's part of the lock in these words, among `ranks`, in their order on the node. A wait
    /// that lasts longer than `time_limit` is given up with [`Error::TimedOut`]; without a limit waits
    /// have no end. `progress` is called during a wait, at least once a millisecond. Local.
    pub fn new(
        words: NodeWords,
        ranks: Vec<Rank>,
        time_limit: Option<Duration>,
        progress: fn(),
    ) -> Arc<Self> {
        let count = ranks.len() as u32;
        let lock = L::of_node(words.place() as u32, count);
        Self::of(lock, NodeLockMemory::new(words, count), ranks, time_limit, progress)
    }
}
