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

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::group::Group;
use crate::remains::{self, Remains};
use crate::{lifetime, process, world};

/// The number of idle groups that are kept, so that a library that opens every file on a fresh duplicate
/// finds its group again. Each of them costs a communicator and its node buffers.
const IDLE_MAX: usize = 8;

#[derive(Debug)]
struct GroupEntry {
    group: Weak<Group>,
    /// Keeps a shared group alive, so that duplicates and later communicators of the same processes can
    /// share it.
    kept: Option<Arc<Group>>,
}

/// The most recently used group is last.
static GROUPS: Mutex<Vec<GroupEntry>> = Mutex::new(Vec::new());

/// The groups that are alive.
fn lock() -> MutexGuard<'static, Vec<GroupEntry>> {
    let mut entries = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|entry| entry.group.strong_count() > 0);
    entries
}

/// Adds a new group. A shared group is kept alive.
pub(crate) fn enter(group: &Arc<Group>) {
    process::close_at_finalize(close);
    let kept = group.is_shared().then(|| Arc::clone(group));
    lock().push(GroupEntry { group: Arc::downgrade(group), kept });
}

/// The shared groups. The most recently used group comes first.
pub(crate) fn shared() -> Vec<Arc<Group>> {
    lock().iter().rev().filter_map(|entry| entry.kept.clone()).collect()
}

/// Marks a group as the most recently used one.
pub(crate) fn touch(group: &Arc<Group>) {
    let mut entries = lock();
    if let Some(index) = entries.iter().position(|entry| entry.group.as_ptr() == Arc::as_ptr(group)) {
        let entry = entries.remove(index);
        entries.push(entry);
    }
}

/// Drops idle groups beyond [`IDLE_MAX`], and frees the communicators of dropped groups. For callers that
/// may call MPI. Does not wait for other ranks.
pub(crate) fn tidy() {
    if lifetime::is_finalizing() || !lifetime::is_usable() {
        return;
    }
    let idle = {
        let mut entries = lock();
        let is_idle =
            |entry: &&mut GroupEntry| entry.kept.as_ref().is_some_and(|group| Arc::strong_count(group) == 1);
        let count = entries.iter_mut().filter(is_idle).count();
        let excess = count.saturating_sub(IDLE_MAX);
        entries
            .iter_mut()
            .filter(is_idle)
            .take(excess)
            .filter_map(|entry| entry.kept.take())
            .collect::<Vec<_>>()
    };
    // The lock is not held here, because the free of a communicator may run callbacks of other libraries.
    drop(idle);
    remains::take().into_iter().for_each(Remains::free);
}

/// Frees everything that no open file needs. Runs at the start of `MPI_Finalize`.
fn close() {
    world::close();
    let groups: Vec<Arc<Group>> = lock().iter().filter_map(|entry| entry.group.upgrade()).collect();
    let mut remains = remains::take();
    remains.extend(groups.iter().filter_map(|group| group.close()));
    remains.into_iter().for_each(Remains::free);
}

/// The number of groups of this process that are alive, and the number of dropped groups whose communicator
/// is not yet freed. For tests.
#[doc(hidden)]
pub fn census() -> (usize, usize) {
    (lock().len(), remains::count())
}
