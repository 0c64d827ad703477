//! Work that advances while a rank waits for something else: nonblocking collective operations on files.
//!
//! The owner of such work registers it. Every wait of this crate advances the work, and so does every
//! function of the C ABI at its start. MPI advances it where possible: Open MPI and MPICH from 4.3 on do so
//! in every wait, older versions of MPICH do so while they wait for a request of this crate (see
//! [`request`]).

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

use crate::{lifetime, request};

/// Work that can be advanced step by step.
pub trait Work: Debug + Send + Sync {
    /// Advances the work as far as possible without waiting. May make MPI calls. [`advance`] never calls
    /// this function on a thread that is already inside of [`advance`].
    fn advance(&self);
}

static WORK: Mutex<Vec<Weak<dyn Work>>> = Mutex::new(Vec::new());
/// The number of operations in progress. A wait without such operations costs one load of this counter.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

/// Registers work. The registration ends when the work is dropped.
pub fn register(work: Weak<dyn Work>) {
    let mut all = WORK.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|known| known.strong_count() > 0);
    all.push(work);
}

/// An operation in progress. While such a value lives, waits advance all registered work.
#[derive(Debug)]
pub struct UnderWay(());

impl UnderWay {
    /// Counts one more operation in progress.
    #[allow(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        request::ask_to_be_called();
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether any operation is in progress.
pub(crate) fn is_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Whether this thread is inside of [`advance`].
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Advances all registered work. Does not wait. Returns at once if no operation is in progress, if this
/// thread is already inside of this function, or if MPI is not initialized or is finalized.
pub fn advance() {
    if !is_under_way() || is_advancing() || !lifetime::is_usable() {
        return;
    }
    ADVANCING.set(true);
    let _reset = Reset;
    let all: Vec<_> = {
        let all = WORK.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    for work in all {
        work.advance();
    }
}

struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        ADVANCING.set(false);
    }
}

/// While this value lives, this thread advances no work, not even in a callback from an MPI function. For
/// code that must not be reentered.
#[derive(Debug)]
#[must_use = "work goes on again when it is dropped"]
pub(crate) struct Still {
    was_advancing: bool,
}

impl Still {
    pub(crate) fn new() -> Self {
        Self { was_advancing: ADVANCING.replace(true) }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        ADVANCING.set(self.was_advancing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_work_advances_while_a_still_lives() {
        assert!(!is_advancing());
        let outer = Still::new();
        drop(Still::new());
        assert!(is_advancing(), "the outer value still lives");
        drop(outer);
        assert!(!is_advancing());
    }
}
