//! A barrier of the ranks of a node. All fields start as zero bits, so zeroed memory is a valid barrier.

use std::sync::atomic::Ordering;

use crate::word::Word32;

/// A value on cache lines of its own: two lines, because processors prefetch neighbors in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// A barrier. Every rank arrives once per barrier, and arrives at the next barrier only when the last one
/// is over.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Barrier<W> {
    /// The number of ranks that have arrived.
    arrived: Line<W>,
    /// The number of completed barriers, modulo 2^32. Ranks sleep on this word.
    generation: Line<W>,
    /// The number of ranks that sleep on `generation`.
    sleepers: Line<W>,
}

/// One step of a wait at a barrier.
#[derive(Debug)]
pub struct Sleeper<'a, W> {
    barrier: &'a Barrier<W>,
    generation: u32,
}

impl<W: Word32> Sleeper<'_, W> {
    /// Calls `sleep(word, value)`, which must sleep for a bounded time while `word` has the value
    /// `value`. A rank that ends the barrier at the same time sees the sleeper and calls its `wake`.
    pub fn sleep(&self, sleep: impl FnOnce(&W, u32)) {
        self.barrier.sleepers.0.fetch_add(1, Ordering::SeqCst);
        sleep(&self.barrier.generation.0, self.generation);
        self.barrier.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<W: Word32> Barrier<W> {
    /// The number of completed barriers. It cannot change while this rank has not arrived at the next
    /// barrier.
    pub fn barriers(&self) -> u32 {
        self.generation.0.load(Ordering::Acquire)
    }

    /// Arrives at the next barrier of `ranks` ranks and returns its number, without waiting. Loads after
    /// the barrier, on every rank, see the stores before the barrier. If other ranks sleep, the last rank
    /// calls `wake` with the word on which they sleep.
    pub fn arrive(&self, ranks: u32, wake: impl FnOnce(&W)) -> u32 {
        // This rank has not arrived yet, so no other rank can change the generation.
        let generation = self.generation.0.load(Ordering::Relaxed);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == ranks {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.generation.0.store(generation.wrapping_add(1), Ordering::SeqCst);
            if self.sleepers.0.load(Ordering::SeqCst) > 0 {
                wake(&self.generation.0);
            }
        }
        generation
    }

    /// Returns when all ranks have arrived at the barrier `generation`. Calls `idle` once per step in
    /// which the barrier is not over.
    pub fn wait(&self, generation: u32, mut idle: impl FnMut(Sleeper<'_, W>)) {
        while self.generation.0.load(Ordering::Acquire) == generation {
            idle(Sleeper { barrier: self, generation });
        }
    }
}
