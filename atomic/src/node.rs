//! A lock of bytes among the ranks of one node, in memory that they share.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use capulet_comm::NodeWords;
use capulet_protocol::{Bakery, Effect, Event, Place, Request, Space};

use crate::perform::Memory;
use crate::process::Identity;

/// Which process the rank is.
const PROCESS_WORD: usize = 0;
const SPACE_WORD: usize = 1;
/// Where the words of the lock begin.
pub(crate) const LOCK_WORD: u32 = 2;

/// Ranks of a node that can share a lock.
pub const NODE_LOCK_RANKS: usize = 256;
/// Words of a rank in all, with that of its wake-ups.
pub const NODE_LOCK_WORDS: usize = 1 + LOCK_WORD as usize + Bakery::words(NODE_LOCK_RANKS as u32) as usize;

/// What a lock of a node is performed on.
pub(crate) struct NodeMemory {
    words: NodeWords,
    ranks: u32,
    /// What was fetched last.
    fetched: Vec<u64>,
}

impl Debug for NodeMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NodeMemory").field("words", &self.words).finish_non_exhaustive()
    }
}

impl NodeMemory {
    pub(crate) fn new(words: NodeWords, ranks: u32) -> Self {
        Self { words, ranks, fetched: Vec::new() }
    }

    pub(crate) fn words(&self) -> &NodeWords {
        &self.words
    }

    /// Tells the others who this process is.
    pub(crate) fn introduce(&self, identity: Option<Identity>) {
        let Identity { process, space } = identity.unwrap_or(Identity { process: 0, space: 0 });
        let own = |word| self.words.word(self.words.place(), word);
        own(SPACE_WORD).store(space, Ordering::Relaxed);
        own(PROCESS_WORD).store(process, Ordering::Release);
    }

    /// Which process a rank is.
    pub(crate) fn identity(&self, place: usize) -> Identity {
        let process = self.words.word(place, PROCESS_WORD).load(Ordering::Acquire);
        Identity { process, space: self.words.word(place, SPACE_WORD).load(Ordering::Relaxed) }
    }

    /// The ranks that hold, or wait for, what this request conflicts with. For messages: it may have changed meanwhile.
    pub(crate) fn holders(&self, request: &Request) -> Vec<usize> {
        let told = |place: usize| {
            let wanted = Bakery::wanted().map(|word| (LOCK_WORD + word) as usize);
            let words: Vec<u64> =
                wanted.map(|word| self.words.word(place, word).load(Ordering::Relaxed)).collect();
            let is_at_it = self.words.word(place, LOCK_WORD as usize).load(Ordering::Relaxed) != 0;
            is_at_it && request.conflicts_with(&words)
        };
        let others = (0..self.ranks as usize).filter(|place| *place != self.words.place());
        others.filter(|place| told(*place)).collect()
    }

    fn word(&self, place: Place) -> &AtomicU64 {
        debug_assert_eq!(place.space, Space::Node, "a lock of a node has no words elsewhere");
        self.words.word(place.rank as usize, place.word as usize)
    }
}

impl Memory for NodeMemory {
    fn perform(&mut self, effect: &Effect) -> Option<Event<'_>> {
        Some(match *effect {
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
                return None;
            }
            Effect::AwaitChange(..) => Event::Done,
            Effect::Put { first, ref put } => {
                // Whoever sees one of these words sees that what was told before has ended.
                fence(Ordering::Release);
                for (word, value) in (first.word..).zip(put) {
                    self.word(Place { word, ..first }).store(*value, Ordering::Relaxed);
                }
                Event::Done
            }
            Effect::Fetch { first, words } => {
                let words = first.word..first.word + words;
                let fetched = words.map(|word| self.word(Place { word, ..first }).load(Ordering::Relaxed));
                let fetched: Vec<u64> = fetched.collect();
                self.fetched = fetched;
                // Whether they were stored meanwhile is asked after they were fetched.
                fence(Ordering::Acquire);
                Event::Words(&self.fetched)
            }
            Effect::Exchange { .. } => unreachable!("a lock of a node has no home"),
            Effect::Wake(_, rank) => {
                self.words.wake(rank as usize);
                Event::Done
            }
            Effect::AwaitWake(_) if self.words.try_take() => Event::Done,
            Effect::AwaitWake(_) => return None,
            Effect::Held | Effect::Free => unreachable!("there is nothing to perform"),
        })
    }
}
