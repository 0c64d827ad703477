//! The steps of a rank in a round: buffers are filled, marked, moved and copied out.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use capulet_drivers::Direction;

use super::collective_buffer::CollectiveBuffer;
use super::executor::Operation;
use super::internode::Outgoing;
use super::io::BufferIo;
use super::round_status::RoundStatus;
use crate::counters::Counters;
use crate::marks::{each_run, take_runs};
use crate::{Failure, Holes};

/// A round whose buffers are marked, and for a write filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) base: u64,
    pub(super) buffer_index: usize,
    /// Whether the buffers of this node were marked too. False if a read repeats a round for the rest of
    /// its bytes in other nodes' buffers.
    is_first: bool,
    /// Bytes of the access, from its start, that are done after this round.
    end_bytes: u64,
}

/// A round whose buffers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) base: u64,
    /// The index of the maps in which the round was marked. Its data lie in the buffers of the other
    /// index.
    pub(super) buffer_index: usize,
    is_first: bool,
    end_bytes: u64,
}

impl Operation {
    /// Continues after all ranks have filled the buffers of a round.
    pub(super) fn after_fill(&mut self, status: RoundStatus) {
        let Some(filled) = self.filled.take() else { return self.finish(status.good_end) };
        if status.good_end != u64::MAX {
            self.clear_marks(filled);
            return self.finish(status.good_end);
        }
        self.move_own_buffer(filled.base, filled.buffer_index, filled.buffer_index);
        self.buffer_index = 1 - filled.buffer_index;
        if status.next != u64::MAX {
            self.begin_round(status.next);
        }
        self.arrive();
    }

    /// Continues after all ranks have marked the units of a round, and the round before was read.
    pub(super) fn after_mark(&mut self, status: RoundStatus) {
        let read = self.read.take();
        if let Some(read) = read {
            self.copy_out(read, status.good_end);
        }
        let Some(filled) = self.filled.take() else { return self.finish(status.good_end) };
        // `good_end` is the end of the bytes that were read. The rest of the same round may lie before
        // it.
        let is_rest = read.is_some_and(|read| read.base == filled.base) && status.good_end > filled.base;
        if status.good_end != u64::MAX && !is_rest {
            self.clear_marks(filled);
            return self.finish(status.good_end);
        }
        let Filled { base, buffer_index, is_first, end_bytes } = filled;
        self.move_own_buffer(base, 1 - buffer_index, buffer_index);
        self.read = Some(Read { base, buffer_index, is_first, end_bytes });
        self.buffer_index = 1 - buffer_index;
        if status.next != u64::MAX && (status.good_end == u64::MAX || status.next == base) {
            self.begin_round(status.next);
        }
        self.arrive();
    }

    /// Marks, and for a write fills, the buffers of the round in which `next` is the lowest offset that
    /// is needed. If this round was begun before, continues it.
    pub(super) fn begin_round(&mut self, next: u64) {
        let base = self.group.grid().base_of(next);
        let is_first = self.round != Some(base);
        if is_first {
            Counters::add(&self.target.counters.rounds, 1);
            self.round = Some(base);
            self.fill_own(base);
            if let Some(outgoing) = &mut self.outgoing {
                outgoing.begin(&self.part.access, &self.group, base);
            }
        }
        if self.direction == Direction::Write {
            // A write packs the rest of its bytes for other nodes before the round is over.
            self.marked_bytes = self.part.within(&self.group.covered_range(base), self.marked_bytes).end;
            self.placed_bytes = self.marked_bytes;
        }
        self.filled =
            Some(Filled { base, buffer_index: self.buffer_index, is_first, end_bytes: self.marked_bytes });
        self.pack();
    }

    /// Marks, and for a write fills, the buffers of this node.
    fn fill_own(&mut self, base: u64) {
        let buffer_index = self.buffer_index;
        let is_write = self.direction == Direction::Write;
        let unit_bytes = if is_write { self.group.unit_bytes } else { self.group.read_unit_bytes() };
        for index in self.group.visiting_order() {
            let buffer = self.group.buffer(base, index, buffer_index, buffer_index);
            let part = self.part.within(&buffer.file, self.marked_bytes);
            if part.is_empty() {
                continue;
            }
            let is_marked_twice = self.part.mark(&buffer, &part, unit_bytes);
            if !is_write {
                continue;
            }
            if is_marked_twice {
                self.overlap = true;
                continue;
            }
            // SAFETY: `# Safety` of `RankPart::copy`: `RankPart::within` cut the part so that it lies in
            // the buffer. This rank was the first to mark each of its units, and a rank that finds a unit
            // marked does not fill the buffer, so no other rank writes these bytes. The aggregator reads
            // them only after the next barrier.
            unsafe { self.part.copy(&buffer, &part) };
            Counters::add(&self.target.counters.copied_bytes, part.end - part.start);
        }
    }

    /// Packs the bytes of the round for other nodes, as far as the area has room.
    pub(super) fn pack(&mut self) {
        let Some(filled) = &mut self.filled else { return };
        if let Some(outgoing) = &mut self.outgoing {
            let area = self.group.area(self.group.shared.place(), filled.buffer_index, self.direction);
            // SAFETY: `# Safety` of `Outgoing::pack`: between two barriers of all nodes only this rank uses
            // its area, and its earlier requests are copied out. User memory: `# Safety` of `Memory::new`.
            let (used, copied_bytes) =
                unsafe { outgoing.pack(&self.part.access, &self.group, area, filled.buffer_index) };
            self.packed_bytes = used;
            Counters::add(&self.target.counters.copied_bytes, copied_bytes);
        }
        let is_done = self.outgoing.as_ref().is_none_or(Outgoing::is_done);
        if is_done && self.direction == Direction::Read {
            self.marked_bytes =
                self.part.within(&self.group.covered_range(filled.base), self.marked_bytes).end;
            filled.end_bytes = self.marked_bytes;
        }
    }

    /// Whether the round has more bytes for other nodes than were packed.
    pub(super) fn has_more(&self) -> bool {
        self.outgoing.as_ref().is_some_and(|outgoing| !outgoing.is_done())
    }

    /// In the overlap replay, when no other rank fills: fills the buffers of this node, in the first pass
    /// only, and packs the bytes for other nodes, unless an earlier rank must finish its packing first.
    pub(super) fn refill(&mut self, is_first: bool, is_held: bool) {
        let Some(Filled { base, buffer_index, .. }) = self.filled else { return };
        if is_first {
            self.refill_own(base, buffer_index);
            if let Some(outgoing) = &mut self.outgoing {
                outgoing.begin(&self.part.access, &self.group, base);
            }
        }
        if !is_held {
            self.pack();
        }
    }

    fn refill_own(&self, base: u64, buffer_index: usize) {
        for index in self.group.visiting_order() {
            let buffer = self.group.buffer(base, index, buffer_index, buffer_index);
            let part = self.part.within(&buffer.file, 0);
            if !part.is_empty() {
                // SAFETY: `# Safety` of `RankPart::copy`: `RankPart::within` cut the part so that it lies
                // in the buffer. Between the barriers before and after this rank's turn in the replay, no
                // other rank touches the buffers of the round.
                unsafe { self.part.copy(&buffer, &part) };
                Counters::add(&self.target.counters.copied_bytes, part.end - part.start);
            }
        }
    }

    /// Copies the bytes of a round that was read to user memory, up to the offset `good_end`.
    fn copy_out(&mut self, read: Read, good_end: u64) {
        let (data_index, counters) = (1 - read.buffer_index, &self.target.counters);
        for index in self.group.visiting_order().filter(|_| read.is_first) {
            let mut buffer = self.group.buffer(read.base, index, data_index, data_index);
            buffer.file.end = buffer.file.end.min(good_end).max(buffer.file.start);
            let part = self.part.within(&buffer.file, self.placed_bytes);
            if !part.is_empty() {
                // SAFETY: `# Safety` of `RankPart::copy`: the part lies in the buffer. The aggregator
                // filled the buffer before the last barrier, and no rank writes to the buffers of this
                // index before the next one.
                unsafe { self.part.copy(&buffer, &part) };
                Counters::add(&counters.copied_bytes, part.end - part.start);
            }
        }
        if let Some(outgoing) = &mut self.outgoing {
            let area = self.group.area(self.group.shared.place(), read.buffer_index, self.direction);
            // SAFETY: `# Safety` of `Outgoing::unpack`: the leader put the replies into the area before
            // the last barrier, and does not touch the area after it.
            let copied_bytes =
                unsafe { outgoing.unpack(&self.part.access, area, read.buffer_index, good_end) };
            Counters::add(&counters.copied_bytes, copied_bytes);
        }
        self.placed_bytes = self.placed_bytes.max(read.end_bytes);
    }

    /// Clears the marks of a round that is not carried out, so that they are not taken for marks of a
    /// later round.
    fn clear_marks(&self, filled: Filled) {
        if let Some(index) = self.group.own_index() {
            let buffer = self.group.buffer(filled.base, index, filled.buffer_index, filled.buffer_index);
            take_runs(self.group.marked_words(&buffer, self.units().0), 0, |_| ());
        }
    }

    fn move_own_buffer(&mut self, base: u64, data_index: usize, map_index: usize) {
        let Some(index) = self.group.own_index() else { return };
        let buffer = self.group.buffer(base, index, data_index, map_index);
        let moved = catch_unwind(AssertUnwindSafe(|| self.move_buffer(&buffer)));
        let (good_end, error) = moved.unwrap_or_else(|_| {
            // The other ranks wait at the barrier. The marks must not be taken for marks of a later
            // round.
            take_runs(self.group.marked_words(&buffer, self.units().0), 0, |_| ());
            (buffer.file.start, Some(Failure::Panicked))
        });
        self.error = self.error.take().or(error);
        self.good_end = self.good_end.min(good_end);
    }

    /// Bytes for which a mark stands, and the greatest gap, in units, that is moved too.
    fn units(&self) -> (u64, u64) {
        let grid = self.group.grid();
        match self.direction {
            Direction::Write => (grid.unit_bytes, 0),
            Direction::Read => (grid.read_unit_bytes(), grid.read_bridge_units()),
        }
    }

    /// Whether holes may be written back. Unless the nodes exchange, the holes between the runs of this
    /// node's ranks may hold runs of another node.
    fn may_fill(&self) -> bool {
        let is_only = self.group.internode.as_ref().is_none_or(|internode| internode.nodes.count() == 1);
        self.direction == Direction::Write
            && self.target.holes == Holes::Rewritten
            && (is_only || self.outgoing.is_some())
    }

    /// Moves the marked bytes of this aggregator's buffer between buffer and file, and clears the marks.
    /// Returns the offset up to which the transfers were complete (`u64::MAX` for all), and the error.
    fn move_buffer(&self, buffer: &CollectiveBuffer<'_>) -> (u64, Option<Failure>) {
        let mut io = BufferIo::new(&self.target, self.direction, buffer.file.start, buffer.data);
        let (unit, bridge) = self.units();
        // the last unit may reach beyond the largest file offset, and is cut there
        let covered_bytes = (buffer.file.end.min(i64::MAX as u64)).saturating_sub(buffer.file.start);
        let bytes_of = |units: Range<u64>| units.start * unit..(units.end * unit).min(covered_bytes);
        let words = self.group.marked_words(buffer, unit);
        let each = |visit: &mut dyn FnMut(Range<u64>)| each_run(words, |units| visit(bytes_of(units)));
        if let Some(span) = self.may_fill().then(|| io.fill(each)).flatten() {
            io.push(span);
            io.flush();
            if io.good_end == u64::MAX {
                take_runs(words, bridge, |_| ());
                return (io.good_end, io.error);
            }
            // A full storage may still have room for the runs.
            io = BufferIo::new(&self.target, self.direction, buffer.file.start, buffer.data);
        }
        take_runs(words, bridge, |units| io.push(bytes_of(units)));
        io.flush();
        (io.good_end, io.error)
    }
}
