//! One rank's bytes in one collective buffer of a round: marked, copied in, copied out.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use capulet_datatype::TypedCopy;
use capulet_drivers::Direction;
use capulet_plan::wire::AREAS_BYTES_MAX;

use super::NodeGroup;
use super::internode::Area;
use crate::access::{Access, FileSide};
use crate::marks::mark_side;

/// The collective buffer of one aggregator in one round.
#[derive(Debug, Clone)]
pub(super) struct CollectiveBuffer<'a> {
    /// The bytes of the file that the buffer covers.
    pub(super) file: Range<u64>,
    /// The memory of the buffer.
    pub(super) data: *mut u8,
    /// The map of the requested units.
    pub(super) map: &'a [AtomicU64],
}

impl NodeGroup {
    /// Collective buffer number `aggregator` of this node in the round at `base`. `data_index` and
    /// `map_index` are the buffer indices (0 or 1) of its memory and its map.
    pub(super) fn buffer(
        &self,
        base: u64,
        aggregator: usize,
        data_index: usize,
        map_index: usize,
    ) -> CollectiveBuffer<'_> {
        let rank = self.rank_of(aggregator);
        let start =
            self.own_range(base).start.saturating_add(self.collective_buffer_bytes * aggregator as u64);
        let map = self.shared.map(rank);
        let (first, second) = map.split_at(map.len() / 2);
        CollectiveBuffer {
            file: start..start.saturating_add(self.collective_buffer_bytes),
            data: self.shared.data(rank).wrapping_add(data_index * self.buffer_stride_bytes),
            map: if map_index == 0 { first } else { second },
        }
    }

    /// The words of the buffer's map that can have marks, for units of `unit_bytes` bytes.
    pub(super) fn marked_words<'w>(&self, buffer: &CollectiveBuffer<'w>, unit_bytes: u64) -> &'w [AtomicU64] {
        let bytes = buffer.file.end.min(self.end).saturating_sub(buffer.file.start);
        let words = usize::try_from(bytes.div_ceil(unit_bytes * 64)).unwrap_or(usize::MAX);
        &buffer.map[..words.min(buffer.map.len())]
    }

    /// The bytes of the file that the collective buffers of this node cover in the round at `base`.
    pub(super) fn own_range(&self, base: u64) -> Range<u64> {
        let start = base.saturating_add(self.collective_buffer_bytes * self.buffers_before);
        start..start.saturating_add(self.collective_buffer_bytes * self.aggregators as u64)
    }

    /// The bytes of the file that the round at `base` covers.
    pub(super) fn covered_range(&self, base: u64) -> Range<u64> {
        base..base.saturating_add(self.collective_buffer_bytes * self.buffers)
    }

    /// From now on rounds cover the collective buffers of all nodes. This node may have none.
    pub(super) fn cover_all_nodes(&mut self) {
        if let Some(internode) = &self.internode {
            self.aggregators = internode.nodes.own_aggregators();
            self.buffers_before = internode.nodes.own_buffers_before();
            self.buffers = internode.nodes.buffers();
        }
    }

    /// Whether some node has no collective buffers when the nodes exchange.
    pub(super) fn has_idle_nodes(&self) -> bool {
        self.internode.as_ref().is_some_and(|internode| internode.nodes.has_idle())
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.internode.as_ref().map_or(1, |internode| internode.nodes.count())
    }

    /// The node whose collective buffers cover `offset` in the round at `base`, and the bytes of the file
    /// that they cover.
    pub(super) fn domain_at(&self, base: u64, offset: u64) -> (usize, Range<u64>) {
        let buffer = (offset - base) / self.collective_buffer_bytes;
        let at = |buffer: u64| base.saturating_add(buffer * self.collective_buffer_bytes);
        let (node, buffers) = match &self.internode {
            Some(internode) => internode.nodes.owner_of(buffer),
            None => (0, 0..self.buffers),
        };
        (node, at(buffers.start)..at(buffers.end))
    }

    /// The area into which the rank at `place` packs. It lies behind the rank's two collective buffers. A
    /// read has two rounds in flight, so each buffer index has one half of the area. A write packs for
    /// one round at a time, and has all of it.
    pub(super) fn area(&self, place: usize, buffer_index: usize, direction: Direction) -> Area {
        let half = if direction == Direction::Read { buffer_index } else { 0 };
        let start = self.shared.data(place).wrapping_add((2 + half) * self.buffer_stride_bytes);
        let halves = if direction == Direction::Read { 1 } else { 2 };
        // All ranks may have bytes for the same node, and these bytes form one message.
        let share = AREAS_BYTES_MAX / self.shared.ranks();
        Area { start, bytes: (halves * self.buffer_stride_bytes).min(share) }
    }

    /// The order in which this rank visits the aggregators. Each rank starts at another aggregator, so
    /// that two ranks seldom touch the same cache lines at the same time.
    pub(super) fn visiting_order(&self) -> impl Iterator<Item = usize> + use<> {
        let aggregators = self.aggregators;
        let start = self.shared.place() % aggregators.max(1);
        (0..aggregators).map(move |step| (start + step) % aggregators)
    }
}

/// The address that stands for offset 0 of `side` if the buffer holds its part of the file. It may lie
/// outside of the buffer.
pub(super) fn file_origin_in(side: &FileSide, buffer: &CollectiveBuffer<'_>) -> *mut u8 {
    let shift = side.displacement_bytes().wrapping_sub(buffer.file.start as i64);
    buffer.data.wrapping_offset(shift as isize)
}

/// Marks the units of the buffer that hold bytes of `part`, which lies in it. True if one of them was
/// marked before.
pub(super) fn mark_in(
    side: &FileSide,
    buffer: &CollectiveBuffer<'_>,
    part: &Range<u64>,
    unit_bytes: u64,
) -> bool {
    mark_side(side, buffer.map, buffer.file.start, part, unit_bytes)
}

/// One rank's part of an access, with the copy between user memory and collective buffers.
pub(super) struct RankPart {
    pub(super) access: Access,
    direction: Direction,
    copy: TypedCopy,
}

impl RankPart {
    pub(super) fn new(access: Access, direction: Direction) -> Self {
        let memory = access.memory().tiled().clone();
        let file = access.file().clone();
        let copy = match direction {
            Direction::Read => TypedCopy::new(file, memory),
            Direction::Write => TypedCopy::new(memory, file),
        };
        Self { access, direction, copy }
    }

    /// The file offset of byte `at` of the access, `u64::MAX` if the access has no such byte.
    pub(super) fn offset_of(&self, at: u64) -> u64 {
        if at < self.access.bytes() { self.access.offset_of(at) } else { u64::MAX }
    }

    /// The bytes of the access, counted from its start, that lie in the range `file` of the file and are
    /// at or after byte `from` of the access.
    pub(super) fn within(&self, file: &Range<u64>, from: u64) -> Range<u64> {
        self.access.side().within(file, from)
    }

    /// Marks the units of the buffer that hold bytes of `part`. True if one of them was marked before.
    pub(super) fn mark(&self, buffer: &CollectiveBuffer<'_>, part: &Range<u64>, unit_bytes: u64) -> bool {
        mark_in(self.access.side(), buffer, part, unit_bytes)
    }

    /// Copies the bytes of `part` between user memory and the buffer, in the direction of the access.
    ///
    /// # Safety
    /// All bytes of `part` lie in `buffer.file`. During the call no other rank writes their places in the
    /// buffer, and if the access is a write, no other rank reads them.
    pub(super) unsafe fn copy(&self, buffer: &CollectiveBuffer<'_>, part: &Range<u64>) {
        let bytes = part.end - part.start;
        let file_start = self.access.file_start() + part.start;
        let file = file_origin_in(self.access.side(), buffer);
        let memory = self.access.memory().base();
        // SAFETY: the bytes in user memory are valid until the access is over (`# Safety` of
        // `Memory::new`). The others lie in `buffer.data`, which has a byte for each byte of
        // `buffer.file`, and `# Safety` of this function excludes other ranks.
        unsafe {
            match self.direction {
                Direction::Write => self.copy.run(memory, part.start, file, file_start, bytes),
                Direction::Read => self.copy.run(file, file_start, memory, part.start, bytes),
            }
        };
    }
}
