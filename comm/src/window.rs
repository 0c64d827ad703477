//! Shared memory of a node for collective operations, found by number.
//!
//! Memory ordering: a rank that reads what another rank wrote does so after a [`NodeShared::barrier`], or after an acquiring load of a slot that
//! the writer stored with release.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agree::ReduceOp;
use crate::error::Result;
use crate::group::Group;
use crate::meeting;
use crate::memory::{Memory, Plan};
use crate::node_memory::Slot;
use crate::segment::{Segment, SegmentFile, SegmentName, fits_in_file_system};

/// Memory that the ranks of a node share: per rank a data part, a map of bytes, and a few published numbers.
///
/// Ranks are numbered within the node, from 0. Methods that take a rank panic if there is no such rank on the node.
///
/// # Safety
/// `data(rank)` returns the same address at every call, page-aligned, valid for reads and writes of `bytes()` bytes while `self` lives, and the
/// same memory at every rank of the node. The parts of different ranks do not overlap. `map(rank)` has `bytes() / 64` words, and
/// `ranks()`, `place()` and `bytes()` do not change. A barrier is over only when all `ranks()` ranks have arrived, and then every rank sees the
/// stores that any rank made before it arrived. Unsafe code relies on all of this.
pub unsafe trait NodeShared: Debug + Send + Sync {
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

/// Shared memory of the ranks of a node. Made by [`Channel::node_window`](crate::Channel::node_window); holds its group.
#[derive(Debug)]
pub struct NodeWindow {
    memory: Arc<Memory>,
    _group: Arc<Group>,
}

// SAFETY: `Memory` gives out the same addresses for as long as it lives: page-aligned parts of one mapping, one after the other, each with
// `bytes()` bytes of data and a map of `bytes() / 64` words. All ranks of the node map the same file, and a window is given out only when the
// parts that its rank reaches are populated. The barrier is `capulet_agreement::Barrier`, which orders memory.
unsafe impl NodeShared for NodeWindow {
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
        self.memory.slots(rank)
    }

    fn barriers(&self) -> Barriers {
        Barriers(self.memory.barrier().barriers())
    }

    fn arrive(&self) -> Result<Barriers> {
        Ok(Barriers(meeting::arrive(self.memory.barrier(), self.memory.ranks())))
    }

    fn is_over(&self, barrier: Barriers) -> Result<bool> {
        Ok(self.memory.barrier().barriers() != barrier.0)
    }

    fn wait(&self, barrier: Barriers) -> Result<()> {
        meeting::wait(self.memory.barrier(), barrier.0);
        Ok(())
    }
}

/// What is known under one number.
#[derive(Debug, Default)]
struct Known {
    /// A smaller one that was replaced lives as long as an operation holds it.
    current: Option<Arc<Memory>>,
    /// A size that could not be had, so that it is not tried at every operation.
    refused_bytes: Option<usize>,
}

/// The windows of a group on this node.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<BTreeMap<u32, Known>>);

/// The reductions of this module, for [`Slot::reduce`]: no other reduction has these numbers.
const MAKING: u64 = 1 << 63;
const MAKING_LAST: u64 = MAKING + 1;
const PREPARING: u64 = MAKING + 2;

impl Windows {
    /// Makes the window of a number, with at least `bytes` bytes of data per rank, unless it is there. Takes no memory but the header's.
    /// Collective over the node, on a slot that no other thread of this rank uses meanwhile; all ranks pass the same arguments.
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub(crate) fn reserve(&self, slot: &Slot, number: u32, bytes: usize) -> Result<()> {
        {
            let known = self.lock();
            let known = known.get(&number);
            let has = |known: &Known| known.current.as_ref().is_some_and(|memory| memory.bytes() >= bytes);
            let refuses = |known: &Known| known.refused_bytes.is_some_and(|refused| bytes >= refused);
            if known.is_some_and(|known| has(known) || refuses(known)) {
                return Ok(());
            }
        }
        let made = make(slot, bytes)?;
        let mut all = self.lock();
        let known = all.entry(number).or_default();
        match made {
            Some(memory) => known.current = Some(Arc::new(memory)),
            None => known.refused_bytes = Some(bytes),
        }
        Ok(())
    }

    /// The window of a number, ready for use by all ranks. Collective over the node as [`Windows::reserve`]. `None` on all ranks if one of
    /// them has no memory for it.
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub(crate) fn get(
        &self,
        group: &Arc<Group>,
        slot: &Slot,
        number: u32,
        bytes: usize,
    ) -> Result<Option<Arc<NodeWindow>>> {
        self.reserve(slot, number, bytes)?;
        let Some(memory) = self.current(number).filter(|memory| memory.bytes() >= bytes) else {
            return Ok(None);
        };
        let is_usable = memory.is_usable(|own| -> Result<bool> {
            let mut lanes = [u64::from(own)];
            slot.reduce(PREPARING, &mut lanes, &[ReduceOp::Min])?;
            if lanes == [0] && slot.place() == 0 {
                warn_of_shortage(memory.bytes());
            }
            Ok(lanes == [1])
        })?;
        if !is_usable {
            // A smaller one may be had.
            *self.lock().entry(number).or_default() = Known { current: None, refused_bytes: Some(bytes) };
        }
        Ok(is_usable.then(|| window(&memory, group)))
    }

    /// The window of a number, if there is one and this rank has memory for its part of it. Local: other ranks may have none.
    pub(crate) fn existing(&self, group: &Arc<Group>, number: u32) -> Option<Arc<NodeWindow>> {
        let memory = self.current(number)?;
        (!memory.is_refused() && memory.prepare()).then(|| window(&memory, group))
    }

    /// Whether this rank has used the window of a number already. Local.
    pub(crate) fn is_prepared(&self, number: u32) -> bool {
        self.current(number).is_some_and(|memory| !memory.is_refused() && memory.is_prepared())
    }

    /// Forgets the window of a number. Local.
    pub(crate) fn forget(&self, number: u32) {
        self.lock().remove(&number);
    }

    fn current(&self, number: u32) -> Option<Arc<Memory>> {
        self.lock().get(&number)?.current.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn window(memory: &Arc<Memory>, group: &Arc<Group>) -> Arc<NodeWindow> {
    Arc::new(NodeWindow { memory: Arc::clone(memory), _group: Arc::clone(group) })
}

fn warn_of_shortage(bytes: usize) {
    tracing::warn!(
        bytes_per_rank = bytes,
        "shared memory is short: collective access on this node goes without collective buffers, and is slower"
    );
}

/// Makes a window: the first rank of the node creates its segment and tells the name, the others attach. Collective over the node: two
/// reductions.
fn make(slot: &Slot, bytes: usize) -> Result<Option<Memory>> {
    let (place, ranks) = (slot.place(), capulet_agreement::Meeting::ranks(slot));
    let Some(plan) = Plan::of(bytes, ranks) else { return Ok(None) };
    let created = (place == 0).then(|| create(plan));
    let mut name = [0; 3];
    match &created {
        Some(Ok((file, _))) => name = file.name().to_words(),
        Some(Err(error)) => tracing::debug!(%error, bytes = plan.bytes, "a segment cannot be created"),
        None => {}
    }
    slot.reduce(MAKING, &mut name, &[ReduceOp::Max; 3])?;
    let Some(name) = SegmentName::from_words(name) else {
        if place == 0 {
            warn_of_shortage(plan.bytes);
        }
        return Ok(None);
    };
    let (segment, file) = match created {
        Some(Ok((file, segment))) => (Ok(segment), Some(file)),
        Some(Err(error)) => (Err(error), None),
        None => (SegmentFile::attach(name).and_then(|file| file.map(plan.total_bytes())), None),
    };
    if let Err(error) = &segment {
        tracing::warn!(%error, "a segment of the node cannot be mapped");
    }
    let mut lanes = [u64::from(segment.is_ok())];
    slot.reduce(MAKING_LAST, &mut lanes, &[ReduceOp::Min])?;
    // All ranks have mapped the file, or given up: the name goes.
    drop(file);
    let segment = segment.ok().filter(|_| lanes == [1]);
    Ok(segment.map(|segment| Memory::new(segment, plan, place)))
}

/// The segment of a window, with its header populated.
fn create(plan: Plan) -> io::Result<(SegmentFile, Segment)> {
    let short = || io::Error::from(io::ErrorKind::OutOfMemory);
    if !fits_in_file_system(plan.total_bytes()) {
        return Err(short());
    }
    let file = SegmentFile::create(plan.total_bytes())?;
    let segment = file.map(plan.total_bytes())?;
    if segment.populate(0..plan.header_bytes) { Ok((file, segment)) } else { Err(short()) }
}
