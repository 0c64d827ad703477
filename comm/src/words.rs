//! Words of 64 bits that the ranks of a node share, and wake-ups between these ranks.
//!
//! A word of the receiving rank counts its wake-ups. The word has two halves: the lower half is the
//! number of wake-ups that are not yet taken, on which the rank sleeps in the kernel. The upper half says
//! whether the rank sleeps. One atomic operation changes both halves. So a rank that has a wake-up does
//! not fall asleep, and a waker makes a system call only if the rank sleeps.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::futex::{futex_wait, futex_wake_all};

/// Memory with a part of 64-bit words for each rank.
///
/// # Safety
/// `words` returns the same words of a rank at every call: the same addresses and the same number of
/// words. The number is the same for each rank. Locks rely on these properties, and unsafe code relies on
/// the locks.
pub unsafe trait WordMemory: Debug + Send + Sync {
    /// The words of a rank. All ranks have the same number of words. All words of new memory are zero.
    fn words(&self, rank: usize) -> &[AtomicU64];
}

// SAFETY: `# Safety` of `WordMemory`: a shared vector does not change, so the words of a rank stay at
// their addresses. The caller must give all parts the same length; only tests create such vectors.
unsafe impl WordMemory for Vec<Vec<AtomicU64>> {
    fn words(&self, rank: usize) -> &[AtomicU64] {
        &self[rank]
    }
}

/// Some words of each rank of a node. The first of these words counts wake-ups.
#[derive(Debug, Clone)]
pub struct NodeWords {
    memory: Arc<dyn WordMemory>,
    place: usize,
    /// The index of the first of these words in the part of each rank.
    first: usize,
    count: usize,
}

/// This bit of the upper half is set while the rank sleeps.
const ASLEEP: u64 = 1 << 32;

impl NodeWords {
    /// The `count` words of each part from word `first` on. `place` is the number of this rank on the
    /// node. The first of the words counts wake-ups. [`NodeWords::word`] and [`NodeWords::words`] return
    /// the words after the first one.
    ///
    /// # Panics
    /// If the parts have fewer than `first + count` words, or if `count` is 0.
    pub fn new(memory: Arc<dyn WordMemory>, place: usize, first: usize, count: usize) -> Self {
        assert!(first + count <= memory.words(place).len() && count > 0, "the memory has fewer words");
        Self { memory, place, first, count }
    }

    /// The number of this rank on the node.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Word `word` of rank `rank`.
    ///
    /// # Panics
    /// If there is no such rank or word.
    pub fn word(&self, rank: usize, word: usize) -> &AtomicU64 {
        &self.part(rank)[1 + word]
    }

    /// All words of rank `rank` except the wake-up counter.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn words(&self, rank: usize) -> &[AtomicU64] {
        &self.part(rank)[1..]
    }

    fn part(&self, rank: usize) -> &[AtomicU64] {
        &self.memory.words(rank)[self.first..][..self.count]
    }

    /// Sends a wake-up to a rank. Makes a system call only if that rank sleeps.
    pub fn wake(&self, rank: usize) {
        let counter = &self.part(rank)[0];
        if counter.fetch_add(1, Ordering::SeqCst) & ASLEEP != 0 {
            futex_wake_all(taken_half(counter));
        }
    }

    /// Takes a wake-up. False if there is none. Does not wait.
    pub fn try_take(&self) -> bool {
        let counter = &self.part(self.place)[0];
        // Only this rank takes its wake-ups, so the number cannot become zero before the subtraction.
        let is_there = counter.load(Ordering::Acquire) as u32 > 0;
        if is_there {
            counter.fetch_sub(1, Ordering::AcqRel);
        }
        is_there
    }

    /// Sleeps until there is a wake-up, at most for `timeout`.
    pub fn sleep(&self, timeout: Duration) {
        let counter = &self.part(self.place)[0];
        if counter.fetch_or(ASLEEP, Ordering::SeqCst) as u32 == 0 {
            futex_wait(taken_half(counter), 0, timeout);
        }
        counter.fetch_and(!ASLEEP, Ordering::SeqCst);
    }
}

/// The half of a wake-up counter that holds the number of wake-ups.
fn taken_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = std::ptr::from_ref(word).cast::<AtomicU32>();
    let half = if cfg!(target_endian = "little") { halves } else { halves.wrapping_add(1) };
    // SAFETY: the reference points to one half of a word that outlives the reference, and is aligned as
    // the word is. It is used only as the address of a futex: the kernel reads the half by an atomic load
    // (futex(2)), and no other code accesses it.
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
    fn every_wake_up_is_taken_exactly_once() {
        const WAKE_UPS: usize = 20_000;
        let memory = memory(2);
        let (sleeper, waker) =
            (NodeWords::new(Arc::clone(&memory), 0, 2, 4), NodeWords::new(Arc::clone(&memory), 1, 2, 4));
        thread::scope(|scope| {
            scope.spawn(|| (0..WAKE_UPS).for_each(|_| waker.wake(0)));
            for _ in 0..WAKE_UPS {
                while !sleeper.try_take() {
                    // This timeout is longer than the test. If a wake-up is lost, the test hangs.
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
    fn words_of_a_slot_overlap_no_other_slot() {
        let memory = memory(2);
        let words = NodeWords::new(Arc::clone(&memory), 0, 3, 3);
        words.word(1, 1).store(7, Ordering::Relaxed);
        assert_eq!(memory.words(1)[5].load(Ordering::Relaxed), 7);
        words.wake(1);
        assert_eq!(memory.words(1)[3].load(Ordering::Relaxed), 1);
    }
}
