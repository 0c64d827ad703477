//! The transfers of one window, in batches.

use std::ops::Range;

use capulet_drivers::{Batch, Direction, Segment, Transfer};
use capulet_plan::way::BATCH_TRANSFERS;

use crate::counters::Counters;
use crate::{Failure, Target};

/// The transfers of one window, in batches.
pub(super) struct WindowIo<'a> {
    target: &'a Target,
    direction: Direction,
    file_start: u64,
    data: *mut u8,
    runs: Vec<Range<u64>>,
    /// The file offset up to which all went well, `u64::MAX` for all of it.
    pub(super) good_end: u64,
    pub(super) error: Option<Failure>,
}

impl<'a> WindowIo<'a> {
    pub(super) fn new(target: &'a Target, direction: Direction, file_start: u64, data: *mut u8) -> Self {
        Self { target, direction, file_start, data, runs: Vec::new(), good_end: u64::MAX, error: None }
    }

    /// Adds a run (bytes of the window).
    pub(super) fn push(&mut self, run: Range<u64>) {
        self.runs.push(run);
        if self.runs.len() == BATCH_TRANSFERS {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
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
