//! The wait of a rank at a barrier in shared memory.
//!
//! A barrier costs one atomic addition per rank if the other ranks arrive soon. A rank that waits longer
//! sleeps in the kernel, at most 1 ms at a time, and drives MPI after every sleep. The reason: another
//! rank may be blocked inside MPI on a message of this rank that MPI moves only while this rank calls
//! MPI.

use std::sync::atomic::AtomicU32;
use std::thread;

use capulet_agreement::{Barrier, Sleeper};

use crate::backoff::Backoff;
use crate::futex::{futex_wait, futex_wake_all};
use crate::work;

/// Arrives at a barrier; see [`Barrier::arrive`].
pub(crate) fn arrive(barrier: &Barrier<AtomicU32>, ranks: usize) -> u32 {
    barrier.arrive(ranks as u32, futex_wake_all)
}

/// Returns when all ranks have arrived at the barrier `generation`.
pub(crate) fn wait(barrier: &Barrier<AtomicU32>, generation: u32) {
    barrier.wait(generation, idle(drive));
}

/// Wakes the ranks that sleep on a barrier.
pub(crate) fn wake(word: &AtomicU32) {
    futex_wake_all(word);
}

/// The steps of one wait: first yields, then sleeps of growing length. Calls `progress` after each sleep.
pub(crate) fn idle(progress: impl Fn()) -> impl FnMut(Sleeper<'_, AtomicU32>) {
    let mut backoff = Backoff::new();
    move |sleeper| match backoff.next_sleep() {
        None => thread::yield_now(),
        Some(timeout) => {
            sleeper.sleep(|word, value| futex_wait(word, value, timeout));
            progress();
        }
    }
}

/// Drives MPI and the operations in progress while a rank waits.
pub(crate) fn drive() {
    crate::progress();
    work::advance();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    fn meet(barrier: &Barrier<AtomicU32>, ranks: usize, progress: impl Fn()) {
        barrier.wait(arrive(barrier, ranks), idle(progress));
    }

    #[test]
    fn no_rank_leaves_a_barrier_before_all_have_arrived() {
        const RANKS: usize = 4;
        const ROUNDS: usize = 2000;
        let barrier = Barrier::default();
        let rounds: Vec<AtomicUsize> = (0..RANKS).map(|_| AtomicUsize::new(0)).collect();
        thread::scope(|scope| {
            for rank in 0..RANKS {
                let (barrier, rounds) = (&barrier, &rounds);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        rounds[rank].store(round, Ordering::Relaxed);
                        meet(barrier, RANKS, || ());
                        assert!(rounds.iter().all(|other| other.load(Ordering::Relaxed) >= round));
                        meet(barrier, RANKS, || ());
                    }
                });
            }
        });
    }

    #[test]
    fn rank_sleeps_while_it_waits_for_a_late_rank_and_drives_progress() {
        let barrier = Barrier::default();
        let (progress, begun) = (AtomicUsize::new(0), Instant::now());
        thread::scope(|scope| {
            scope.spawn(|| meet(&barrier, 2, || _ = progress.fetch_add(1, Ordering::Relaxed)));
            // The other thread first yields its core, and other processes may keep the core for long.
            while progress.load(Ordering::Relaxed) < 5 || begun.elapsed() < Duration::from_millis(50) {
                thread::sleep(Duration::from_millis(1));
            }
            meet(&barrier, 2, || ());
        });
        let (calls, waited) = (progress.load(Ordering::Relaxed), begun.elapsed());
        assert!(
            (calls as u128) < 20 * waited.as_millis(),
            "{calls} calls in {waited:?} of sleeps up to 1 ms"
        );
    }
}
