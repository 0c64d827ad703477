//! Work that goes on while a rank waits for something else: nonblocking collective operations on files.
//!
//! Whoever has such work registers it. Every wait of this crate advances it, every call of the C ABI does as it begins, and so does
//! MPI where it can be made to: Open MPI and MPICH from 4.3 on while they wait for anything at all, older MPICHs while they wait for
//! one of our requests (see [`request`]).

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

use crate::{process, request};

/// Work that can be advanced a little.
pub trait Work: Debug + Send + Sync {
    /// Goes on as far as it can without waiting. May make MPI calls. Never called while it is already being advanced on the
    /// same thread.
    fn advance(&self);
}

static WORK: Mutex<Vec<Weak<dyn Work>>> = Mutex::new(Vec::new());
/// How many operations are under way, so that a wait without any costs one load.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

/// Makes work known. It is forgotten when it is dropped.
pub fn register(work: Weak<dyn Work>) {
    let mut all = WORK.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|known| known.strong_count() > 0);
    all.push(work);
}

/// An operation under way. While one lives, waits advance the work.
#[derive(Debug)]
pub struct UnderWay(());

impl UnderWay {
    /// One more operation.
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

/// Whether any operation is under way.
pub(crate) fn is_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Whether this thread is inside of [`advance`].
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Advances all work. Does not wait; returns at once inside of itself, and where MPI cannot be called.
pub fn advance() {
    if !is_under_way() || is_advancing() || !process::is_usable() {
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

/// While it lives this thread advances no work, also where MPI calls back from within one of its functions: for what must not be
/// begun a second time on top of itself.
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
    fn nothing_advances_while_it_is_still() {
        assert!(!is_advancing());
        let outer = Still::new();
        drop(Still::new());
        assert!(is_advancing(), "the outer one lives");
        drop(outer);
        assert!(!is_advancing());
    }
}
