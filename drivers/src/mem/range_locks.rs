//! Locks on ranges of one file, between the threads of one process.

use crate::{LockGuard, LockMode};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Held {
    id: u64,
    range: Range<u64>,
    mode: LockMode,
}

impl Held {
    fn excludes(&self, range: &Range<u64>, mode: LockMode) -> bool {
        let both_shared = self.mode == LockMode::Shared && mode == LockMode::Shared;
        !both_shared && self.range.start < range.end && range.start < self.range.end
    }
}

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct Table {
    state: Mutex<State>,
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the list is one push or one removal, so a panic of another thread leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The locks of one file.
#[derive(Debug, Default)]
pub(super) struct RangeLocks(Arc<Table>);

impl RangeLocks {
    /// Takes a lock, if no held lock excludes it.
    pub(super) fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Option<LockGuard> {
        let mut state = self.0.state();
        if state.held.iter().any(|held| held.excludes(&range, mode)) {
            return None;
        }
        let id = state.next_id;
        state.next_id += 1;
        state.held.push(Held { id, range, mode });
        drop(state);
        let table = Arc::clone(&self.0);
        Some(LockGuard::new(move || table.state().held.retain(|held| held.id != id)))
    }
}
