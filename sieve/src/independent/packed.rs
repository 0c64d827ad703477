//! Each run of the file is one piece: its bytes are gathered from user memory in a buffer, or scattered
//! from it.

use capulet_datatype::{Cursor, Datatype, Named, Run, Tiled, TypedCopy};
use capulet_drivers::{Batch, Direction, Segment, Transfer};

use super::bands::{Band, RunPart};
use super::sieve_buffer::with_sieve_buffer;
use super::{SIEVE_BUFFER_BYTES, is_full};
use crate::access::Access;
use crate::counters::Counters;
use crate::{Target, Transferred};

/// Carries out `access`, one buffer's worth of bytes after the other.
pub(super) fn run(target: &Target, access: &Access, direction: Direction) -> Transferred {
    let byte = Datatype::named(Named::Byte);
    let Ok(flat) = Tiled::new(byte.layout().clone(), access.bytes()) else {
        return super::list::run(target, access, direction);
    };
    let memory = access.memory().tiled().clone();
    let copy = match direction {
        Direction::Read => TypedCopy::new(flat, memory),
        Direction::Write => TypedCopy::new(memory, flat),
    };
    let mut file = Cursor::new(access.file().clone());
    file.seek(access.file_start());
    let first_run_bytes = file.peek().map_or(0, |run| run.len.min(access.bytes()));
    with_sieve_buffer(|buffer| {
        let mut packed =
            Packed { target, access, direction, copy, file, buffer, outcome: Transferred::default() };
        while packed.next_band() {}
        // The access may begin within a run. The rest of this run is not part of a band.
        if packed.outcome.bytes == 0
            && packed.band_at(first_run_bytes).is_some()
            && packed.move_to(first_run_bytes)
        {
            while packed.next_band() {}
        }
        packed.move_to(access.bytes());
        packed.outcome
    })
}

struct Packed<'a> {
    target: &'a Target,
    access: &'a Access,
    direction: Direction,
    copy: TypedCopy,
    file: Cursor,
    buffer: &'a mut [u8],
    outcome: Transferred,
}

impl Packed<'_> {
    fn band_at(&mut self, start: u64) -> Option<Band> {
        self.file.seek(self.access.file_start() + start);
        Band::at(self.access, self.direction, &mut self.file, start)
    }

    /// Moves the next bytes of the access if they form a band. False if they do not, or if not all were
    /// moved. In the second case the rest must be moved run by run: if one run has bytes beyond the end
    /// of the file, an earlier run need not.
    fn next_band(&mut self) -> bool {
        let Some(band) = self.band_at(self.outcome.bytes) else { return false };
        let mut done = 0;
        while done < band.run_bytes() {
            let bytes = band.next_chunk_bytes(done, self.access.displacement_bytes());
            let parts: Vec<RunPart> = band.parts(done, bytes).collect();
            let wanted = bytes * parts.len() as u64;
            let moved = self.move_parts(&parts, bytes);
            Counters::add(&self.target.counters.copied_bytes, moved);
            self.outcome.bytes = band.prefix(done, bytes, moved);
            if moved < wanted || self.outcome.error.is_some() {
                return false;
            }
            done += bytes;
        }
        true
    }

    /// Moves `bytes` bytes of each run, and returns how many were moved.
    fn move_parts(&mut self, parts: &[RunPart], bytes: u64) -> u64 {
        let memory = self.access.memory().base();
        let buffer = self.buffer.as_mut_ptr();
        if self.direction == Direction::Write {
            for part in parts {
                // SAFETY: the bytes of the part are valid in user memory until the access is over
                // (`# Safety` of `Memory::new`). The buffer has room for `bytes` of each run: `Band::at`
                // limits a chunk to the buffer's size divided by the number of runs. No user memory lies
                // in the buffer.
                unsafe { self.copy.run(memory, part.stream, buffer.add(part.buffer as usize), 0, bytes) };
            }
        }
        let transfer =
            |part: &RunPart| self.transfer(buffer, part.buffer, Run { offset: part.offset, len: bytes });
        let moved = self.submit(parts.iter().map(transfer).collect());
        if self.direction == Direction::Read {
            for (part, before) in parts.iter().zip((0..).step_by(bytes as usize)) {
                let good = moved.saturating_sub(before).min(bytes);
                // SAFETY: as for the write above, with source and target exchanged. `good` bytes of the
                // chunk were read.
                unsafe { self.copy.run(buffer.add(part.buffer as usize), 0, memory, part.stream, good) };
            }
        }
        moved
    }

    /// Moves the bytes of the access up to `end`, run by run. False if not all were moved.
    fn move_to(&mut self, end: u64) -> bool {
        self.file.seek(self.access.file_start() + self.outcome.bytes);
        while self.outcome.error.is_none() && self.outcome.bytes < end {
            if !self.next_buffer(end) {
                return false;
            }
        }
        self.outcome.error.is_none()
    }

    /// Moves the next bytes of the access before `end`, at most one buffer. False if not all were moved.
    fn next_buffer(&mut self, end: u64) -> bool {
        let start = self.outcome.bytes;
        let bytes = SIEVE_BUFFER_BYTES.min(end - start);
        let memory = self.access.memory().base();
        let buffer = self.buffer.as_mut_ptr();
        if self.direction == Direction::Write {
            // SAFETY: bytes `start..start + bytes` of the access are valid in user memory until the
            // access is over (`# Safety` of `Memory::new`), and the buffer has room for
            // `SIEVE_BUFFER_BYTES`.
            unsafe { self.copy.run(memory, start, buffer, 0, bytes) };
        }
        let moved = self.move_runs(buffer, bytes);
        if self.direction == Direction::Read {
            // SAFETY: as for the write above, with source and target exchanged. The first `moved` bytes
            // of the buffer were read.
            unsafe { self.copy.run(buffer, 0, memory, start, moved) };
        }
        Counters::add(&self.target.counters.copied_bytes, moved);
        self.outcome.bytes += moved;
        moved == bytes
    }

    /// Moves the next `bytes` bytes of the access between the file and the buffer, and returns how many
    /// were moved.
    fn move_runs(&mut self, buffer: *mut u8, bytes: u64) -> u64 {
        let (mut placed, mut moved) = (0, 0);
        while placed < bytes {
            let mut transfers = Vec::new();
            let first = placed;
            while !is_full(&transfers)
                && placed < bytes
                && let Some(run) = self.file.next_run(bytes - placed)
            {
                transfers.push(self.transfer(buffer, placed, run));
                placed += run.len;
            }
            if transfers.is_empty() {
                return moved;
            }
            let done = self.submit(transfers);
            moved += done;
            if done < placed - first || self.outcome.error.is_some() {
                return moved;
            }
        }
        moved
    }

    /// Submits transfers, and returns how many bytes were moved: fewer than all at the end of the file
    /// and after an error.
    fn submit(&mut self, transfers: Vec<Transfer<'_>>) -> u64 {
        Counters::add(&self.target.counters.pieces, transfers.len() as u64);
        Counters::add(&self.target.counters.batches, 1);
        let batch = match self.direction {
            Direction::Read => Batch::read(transfers),
            Direction::Write => Batch::write(transfers),
        };
        let result = self.target.file.submit(batch).wait();
        self.outcome.error = result.error.map(Into::into);
        result.bytes
    }

    fn transfer<'t>(&self, buffer: *mut u8, at: u64, run: Run) -> Transfer<'t> {
        // SAFETY: the bytes of the run lie in the buffer from `at` on, because `at` counts the bytes
        // placed before them and the buffer holds all. `submit` waits for the batch before the buffer is
        // used again, as `Segment::from_raw` wants.
        let memory = unsafe { Segment::from_raw(buffer.wrapping_add(at as usize), run.len as usize) };
        Transfer { offset: (self.access.displacement_bytes() + run.offset) as u64, memory }
    }
}
