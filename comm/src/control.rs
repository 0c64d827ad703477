//! The first page of each rank's part of a shared window: counters that all ranks of the node see, and the barrier on them.
//!
//! The barrier costs one atomic addition per rank when the others are there soon. Then it sleeps in the kernel, for at
//! most 1 ms at a time, and drives MPI after every sleep: another rank may be blocked in MPI on a message of ours that MPI
//! moves only while we call it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use crate::backoff::Backoff;

/// How many numbers each rank can publish.
pub(crate) const SLOTS: usize = 16;
/// How many numbers each rank can bring to an agreement.
pub(crate) const LANES: usize = 32;

/// One counter on cache lines of its own: two, because neighbors are prefetched in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line<T>(T);

/// What a rank shares. All fields start as zero bits, so that zeroed memory is a valid control page.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Control {
    /// The barriers of operations on the window. Only the leader's page is used for this and the next two.
    pub(crate) barrier: Barrier,
    /// Those of agreements, which go on while operations are under way.
    pub(crate) agreement: Barrier,
    /// Ranks that will not use the window again; [`ABANDONED`] if one has given up waiting for the others.
    departed: Line<AtomicU32>,
    /// What this rank publishes.
    slots: Line<[AtomicU64; SLOTS]>,
    /// What this rank brings to an agreement, by turns.
    lanes: [Line<[AtomicU64; LANES]>; 2],
}

/// A barrier of all ranks of the node.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Barrier {
    /// Ranks that have come.
    arrived: Line<AtomicU32>,
    /// How many barriers are over. The futex word.
    generation: Line<AtomicU32>,
    /// Ranks that sleep on `generation`.
    sleepers: Line<AtomicU32>,
}

const ABANDONED: u32 = 1 << 31;

/// How the end of a window's use came out. The same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Every rank has departed.
    Complete,
    /// Some rank gave up: the window stays.
    Abandoned,
}

impl Control {
    pub(crate) fn slots(&self) -> &[AtomicU64] {
        &self.slots.0
    }

    /// What this rank brings to the agreement of this number. The numbers of the next agreement lie elsewhere, so that no
    /// rank changes what another has not read yet: none can be ahead by two.
    pub(crate) fn lanes(&self, agreement: u32) -> &[AtomicU64; LANES] {
        &self.lanes[(agreement % 2) as usize].0
    }

    /// This rank will not use the window again. To be called once per rank. True if it was the last.
    pub(crate) fn depart(&self, size: u32) -> bool {
        self.departed.0.fetch_add(1, Ordering::AcqRel) + 1 == size
    }

    /// Waits until all ranks have departed; gives up for all of them after `patience`.
    pub(crate) fn await_departures(&self, size: u32, patience: Duration, progress: impl Fn()) -> Departure {
        let start = Instant::now();
        let mut backoff = Backoff::new();
        loop {
            let state = self.departed.0.load(Ordering::Acquire);
            if state == size {
                return Departure::Complete;
            }
            if state & ABANDONED != 0 {
                return Departure::Abandoned;
            }
            if start.elapsed() < patience {
                backoff.pause();
                progress();
            } else {
                self.try_abandon(state);
            }
        }
    }

    /// Tells the others at once that this rank will not let go of the window.
    pub(crate) fn abandon(&self) {
        self.departed.0.fetch_or(ABANDONED, Ordering::AcqRel);
    }

    /// Gives up, unless something has changed since `state` was read.
    fn try_abandon(&self, state: u32) {
        let _ =
            self.departed.0.compare_exchange(state, state | ABANDONED, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl Barrier {
    /// How many barriers are over. It cannot change while this rank has not come to the next one.
    pub(crate) fn barriers(&self) -> u32 {
        self.generation.0.load(Ordering::Acquire)
    }

    /// Comes to the next barrier of `size` ranks and returns its number, without waiting. Stores before it are seen, on
    /// every rank, by loads after the barrier.
    pub(crate) fn arrive(&self, size: u32) -> u32 {
        // This rank has not arrived yet, so the generation cannot change under it.
        let generation = self.generation.0.load(Ordering::Relaxed);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == size {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.generation.0.store(generation.wrapping_add(1), Ordering::SeqCst);
            if self.sleepers.0.load(Ordering::SeqCst) > 0 {
                futex_wake_all(&self.generation.0);
            }
        }
        generation
    }

    /// Returns when all ranks have come to the barrier of this number. `progress` is called after every sleep.
    pub(crate) fn wait(&self, generation: u32, progress: impl Fn()) {
        let mut backoff = Backoff::new();
        while self.generation.0.load(Ordering::Acquire) == generation {
            match backoff.next_sleep() {
                None => thread::yield_now(),
                Some(sleep) => {
                    self.sleepers.0.fetch_add(1, Ordering::SeqCst);
                    futex_wait(&self.generation.0, generation, sleep);
                    self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
                    progress();
                }
            }
        }
    }
}

/// Sleeps until woken, at most for `timeout`, if the word still has this value. Any process that maps the word may wake.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: FUTEX_WAIT reads the word and the timeout, both valid during the call (futex(2)). Whatever it returns, the
    // caller looks at the word again.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout);
    }
}

pub(crate) fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE only uses the address of the word as a name (futex(2)).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
            ptr::null::<libc::timespec>(),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    impl Control {
        fn meet(&self, size: u32, progress: impl Fn()) {
            self.barrier.wait(self.barrier.arrive(size), progress);
        }
    }

    #[test]
    fn no_rank_leaves_a_barrier_before_all_have_come() {
        const RANKS: u32 = 4;
        const ROUNDS: usize = 2000;
        let control = Control::default();
        let rounds: Vec<AtomicUsize> = (0..RANKS).map(|_| AtomicUsize::new(0)).collect();
        thread::scope(|scope| {
            for rank in 0..RANKS as usize {
                let (control, rounds) = (&control, &rounds);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        rounds[rank].store(round, Ordering::Relaxed);
                        control.meet(RANKS, || ());
                        assert!(rounds.iter().all(|other| other.load(Ordering::Relaxed) >= round));
                        control.meet(RANKS, || ());
                    }
                });
            }
        });
    }

    #[test]
    fn a_late_rank_is_waited_for_asleep_and_with_progress() {
        let control = Control::default();
        let (progress, begun) = (AtomicUsize::new(0), Instant::now());
        thread::scope(|scope| {
            scope.spawn(|| control.meet(2, || _ = progress.fetch_add(1, Ordering::Relaxed)));
            // Who waits gives its core away first, and others may keep it for long.
            while progress.load(Ordering::Relaxed) < 5 || begun.elapsed() < Duration::from_millis(50) {
                thread::sleep(Duration::from_millis(1));
            }
            control.meet(2, || ());
        });
        let (calls, waited) = (progress.load(Ordering::Relaxed), begun.elapsed());
        assert!(
            (calls as u128) < 20 * waited.as_millis(),
            "{calls} calls in {waited:?} of sleeps up to 1 ms"
        );
    }

    #[test]
    fn departures_complete_or_are_given_up_by_all_alike() {
        let control = Control::default();
        assert!(!control.depart(2));
        assert!(control.depart(2));
        assert_eq!(control.await_departures(2, Duration::ZERO, || ()), Departure::Complete);

        let control = Control::default();
        control.depart(2);
        assert_eq!(control.await_departures(2, Duration::from_millis(2), || ()), Departure::Abandoned);
        control.depart(2);
        assert_eq!(control.await_departures(2, Duration::from_secs(9), || ()), Departure::Abandoned);
    }
}
