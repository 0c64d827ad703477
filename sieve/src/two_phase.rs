//! Two-phase on one node: all ranks of the node gather in shared windows, and aggregators move full windows.
//!
//! A round covers `aggregators x window` bytes of the file, from the lowest byte that any rank of the node still needs.
//!
//! * Write: every rank copies its bytes straight from user memory into the windows and marks them; barrier; each
//!   aggregator writes the marked runs of its window; barrier (which also opens the next round).
//! * Read: every rank marks the units that it wants; barrier; each aggregator reads them; barrier; every rank copies
//!   its bytes straight to user memory.
//!
//! A rank never leaves early: an aggregator that fails publishes the offset up to which its window is good, and all ranks
//! leave after that round together. No rank waits in MPI: the barrier belongs to the window.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use capulet_atomic::Footprint;
use capulet_comm::NodeShared;
use capulet_datatype::{Cursor, TypedCopy};
use capulet_drivers::{Batch, Segment, Transfer};

use capulet_drivers::Direction;

use crate::access::Access;
use crate::counters::Counters;
use crate::independent::BATCH_TRANSFERS;
use crate::marks::{Marker, take_runs};
use crate::{Failure, Target, Transferred};

/// Windows begin at multiples of this many bytes of the file, or of a stripe.
pub const PAGE_BYTES: u64 = 4096;
/// Reads are asked for in units of this many bytes.
const UNIT_BYTES: u64 = 512;
/// Gaps of up to this many units are read through, into the window and never into user memory.
const BRIDGE_UNITS: u64 = 8;

/// Slot of a rank: the file offset of the next byte that it needs, `u64::MAX` when it is done.
const NEXT: usize = 0;
/// Slot of an aggregator: the file offset up to which its last window is good, `u64::MAX` if all of it is.
const GOOD_END: usize = 1;

/// The ranks of a node and how they share the work.
#[derive(Debug, Clone, Copy)]
pub struct NodeTeam<'a> {
    shared: &'a dyn NodeShared,
    aggregators: usize,
    window_bytes: u64,
    align_bytes: u64,
}

impl<'a> NodeTeam<'a> {
    /// A team on `shared`, with at most `aggregators` of its ranks as aggregators, windows of at most `window_bytes`, and
    /// windows that begin at whole stripes where a window holds whole stripes. All ranks of the node must pass the
    /// same values.
    pub fn new(shared: &'a dyn NodeShared, aggregators: usize, window_bytes: u64, stripe_bytes: u64) -> Self {
        let window_bytes = window_bytes.min(shared.bytes() as u64).max(1);
        let whole = stripe_bytes > 0 && window_bytes.is_multiple_of(stripe_bytes);
        Self {
            shared,
            aggregators: aggregators.clamp(1, shared.ranks()),
            window_bytes,
            align_bytes: if whole { stripe_bytes } else { PAGE_BYTES.min(window_bytes) },
        }
    }

    /// The rank of the node that is aggregator `index`.
    fn rank_of(&self, index: usize) -> usize {
        index * self.shared.ranks() / self.aggregators
    }

    /// The lowest value of a slot over all ranks.
    fn lowest(&self, slot: usize) -> u64 {
        let values =
            (0..self.shared.ranks()).map(|rank| self.shared.slots(rank)[slot].load(Ordering::Acquire));
        values.min().unwrap_or(u64::MAX)
    }

    fn publish(&self, slot: usize, value: u64) {
        self.shared.slots(self.shared.place())[slot].store(value, Ordering::Release);
    }
}

/// One aggregator's window in one round.
#[derive(Clone)]
struct Window<'a> {
    file: Range<u64>,
    data: *mut u8,
    map: &'a [AtomicU64],
}

/// Carries out one rank's part of a collective access, together with all ranks of its node. Every rank of the node
/// must call it, those with nothing to move too. Blocks for the storage and the other ranks, and keeps MPI
/// progressing while it waits.
///
/// # Panics
/// If `access` is not monotone: the planner never lets one come here.
pub fn run(target: Target<'_>, team: NodeTeam<'_>, access: &Access, direction: Direction) -> Transferred {
    assert!(access.is_monotone(), "two-phase needs offsets that never decrease");
    let mut executor = Executor::new(target, team, access, direction);
    team.publish(GOOD_END, u64::MAX);
    loop {
        match executor.round() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                // the ranks of the node are apart: no further round can be
                executor.error = executor.error.or(Some(error.into()));
                break;
            }
        }
    }
    Transferred { bytes: executor.moved_bytes, error: executor.error }
}

struct Executor<'a> {
    target: Target<'a>,
    team: NodeTeam<'a>,
    access: &'a Access,
    direction: Direction,
    copy: TypedCopy,
    cursor: Cursor,
    /// Bytes of the access that went through windows so far.
    placed_bytes: u64,
    /// Bytes of the access that are known to be moved.
    moved_bytes: u64,
    error: Option<Failure>,
}

impl<'a> Executor<'a> {
    fn new(target: Target<'a>, team: NodeTeam<'a>, access: &'a Access, direction: Direction) -> Self {
        let memory = access.memory().tiled().clone();
        let file = access.file().clone();
        let copy = match direction {
            Direction::Read => TypedCopy::new(file.clone(), memory),
            Direction::Write => TypedCopy::new(memory, file.clone()),
        };
        let cursor = Cursor::new(file);
        Self { target, team, access, direction, copy, cursor, placed_bytes: 0, moved_bytes: 0, error: None }
    }

    /// One round. False when the access is over for all ranks of the node.
    fn round(&mut self) -> capulet_comm::Result<bool> {
        let done = self.placed_bytes == self.access.bytes();
        let next = if done { u64::MAX } else { self.access.offset_of(self.placed_bytes) };
        self.team.publish(NEXT, next);
        self.team.shared.barrier()?;
        let good_end = self.team.lowest(GOOD_END);
        if self.direction == Direction::Write {
            self.settle(good_end);
        }
        let first = self.team.lowest(NEXT);
        if first == u64::MAX || good_end != u64::MAX {
            // A slot may be published again (by the next access) only when all ranks have read it.
            self.team.shared.barrier()?;
            return Ok(false);
        }
        Counters::add(&self.target.counters.rounds, 1);
        let base = first - first % self.team.align_bytes;
        match self.direction {
            Direction::Write => self.write_round(base)?,
            Direction::Read => self.read_round(base)?,
        }
        Ok(true)
    }

    /// Counts what is known to be moved: the bytes that were placed, as far as they lie below `good_end`.
    fn settle(&mut self, good_end: u64) {
        self.moved_bytes = match good_end {
            u64::MAX => self.placed_bytes,
            end => self.access.bytes_below(end).min(self.placed_bytes),
        };
    }

    fn write_round(&mut self, base: u64) -> capulet_comm::Result<()> {
        let order = self.visiting_order();
        for index in order {
            let window = self.window(base, index);
            let part = self.part_in(&window.file);
            self.fill(&window, &part);
        }
        self.placed_bytes = self.part_in(&self.covered(base)).end;
        self.team.shared.barrier()?;
        self.as_aggregator(base);
        Ok(())
    }

    fn read_round(&mut self, base: u64) -> capulet_comm::Result<()> {
        let order = self.visiting_order();
        for index in order.clone() {
            let window = self.window(base, index);
            let part = self.part_in(&window.file);
            self.mark(&window, &part, UNIT_BYTES);
        }
        self.team.shared.barrier()?;
        self.as_aggregator(base);
        self.team.shared.barrier()?;
        let good_end = self.team.lowest(GOOD_END);
        for index in order {
            let mut window = self.window(base, index);
            window.file.end = window.file.end.min(good_end).max(window.file.start);
            let part = self.part_in(&window.file);
            self.drain(&window, &part);
        }
        self.placed_bytes = self.part_in(&self.covered(base)).end;
        self.settle(good_end);
        Ok(())
    }

    /// Each rank starts at another aggregator, so that two ranks seldom touch the same cache lines at once.
    fn visiting_order(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let aggregators = self.team.aggregators;
        let start = self.team.shared.place() % aggregators;
        (0..aggregators).map(move |step| (start + step) % aggregators)
    }

    /// The bytes of the file that the round at `base` covers.
    fn covered(&self, base: u64) -> Range<u64> {
        let bytes = self.team.window_bytes * self.team.aggregators as u64;
        base..base.saturating_add(bytes)
    }

    fn window(&self, base: u64, index: usize) -> Window<'a> {
        let bytes = self.team.window_bytes;
        let start = base.saturating_add(bytes * index as u64);
        let rank = self.team.rank_of(index);
        Window {
            file: start..start.saturating_add(bytes),
            data: self.team.shared.data(rank),
            map: self.team.shared.map(rank),
        }
    }

    /// The bytes of the access, counted from its start, that lie in `file` and were not placed before.
    fn part_in(&self, file: &Range<u64>) -> Range<u64> {
        let start = self.access.bytes_below(file.start).max(self.placed_bytes);
        start..self.access.bytes_below(file.end).max(start)
    }

    fn as_aggregator(&mut self, base: u64) {
        let me = self.team.shared.place();
        let Some(index) = (0..self.team.aggregators).find(|index| self.team.rank_of(*index) == me) else {
            return;
        };
        let window = self.window(base, index);
        let moved = catch_unwind(AssertUnwindSafe(|| self.move_window(&window)));
        let (good_end, error) = moved.unwrap_or_else(|_| {
            // The others wait at the barrier, and the marks must not be taken for those of the next round.
            take_runs(window.map, 0, |_| ());
            (window.file.start, Some(Failure::Panicked))
        });
        if self.error.is_none() {
            self.error = error;
        }
        self.team.publish(GOOD_END, good_end);
    }

    /// Where offset 0 of the access's file layout would lie, were the window the file.
    fn file_base(&self, window: &Window<'_>) -> *mut u8 {
        let shift = self.access.displacement_bytes().wrapping_sub(window.file.start as i64);
        window.data.wrapping_offset(shift as isize)
    }

    fn fill(&mut self, window: &Window<'a>, part: &Range<u64>) {
        if part.is_empty() {
            return;
        }
        let bytes = part.end - part.start;
        let file_start = self.access.file_start() + part.start;
        let base = self.file_base(window);
        // SAFETY: the source bytes are user memory, valid until the access is over (`Memory::new`). `part` holds only
        // bytes whose file offset lies in `window.file`, so every target byte lies in the window's data, which is
        // at least that long; between the two barriers of a round only ranks that fill touch it.
        unsafe { self.copy.run(self.access.memory().base(), part.start, base, file_start, bytes) };
        Counters::add(&self.target.counters.copied_bytes, bytes);
        self.mark(window, part, 1);
    }

    fn drain(&mut self, window: &Window<'a>, part: &Range<u64>) {
        if part.is_empty() {
            return;
        }
        let bytes = part.end - part.start;
        let file_start = self.access.file_start() + part.start;
        let base = self.file_base(window);
        // SAFETY: as in `fill`, with source and target exchanged; the aggregator filled the window before the barrier and
        // does not touch it before the next one.
        unsafe { self.copy.run(base, file_start, self.access.memory().base(), part.start, bytes) };
        Counters::add(&self.target.counters.copied_bytes, bytes);
    }

    /// Marks the units of the window that hold bytes of `part`.
    fn mark(&mut self, window: &Window<'a>, part: &Range<u64>, unit_bytes: u64) {
        if part.is_empty() {
            return;
        }
        let origin = self.access.displacement_bytes() - window.file.start as i64;
        let mut marker = Marker::new(window.map);
        self.cursor.seek(self.access.file_start() + part.start);
        let mut left_bytes = part.end - part.start;
        while left_bytes > 0 {
            let Some(run) = self.cursor.next_run(left_bytes) else { break };
            let start = (origin + run.offset) as u64;
            marker.mark(start / unit_bytes..(start + run.len).div_ceil(unit_bytes));
            left_bytes -= run.len;
        }
    }

    /// Moves the marked bytes of this aggregator's window between window and file, and clears the marks.
    fn move_window(&self, window: &Window<'a>) -> (u64, Option<Failure>) {
        let span = window.file.clone();
        let footprint = Footprint { span, writes: self.direction == Direction::Write };
        let guard = self.target.isolation.enter(&footprint);
        let mut io = WindowIo::new(self.target, self.direction, window.file.start, window.data);
        if let Err(error) = &guard {
            // nothing is moved, but the marks must be cleared all the same
            tracing::debug!(%error, "window not isolated");
            io.good_end = window.file.start;
        }
        // the last unit of the largest file offset must not reach beyond it
        let window_bytes = (window.file.end.min(i64::MAX as u64)).saturating_sub(window.file.start);
        match self.direction {
            Direction::Write => take_runs(window.map, 0, |run| io.push(run)),
            Direction::Read => take_runs(window.map, BRIDGE_UNITS, |units| {
                io.push(units.start * UNIT_BYTES..(units.end * UNIT_BYTES).min(window_bytes));
            }),
        }
        io.flush();
        (io.good_end, guard.err().map(Into::into).or(io.error))
    }
}

/// The transfers of one window, in batches.
struct WindowIo<'a> {
    target: Target<'a>,
    direction: Direction,
    file_start: u64,
    data: *mut u8,
    runs: Vec<Range<u64>>,
    /// The file offset up to which all went well, `u64::MAX` for all of it.
    good_end: u64,
    error: Option<Failure>,
}

impl<'a> WindowIo<'a> {
    fn new(target: Target<'a>, direction: Direction, file_start: u64, data: *mut u8) -> Self {
        Self { target, direction, file_start, data, runs: Vec::new(), good_end: u64::MAX, error: None }
    }

    /// Adds a run (bytes of the window).
    fn push(&mut self, run: Range<u64>) {
        self.runs.push(run);
        if self.runs.len() == BATCH_TRANSFERS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        if runs.is_empty() || self.good_end != u64::MAX {
            return;
        }
        Counters::add(&self.target.counters.pieces, runs.len() as u64);
        Counters::add(&self.target.counters.batches, 1);
        let transfers = runs.iter().map(|run| self.transfer(run)).collect();
        let batch = match self.direction {
            Direction::Read => Batch::read(transfers),
            Direction::Write => Batch::write(transfers),
        };
        let result = self.target.file.submit(batch).wait();
        let asked: u64 = runs.iter().map(|run| run.end - run.start).sum();
        if result.error.is_some() || result.bytes < asked {
            self.good_end = self.file_start + position(&runs, result.bytes);
            self.error = result.error.map(Into::into);
        }
    }

    fn transfer(&self, run: &Range<u64>) -> Transfer<'a> {
        let len = (run.end - run.start) as usize;
        let address = self.data.wrapping_add(run.start as usize);
        // SAFETY: `run` lies within the window; between the barriers that surround this call only the
        // aggregator touches its window, and the batch is waited for before the next barrier.
        let memory = unsafe { Segment::from_raw(address, len) };
        Transfer { offset: self.file_start + run.start, memory }
    }
}

/// Where in the window the byte after the first `bytes` bytes of `runs` lies.
fn position(runs: &[Range<u64>], bytes: u64) -> u64 {
    let mut left = bytes;
    for run in runs {
        let len = run.end - run.start;
        if left < len {
            return run.start + left;
        }
        left -= len;
    }
    runs.last().map_or(0, |run| run.end)
}
