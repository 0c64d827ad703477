//! One rank's bytes in one window of a round: marked, copied in, copied out.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use capulet_datatype::TypedCopy;
use capulet_drivers::Direction;
use capulet_plan::wire::AREAS_BYTES_MAX;

use super::NodeTeam;
use super::between::Area;
use crate::access::{Access, FileSide};
use crate::marks::mark_side;

/// One aggregator's window in one round.
#[derive(Debug, Clone)]
pub(super) struct Window<'a> {
    /// The bytes of the file that it is for.
    pub(super) file: Range<u64>,
    /// Where they are gathered.
    pub(super) data: *mut u8,
    /// Which of them are asked for.
    pub(super) map: &'a [AtomicU64],
}

impl NodeTeam {
    /// The window of aggregator `index` of this node in the round at `base`, with the data and the map of these turns.
    pub(super) fn window(&self, base: u64, index: usize, data_turn: usize, map_turn: usize) -> Window<'_> {
        let rank = self.rank_of(index);
        let start = self.own(base).start.saturating_add(self.window_bytes * index as u64);
        let map = self.shared.map(rank);
        let (first, second) = map.split_at(map.len() / 2);
        Window {
            file: start..start.saturating_add(self.window_bytes),
            data: self.shared.data(rank).wrapping_add(data_turn * self.buffer_bytes),
            map: if map_turn == 0 { first } else { second },
        }
    }

    /// The words of a window's map that can have marks, of units of so many bytes.
    pub(super) fn marked<'w>(&self, window: &Window<'w>, unit_bytes: u64) -> &'w [AtomicU64] {
        let bytes = window.file.end.min(self.end).saturating_sub(window.file.start);
        let words = usize::try_from(bytes.div_ceil(unit_bytes * 64)).unwrap_or(usize::MAX);
        &window.map[..words.min(window.map.len())]
    }

    /// The bytes of the file that the windows of this node cover in the round at `base`.
    pub(super) fn own(&self, base: u64) -> Range<u64> {
        let start = base.saturating_add(self.window_bytes * self.windows_before);
        start..start.saturating_add(self.window_bytes * self.aggregators as u64)
    }

    /// The bytes of the file that the round at `base` covers.
    pub(super) fn covered(&self, base: u64) -> Range<u64> {
        base..base.saturating_add(self.window_bytes * self.windows)
    }

    /// From now on rounds cover the windows of all nodes, of which this one may have none.
    pub(super) fn spread(&mut self) {
        if let Some(between) = &self.between {
            self.aggregators = between.nodes.own_aggregators();
            self.windows_before = between.nodes.own_windows_before();
            self.windows = between.nodes.windows();
        }
    }

    /// Whether a node has no windows when the nodes exchange.
    pub(super) fn has_idle_nodes(&self) -> bool {
        self.between.as_ref().is_some_and(|between| between.nodes.has_idle())
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.between.as_ref().map_or(1, |between| between.nodes.count())
    }

    /// The node in whose windows an offset of the round at `base` lies, and what of the file they cover.
    pub(super) fn domain_at(&self, base: u64, offset: u64) -> (usize, Range<u64>) {
        let window = (offset - base) / self.window_bytes;
        let at = |window: u64| base.saturating_add(window * self.window_bytes);
        let (node, windows) = match &self.between {
            Some(between) => between.nodes.owner_of(window),
            None => (0, 0..self.windows),
        };
        (node, at(windows.start)..at(windows.end))
    }

    /// What of the shared memory a rank packs into, in a turn: after its windows. A write has no more than one turn under
    /// way, and so all of it.
    pub(super) fn area(&self, place: usize, turn: usize, direction: Direction) -> Area {
        let turn = if direction == Direction::Read { turn } else { 0 };
        let start = self.shared.data(place).wrapping_add((2 + turn) * self.buffer_bytes);
        let turns = if direction == Direction::Read { 1 } else { 2 };
        // All that the ranks have may be for one node, and goes there as one message.
        let share = AREAS_BYTES_MAX / self.shared.ranks();
        Area { start, bytes: (turns * self.buffer_bytes).min(share) }
    }

    /// Each rank starts at another aggregator, so that two ranks seldom touch the same cache lines at once.
    pub(super) fn visiting_order(&self) -> impl Iterator<Item = usize> + use<> {
        let aggregators = self.aggregators;
        let start = self.shared.place() % aggregators.max(1);
        (0..aggregators).map(move |step| (start + step) % aggregators)
    }
}

/// Where byte 0 of the offsets of `side` would lie, were the window the file.
pub(super) fn place_in(side: &FileSide, window: &Window<'_>) -> *mut u8 {
    let shift = side.displacement_bytes().wrapping_sub(window.file.start as i64);
    window.data.wrapping_offset(shift as isize)
}

/// Marks the units of the window that hold bytes of `part`, which lies in it. True if another had marked one of them.
pub(super) fn mark_in(side: &FileSide, window: &Window<'_>, part: &Range<u64>, unit_bytes: u64) -> bool {
    mark_side(side, window.map, window.file.start, part, unit_bytes)
}

/// One rank's part of an access, and how its bytes get to windows and back.
pub(super) struct Part {
    pub(super) access: Access,
    direction: Direction,
    copy: TypedCopy,
}

impl Part {
    pub(super) fn new(access: Access, direction: Direction) -> Self {
        let memory = access.memory().tiled().clone();
        let file = access.file().clone();
        let copy = match direction {
            Direction::Read => TypedCopy::new(file, memory),
            Direction::Write => TypedCopy::new(memory, file),
        };
        Self { access, direction, copy }
    }

    /// The file offset of byte `at` of the access, `u64::MAX` if there is none.
    pub(super) fn offset_of(&self, at: u64) -> u64 {
        if at < self.access.bytes() { self.access.offset_of(at) } else { u64::MAX }
    }

    /// The bytes of the access, counted from its start, that lie in `file` and at or after byte `from`.
    pub(super) fn within(&self, file: &Range<u64>, from: u64) -> Range<u64> {
        self.access.side().within(file, from)
    }

    /// Marks the units of the window that hold bytes of `part`. True if another rank had marked one of them.
    pub(super) fn mark(&self, window: &Window<'_>, part: &Range<u64>, unit_bytes: u64) -> bool {
        mark_in(self.access.side(), window, part, unit_bytes)
    }

    /// Copies the bytes of `part` between user memory and the window, in the direction of the access.
    ///
    /// # Safety
    /// All bytes of `part` must lie in `window.file`; nobody else may write their places in the window's data at the
    /// same time, nor read them if the access is a write.
    pub(super) unsafe fn copy(&self, window: &Window<'_>, part: &Range<u64>) {
        let bytes = part.end - part.start;
        let file_start = self.access.file_start() + part.start;
        let file = place_in(self.access.side(), window);
        let memory = self.access.memory().base();
        // SAFETY: the bytes in user memory are valid until the access is over (`Memory::new`); the others lie in the window's
        // data, which is as long as `window.file`, and are this rank's alone by the caller's promise.
        unsafe {
            match self.direction {
                Direction::Write => self.copy.run(memory, part.start, file, file_start, bytes),
                Direction::Read => self.copy.run(file, file_start, memory, part.start, bytes),
            }
        };
    }
}
