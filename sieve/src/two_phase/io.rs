//! The transfers between one collective buffer and the file, in batches.

use std::ops::Range;

use capulet_drivers::{Batch, Direction, Segment, Transfer};
use capulet_plan::way::{BATCH_TRANSFERS, HoleReads, span_to_fill};

use crate::counters::Counters;
use crate::independent::sieve_buffer::{read_back, with_sieve_buffer};
use crate::{Failure, Target};

/// The transfers between one collective buffer and the file, in batches.
pub(super) struct BufferIo<'a> {
    target: &'a Target,
    file_start: u64,
    data: *mut u8,
    /// The transfers that are not submitted yet. Its memory is reused.
    batch: Batch<'a>,
    /// The file offset up to which all transfers were complete, `u64::MAX` if all were.
    pub(super) good_end: u64,
    pub(super) error: Option<Failure>,
}

impl<'a> BufferIo<'a> {
    pub(super) fn new(target: &'a Target, direction: Direction, file_start: u64, data: *mut u8) -> Self {
        let batch = Batch::with_capacity(direction, 0);
        Self { target, file_start, data, batch, good_end: u64::MAX, error: None }
    }

    /// Adds a run (bytes of the buffer). Submits a batch when it is full.
    pub(super) fn push(&mut self, run: Range<u64>) {
        if self.good_end != u64::MAX {
            return;
        }
        self.batch.push(self.transfer(&run));
        if self.batch.transfers().len() == BATCH_TRANSFERS {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        let (asked, runs) = (self.batch.bytes(), self.batch.transfers().len() as u64);
        if runs == 0 {
            return;
        }
        Counters::add(&self.target.counters.pieces, runs);
        Counters::add(&self.target.counters.batches, 1);
        let result = self.target.file.submit(self.batch.lend()).wait();
        if result.error.is_some() || result.bytes < asked {
            self.good_end = position(self.batch.transfers(), result.bytes);
            self.error = result.error.map(Into::into);
        }
        self.batch.clear();
    }

    /// Reads the holes between the runs that `each` visits (bytes of the buffer) into the buffer, if
    /// these reads and one write of the span cost less than writes of the runs. Returns the span to
    /// write. `None` if it costs more, or if the holes cannot be read.
    pub(super) fn fill(&self, each: impl Fn(&mut dyn FnMut(Range<u64>))) -> Option<Range<u64>> {
        let span = span_to_fill(&each)?;
        let (mut reads, mut is_good) = (HoleReads::new(&span), true);
        with_sieve_buffer(|buffer| {
            each(&mut |run| {
                reads.before(&run, |hole, held, is_new| {
                    if is_new && is_good {
                        let part = &mut buffer[..(held.end - held.start) as usize];
                        is_good = read_back(self.target, self.file_start + held.start, part).is_ok();
                    }
                    if is_good {
                        let place = (hole.start - held.start) as usize..(hole.end - held.start) as usize;
                        self.transfer(&hole).memory.copy_in(0, &buffer[place]);
                    }
                });
            });
        });
        is_good.then_some(span)
    }

    fn transfer(&self, run: &Range<u64>) -> Transfer<'a> {
        let len = (run.end - run.start) as usize;
        let address = self.data.wrapping_add(run.start as usize);
        // SAFETY: `Segment::from_raw` wants memory that no other code uses until the batch has completed.
        // `run` lies within the buffer. Between the barriers before and after this call only the
        // aggregator touches its buffer, and `flush` waits for the batch before the next barrier.
        let memory = unsafe { Segment::from_raw(address, len) };
        Transfer { offset: self.file_start + run.start, memory }
    }
}

/// The file offset behind the first `bytes` bytes of the transfers.
fn position(transfers: &[Transfer<'_>], bytes: u64) -> u64 {
    let mut left = bytes;
    for transfer in transfers {
        let len = transfer.memory.bytes() as u64;
        if left < len {
            return transfer.offset + left;
        }
        left -= len;
    }
    transfers.last().map_or(0, |last| last.offset + last.memory.bytes() as u64)
}
