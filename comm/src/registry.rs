//! All groups of this process: found again by their members, kept for a while when idle, let go in `MPI_Finalize`.
//!
//! Callbacks of MPI (attribute deletion) only drop references here and never call MPI: Open MPI holds a lock across them.
//! What a group leaves behind is freed at the next collective call of this crate, or in `MPI_Finalize`.
//!
//! Freeing a communicator is collective by name, yet local in every MPI ("it is anticipated that this operation will
//! normally be implemented to be local", MPI-4.0 section 7.4.3), so ranks need not do it at the same time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::group::{Group, Remains};
use crate::{process, world};

/// Two numbers on which the members of a group agreed: the largest count of groups of any member, and a number at random. The second makes
/// groups of processes that were spawned later different from older ones. Groups sort in the same order on all their members.
pub(crate) type Stamp = [u64; 2];

/// A key that no other group of this process has or had.
pub(crate) fn new_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Idle groups that are kept, so that a library that opens every file on a fresh duplicate finds its group again. Each
/// costs a communicator and its windows.
const IDLE_MAX: usize = 8;

#[derive(Debug)]
struct Entry {
    key: u64,
    group: Weak<Group>,
    /// Keeps a group alive that duplicates and later communicators of the same members may share.
    kept: Option<Arc<Group>>,
}

#[derive(Debug, Default)]
struct Registry {
    /// The most lately used last.
    entries: Vec<Entry>,
    remains: Vec<Remains>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { entries: Vec::new(), remains: Vec::new() });

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a new group. A group that may be shared is kept.
pub(crate) fn enter(group: &Arc<Group>) {
    let kept = group.is_shared().then(|| Arc::clone(group));
    let entry = Entry { key: group.key(), group: Arc::downgrade(group), kept };
    lock().entries.push(entry);
}

/// The groups that may be shared, most lately used first.
pub(crate) fn shared() -> Vec<Arc<Group>> {
    lock().entries.iter().rev().filter_map(|entry| entry.kept.clone()).collect()
}

/// Marks a group as used now.
pub(crate) fn touch(key: u64) {
    let mut registry = lock();
    if let Some(index) = registry.entries.iter().position(|entry| entry.key == key) {
        let entry = registry.entries.remove(index);
        registry.entries.push(entry);
    }
}

/// Called by a dying group, possibly in a callback of MPI: only remembers.
pub(crate) fn bury(remains: Remains) {
    let mut registry = lock();
    registry.entries.retain(|entry| entry.key != remains.key);
    registry.remains.push(remains);
}

/// Lets go of idle groups beyond the bound, and frees the communicators of dead ones. To be called where MPI may be
/// called; never waits for another rank.
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
    // Dropping a group enters the registry again, and freeing a communicator may run other libraries' callbacks: both
    // happen outside of the lock.
    drop(idle);
    let remains = std::mem::take(&mut lock().remains);
    remains.into_iter().for_each(Remains::free);
}

/// In `MPI_Finalize`: frees all that no open file needs any more.
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

/// How many groups of this process are alive, and how many dead ones still hold something. For tests.
#[doc(hidden)]
pub fn census() -> (usize, usize) {
    let registry = lock();
    (registry.entries.len(), registry.remains.len())
}
