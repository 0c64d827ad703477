//! The round status: what the ranks of a node tell each other at every barrier.
//!
//! The values of one barrier lie in other slots than those of the next barrier. So a rank that is ahead
//! cannot overwrite a value that another rank has not read yet: no rank can be ahead by two barriers.

use std::sync::atomic::Ordering;

use capulet_comm::{Barriers, ErrorClass, NodeShared, Result};

use crate::KnownOutcome;

/// Slot of a node's first rank. It names the operation that uses the collective buffers next. It belongs
/// to callers with several operations in flight; this crate does not touch it.
pub const OPERATION_SLOT: usize = 15;

/// Slots of one barrier.
const STRIDE: usize = 4;
const NEXT: usize = 0;
const GOOD_END: usize = 1;
const FLAGS: usize = 2;
const PACKED_BYTES: usize = 3;
/// The slot behind those of both barriers: the buffer index with which the next access of this rank
/// begins.
const BUFFER_INDEX: usize = 2 * STRIDE;

/// The round status of one rank at a barrier, or of several ranks combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoundStatus {
    /// The lowest file offset that is still needed, `u64::MAX` if there is none.
    pub(super) next: u64,
    /// The file offset up to which all collective buffers were moved without an error, `u64::MAX` if all
    /// were.
    pub(super) good_end: u64,
    /// Whether a rank found bytes that another rank writes too.
    pub(super) overlap: bool,
    /// Whether a rank has more bytes of the round for other nodes than it could pack. In the survey:
    /// whether the nodes exchange.
    pub(super) more: bool,
    /// Whether a node refused a malformed message of another node.
    pub(super) is_refused: bool,
    /// The largest wire number of an error class ([`ErrorClass::to_wire`]), 0 without an error.
    pub(super) class: u64,
}

const OVERLAP: u64 = 1;
const MORE: u64 = 2;
const REFUSED: u64 = 4;
/// The error class comes above the flags.
const CLASS_SHIFT: u32 = 8;

impl RoundStatus {
    pub(super) const NEUTRAL: Self =
        Self { next: u64::MAX, good_end: u64::MAX, overlap: false, more: false, is_refused: false, class: 0 };

    /// The boolean values as bits, and the error class.
    pub(super) fn flags(self) -> u64 {
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        flag(self.overlap, OVERLAP)
            | flag(self.more, MORE)
            | flag(self.is_refused, REFUSED)
            | self.class << CLASS_SHIFT
    }

    pub(super) fn new(next: u64, good_end: u64, flags: u64) -> Self {
        let is_set = |bit: u64| flags & bit != 0;
        Self {
            next,
            good_end,
            overlap: is_set(OVERLAP),
            more: is_set(MORE),
            is_refused: is_set(REFUSED),
            class: flags >> CLASS_SHIFT,
        }
    }

    /// The outcome of the access on all ranks, of a status that all ranks know.
    pub(super) fn outcome(self) -> KnownOutcome {
        let refused = if self.is_refused { ErrorClass::Io.to_wire() } else { 0 };
        match ErrorClass::from_wire(self.class.max(refused)) {
            Some(class) => KnownOutcome::Failed(class),
            None => KnownOutcome::Good,
        }
    }

    /// Combines two statuses.
    pub(super) fn combine(self, other: Self) -> Self {
        let flags = self.flags() | other.flags();
        let status = Self::new(self.next.min(other.next), self.good_end.min(other.good_end), flags);
        Self { class: self.class.max(other.class), ..status }
    }
}

/// Publishes the status of this rank and the used bytes of its area, and arrives at the next barrier
/// without waiting.
pub(super) fn publish(shared: &dyn NodeShared, status: RoundStatus, packed_bytes: usize) -> Result<Barriers> {
    let slots = &shared.published(shared.place())[shared.barriers().parity() * STRIDE..];
    slots[NEXT].store(status.next, Ordering::Relaxed);
    slots[GOOD_END].store(status.good_end, Ordering::Relaxed);
    slots[FLAGS].store(status.flags(), Ordering::Relaxed);
    slots[PACKED_BYTES].store(packed_bytes as u64, Ordering::Relaxed);
    shared.arrive()
}

/// The status that one rank published for a barrier that is over. Must be called before the next barrier.
pub(super) fn status_of(shared: &dyn NodeShared, barrier: Barriers, rank: usize) -> RoundStatus {
    let slots = &shared.published(rank)[barrier.parity() * STRIDE..];
    let load = |slot: usize| slots[slot].load(Ordering::Relaxed);
    RoundStatus::new(load(NEXT), load(GOOD_END), load(FLAGS))
}

/// The combined status of all ranks at a barrier that is over. Must be called before the next barrier.
pub(super) fn combined_status(shared: &dyn NodeShared, barrier: Barriers) -> RoundStatus {
    let all = (0..shared.ranks()).map(|rank| status_of(shared, barrier, rank));
    all.fold(RoundStatus::NEUTRAL, RoundStatus::combine)
}

/// The used bytes of a rank's area, which the rank published for the barrier that is over.
pub(super) fn packed_bytes_of(shared: &dyn NodeShared, rank: usize, parity: usize) -> u64 {
    shared.published(rank)[parity * STRIDE + PACKED_BYTES].load(Ordering::Relaxed)
}

/// The buffer index with which an access of this rank begins. It is the same on all ranks of the node.
pub(super) fn first_buffer_index(shared: &dyn NodeShared) -> usize {
    shared.published(shared.place())[BUFFER_INDEX].load(Ordering::Relaxed) as usize % 2
}

/// Stores the buffer index with which the next access begins.
pub(super) fn store_buffer_index(shared: &dyn NodeShared, index: usize) {
    shared.published(shared.place())[BUFFER_INDEX].store(index as u64, Ordering::Relaxed);
}
