//! The node windows: shared memory of a node for collective operations. A node window is found by its
//! number. It is not an MPI window.
//!
//! Memory ordering: a rank may read what another rank wrote only after a [`NodeShared::barrier`], or
//! after an acquiring load of a published number that the writer stored with release ordering.

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

/// Memory that the ranks of a node share: for each rank a data part, a map with one bit per byte of data,
/// and some published numbers.
///
/// Ranks are numbered within the node, from 0. Methods with a rank as argument panic if there is no such
/// rank on the node.
///
/// # Safety
/// `data(rank)` returns the same address at every call. It is page-aligned, valid for reads and writes of
/// `bytes()` bytes while `self` lives, and refers to the same memory at every rank of the node. The parts
/// of different ranks do not overlap. `map(rank)` has `bytes() / 64` words. `ranks()`, `place()` and
/// `bytes()` do not change. A barrier is over only when all `ranks()` ranks have arrived, and then every
/// rank sees the stores that any rank made before it arrived. Unsafe code relies on all of these
/// properties.
pub unsafe trait NodeShared: Debug + Send + Sync {
    /// The number of this rank on the node.
    fn place(&self) -> usize;

    /// The number of ranks that share the window.
    fn ranks(&self) -> usize;

    /// The number of bytes in the data part of each rank: a power of two, and at least the number that
    /// was requested.
    fn bytes(&self) -> usize;

    /// The data part of a rank, page-aligned, at its address in this process. Valid as long as the
    /// window.
    ///
    /// The caller must justify each access: no two ranks may access a byte at the same time if one of
    /// them writes.
    fn data(&self, rank: usize) -> *mut u8;

    /// The map of a rank: bit `i % 64` of word `i / 64` belongs to byte `i` of its data part. All bits of
    /// a new window are zero.
    fn map(&self, rank: usize) -> &[AtomicU64];

    /// The numbers that a rank publishes, at least 16. All numbers of a new window are zero.
    fn slots(&self, rank: usize) -> &[AtomicU64];

    /// The number of completed barriers of this window. It is the same on all ranks that are between the
    /// same two barriers. A rank must not call this method between [`NodeShared::arrive`] and the end of
    /// that barrier.
    fn barriers(&self) -> Barriers;

    /// Arrives at the next barrier, without waiting. After the barrier every rank sees the stores that
    /// this rank made before the call. Each rank arrives once at a barrier, and arrives at the next
    /// barrier only when the last one is over.
    ///
    /// # Errors
    /// If another rank is known to have failed (simulated ranks only).
    fn arrive(&self) -> Result<Barriers>;

    /// Whether the barrier that [`NodeShared::arrive`] returned is over: all ranks of the node have
    /// arrived. Does not block.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn is_over(&self, barrier: Barriers) -> Result<bool>;

    /// Waits until the barrier that [`NodeShared::arrive`] returned is over. Sleeps while it waits, at
    /// most 1 ms at a time, and drives MPI after every sleep.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn wait(&self, barrier: Barriers) -> Result<()>;

    /// Returns when all ranks of the node have called this method.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn barrier(&self) -> Result<()> {
        self.wait(self.arrive()?)
    }
}

/// The number of completed barriers. It also names the next barrier. It wraps at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barriers(pub(crate) u32);

impl Barriers {
    /// 0 or 1. The value alternates from barrier to barrier.
    pub fn parity(self) -> usize {
        (self.0 % 2) as usize
    }
}

/// Shared memory of the ranks of a node. Created by
/// [`Channel::node_window`](crate::Channel::node_window). Keeps its group alive.
#[derive(Debug)]
pub struct NodeWindow {
    memory: Arc<Memory>,
    _group: Arc<Group>,
}

// SAFETY: `# Safety` of `NodeShared`: `Memory` returns the same addresses as long as it lives. They are
// page-aligned parts of one mapping, one after the other, each with `bytes()` bytes of data and a map of
// `bytes() / 64` words. All ranks of the node map the same file. `Windows::get` gives out a window only
// after the parts of all ranks are populated. `Windows::existing` requires only that the part of this
// rank is populated; its caller accesses the other parts only after all ranks have agreed that they have
// the window. The barrier is `capulet_agreement::Barrier`, which orders memory.
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

/// The state of the node window of one number.
#[derive(Debug, Default)]
struct Known {
    /// The memory of the window. A smaller memory that this one has replaced lives as long as an
    /// operation holds it.
    current: Option<Arc<Memory>>,
    /// A size for which there was no memory. Later operations do not try this size, or a larger one,
    /// again.
    refused_bytes: Option<usize>,
}

/// The node windows of a group.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<BTreeMap<u32, Known>>);

/// The names of this module's reductions, for [`Slot::reduce`]. No other reduction has these names.
const MAKING: u64 = 1 << 63;
const MAKING_LAST: u64 = MAKING + 1;
const PREPARING: u64 = MAKING + 2;

impl Windows {
    /// Creates the window `number` with at least `bytes` bytes of data per rank, unless it exists. Takes
    /// memory for the header only. Collective over the node. No other thread of this rank may use `slot`
    /// at the same time, and all ranks pass the same arguments.
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

    /// The window `number`, ready for use by all ranks. Creates the window if necessary. Collective over
    /// the node, as [`Windows::reserve`]. `None` on all ranks if one of them has no memory for the
    /// window.
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
            // There may be memory for a smaller window.
            *self.lock().entry(number).or_default() = Known { current: None, refused_bytes: Some(bytes) };
        }
        Ok(is_usable.then(|| window(&memory, group)))
    }

    /// The window `number`, if it exists and this rank has memory for its own part. Local, so other ranks
    /// may have no window.
    pub(crate) fn existing(&self, group: &Arc<Group>, number: u32) -> Option<Arc<NodeWindow>> {
        let memory = self.current(number)?;
        (!memory.is_refused() && memory.prepare()).then(|| window(&memory, group))
    }

    /// Whether this rank has already used the window `number`. Local.
    pub(crate) fn is_prepared(&self, number: u32) -> bool {
        self.current(number).is_some_and(|memory| !memory.is_refused() && memory.is_prepared())
    }

    /// Removes the window `number`. Local.
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
        "shared memory is short: collective access on this node uses no collective buffers, and is slower"
    );
}

/// Creates a window: the first rank of the node creates the segment and broadcasts its name, and the
/// other ranks attach. Collective over the node. Costs two reductions.
fn make(slot: &Slot, bytes: usize) -> Result<Option<Memory>> {
    let (place, ranks) = (slot.place(), capulet_agreement::Meeting::ranks(slot));
    let Some(plan) = Plan::of(bytes, ranks) else { return Ok(None) };
    let created = (place == 0).then(|| create(plan));
    let mut name = [0; 3];
    match &created {
        Some(Ok((file, _))) => name = file.name().to_words(),
        Some(Err(error)) => tracing::debug!(%error, bytes = plan.bytes, "cannot create a segment"),
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
        tracing::warn!(%error, "cannot map a segment of the node");
    }
    let mut lanes = [u64::from(segment.is_ok())];
    slot.reduce(MAKING_LAST, &mut lanes, &[ReduceOp::Min])?;
    // Every rank has mapped the file or has given up. Dropping the file removes its name.
    drop(file);
    let segment = segment.ok().filter(|_| lanes == [1]);
    Ok(segment.map(|segment| Memory::new(segment, plan, place)))
}

/// Creates the segment of a window and populates its header.
fn create(plan: Plan) -> io::Result<(SegmentFile, Segment)> {
    let short = || io::Error::from(io::ErrorKind::OutOfMemory);
    if !fits_in_file_system(plan.total_bytes()) {
        return Err(short());
    }
    let file = SegmentFile::create(plan.total_bytes())?;
    let segment = file.map(plan.total_bytes())?;
    if segment.populate(0..plan.header_bytes) { Ok((file, segment)) } else { Err(short()) }
}
