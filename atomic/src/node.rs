//! A lock of bytes among the ranks of one node, in memory that they share.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};

use capulet_comm::NodeWords;
use capulet_protocol::{Effect, Event, GATE_WORDS, Place, Request, SLOT_WORDS, Space, Words};

use crate::perform::Memory;
use crate::process::Identity;

/// Which process the rank is.
const PROCESS_WORD: usize = (GATE_WORDS + SLOT_WORDS) as usize;
const SPACE_WORD: usize = PROCESS_WORD + 1;
/// Words of a rank in all, with that of its wake-ups.
pub const NODE_LOCK_WORDS: usize = 1 + SPACE_WORD + 1;

/// What the node's part of a lock is performed on. The slots of [`capulet_protocol::Ranges`] lie with the rank that each is of, not
/// at a home: whoever reads one that is not taken reads one line.
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
        Self { words, ranks, fetched: vec![0; (GATE_WORDS + ranks * SLOT_WORDS) as usize] }
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
        let slot = GATE_WORDS as usize..(GATE_WORDS + SLOT_WORDS) as usize;
        let told = |place: usize| {
            let words: Vec<u64> =
                slot.clone().map(|word| self.words.word(place, word).load(Ordering::Relaxed)).collect();
            request.conflicts_with(&words)
        };
        let others = (0..self.ranks as usize).filter(|place| *place != self.words.place());
        others.filter(|place| told(*place)).collect()
    }

    fn word(&self, place: Place) -> &AtomicU64 {
        debug_assert_eq!(place.space, Space::Node, "a lock of a node has no words elsewhere");
        self.words.word(place.rank as usize, place.word as usize)
    }

    /// Stores this rank's slot, and fetches those of all ranks. Those that hold the gate do so alone, and the gate orders it.
    fn exchange(&mut self, put: &Words) {
        let slot = GATE_WORDS as usize..(GATE_WORDS + SLOT_WORDS) as usize;
        for (word, value) in slot.clone().zip(put) {
            self.words.word(self.words.place(), word).store(*value, Ordering::Relaxed);
        }
        let slots = self.fetched[GATE_WORDS as usize..].chunks_exact_mut(SLOT_WORDS as usize);
        for (rank, fetched) in (0..self.ranks as usize).zip(slots) {
            fetched[0] = self.words.word(rank, slot.start).load(Ordering::Relaxed);
            // What a slot says besides counts only if it is taken.
            let count = if fetched[0] == 0 { 1 } else { fetched.len() };
            for (word, value) in slot.clone().zip(&mut fetched[..count]).skip(1) {
                *value = self.words.word(rank, word).load(Ordering::Relaxed);
            }
        }
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
            Effect::AwaitStore(place) if self.word(place).load(Ordering::SeqCst) == 0 => return None,
            Effect::AwaitStore(_) => Event::Done,
            Effect::Exchange { ref put, .. } => {
                self.exchange(put);
                Event::Words(&self.fetched)
            }
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
