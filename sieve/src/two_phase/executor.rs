//! The operation as a value that can be polled: it waits at one barrier, or is over.

use std::panic::{AssertUnwindSafe, catch_unwind};

use capulet_atomic::Footprint;
use capulet_comm::Barriers;
use capulet_drivers::Direction;

use super::NodeTeam;
use super::io::WindowIo;
use super::slots::{Told, heard, tell};
use super::window::{Part, Window};
use crate::access::Access;
use crate::counters::Counters;
use crate::marks::take_runs;
use crate::{Failure, Target, Transferred};

/// Reads are asked for in units of at least this many bytes.
const READ_UNIT_BYTES: u64 = 512;
/// Gaps of up to this many bytes are read through, into the window and never into user memory.
const BRIDGE_BYTES: u64 = 4096;

/// What the ranks do between the last barrier and the one that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A round: windows are filled (write), or marked and read (read).
    Round,
    /// The ranks fill the windows of a round again, one after the other; it is the turn of this one. What was told
    /// before is kept.
    Turns { turn: usize, told: Told, buffer: usize },
    /// Over.
    Done,
}

/// One rank's part of a collective access on its node, under way.
///
/// Between two barriers: for a write, windows of one round are written while those of the next are filled; for a read, they
/// are copied out while those of the next are read and those after that marked. Before barrier `g` the maps of turn `g % 2`
/// are marked, and for a write the data of turn `g % 2` filled; after it, a read fills the data of the other turn. So what is
/// in use after a barrier is never what the next access fills first, and accesses need no barrier between them.
pub struct Operation {
    target: Target,
    team: NodeTeam,
    direction: Direction,
    part: Part,
    phase: Phase,
    barrier: Option<Barriers>,
    /// The round whose windows are marked (and for a write filled) before the barrier that is waited for.
    marked: Option<u64>,
    /// The round whose windows are read before it, and the turn of their data. Reads only.
    read: Option<(u64, usize)>,
    /// Bytes of the access, from its start, that were marked.
    marked_bytes: u64,
    /// Bytes of the access, from its start, that went through windows.
    placed_bytes: u64,
    moved_bytes: u64,
    good_end: u64,
    overlap: bool,
    error: Option<Failure>,
}

impl Operation {
    /// Begins, without waiting for anybody. See [`super::run`] for the arguments.
    ///
    /// # Panics
    /// If `access` is not monotone.
    pub fn start(target: Target, team: NodeTeam, access: Access, direction: Direction, first: u64) -> Self {
        assert!(access.is_monotone(), "two-phase needs offsets that never decrease");
        let mut operation = Self {
            target,
            team,
            direction,
            part: Part::new(access, direction),
            phase: Phase::Done,
            barrier: None,
            marked: None,
            read: None,
            marked_bytes: 0,
            placed_bytes: 0,
            moved_bytes: 0,
            good_end: u64::MAX,
            overlap: false,
            error: None,
        };
        if first != u64::MAX {
            operation.phase = Phase::Round;
            let buffer = operation.team.shared.barriers().parity();
            operation.begin_round(first, buffer);
            operation.come();
        }
        operation
    }

    /// Goes on as far as it can without waiting for others. True when the operation is over.
    pub fn poll(&mut self) -> bool {
        while let Some(barrier) = self.barrier {
            match self.team.shared.is_over(barrier) {
                Ok(false) => return false,
                Ok(true) => self.step(barrier),
                Err(error) => self.fail(error.into()),
            }
        }
        true
    }

    /// Goes on to the end, waiting for the other ranks.
    pub fn wait(mut self) -> Transferred {
        while let Some(barrier) = self.barrier {
            match self.team.shared.wait(barrier) {
                Ok(()) => self.step(barrier),
                Err(error) => self.fail(error.into()),
            }
        }
        self.take_outcome()
    }

    /// What came of it, once it is over. To be asked once: the error is given away.
    pub fn take_outcome(&mut self) -> Transferred {
        debug_assert!(self.phase == Phase::Done, "the operation is over");
        Transferred { bytes: self.moved_bytes, error: self.error.take() }
    }

    /// After a barrier.
    fn step(&mut self, barrier: Barriers) {
        self.barrier = None;
        match self.phase {
            Phase::Round => {
                let told = heard(self.team.shared.as_ref(), barrier);
                match self.direction {
                    Direction::Write if told.overlap && told.good_end == u64::MAX => {
                        self.take_turn(0, told, barrier.parity());
                    }
                    Direction::Write => self.after_fill(told, barrier.parity()),
                    Direction::Read => self.after_mark(told, barrier.parity()),
                }
            }
            Phase::Turns { turn, told, buffer } => self.take_turn(turn + 1, told, buffer),
            Phase::Done => {}
        }
    }

    /// Turn by turn, each rank fills the windows of the round again, the highest rank last. The turns are even in number, so
    /// that the buffers go on by turns with the barriers.
    fn take_turn(&mut self, turn: usize, told: Told, buffer: usize) {
        if turn == self.team.shared.ranks().next_multiple_of(2) {
            self.phase = Phase::Round;
            return self.after_fill(told, buffer);
        }
        if let Some(base) = self.marked.filter(|_| turn == self.team.shared.place()) {
            self.refill(base, buffer);
        }
        self.phase = Phase::Turns { turn, told, buffer };
        self.tell(Told::NOTHING);
    }

    /// All ranks have filled the windows of a round.
    fn after_fill(&mut self, told: Told, buffer: usize) {
        let Some(base) = self.marked.take() else { return self.finish(told.good_end) };
        if told.good_end != u64::MAX {
            self.forget_marks(base, buffer);
            return self.finish(told.good_end);
        }
        self.as_aggregator(base, buffer, buffer);
        if told.next != u64::MAX {
            self.begin_round(told.next, 1 - buffer);
        }
        self.come();
    }

    /// All ranks have marked what they want of a round, and the round before has been read.
    fn after_mark(&mut self, told: Told, turn: usize) {
        if let Some((base, buffer)) = self.read.take() {
            self.drain(base, buffer, told.good_end);
        }
        let Some(base) = self.marked.take() else { return self.finish(told.good_end) };
        if told.good_end != u64::MAX {
            self.forget_marks(base, turn);
            return self.finish(told.good_end);
        }
        self.as_aggregator(base, 1 - turn, turn);
        self.read = Some((base, 1 - turn));
        if told.next != u64::MAX {
            self.begin_round(told.next, 1 - turn);
        }
        self.come();
    }

    /// Marks, and for a write fills, the windows of the round in which `next` is the first byte that is needed.
    fn begin_round(&mut self, next: u64, turn: usize) {
        Counters::add(&self.target.counters.rounds, 1);
        let base = next - next % self.team.align_bytes;
        for index in self.team.visiting_order() {
            let window = self.team.window(base, index, turn, turn);
            let part = self.part.within(&window.file, self.marked_bytes);
            if part.is_empty() {
                continue;
            }
            let is_write = self.direction == Direction::Write;
            let unit_bytes = if is_write { self.team.unit_bytes } else { self.read_unit_bytes() };
            let is_marked_twice = self.part.mark(&window, &part, unit_bytes);
            if !is_write {
                continue;
            }
            if is_marked_twice {
                self.overlap = true;
                continue;
            }
            // SAFETY: the part lies in the window; this rank was the first to mark each of its bytes, and no other rank fills
            // a window where it was not. The aggregator reads only after the next barrier.
            unsafe { self.part.copy(&window, &part) };
            Counters::add(&self.target.counters.copied_bytes, part.end - part.start);
        }
        self.marked_bytes = self.part.within(&self.team.covered(base), self.marked_bytes).end;
        if self.direction == Direction::Write {
            self.placed_bytes = self.marked_bytes;
        }
        self.marked = Some(base);
    }

    /// Fills the windows of a round again, when no other rank does.
    fn refill(&mut self, base: u64, turn: usize) {
        for index in self.team.visiting_order() {
            let window = self.team.window(base, index, turn, turn);
            let part = self.part.within(&window.file, 0);
            if !part.is_empty() {
                // SAFETY: the part lies in the window; between the barriers before and after this turn only this rank touches
                // the data of the round.
                unsafe { self.part.copy(&window, &part) };
                Counters::add(&self.target.counters.copied_bytes, part.end - part.start);
            }
        }
    }

    /// Copies out what was read of a round, as far as it is good.
    fn drain(&mut self, base: u64, turn: usize, good_end: u64) {
        for index in self.team.visiting_order() {
            let mut window = self.team.window(base, index, turn, turn);
            window.file.end = window.file.end.min(good_end).max(window.file.start);
            let part = self.part.within(&window.file, self.placed_bytes);
            if !part.is_empty() {
                // SAFETY: the part lies in the window; its aggregator filled it before the last barrier, and nobody writes to
                // the data of this turn before the next.
                unsafe { self.part.copy(&window, &part) };
                Counters::add(&self.target.counters.copied_bytes, part.end - part.start);
            }
        }
        self.placed_bytes = self.part.within(&self.team.covered(base), self.placed_bytes).end;
    }

    /// Tells what the other ranks need to know, and comes to the next barrier.
    fn come(&mut self) {
        let next = if self.marked.is_some() { self.part.offset_of(self.marked_bytes) } else { u64::MAX };
        let overlap = std::mem::take(&mut self.overlap);
        self.tell(Told { next, good_end: self.good_end, overlap });
    }

    fn tell(&mut self, told: Told) {
        match tell(self.team.shared.as_ref(), told) {
            Ok(barrier) => self.barrier = Some(barrier),
            Err(error) => self.fail(error.into()),
        }
    }

    /// All ranks know that the operation is over, and up to which offset its bytes are good.
    fn finish(&mut self, good_end: u64) {
        self.moved_bytes = match good_end {
            u64::MAX => self.placed_bytes,
            end => self.part.access.bytes_below(end).min(self.placed_bytes),
        };
        self.phase = Phase::Done;
    }

    /// The ranks of the node are apart: no further round can be.
    fn fail(&mut self, failure: Failure) {
        self.barrier = None;
        self.error = self.error.take().or(Some(failure));
        self.finish(0);
    }

    /// Marks of a round that is not carried out must not be taken for those of a later one.
    fn forget_marks(&self, base: u64, turn: usize) {
        if let Some(index) = self.team.own_index() {
            take_runs(self.team.window(base, index, turn, turn).map, 0, |_| ());
        }
    }

    fn as_aggregator(&mut self, base: u64, data_turn: usize, map_turn: usize) {
        let Some(index) = self.team.own_index() else { return };
        let window = self.team.window(base, index, data_turn, map_turn);
        let moved = catch_unwind(AssertUnwindSafe(|| self.move_window(&window)));
        let (good_end, error) = moved.unwrap_or_else(|_| {
            // The others wait at the barrier, and the marks must not be taken for those of a later round.
            take_runs(window.map, 0, |_| ());
            (window.file.start, Some(Failure::Panicked))
        });
        self.error = self.error.take().or(error);
        self.good_end = self.good_end.min(good_end);
    }

    fn read_unit_bytes(&self) -> u64 {
        self.team.unit_bytes.max(READ_UNIT_BYTES.min(self.team.window_bytes))
    }

    /// Moves the marked bytes of this aggregator's window between window and file, and clears the marks.
    fn move_window(&self, window: &Window<'_>) -> (u64, Option<Failure>) {
        let span = window.file.clone();
        let footprint = Footprint { span, writes: self.direction == Direction::Write };
        let guard = self.target.isolation.enter(&footprint);
        let mut io = WindowIo::new(&self.target, self.direction, window.file.start, window.data);
        if let Err(error) = &guard {
            // nothing is moved, but the marks must be cleared all the same
            tracing::debug!(%error, "window not isolated");
            io.good_end = window.file.start;
        }
        let (unit, bridge) = match self.direction {
            Direction::Write => (self.team.unit_bytes, 0),
            Direction::Read => (self.read_unit_bytes(), BRIDGE_BYTES / self.read_unit_bytes()),
        };
        // the last unit of the largest file offset must not reach beyond it
        let window_bytes = (window.file.end.min(i64::MAX as u64)).saturating_sub(window.file.start);
        take_runs(window.map, bridge, |units| {
            io.push(units.start * unit..(units.end * unit).min(window_bytes));
        });
        io.flush();
        (io.good_end, guard.err().map(Into::into).or(io.error))
    }
}
