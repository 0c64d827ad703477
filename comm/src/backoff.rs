//! How a rank waits: it yields for a short while, then sleeps for growing, always bounded times.
//!
//! Cores are shared: a rank that spins takes the slice of the rank that it waits for, and a barrier of 4 ranks on 2 cores
//! takes milliseconds instead of microseconds.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Turns in which only the processor is yielded, when every rank has a core: about as long as a message takes.
const YIELDS_ALONE: u32 = 128;
/// The same when ranks share cores. To yield helps little then: Linux groups processes by session and yields within a
/// group only (`sched_autogroup`), and some launchers give every rank a session of its own. Measured with 4 ranks on 2
/// cores under MPICH: a barrier in shared memory takes 120 µs with 128 yields, 45 µs with 16; under Open MPI 2 µs with
/// either.
const YIELDS_CROWDED: u32 = 16;
/// The number that holds on this machine, as far as the groups of this process have found out.
static YIELDS: AtomicU32 = AtomicU32::new(YIELDS_ALONE);

const SLEEP_MIN: Duration = Duration::from_micros(50);
/// How sleeps grow: each is longer than the one before by a part of it, up to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Growth {
    /// One part of so many.
    part: u32,
    sleep_max: Duration,
}

const PATIENT: Growth = Growth { part: 2, sleep_max: Duration::from_millis(1) };
/// A turn is late by half of a sleep, and each that waits behind it is late by the sum.
const BRISK: Growth = Growth { part: 32, sleep_max: Duration::from_micros(250) };

/// Notes that ranks of this machine share cores. This holds for the whole job: a group of few ranks runs beside the others.
pub(crate) fn note_crowd() {
    YIELDS.store(YIELDS_CROWDED, Ordering::Relaxed);
}

/// The state of one wait. Make one per wait; [`Backoff::pause`] once per turn in which nothing happened.
#[derive(Debug, Clone)]
pub struct Backoff {
    turns: u32,
    sleep: Duration,
    growth: Growth,
}

impl Backoff {
    /// A wait that has not waited yet.
    pub const fn new() -> Self {
        Backoff { turns: 0, sleep: SLEEP_MIN, growth: PATIENT }
    }

    /// A wait for one's turn, which others wait for in their turn: its sleeps grow slower, to 250 µs.
    pub const fn brisk() -> Self {
        Backoff { turns: 0, sleep: SLEEP_MIN, growth: BRISK }
    }

    /// Waits a little: first yields the processor, later sleeps 50 µs growing to 1 ms, or 250 µs. Never longer than that (plus
    /// what the kernel adds).
    pub fn pause(&mut self) {
        match self.next_sleep() {
            None => thread::yield_now(),
            Some(sleep) => thread::sleep(sleep),
        }
    }

    /// What the next pause should be: `None` is a yield, `Some` a sleep of that length. For those who sleep in their
    /// own way (futexes).
    pub fn next_sleep(&mut self) -> Option<Duration> {
        if self.turns < YIELDS.load(Ordering::Relaxed) {
            self.turns += 1;
            return None;
        }
        let sleep = self.sleep;
        self.sleep = (sleep + sleep / self.growth.part).min(self.growth.sleep_max);
        Some(sleep)
    }

    /// Forgets the wait so far, because something happened.
    pub fn reset(&mut self) {
        *self = Backoff { growth: self.growth, ..Self::new() };
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_first_then_sleeps_longer_and_longer_but_never_beyond_the_bound() {
        for (mut backoff, sleep_max) in
            [(Backoff::new(), PATIENT.sleep_max), (Backoff::brisk(), BRISK.sleep_max)]
        {
            for _ in 0..YIELDS.load(Ordering::Relaxed) {
                assert_eq!(backoff.next_sleep(), None);
            }
            let mut previous = Duration::ZERO;
            for _ in 0..100 {
                let sleep = backoff.next_sleep().expect("the yields are over");
                assert!(sleep >= SLEEP_MIN && sleep <= sleep_max && sleep >= previous);
                previous = sleep;
            }
            assert_eq!(previous, sleep_max);
            backoff.reset();
            assert_eq!(backoff.next_sleep(), None);
        }
    }
}
