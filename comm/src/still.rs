//! Code that must not be reentered by the work of this crate.

use std::cell::Cell;

thread_local! {
    static IS_STILL: Cell<bool> = const { Cell::new(false) };
}

/// While this value lives, this thread advances no work, not even in a callback from an MPI function. For
/// code that must not be reentered. Requests of other ranks are still answered ([`service`](crate::service)).
#[derive(Debug)]
#[must_use = "the drop of the value allows work to advance again"]
pub(crate) struct Still {
    was_still: bool,
}

impl Still {
    pub(crate) fn new() -> Self {
        Self { was_still: IS_STILL.replace(true) }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        IS_STILL.set(self.was_still);
    }
}

/// Whether this thread has a [`Still`].
pub(crate) fn is_still() -> bool {
    IS_STILL.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_work_advances_while_a_still_lives() {
        assert!(!is_still());
        let outer = Still::new();
        drop(Still::new());
        assert!(is_still(), "the outer value still lives");
        drop(outer);
        assert!(!is_still());
    }
}
