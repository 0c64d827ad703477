//! Shared windows of a node, found by number.
//!
//! Memory ordering: whoever reads what another rank wrote does so after a [`NodeShared::barrier`], or after an acquiring
//! load of a slot that the writer stored with release. No call of MPI is needed then: the windows have the unified memory
//! model, and a passive epoch is open on them all the time (MPI-4.0 sections 12.4 and 12.5.4).

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Debug;
use std::iter;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agree::ReduceOp;
use crate::class::ErrorClass;
use crate::collective;
use crate::control::LANES;
use crate::error::{Error, Result};
use crate::group::Group;
pub(crate) use crate::memory::Lot;
use crate::memory::Memory;
use crate::work;

/// Memory that the ranks of a node share: per rank a data part, a map of bytes, and a few published numbers.
///
/// Ranks are numbered within the node, from 0. Methods that take a rank panic if there is no such rank on the node.
pub trait NodeShared: Debug + Send + Sync {
    /// This rank's number on the node.
    fn place(&self) -> usize;

    /// How many ranks share the window.
    fn ranks(&self) -> usize;

    /// Bytes of the data part of each rank: at least what was asked for, a power of two.
    fn bytes(&self) -> usize;

    /// The data part of a rank, page-aligned, as this process sees it. Valid as long as the window.
    ///
    /// To use it is up to the caller: no two ranks may access a byte at the same time if one of them writes.
    fn data(&self, rank: usize) -> *mut u8;

    /// The map of a rank: bit `i % 64` of word `i / 64` belongs to byte `i` of its data part. Zero when the window is new.
    fn map(&self, rank: usize) -> &[AtomicU64];

    /// Numbers that a rank publishes, at least 16. Zero when the window is new.
    fn slots(&self, rank: usize) -> &[AtomicU64];

    /// How many barriers of this window are over: the same number on all ranks that are between the same two barriers. Not
    /// to be asked between [`NodeShared::arrive`] and the end of that barrier.
    fn barriers(&self) -> Barriers;

    /// Comes to the next barrier and does not wait there. Stores before it are seen by every rank after the barrier. Each
    /// rank comes to a barrier once, and to the next only when the last is over.
    ///
    /// # Errors
    /// If another rank is known to have failed (simulated ranks only).
    fn arrive(&self) -> Result<Barriers>;

    /// Whether the barrier that [`NodeShared::arrive`] returned is over: all ranks of the node have come to it. Does not block.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn is_over(&self, barrier: Barriers) -> Result<bool>;

    /// Waits until that barrier is over. Sleeps while it waits, never more than 1 ms at a time, and drives MPI after every
    /// sleep.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn wait(&self, barrier: Barriers) -> Result<()>;

    /// Returns when all ranks of the node have called it.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn barrier(&self) -> Result<()> {
        self.wait(self.arrive()?)
    }
}

/// A number of barriers, which also names the barrier that comes after them. Wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barriers(pub(crate) u32);

impl Barriers {
    /// 0 or 1 by turns, from barrier to barrier.
    pub fn parity(self) -> usize {
        (self.0 % 2) as usize
    }
}

/// A shared window of MPI's. Made by [`Group::node_window`]; holds its group.
#[derive(Debug)]
pub struct NodeWindow {
    memory: Arc<Memory>,
    /// Which frees the window when it ends.
    _group: Arc<Group>,
}

impl NodeShared for NodeWindow {
    fn place(&self) -> usize {
        self.memory.place()
    }

    fn ranks(&self) -> usize {
        self.memory.ranks()
    }

    fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    fn data(&self, rank: usize) -> *mut u8 {
        self.memory.data(rank)
    }

    fn map(&self, rank: usize) -> &[AtomicU64] {
        self.memory.map(rank)
    }

    fn slots(&self, rank: usize) -> &[AtomicU64] {
        self.memory.control(rank).slots()
    }

    fn barriers(&self) -> Barriers {
        Barriers(self.memory.leader().barrier.barriers())
    }

    fn arrive(&self) -> Result<Barriers> {
        Ok(Barriers(self.memory.leader().barrier.arrive(self.memory.ranks() as u32)))
    }

    fn is_over(&self, barrier: Barriers) -> Result<bool> {
        Ok(self.memory.leader().barrier.barriers() != barrier.0)
    }

    fn wait(&self, barrier: Barriers) -> Result<()> {
        self.memory.leader().barrier.wait(barrier.0, Self::progress);
        Ok(())
    }
}

impl NodeWindow {
    /// Reduces each lane over the ranks of the node, as [`Agree::allreduce`](crate::Agree::allreduce) does, through the window:
    /// one barrier, no message. `who` must be the same on all ranks. False if there are more lanes than it takes; nothing was
    /// done then.
    ///
    /// # Errors
    /// [`Error::Disagreement`] if ranks are in different agreements.
    pub(crate) fn allreduce(&self, who: u32, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<bool> {
        if lanes.len() + 1 > LANES {
            return Ok(false);
        }
        // Which agreement, in one number: of what, and of how many lanes.
        let which = u64::from(who) << 32 | lanes.len() as u64;
        let barrier = &self.memory.leader().agreement;
        let mine = self.memory.control(self.memory.place()).lanes(barrier.barriers());
        for (lane, value) in mine.iter().zip(iter::once(&which).chain(&*lanes)) {
            lane.store(*value, Ordering::Relaxed);
        }
        let number = barrier.arrive(self.memory.ranks() as u32);
        barrier.wait(number, Self::progress);
        for rank in 0..self.memory.ranks() {
            let theirs = self.memory.control(rank).lanes(number);
            if theirs[0].load(Ordering::Relaxed) != which {
                return Err(Error::Disagreement { what: "the kind of a collective operation" });
            }
            for ((lane, op), value) in lanes.iter_mut().zip(ops).zip(&theirs[1..]) {
                let value = value.load(Ordering::Relaxed);
                *lane = if rank == 0 { value } else { op.apply(*lane, value) };
            }
        }
        Ok(true)
    }

    fn progress() {
        crate::progress();
        work::advance();
    }
}

/// What is known under one number.
#[derive(Debug, Default)]
struct Slot {
    current: Option<Arc<Memory>>,
    /// Smaller windows that were replaced. They stay until the group ends: someone may still look at them, and all of
    /// them together are not larger than the current one.
    outgrown: Vec<Arc<Memory>>,
    /// A size that could not be had, so that it is not tried at every operation.
    refused_bytes: Option<usize>,
}

/// The windows of a group on this node.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    slots: Mutex<BTreeMap<u32, Slot>>,
    /// Held while a window is made: see [`Windows::make`].
    making: Mutex<()>,
    /// For each number: held by the one thread of this rank that makes its window.
    makers: Mutex<BTreeMap<u32, Arc<Mutex<()>>>>,
}

impl Windows {
    pub(crate) fn get(&self, group: &Arc<Group>, slot: u32, bytes: usize) -> Result<Option<Arc<NodeWindow>>> {
        if let ControlFlow::Break(known) = self.known(group, slot, bytes) {
            return Ok(known);
        }
        // Whichever threads come first on each rank make it together; the others find it.
        let maker =
            Arc::clone(self.makers.lock().unwrap_or_else(PoisonError::into_inner).entry(slot).or_default());
        let _maker = maker.lock().unwrap_or_else(PoisonError::into_inner);
        if let ControlFlow::Break(known) = self.known(group, slot, bytes) {
            return Ok(known);
        }
        let made = self.make(group, slot, bytes)?.map(Arc::new);
        let mut slots = self.lock();
        let slot = slots.entry(slot).or_default();
        match made {
            None => {
                slot.refused_bytes = Some(bytes);
                Ok(None)
            }
            Some(memory) => {
                slot.outgrown.extend(slot.current.replace(Arc::clone(&memory)));
                Ok(Some(window(&memory, group)))
            }
        }
    }

    /// Breaks off with the window, or with none, if that is known already.
    fn known(&self, group: &Arc<Group>, slot: u32, bytes: usize) -> ControlFlow<Option<Arc<NodeWindow>>> {
        let slots = self.lock();
        let Some(known) = slots.get(&slot) else { return ControlFlow::Continue(()) };
        if let Some(memory) = known.current.as_ref().filter(|memory| memory.bytes() >= bytes) {
            return ControlFlow::Break(Some(window(memory, group)));
        }
        if known.refused_bytes.is_some_and(|refused| bytes >= refused) {
            return ControlFlow::Break(None);
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn existing(&self, group: &Arc<Group>, slot: u32) -> Option<Arc<NodeWindow>> {
        let slots = self.lock();
        Some(window(slots.get(&slot)?.current.as_ref()?, group))
    }

    /// Makes a window: collective over the node.
    ///
    /// Threads that make windows of one node for two files at the same time must do so in one order on all ranks. The
    /// leader's order holds: it makes one at a time and calls the others to each, under the tag of its slot. A rank that
    /// is called holds the lock until it is through, and the leader calls to the next only after all are.
    fn make(&self, group: &Arc<Group>, slot: u32, bytes: usize) -> Result<Option<Memory>> {
        let tag = c_int::try_from(slot).ok().and_then(|slot| slot.checked_add(1));
        let tag = tag.filter(|tag| *tag <= group.tag_max());
        let Some(tag) = tag else {
            return Err(Error::invalid(ErrorClass::Arg, format!("there is no window slot {slot}")));
        };
        let wire = group.node_wire(tag);
        let mut call = Vec::new();
        let _making = if wire.rank == 0 {
            let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            collective::broadcast(wire, 0, &mut call)?;
            making
        } else {
            collective::broadcast(wire, 0, &mut call)?;
            self.making.lock().unwrap_or_else(PoisonError::into_inner)
        };
        Memory::allocate(group.node_comm(), wire, bytes)
    }

    /// Frees the windows of one number: collective over the node.
    pub(crate) fn free_slot(&self, slot: u32) {
        let found = self.lock().remove(&slot);
        for memory in found.into_iter().flat_map(Slot::into_windows) {
            Lot::new(memory).free();
        }
    }

    /// Takes all windows out, in the same order on all ranks.
    pub(crate) fn take_all(&self) -> Vec<Lot> {
        let slots = std::mem::take(&mut *self.lock());
        slots.into_values().flat_map(Slot::into_windows).map(Lot::new).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn into_windows(self) -> impl Iterator<Item = Arc<Memory>> {
        self.outgrown.into_iter().chain(self.current)
    }
}

fn window(memory: &Arc<Memory>, group: &Arc<Group>) -> Arc<NodeWindow> {
    Arc::new(NodeWindow { memory: Arc::clone(memory), _group: Arc::clone(group) })
}
