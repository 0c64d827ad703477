//! List I/O: each run of the file goes straight between the file and user memory. No byte is copied.

use capulet_datatype::{Cursor, Run};
use capulet_drivers::{Batch, DriverFile, Segment, Transfer};

use capulet_drivers::Direction;

use super::{BATCH_TRANSFERS, is_full};
use crate::access::Access;
use crate::counters::Counters;
use crate::{Target, Transferred};

/// Carries out `access`, piece by piece.
pub(super) fn run(target: &Target, access: &Access, direction: Direction) -> Transferred {
    let mut pieces = Pieces::new(access);
    let mut outcome = Transferred::default();
    let mut transfers =
        Vec::with_capacity(BATCH_TRANSFERS.min(usize::try_from(access.run_count()).unwrap_or(usize::MAX)));
    loop {
        let mut batch_bytes = 0;
        while !is_full(&transfers) {
            let Some(piece) = pieces.next() else { break };
            batch_bytes += piece.bytes;
            transfers.push(piece.transfer(access));
        }
        if transfers.is_empty() {
            return outcome;
        }
        Counters::add(&target.counters.pieces, transfers.len() as u64);
        let batch = match direction {
            Direction::Read => Batch::read(transfers),
            Direction::Write => Batch::write(transfers),
        };
        let moved = submit(target.file.as_ref(), &target.counters, batch);
        transfers = Vec::new();
        outcome.bytes += moved.bytes;
        outcome.error = moved.error;
        if outcome.error.is_some() || moved.bytes < batch_bytes {
            return outcome;
        }
    }
}

/// The access as one piece, if it is one run of the file and one run of memory. Most small accesses are,
/// and a walk over the layouts takes longer than the transfer.
pub(super) fn only_piece(access: &Access) -> Option<Piece> {
    let memory = access.memory().tiled();
    let is_one = (access.file().is_dense() || access.run_count() == 1)
        && (memory.is_dense() || access.memory_run_count() == 1);
    is_one.then(|| Piece {
        file_offset: access.offset_of(0),
        memory_offset: memory.offset_of(0),
        bytes: access.bytes(),
    })
}

/// Carries out an access of one piece.
pub(super) fn run_one(file: &dyn DriverFile, counters: &Counters, batch: Batch<'_>) -> Transferred {
    Counters::add(&counters.pieces, 1);
    submit(file, counters, batch)
}

/// Submits a batch and waits for it.
fn submit(file: &dyn DriverFile, counters: &Counters, batch: Batch<'_>) -> Transferred {
    Counters::add(&counters.batches, 1);
    let result = file.submit(batch).wait();
    Transferred { bytes: result.bytes, error: result.error.map(Into::into), ..Transferred::default() }
}

/// Bytes that are contiguous both in the file and in memory.
pub(super) struct Piece {
    file_offset: u64,
    memory_offset: i64,
    bytes: u64,
}

impl Piece {
    pub(super) fn transfer<'a>(&self, access: &Access) -> Transfer<'a> {
        let address = access.memory().base().wrapping_offset(self.memory_offset as isize);
        // SAFETY: `Segment::from_raw` wants memory that stays valid until the batch has completed. The
        // piece lies within the memory layout of the access, whose bytes are valid until the access is
        // over (`# Safety` of `Memory::new`), and `submit` waits for the batch before that.
        let memory = unsafe { Segment::from_raw(address, self.bytes as usize) };
        Transfer { offset: self.file_offset, memory }
    }
}

/// Walks the runs of the file and of memory at the same time.
struct Pieces {
    file: Cursor,
    memory: Cursor,
    displacement_bytes: i64,
    left_bytes: u64,
    file_run: Run,
    memory_run: Run,
}

impl Pieces {
    fn new(access: &Access) -> Self {
        let mut file = Cursor::new(access.file().clone());
        file.seek(access.file_start());
        Self {
            file,
            memory: Cursor::new(access.memory().tiled().clone()),
            displacement_bytes: access.displacement_bytes(),
            left_bytes: access.bytes(),
            file_run: Run { offset: 0, len: 0 },
            memory_run: Run { offset: 0, len: 0 },
        }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.left_bytes == 0 {
            return None;
        }
        if self.file_run.len == 0 {
            self.file_run = self.file.next_run(self.left_bytes)?;
        }
        if self.memory_run.len == 0 {
            self.memory_run = self.memory.next_run(self.left_bytes)?;
        }
        let bytes = self.file_run.len.min(self.memory_run.len);
        let piece = Piece {
            file_offset: (self.displacement_bytes + self.file_run.offset) as u64,
            memory_offset: self.memory_run.offset,
            bytes,
        };
        for run in [&mut self.file_run, &mut self.memory_run] {
            run.offset += bytes as i64;
            run.len -= bytes;
        }
        self.left_bytes -= bytes;
        Some(piece)
    }
}
