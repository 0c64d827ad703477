//! The way a rank waits. It first yields the processor for a short while. Then it sleeps for times that
//! grow up to a bound.
//!
//! Ranks may share cores. A rank that spins takes the time slice of the rank that it waits for: a barrier
//! of 4 spinning ranks on 2 cores takes milliseconds instead of microseconds.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// The number of pauses that only yield the processor, if every rank has its own core. They take about as
/// long as a message.
const YIELDS_ALONE: u32 = 128;
/// The number of pauses that only yield the processor, if ranks share cores. A yield then helps little:
/// Linux groups processes by session and yields within a group only (`sched_autogroup`), and some launchers
/// give every rank its own session. Measured with 4 ranks on 2 cores under MPICH: a barrier in shared
/// memory takes 120 µs with 128 yields and 45 µs with 16. Under Open MPI it takes 2 µs with either number.
const YIELDS_CROWDED: u32 = 16;
/// The number that holds on this machine, as far as the groups of this process have found out.
static YIELDS: AtomicU32 = AtomicU32::new(YIELDS_ALONE);

/// The number of requests of other ranks that this process has answered ([`note_answer`]). It wraps.
static ANSWERS: AtomicU32 = AtomicU32::new(0);

const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The growth of the sleeps: each sleep is longer than the previous one by a fixed fraction, up to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Growth {
    /// The reciprocal of the fraction.
    part: u32,
    sleep_max: Duration,
}

const PATIENT: Growth = Growth { part: 2, sleep_max: Duration::from_millis(1) };
/// For waits that end one after another, such as waits for a lock. A waiter notices the end of its wait
/// late by half a sleep on average, and each later waiter is late by the sum of the delays before it.
const BRISK: Growth = Growth { part: 32, sleep_max: Duration::from_micros(250) };

/// Notes that ranks of this machine share cores. This holds for the whole job: a group of few ranks runs
/// beside the other ranks.
pub(crate) fn note_crowd() {
    YIELDS.store(YIELDS_CROWDED, Ordering::Relaxed);
}

/// Notes that this process has answered a request of another rank. Its waits begin again with yields: another
/// request follows soon, such as the release of a lock, and would find this process asleep.
pub(crate) fn note_answer() {
    ANSWERS.fetch_add(1, Ordering::Relaxed);
}

/// The state of one wait. The caller makes one value per wait, and calls [`Backoff::pause`] after each
/// check that found nothing.
#[derive(Debug, Clone)]
pub struct Backoff {
    yields: u32,
    sleep: Duration,
    growth: Growth,
    /// The value of `ANSWERS` at the previous pause.
    answers: u32,
}

impl Backoff {
    /// The state at the beginning of a wait. The sleeps grow to 1 ms.
    pub const fn new() -> Self {
        Backoff { yields: 0, sleep: SLEEP_MIN, growth: PATIENT, answers: 0 }
    }

    /// As [`Backoff::new`], for a wait that other ranks wait behind, such as the wait for a lock. The
    /// sleeps grow more slowly, to 250 µs.
    pub const fn brisk() -> Self {
        Backoff { yields: 0, sleep: SLEEP_MIN, growth: BRISK, answers: 0 }
    }

    /// Waits a little. The first pauses yield the processor. Later pauses sleep 50 µs, growing to 1 ms (250
    /// µs after [`Backoff::brisk`]). A sleep is never longer, except for the time that the kernel adds.
    pub fn pause(&mut self) {
        match self.next_sleep() {
            None => thread::yield_now(),
            Some(sleep) => thread::sleep(sleep),
        }
    }

    /// The next pause: `None` for a yield, `Some` for a sleep of that length. For callers that sleep in
    /// another way, for example on a futex.
    pub fn next_sleep(&mut self) -> Option<Duration> {
        let answers = ANSWERS.load(Ordering::Relaxed);
        if answers != self.answers {
            self.reset();
            self.answers = answers;
        }
        if self.yields < YIELDS.load(Ordering::Relaxed) {
            self.yields += 1;
            return None;
        }
        let sleep = self.sleep;
        self.sleep = (sleep + sleep / self.growth.part).min(self.growth.sleep_max);
        Some(sleep)
    }

    /// Restarts the pauses from the beginning. The caller calls this when the wait has made progress.
    pub fn reset(&mut self) {
        *self = Backoff { growth: self.growth, answers: self.answers, ..Self::new() };
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
    fn pauses_yield_first_then_sleep_up_to_the_bound() {
        for (mut backoff, sleep_max) in
            [(Backoff::new(), PATIENT.sleep_max), (Backoff::brisk(), BRISK.sleep_max)]
        {
            for _ in 0..YIELDS.load(Ordering::Relaxed) {
                assert_eq!(backoff.next_sleep(), None);
            }
            let mut previous = Duration::ZERO;
            for _ in 0..100 {
                let sleep = backoff.next_sleep().expect("only sleeps follow the yields");
                assert!(sleep >= SLEEP_MIN && sleep <= sleep_max && sleep >= previous);
                previous = sleep;
            }
            assert_eq!(previous, sleep_max);
            backoff.reset();
            assert_eq!(backoff.next_sleep(), None);
        }
    }
}
