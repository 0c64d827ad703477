//! How a rank waits: it yields for a short while, then sleeps for growing, always bounded times.
//!
//! Cores are shared: a rank that spins takes the slice of the rank that it waits for, and a barrier of 4 ranks on 2 cores
//! takes milliseconds instead of microseconds.

use std::thread;
use std::time::Duration;

/// Turns in which only the processor is yielded: about as long as a message takes when every rank has a core.
const YIELDS: u32 = 128;
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// The state of one wait. Make one per wait; [`Backoff::pause`] once per turn in which nothing happened.
#[derive(Debug, Clone)]
pub struct Backoff {
    turns: u32,
    sleep: Duration,
}

impl Backoff {
    /// A wait that has not waited yet.
    pub const fn new() -> Self {
        Backoff { turns: 0, sleep: SLEEP_MIN }
    }

    /// Waits a little: first yields the processor, later sleeps 50 µs growing to 1 ms. Never longer than that (plus
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
        if self.turns < YIELDS {
            self.turns += 1;
            return None;
        }
        let sleep = self.sleep;
        self.sleep = (sleep + sleep / 2).min(SLEEP_MAX);
        Some(sleep)
    }

    /// Forgets the wait so far, because something happened.
    pub fn reset(&mut self) {
        *self = Self::new();
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
        let mut backoff = Backoff::new();
        for _ in 0..YIELDS {
            assert_eq!(backoff.next_sleep(), None);
        }
        let mut previous = Duration::ZERO;
        for _ in 0..50 {
            let sleep = backoff.next_sleep().expect("the yields are over");
            assert!(sleep >= SLEEP_MIN && sleep <= SLEEP_MAX && sleep >= previous);
            previous = sleep;
        }
        assert_eq!(previous, SLEEP_MAX);
        backoff.reset();
        assert_eq!(backoff.next_sleep(), None);
    }
}
