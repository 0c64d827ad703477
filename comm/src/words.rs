//! Words of 64 bits that the ranks of a node share, and wake-ups between them.
//!
//! A wake-up is counted in a word of the rank that it is for. That word has two halves: how many there are to be taken, on which the
//! rank sleeps in the kernel, and whether it does. Both change together, so that nobody sleeps who was woken, and nobody makes a
//! system call for one who is awake.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::futex::{futex_wait, futex_wake_all};

/// Memory of words, a part for each rank.
///
/// # Safety
/// `words` returns the same words of a rank at every call: the same addresses and the same number, the same number for each rank. Locks rely
/// on it, and unsafe code relies on the locks.
pub unsafe trait WordMemory: Debug + Send + Sync {
    /// The words of a rank; all parts have as many. Zero when the memory is new.
    fn words(&self, rank: usize) -> &[AtomicU64];
}

// SAFETY: a shared vector does not change, so the words of a rank stay where they are. Parts of different lengths are a bug of a test.
unsafe impl WordMemory for Vec<Vec<AtomicU64>> {
    fn words(&self, rank: usize) -> &[AtomicU64] {
        &self[rank]
    }
}

/// Words of each rank of a node, of which the first one counts wake-ups.
#[derive(Debug, Clone)]
pub struct NodeWords {
    memory: Arc<dyn WordMemory>,
    place: usize,
    /// Of the words of this lot in each part.
    first: usize,
    count: usize,
}

/// In the upper half: the rank sleeps.
const ASLEEP: u64 = 1 << 32;

impl NodeWords {
    /// `count` words of each part, from `first` on, as the rank with number `place` on the node sees them. The first of them counts
    /// wake-ups, and is none of those that [`NodeWords::word`] knows.
    ///
    /// # Panics
    /// If the parts do not have so many words.
    pub fn new(memory: Arc<dyn WordMemory>, place: usize, first: usize, count: usize) -> Self {
        assert!(first + count <= memory.words(place).len() && count > 0, "the words are beyond their memory");
        Self { memory, place, first, count }
    }

    /// This rank's number on the node.
    pub fn place(&self) -> usize {
        self.place
    }

    /// A word of a rank.
    ///
    /// # Panics
    /// If there is no such rank or word.
    pub fn word(&self, rank: usize, word: usize) -> &AtomicU64 {
        &self.part(rank)[1 + word]
    }

    /// All of these words of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn words(&self, rank: usize) -> &[AtomicU64] {
        &self.part(rank)[1..]
    }

    fn part(&self, rank: usize) -> &[AtomicU64] {
        &self.memory.words(rank)[self.first..][..self.count]
    }

    /// Leaves a wake-up at a rank. A system call only where that rank sleeps.
    pub fn wake(&self, rank: usize) {
        let wakes = &self.part(rank)[0];
        if wakes.fetch_add(1, Ordering::SeqCst) & ASLEEP != 0 {
            futex_wake_all(taken_half(wakes));
        }
    }

    /// Takes a wake-up, if there is one. Does not wait.
    pub fn try_take(&self) -> bool {
        let wakes = &self.part(self.place)[0];
        // Nobody but this rank takes from it, so what is there stays there.
        let is_there = wakes.load(Ordering::Acquire) as u32 > 0;
        if is_there {
            wakes.fetch_sub(1, Ordering::AcqRel);
        }
        is_there
    }

    /// Sleeps until there is a wake-up to be taken, at most for `timeout`.
    pub fn sleep(&self, timeout: Duration) {
        let wakes = &self.part(self.place)[0];
        if wakes.fetch_or(ASLEEP, Ordering::SeqCst) as u32 == 0 {
            futex_wait(taken_half(wakes), 0, timeout);
        }
        wakes.fetch_and(!ASLEEP, Ordering::SeqCst);
    }
}

/// The half of a word that counts.
fn taken_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = std::ptr::from_ref(word).cast::<AtomicU32>();
    let half = if cfg!(target_endian = "little") { halves } else { halves.wrapping_add(1) };
    // SAFETY: half of a word that outlives the result, aligned as the word is. It is the name of a futex only: the kernel reads
    // it as the atomic load that futex(2) promises, nothing else does.
    unsafe { &*half }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn memory(ranks: usize) -> Arc<dyn WordMemory> {
        Arc::new((0..ranks).map(|_| (0..8).map(|_| AtomicU64::new(0)).collect()).collect::<Vec<Vec<_>>>())
    }

    #[test]
    fn no_wake_up_is_lost_and_none_is_invented() {
        const WAKES: usize = 20_000;
        let memory = memory(2);
        let (sleeper, waker) =
            (NodeWords::new(Arc::clone(&memory), 0, 2, 4), NodeWords::new(Arc::clone(&memory), 1, 2, 4));
        thread::scope(|scope| {
            scope.spawn(|| (0..WAKES).for_each(|_| waker.wake(0)));
            for _ in 0..WAKES {
                while !sleeper.try_take() {
                    // For ever, as far as this test goes: who is not woken here hangs.
                    sleeper.sleep(Duration::from_secs(1000));
                }
            }
        });
        assert!(!sleeper.try_take());
        sleeper.sleep(Duration::from_millis(1));
        assert!(!sleeper.try_take());
        assert!((0..2).all(|rank| memory.words(rank).iter().all(|word| word.load(Ordering::Relaxed) == 0)));
    }

    #[test]
    fn words_of_a_lot_are_its_own() {
        let memory = memory(2);
        let words = NodeWords::new(Arc::clone(&memory), 0, 3, 3);
        words.word(1, 1).store(7, Ordering::Relaxed);
        assert_eq!(memory.words(1)[5].load(Ordering::Relaxed), 7);
        words.wake(1);
        assert_eq!(memory.words(1)[3].load(Ordering::Relaxed), 1);
    }
}
