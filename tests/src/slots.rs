//! A counting semaphore for jobs.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of slots. A job takes one slot while it runs.
#[derive(Debug)]
pub(crate) struct Slots {
    taken: Mutex<usize>,
    released: Condvar,
}

/// One slot. Dropping it releases the slot, also if the test panics.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a Slots);

impl Slots {
    /// Slots of which none is taken.
    pub(crate) const fn new() -> Self {
        Self { taken: Mutex::new(0), released: Condvar::new() }
    }

    /// Waits until fewer than `count` slots are taken, and takes one.
    pub(crate) fn take(&self, count: usize) -> Slot<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken =
            self.released.wait_while(taken, |taken| *taken >= count).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_so_many_slots_are_taken_at_a_time() {
        let (slots, now, most) = (Slots::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _slot = slots.take(2);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
    }
}
