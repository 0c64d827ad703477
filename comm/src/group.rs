//! A group: the processes of a user's communicator, with a private communicator of this crate.

mod find;
mod message_time;

use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use capulet_agreement::Ids;

use crate::agree::{ReduceOp, TRACK_BITS};
use crate::buffer_table::BufferTable;
use crate::collective;
use crate::consts;
use crate::error::{Error, Result};
use crate::ffi;
use crate::lanes::check_lanes;
use crate::members::Stamp;
use crate::message::{Counters, Wire};
use crate::node::Node;
use crate::node_memory::{NodeMemory, Slot};
use crate::node_reduction::{self, Ways};
use crate::rank::Rank;
use crate::remains::{self, Remains};

/// The slot in which the ranks agree when they open a channel.
const OPENING_SLOT: u32 = 0;

/// The number of the node buffer that all channels of a shared group use.
pub(crate) const SHARED_BUFFER: u32 = 0;

/// The processes of a communicator: their ranks, their nodes, and a private communicator for messages
/// between them.
#[derive(Debug)]
pub struct Group {
    comm: ffi::MPI_Comm,
    rank: Rank,
    size: u32,
    node: Node,
    machine_size: u32,
    message_time: Duration,
    /// The memory that the ranks of this node share. `None` on all ranks of the node if there is no
    /// memory.
    memory: Option<Arc<NodeMemory>>,
    stamp: Stamp,
    shared: bool,
    tag_max: c_int,
    /// Set when the communicator has been freed in `MPI_Finalize`.
    closed: AtomicBool,
    counters: Counters,
    ids: Mutex<Ids>,
    buffers: BufferTable,
    /// The values that callers keep with each node buffer, by the number of the buffer.
    kept: Mutex<HashMap<u32, Weak<dyn Any + Send + Sync>>>,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it. The other fields are owned values that are Send.
unsafe impl Send for Group {}
// SAFETY: as for `Send` above. After construction only the atomics, the counters and the values inside of
// mutexes change.
unsafe impl Sync for Group {}

impl Group {
    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks of the group.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The node of this rank: the ranks that share memory with this rank.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The time of one message between nodes, as measured when the group was made. Zero if all ranks are on
    /// one machine. The same on all ranks.
    pub fn message_time(&self) -> Duration {
        self.message_time
    }

    /// The value that callers keep with the node buffer `slot`. All callers get the same value, as long
    /// as one of them holds it. Otherwise `make` creates a new value. Local.
    ///
    /// # Panics
    /// If the existing value has another type.
    pub(crate) fn kept<T: Send + Sync + 'static>(&self, slot: u32, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = kept.get(&slot).and_then(Weak::upgrade) {
            return value.downcast().expect("the kept value has the requested type");
        }
        let value = Arc::new(make());
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        kept.insert(slot, Arc::downgrade(&any));
        value
    }

    /// The value that [`Channel::kept`](crate::Channel::kept) returns for the channels of this group.
    /// `None` if the group is not shared. Local.
    ///
    /// # Panics
    /// If the existing value has another type.
    pub fn kept_by_channels<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<Arc<T>> {
        self.shared.then(|| self.kept(SHARED_BUFFER, make))
    }

    /// Whether duplicates of the communicator share this group: true exactly if MPI runs below
    /// `MPI_THREAD_MULTIPLE`.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Aborts the processes of the group (MPI-4.0 section 9.7). Local. Returns only if MPI does.
    pub fn abort(&self, code: c_int) {
        // `MPI_Finalize` frees the communicator of a group that may still be alive.
        let comm = if self.check_open().is_ok() { self.comm } else { consts::comm_world() };
        // SAFETY: both are valid: `comm` is freed when the group is dropped or closed, and not before.
        unsafe { ffi::MPI_Abort(comm, code) };
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn buffers(&self) -> &BufferTable {
        &self.buffers
    }

    /// The maximum number of channels: the number of tags divided by the number of tracks.
    pub(crate) fn channels_max(&self) -> u32 {
        let bits = (self.tag_max as u32).saturating_add(1).ilog2();
        1 << bits.saturating_sub(TRACK_BITS)
    }

    pub(crate) fn ids(&self) -> &Mutex<Ids> {
        &self.ids
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Finalized) } else { Ok(()) }
    }

    /// Whether the slot `number` can be used, as far as this rank must check ([`NodeMemory::prepare`]).
    /// Local.
    pub(crate) fn prepare_slot(&self, number: u32) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.prepare(number))
    }

    /// The slot `number`. [`Group::prepare_slot`] must have returned true on all ranks of the node.
    pub(crate) fn slot(&self, number: u32) -> Option<Slot> {
        self.memory.as_ref().map(|memory| memory.slot(number))
    }

    /// Agrees on the values with which the ranks open a channel.
    pub(crate) fn agree_on_opening(&self, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()> {
        self.allreduce(self.slot(OPENING_SLOT).as_ref(), self.wire(0, &self.counters), lanes, ops)
    }

    /// Reduces each lane over all ranks. On one node: through shared memory if the ranks have a slot, else
    /// by messages. Either all ranks of a node have a slot, or none has.
    pub(crate) fn allreduce(
        &self,
        slot: Option<&Slot>,
        wire: Wire<'_>,
        lanes: &mut [u64],
        ops: &[ReduceOp],
    ) -> Result<()> {
        check_lanes(lanes, ops)?;
        if self.node.node_count() > 1 {
            node_reduction::allreduce(Ways { node: &self.node, slot, wire }, lanes, ops, None)?;
            return Ok(());
        }
        if let Some(slot) = slot
            && slot.reduce((wire.tag as u64) << 32 | lanes.len() as u64, lanes, ops)?
        {
            return Ok(());
        }
        collective::allreduce(wire, lanes, ops)
    }

    pub(crate) fn wire<'a>(&self, tag: c_int, counters: &'a Counters) -> Wire<'a> {
        Wire { comm: self.comm, tag, rank: self.rank.0, size: self.size, members: None, counters }
    }

    /// Whether all ranks are on one machine, even if `CAPULET_NODES` cuts the machine into several nodes.
    pub(crate) fn is_one_machine(&self) -> bool {
        self.machine_size == self.size
    }

    /// Called in `MPI_Finalize`. Marks the group as closed and returns its communicator, unless a channel
    /// is still open or the group is already closed.
    pub(crate) fn close(&self) -> Option<Remains> {
        let busy = !self.ids.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if busy || self.closed.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(Remains::new(self.comm))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // MPI may run this function inside of a callback, where MPI must not be called. So the
        // communicator is freed later.
        if !*self.closed.get_mut() {
            remains::bury(Remains::new(self.comm));
        }
    }
}
