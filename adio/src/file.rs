//! An open file.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use capulet_atomic::{FileLock, Isolation};
use capulet_comm::{Agree, Channel, Group, Leaders};
use capulet_drivers::{Driver, DriverFile};
use capulet_sieve::{Counters, Holes, Target};

use crate::collective::Queue;
use crate::gathering::Gathering;
use crate::hints::{Hints, InForce};
use crate::mode::AccessMode;
use crate::shared::{SharedPointer, Turn};
use crate::stats::Calls;
use crate::view::FileView;

/// A file, open on all ranks of a communicator (MPI 4.1, 14.2).
///
/// May be used from several threads at once; collective calls on one file must be ordered by the caller. Close it with
/// [`File::close`]: closing is collective, so dropping a file only gives its storage back on this rank, and says so in the log.
#[derive(Debug)]
pub struct File {
    /// What keeps accesses apart, from the first time that they are atomic on. Ends before the channel does, which it is on.
    pub(crate) lock: OnceLock<Arc<dyn FileLock>>,
    /// None where ranks reach no words together. Ends before the channel does, too.
    pub(crate) shared: Option<SharedPointer>,
    pub(crate) group: Arc<Group>,
    pub(crate) channel: Arc<Channel>,
    /// What is under way on this file's window.
    pub(crate) queue: Arc<Queue>,
    /// Between the leaders of several nodes: whose turn it is in the queue.
    pub(crate) turns: Option<Arc<dyn Leaders>>,
    /// Collective accesses so far.
    pub(crate) operations: AtomicU64,
    pub(crate) path: PathBuf,
    pub(crate) mode: AccessMode,
    /// The processor names of the nodes' leaders, if a hint names hosts.
    pub(crate) node_names: Vec<String>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) storage: Arc<dyn DriverFile>,
    pub(crate) state: Mutex<State>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) stats: bool,
    pub(crate) closed: bool,
}

/// What calls on an open file change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) view: Arc<FileView>,
    /// The individual file pointer, bytes of the view's stream.
    pub(crate) pointer_bytes: u64,
    pub(crate) hints: Hints,
    /// What follows from them.
    pub(crate) gathering: Gathering,
    /// Where the shared file pointer is kept.
    pub(crate) shared_turn: Turn,
    /// Whether accesses that begin now are atomic.
    pub(crate) atomic: bool,
    /// Whether they need no lock for that.
    pub(crate) are_views_disjoint: bool,
}

impl State {
    /// Whether accesses that begin now lock what they touch.
    pub(crate) fn locks(&self) -> bool {
        self.atomic && !self.are_views_disjoint
    }
}

impl File {
    /// The mode that the file was opened with. Local.
    pub fn mode(&self) -> AccessMode {
        self.mode
    }

    /// The file's name, without the prefix that chose its driver. Local.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The communicator's ranks and nodes. Local.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The hints in force, with the keys of ROMIO and the reserved keys of the standard (MPI 4.1, 14.2.8). Local.
    pub fn info(&self) -> Vec<(String, String)> {
        let (hints, aggregators) = {
            let state = self.state();
            (state.hints.clone(), state.gathering.aggregators)
        };
        hints.pairs(&InForce {
            aggregators,
            driver_name: self.driver.name(),
            caps: self.storage.caps(),
            layout: self.storage.layout(),
            holes: self.holes(),
        })
    }

    /// Exact counts of what this rank did with the file. Local.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // a panic between two assignments cannot leave the state half changed: each change is one assignment
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn agree(&self) -> &dyn Agree {
        self.channel.as_ref()
    }

    /// As the ranks of a collective access use it where each moves its own bytes: no holes are touched.
    pub(crate) fn target(&self) -> Target {
        Target { holes: Holes::Untouched, ..self.target_alone() }
    }

    /// As one rank by itself uses it.
    pub(crate) fn target_alone(&self) -> Target {
        // Before the holes, as [`File::holes`] says.
        let isolation = self.isolation();
        let state = self.state();
        Target {
            file: Arc::clone(&self.storage),
            isolation,
            counters: Arc::clone(&self.counters),
            holes: state.hints.holes_of(self.mode, self.storage.caps(), state.atomic),
            sieves: state.hints.sieves,
        }
    }

    /// What may become of the holes of a write that begins now. To be asked after [`File::target`]: an atomic mode that is set in between
    /// leaves the target without isolation, and the holes alone.
    pub(crate) fn holes(&self) -> Holes {
        let state = self.state();
        state.hints.holes_of(self.mode, self.storage.caps(), state.atomic)
    }

    /// Who lets in accesses that begin now.
    fn isolation(&self) -> Option<Arc<dyn Isolation>> {
        let lock = self.lock.get().filter(|_| self.state().locks())?;
        Some(Arc::clone(lock) as Arc<dyn Isolation>)
    }

    /// Changes the hints.
    pub(crate) fn put_hints(&self, state: &mut State, hints: Hints) {
        if hints.aggregators != state.hints.aggregators {
            state.gathering = Gathering::new(self.group.node(), &self.node_names, &hints);
        }
        state.hints = hints;
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.closed {
            tracing::warn!(path = %self.path.display(), "file dropped without being closed on all ranks");
        }
    }
}
