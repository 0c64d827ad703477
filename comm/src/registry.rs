//! All groups of this process. A group is found again by its processes, is kept for a while when it is
//! idle, and is released in `MPI_Finalize`.
//!
//! Callbacks of MPI (the deletion of attributes) only drop references here and never call MPI, because
//! Open MPI holds a lock during such a callback. The next collective call of this crate, or
//! `MPI_Finalize`, frees the communicators of dropped groups.
//!
//! The free of a communicator is collective according to the standard, but local in every known MPI
//! library ("it is anticipated that this operation will normally be implemented to be local", MPI-4.0
//! section 7.4.3). So the ranks need not free a communicator at the same time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::group::{Group, Remains};
use crate::{process, world};

/// Two numbers on which the ranks of a group have agreed: the largest number of groups that any of the
/// ranks has created, and a random number. The random number distinguishes groups of processes that were
/// spawned later from older groups. All ranks of two groups sort the groups in the same order.
pub(crate) type Stamp = [u64; 2];

/// A key that no other group of this process has or had.
pub(crate) fn new_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number of idle groups that are kept, so that a library that opens every file on a fresh duplicate
/// finds its group again. Each of them costs a communicator and its node windows.
const IDLE_MAX: usize = 8;

#[derive(Debug)]
struct Entry {
    key: u64,
    group: Weak<Group>,
    /// Keeps a shared group alive, so that duplicates and later communicators of the same processes can
    /// share it.
    kept: Option<Arc<Group>>,
}

#[derive(Debug, Default)]
struct Registry {
    /// The most recently used group is last.
    entries: Vec<Entry>,
    remains: Vec<Remains>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { entries: Vec::new(), remains: Vec::new() });

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a new group. A shared group is kept alive.
pub(crate) fn enter(group: &Arc<Group>) {
    let kept = group.is_shared().then(|| Arc::clone(group));
    let entry = Entry { key: group.key(), group: Arc::downgrade(group), kept };
    lock().entries.push(entry);
}

/// The shared groups. The most recently used group comes first.
pub(crate) fn shared() -> Vec<Arc<Group>> {
    lock().entries.iter().rev().filter_map(|entry| entry.kept.clone()).collect()
}

/// Marks a group as the most recently used one.
pub(crate) fn touch(key: u64) {
    let mut registry = lock();
    if let Some(index) = registry.entries.iter().position(|entry| entry.key == key) {
        let entry = registry.entries.remove(index);
        registry.entries.push(entry);
    }
}

/// Called when a group is dropped, possibly in a callback of MPI. Only stores the parts that are still to
/// be freed.
pub(crate) fn bury(remains: Remains) {
    let mut registry = lock();
    registry.entries.retain(|entry| entry.key != remains.key);
    registry.remains.push(remains);
}

/// Drops idle groups beyond [`IDLE_MAX`], and frees the communicators of dropped groups. For callers that
/// may call MPI. Does not wait for other ranks.
pub(crate) fn tidy() {
    if process::is_finalizing() || !process::is_usable() {
        return;
    }
    let idle = {
        let mut registry = lock();
        let is_idle =
            |entry: &&mut Entry| entry.kept.as_ref().is_some_and(|group| Arc::strong_count(group) == 1);
        let count = registry.entries.iter_mut().filter(is_idle).count();
        let excess = count.saturating_sub(IDLE_MAX);
        registry
            .entries
            .iter_mut()
            .filter(is_idle)
            .take(excess)
            .filter_map(|entry| entry.kept.take())
            .collect::<Vec<_>>()
    };
    // The lock is not held here, because the drop of a group locks the registry, and because the free of
    // a communicator may run callbacks of other libraries.
    drop(idle);
    let remains = std::mem::take(&mut lock().remains);
    remains.into_iter().for_each(Remains::free);
}

/// Called in `MPI_Finalize`. Frees everything that no open file needs.
pub(crate) fn close() {
    world::close();
    let (groups, mut remains) = {
        let mut registry = lock();
        let groups: Vec<Arc<Group>> =
            registry.entries.iter().filter_map(|entry| entry.group.upgrade()).collect();
        (groups, std::mem::take(&mut registry.remains))
    };
    remains.extend(groups.iter().filter_map(|group| group.close()));
    remains.into_iter().for_each(Remains::free);
}

/// The number of groups of this process that are alive, and the number of dropped groups whose
/// communicator is not yet freed. For tests.
#[doc(hidden)]
pub fn census() -> (usize, usize) {
    let registry = lock();
    (registry.entries.len(), registry.remains.len())
}
