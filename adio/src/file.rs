//! The open file.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use capulet_atomic::{FileLock, Isolation, PageLock};
use capulet_comm::{Agree, Channel, Group, Leaders};
use capulet_drivers::{Caps, Driver, DriverFile};
use capulet_sieve::{Counters, Holes, Target};

use crate::aggregator_layout::AggregatorLayout;
use crate::calls::Calls;
use crate::collective::Queue;
use crate::hints::{Hints, InForce};
use crate::mode::AccessMode;
use crate::shared_pointer::{PointerWord, SharedPointer};
use crate::view::FileView;

/// A file, open on all ranks of a communicator (MPI 4.1, 14.2).
///
/// Several threads may use it at the same time. The caller must order the collective calls on one file.
/// Close the file with [`File::close`]. Closing is collective, so dropping a file only releases its
/// storage on this rank, and logs a warning.
#[derive(Debug)]
pub struct File {
    /// The lock that isolates accesses. Made when atomic mode is first set. Uses the words of `channel`,
    /// so it is declared, and dropped, before it.
    pub(crate) lock: OnceLock<Arc<dyn FileLock>>,
    /// The same lock, if nodes cache the pages of the file and this lock keeps their writes apart.
    pub(crate) pages: OnceLock<Arc<PageLock>>,
    /// `None` if there are no words that all ranks reach. Uses the words of `channel` too, so it is
    /// dropped before it.
    pub(crate) shared: Option<SharedPointer>,
    pub(crate) group: Arc<Group>,
    pub(crate) channel: Arc<Channel>,
    /// The operations in progress on the shared memory that this file uses.
    pub(crate) queue: Arc<Queue>,
    /// The messages in which the node leaders tell each other which operation comes next in the queue. At
    /// the leaders of several nodes only.
    pub(crate) order: Option<Arc<dyn Leaders>>,
    /// The number of collective accesses so far.
    pub(crate) operations: AtomicU64,
    pub(crate) path: PathBuf,
    pub(crate) mode: AccessMode,
    /// The processor names of the node leaders. Empty unless a hint names hosts.
    pub(crate) node_names: Vec<String>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) storage: Arc<dyn DriverFile>,
    /// The capabilities that the storage has on all ranks. A node that exports a file system has more than the
    /// nodes that mount it.
    pub(crate) common_caps: Caps,
    pub(crate) state: Mutex<State>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) stats: bool,
    pub(crate) closed: bool,
}

/// The part of an open file that calls change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) view: Arc<FileView>,
    /// The individual file pointer, in bytes of the data stream of the view.
    pub(crate) pointer_bytes: u64,
    pub(crate) hints: Hints,
    /// The aggregators that follow from the hints.
    pub(crate) aggregator_layout: AggregatorLayout,
    /// Which word is the shared file pointer.
    pub(crate) shared_word: PointerWord,
    /// Whether accesses that begin now are atomic.
    pub(crate) atomic: bool,
    /// Whether every access holds its pages, also in nonatomic mode ([`PageLock`]).
    pub(crate) holds_pages: bool,
    /// Whether atomic accesses need no lock, because no two views have a common byte.
    pub(crate) are_views_disjoint: bool,
}

impl State {
    /// Whether accesses that begin now lock the bytes that they touch.
    pub(crate) fn locks(&self) -> bool {
        self.holds_pages || self.atomic && !self.are_views_disjoint
    }
}

impl File {
    /// The access mode with which the file was opened. Local.
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// The name of the file, without the prefix that selected its driver. Local.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The ranks and nodes of the communicator. Local.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The hints in force, with the keys of ROMIO and the reserved keys of the standard (MPI 4.1,
    /// 14.2.8). Local.
    pub fn info(&self) -> Vec<(String, String)> {
        let (hints, aggregators) = {
            let state = self.state();
            (state.hints.clone(), state.aggregator_layout.aggregators)
        };
        hints.pairs(&InForce {
            aggregators,
            driver_name: self.driver.name(),
            is_visible: self.is_visible(),
            layout: self.storage.layout(),
            holes: self.holes(),
            words: self.shared.as_ref().and_then(SharedPointer::mechanism),
        })
    }

    /// Whether the next read of any rank sees a written byte, without a sync. The same on all ranks.
    fn is_visible(&self) -> bool {
        self.common_caps.contains(Caps::IMMEDIATE_VISIBILITY) || self.state().holds_pages
    }

    /// Exact counts of what this rank did with the file. Local.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned mutex is accepted: the state is valid after each single assignment, so a panic
        // between two of them does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn agree(&self) -> &dyn Agree {
        self.channel.as_ref()
    }

    /// The target of a collective access. Holes are not touched, because bytes of other ranks may lie in
    /// them; two-phase, which knows the bytes of all ranks, sets its own treatment of holes.
    pub(crate) fn collective_target(&self) -> Target {
        Target { holes: Holes::Untouched, ..self.independent_target() }
    }

    /// The target of an independent access.
    pub(crate) fn independent_target(&self) -> Target {
        // Before the holes, as [`File::holes`] says.
        let isolation = self.isolation();
        let state = self.state();
        Target {
            file: Arc::clone(&self.storage),
            isolation,
            counters: Arc::clone(&self.counters),
            holes: state.hints.holes_of(self.mode, self.common_caps, state.atomic),
            sieves: state.hints.sieves,
        }
    }

    /// The treatment of holes in a write that begins now. Call this function after
    /// [`File::independent_target`]: if another thread sets atomic mode between the two calls, the target has
    /// no isolation, and the holes are not touched.
    pub(crate) fn holes(&self) -> Holes {
        let state = self.state();
        state.hints.holes_of(self.mode, self.common_caps, state.atomic)
    }

    /// The lock that admits accesses that begin now. `None` if they need no lock.
    fn isolation(&self) -> Option<Arc<dyn Isolation>> {
        let lock = self.lock.get().filter(|_| self.state().locks())?;
        Some(Arc::clone(lock) as Arc<dyn Isolation>)
    }

    /// Replaces the hints, and the aggregators that follow from them.
    pub(crate) fn put_hints(&self, state: &mut State, hints: Hints) {
        if hints.aggregators != state.hints.aggregators {
            state.aggregator_layout = AggregatorLayout::new(self.group.node(), &self.node_names, &hints);
        }
        state.hints = hints;
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.closed {
            tracing::warn!(path = %self.path.display(), "the file was dropped, but not closed on all ranks");
        }
    }
}
