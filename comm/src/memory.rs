//! The shared memory of one node buffer: a header, and for each rank a data part and a map.
//!
//! ```text
//! | header: barrier, numbers of each rank | rank 0: `bytes` of data, map: 1 bit per byte | rank 1: ...
//! ```
//!
//! Memory: N (B + B / 8) + 384 + 128 N bytes for N ranks with B bytes each, in pages. The creation of the
//! buffer populates the header. The first use of the buffer by a rank populates the part of that rank.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};

use capulet_agreement::{Barrier, Line};

use crate::segment::{PAGE_BYTES, Segment, fits};

/// The number of values that each rank can publish.
pub(crate) const SLOTS: usize = 16;

type Slots = Line<[AtomicU64; SLOTS]>;

/// The position of each piece of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The number of data bytes per rank: a power of two, and at least a page.
    pub(crate) bytes: usize,
    ranks: usize,
    part_bytes: usize,
    pub(crate) header_bytes: usize,
}

impl Plan {
    /// `None` if the size cannot be addressed.
    pub(crate) fn of(bytes: usize, ranks: usize) -> Option<Self> {
        // Sizes are powers of two, so that a buffer that grows step by step is created only a few times.
        let bytes = bytes.max(PAGE_BYTES).checked_next_power_of_two()?;
        let map_bytes = (bytes / 8).next_multiple_of(PAGE_BYTES);
        let part_bytes = bytes.checked_add(map_bytes)?;
        let header_bytes = size_of::<Barrier<AtomicU32>>() + ranks * size_of::<Slots>();
        let header_bytes = header_bytes.next_multiple_of(PAGE_BYTES);
        let total = part_bytes.checked_mul(ranks)?.checked_add(header_bytes)?;
        (isize::try_from(total).is_ok()).then_some(Plan { bytes, ranks, part_bytes, header_bytes })
    }

    pub(crate) fn total_bytes(self) -> usize {
        self.header_bytes + self.ranks * self.part_bytes
    }
}

/// The memory of a buffer from the view of this rank.
#[derive(Debug)]
pub(crate) struct Memory {
    segment: Segment,
    plan: Plan,
    place: usize,
    /// Whether the part of this rank is populated. Unset until this rank needs its part.
    prepared: OnceLock<bool>,
    /// Whether the parts of all ranks are populated. Unset until the ranks have agreed.
    agreed: OnceLock<bool>,
}

impl Memory {
    /// The buffer in a segment of at least `plan.total_bytes()` bytes whose header is populated.
    pub(crate) fn new(segment: Segment, plan: Plan, place: usize) -> Self {
        assert!(place < plan.ranks, "there is no such rank on the node");
        Self { segment, plan, place, prepared: OnceLock::new(), agreed: OnceLock::new() }
    }

    /// Populates the part of this rank. Only the first call has an effect. False if the machine has no
    /// memory for the part. Local.
    pub(crate) fn prepare(&self) -> bool {
        *self.prepared.get_or_init(|| {
            let start = self.data_at(self.place);
            fits(self.plan.part_bytes) && self.segment.populate(start..start + self.plan.part_bytes)
        })
    }

    /// Whether the part of this rank is already populated. Local.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.get() == Some(&true)
    }

    /// Whether the parts of all ranks are populated. The first call asks `agree`, with the result of this
    /// rank, and is collective over the node. Later calls are local.
    ///
    /// # Errors
    /// The errors of `agree`.
    pub(crate) fn is_usable<E>(&self, agree: impl FnOnce(bool) -> Result<bool, E>) -> Result<bool, E> {
        if let Some(agreed) = self.agreed.get() {
            return Ok(*agreed);
        }
        let agreed = agree(self.prepare())?;
        Ok(*self.agreed.get_or_init(|| agreed))
    }

    /// Whether the ranks have agreed that they cannot use the buffer. Local.
    pub(crate) fn is_refused(&self) -> bool {
        self.agreed.get() == Some(&false)
    }

    fn data_at(&self, rank: usize) -> usize {
        assert!(rank < self.plan.ranks, "there is no such rank on the node");
        self.plan.header_bytes + rank * self.plan.part_bytes
    }

    /// The number of data bytes per rank.
    pub(crate) fn bytes(&self) -> usize {
        self.plan.bytes
    }

    pub(crate) fn ranks(&self) -> usize {
        self.plan.ranks
    }

    pub(crate) fn place(&self) -> usize {
        self.place
    }

    pub(crate) fn data(&self, rank: usize) -> *mut u8 {
        self.segment.at(self.data_at(rank))
    }

    pub(crate) fn map(&self, rank: usize) -> &[AtomicU64] {
        let start = self.segment.value_at::<AtomicU64>(self.data_at(rank) + self.plan.bytes);
        // SAFETY: the map has one bit per byte of data, that is `bytes / 64` words, because `bytes` is a
        // power of two of at least a page. It starts at a page boundary, because header, data and map are
        // whole pages. The mapping outlives `self`, and all accesses to the map are atomic.
        unsafe { std::slice::from_raw_parts(start.cast_const(), self.plan.bytes / 64) }
    }

    pub(crate) fn barrier(&self) -> &Barrier<AtomicU32> {
        // SAFETY: the header begins with the barrier, at a page boundary of a mapping that outlives
        // `self`. Zeroed memory is a valid barrier, and all fields of a barrier are atomics.
        unsafe { &*self.segment.value_at::<Barrier<AtomicU32>>(0) }
    }

    pub(crate) fn published(&self, rank: usize) -> &[AtomicU64] {
        assert!(rank < self.plan.ranks, "there is no such rank on the node");
        let at = size_of::<Barrier<AtomicU32>>() + rank * size_of::<Slots>();
        // SAFETY: the numbers of the ranks follow the barrier in the header, and `at` is a multiple of
        // the alignment of `Line`, 128. Zeroed memory is a valid value, all fields are atomics, and the
        // mapping outlives `self`.
        let slots = unsafe { &*self.segment.value_at::<Slots>(at) };
        &slots.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_has_the_requested_size_and_rejects_impossible_sizes() {
        let plan = Plan::of(100_000, 4).expect("the size is addressable");
        assert_eq!(plan.bytes, 131_072);
        assert_eq!(plan.part_bytes, 131_072 + 16_384);
        assert_eq!((plan.header_bytes, plan.total_bytes()), (4096, 4096 + 4 * plan.part_bytes));
        assert_eq!(Plan::of(0, 1).map(|plan| plan.bytes), Some(PAGE_BYTES));
        assert_eq!(Plan::of(0, 100).map(|plan| plan.header_bytes), Some(4 * PAGE_BYTES));
        assert!(Plan::of(usize::MAX, 1).is_none());
        assert!(Plan::of(1 << 62, 3).is_none());
    }
}
