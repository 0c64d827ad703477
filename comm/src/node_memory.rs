//! Memory that the ranks of a node share for the channels of a group. Each channel has a slot, in which
//! the ranks agree and keep shared words.
//!
//! ```text
//! slot: | barrier, 384 bytes | rank 0: words, 256 bytes; two sets of lanes, 512 bytes | rank 1: ...
//! ```
//!
//! Memory: 384 + 768 N bytes per open channel for N ranks. The segment is sparse: the first rank of the
//! node populates the pages of a slot before a channel gets the number of the slot. Slot 0 belongs to the
//! opening of channels.
//!
//! Two threads in calls on different files use different slots, so they never meet. A slot gets a new
//! channel only after all ranks have dropped the old channel (`capulet_agreement::Ids`). Both properties
//! are model-checked (`comm/agreement/tests/two_files.rs`).

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use capulet_agreement::{Barrier, LANES, Lanes, Line, Meeting};

use crate::agree::ReduceOp;
use crate::error::{Error, Result};
use crate::meeting;
use crate::segment::{PAGE_BYTES, Segment};
use crate::words::WordMemory;

/// The number of words of each rank in a slot.
pub(crate) const WORDS: usize = 32;
/// The number of slots. Further channels of a group agree by messages.
pub(crate) const SLOTS_MAX: u32 = 4096;

/// The part of a rank in a slot. Zeroed memory is valid.
#[derive(Debug, Default)]
#[repr(C)]
struct Part {
    words: [Line<[AtomicU64; 16]>; WORDS / 16],
    lanes: Lanes<AtomicU64>,
}

/// The memory of a group on this node.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    segment: Segment,
    place: usize,
    ranks: usize,
    /// The number of bytes from the start that are populated. Only the first rank of the node uses this
    /// field.
    populated_bytes: Mutex<usize>,
}

impl NodeMemory {
    fn slot_bytes(ranks: usize) -> usize {
        size_of::<Barrier<AtomicU32>>() + ranks * size_of::<Part>()
    }

    /// The size of the segment in bytes. Only the slots in use take memory.
    pub(crate) fn segment_bytes(ranks: usize) -> usize {
        (SLOTS_MAX as usize * Self::slot_bytes(ranks)).next_multiple_of(PAGE_BYTES)
    }

    /// The memory in a segment of [`NodeMemory::segment_bytes`] bytes.
    pub(crate) fn new(segment: Segment, place: usize, ranks: usize) -> Self {
        Self { segment, place, ranks, populated_bytes: Mutex::new(0) }
    }

    /// Populates slot `number` and the slots below it on the first rank of the node. Other ranks populate
    /// nothing and return true. False on the first rank if there is no memory for the slot, and on all
    /// ranks if the number is beyond the last slot. Then no rank may use the slot. Local.
    pub(crate) fn prepare(&self, number: u32) -> bool {
        if number >= SLOTS_MAX {
            return false;
        }
        if self.place > 0 {
            return true;
        }
        let end = ((number as usize + 1) * Self::slot_bytes(self.ranks)).next_multiple_of(PAGE_BYTES);
        let mut populated = self.populated_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *populated >= end {
            return true;
        }
        let is_populated = self.segment.populate(*populated..end);
        if is_populated {
            *populated = end;
        }
        is_populated
    }

    /// Slot `number`. [`NodeMemory::prepare`] must have returned true for this number on all ranks of the
    /// node.
    pub(crate) fn slot(self: &Arc<Self>, number: u32) -> Slot {
        assert!(number < SLOTS_MAX, "there is no such slot");
        Slot { memory: Arc::clone(self), start: number as usize * Self::slot_bytes(self.ranks) }
    }
}

/// A channel's part of the memory of a node.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    memory: Arc<NodeMemory>,
    /// The offset in bytes of the slot in the segment.
    start: usize,
}

impl Slot {
    fn part(&self, rank: usize) -> &Part {
        assert!(rank < self.memory.ranks, "there is no such rank on the node");
        let at = self.start + size_of::<Barrier<AtomicU32>>() + rank * size_of::<Part>();
        // SAFETY: the parts of the ranks follow the barrier of the slot. All sizes are multiples of 128,
        // the alignment of `Line`, and the segment begins at a page. Zeroed memory is a valid part, and
        // all fields are atomics. `self` holds the mapping, so the mapping outlives the reference.
        unsafe { &*self.memory.segment.value_at::<Part>(at) }
    }

    /// The number of this rank on the node.
    pub(crate) fn place(&self) -> usize {
        self.memory.place
    }

    /// Reduces each lane over the ranks of the node, through memory. Costs one barrier and no message.
    /// `which` names the reduction and must be the same on all ranks. False if there are more lanes than
    /// a set holds; then the call has no effect. Collective over the node.
    ///
    /// # Errors
    /// [`Error::Disagreement`] if ranks are in different reductions.
    pub(crate) fn reduce(&self, which: u64, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<bool> {
        if lanes.len() >= LANES {
            return Ok(false);
        }
        let combine = |lane: usize, left: u64, right: u64| ops[lane].apply(left, right);
        Meeting::reduce(
            self,
            self.place(),
            which,
            lanes,
            combine,
            meeting::wake,
            meeting::idle(meeting::drive),
        )
        .map_err(|_| Error::Disagreement { what: "the kind of a collective operation" })?;
        Ok(true)
    }

    /// Every rank gets the values of the first rank of the node, through memory. Otherwise as
    /// [`Slot::reduce`].
    ///
    /// # Errors
    /// As [`Slot::reduce`].
    pub(crate) fn broadcast(&self, which: u64, lanes: &mut [u64]) -> Result<()> {
        let first = |_: usize, first: u64, _: u64| first;
        let (wake, idle) = (meeting::wake, meeting::idle(meeting::drive));
        Meeting::reduce(self, self.place(), which, lanes, first, wake, idle)
            .map_err(|_| Error::Disagreement { what: "the kind of a collective operation" })
    }
}

impl Meeting for Slot {
    type W32 = AtomicU32;
    type W64 = AtomicU64;

    fn ranks(&self) -> usize {
        self.memory.ranks
    }

    fn barrier(&self) -> &Barrier<AtomicU32> {
        // SAFETY: a slot begins with its barrier, at a multiple of 128 bytes. The other conditions hold
        // as in `part`.
        unsafe { &*self.memory.segment.value_at::<Barrier<AtomicU32>>(self.start) }
    }

    fn lanes(&self, rank: usize) -> &Lanes<AtomicU64> {
        &self.part(rank).lanes
    }
}

// SAFETY: `# Safety` of `WordMemory`: `words` returns the same `WORDS` words of a rank at every call, in
// a mapping that the slot holds.
unsafe impl WordMemory for Slot {
    fn words(&self, rank: usize) -> &[AtomicU64] {
        let words = &raw const self.part(rank).words;
        // SAFETY: a `Line` of 16 words has 128 bytes and no padding, so the array is `WORDS` consecutive
        // words. They live as long as the part.
        unsafe { std::slice::from_raw_parts(words.cast::<AtomicU64>(), WORDS) }
    }
}

const _: () = assert!(size_of::<Part>() == 768 && size_of::<Barrier<AtomicU32>>() == 384);

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::segment::SegmentFile;

    fn memories(ranks: usize) -> Vec<Arc<NodeMemory>> {
        let bytes = NodeMemory::segment_bytes(ranks);
        let file = SegmentFile::create(bytes).expect("a file");
        let memory = |place| Arc::new(NodeMemory::new(file.map(bytes).expect("a mapping"), place, ranks));
        (0..ranks).map(memory).collect()
    }

    #[test]
    fn slots_of_two_channels_do_not_overlap() {
        let memories = memories(2);
        assert!(memories.iter().all(|memory| memory.prepare(SLOTS_MAX - 1) && !memory.prepare(SLOTS_MAX)));
        let [first, last] = [&memories[0], &memories[1]].map(|memory| memory.slot(SLOTS_MAX - 1));
        last.words(1)[WORDS - 1].store(7, Ordering::Relaxed);
        assert_eq!(first.words(1)[WORDS - 1].load(Ordering::Relaxed), 7);
        let below = memories[0].slot(SLOTS_MAX - 2);
        assert!((0..2).all(|rank| below.words(rank).iter().all(|word| word.load(Ordering::Relaxed) == 0)));
        assert!(below.lanes(1).0.iter().flat_map(|set| &set.0).all(|lane| lane.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn ranks_reduce_through_a_slot() {
        let memories = memories(3);
        assert!(memories[0].prepare(5));
        thread::scope(|scope| {
            for (rank, memory) in memories.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..300 {
                        let mut lanes = [rank as u64 + round, rank as u64];
                        let reduced = memory.slot(5).reduce(9, &mut lanes, &[ReduceOp::Sum, ReduceOp::Max]);
                        assert!(reduced.expect("the ranks are in the same reduction"));
                        assert_eq!(lanes, [3 + 3 * round, 2]);
                    }
                });
            }
        });
        assert!(
            !memories[0]
                .slot(5)
                .reduce(9, &mut [0; LANES], &[ReduceOp::Sum; LANES])
                .expect("too many lanes are no error")
        );
    }
}
