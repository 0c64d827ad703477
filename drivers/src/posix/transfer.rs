//! Moves batches by system calls. Transfers that follow each other in the file become one vectored call.

use super::io::{Backoff, SystemIo};
use super::readahead::ReadAhead;
use crate::{Batch, BatchResult, Direction, Error, ErrorKind, Operation, Transfer};
use smallvec::SmallVec;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest number of segments of one call (`IOV_MAX`).
pub(super) const SEGMENTS_MAX: usize = 1024;
/// The largest number of bytes of one call (`MAX_RW_COUNT`).
pub(super) const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// Counts of the calls made through one file.
#[derive(Debug, Default)]
pub(super) struct CallCounts {
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) other: AtomicU64,
    pub(super) incomplete: AtomicU64,
}

/// The common state of the calls of one batch.
pub(super) struct Transferring<'a> {
    pub(super) io: &'a dyn SystemIo,
    pub(super) fd: BorrowedFd<'a>,
    pub(super) path: &'a Path,
    pub(super) counts: &'a CallCounts,
    /// Present if the batch would wait for the storage many times.
    pub(super) ahead: Option<ReadAhead<'a>>,
}

/// The reason why a stretch stopped before its end.
enum Stop {
    EndOfFile,
    Failed(Error),
}

/// Pieces of memory for consecutive bytes of the file, limited to one call.
#[derive(Default)]
struct Stretch {
    offset: u64,
    bytes: usize,
    memory: SmallVec<[libc::iovec; 16]>,
    /// The number of pieces at the front that are completely moved.
    done: usize,
}

impl Stretch {
    /// Whether a piece at `offset` can be added.
    fn takes(&self, offset: u64) -> bool {
        self.memory.is_empty()
            || (self.memory.len() < SEGMENTS_MAX
                && self.bytes < CALL_BYTES_MAX
                && offset == self.offset + self.bytes as u64)
    }

    /// Adds as many bytes of a piece as one call can move, and returns their number.
    fn add(&mut self, offset: u64, address: *mut u8, bytes: usize) -> usize {
        debug_assert!(self.takes(offset));
        if self.memory.is_empty() {
            self.offset = offset;
        }
        let bytes = bytes.min(CALL_BYTES_MAX - self.bytes);
        self.memory.push(libc::iovec { iov_base: address.cast(), iov_len: bytes });
        self.bytes += bytes;
        bytes
    }

    /// The pieces that are not completely moved.
    fn rest(&self) -> &[libc::iovec] {
        &self.memory[self.done..]
    }

    /// Removes `moved` bytes from the front.
    fn advance(&mut self, moved: usize) {
        assert!(moved <= self.bytes, "the system reports more bytes than requested");
        self.offset += moved as u64;
        self.bytes -= moved;
        let mut left = moved;
        while left > 0 {
            let piece = &mut self.memory[self.done];
            let step = left.min(piece.iov_len);
            piece.iov_base = piece.iov_base.wrapping_byte_add(step);
            piece.iov_len -= step;
            left -= step;
            self.done += usize::from(piece.iov_len == 0);
        }
    }

    fn clear(&mut self) {
        self.memory.clear();
        (self.bytes, self.done) = (0, 0);
    }
}

impl Transferring<'_> {
    /// Moves the bytes of `batch`. Blocks until all are moved, the file ends, or an error occurs.
    pub(super) fn run(&self, batch: &Batch<'_>) -> BatchResult {
        let direction = batch.direction();
        let mut stretch = Stretch::default();
        let mut moved = 0;
        for (index, transfer) in batch.transfers().iter().enumerate() {
            if let Some(ahead) = &self.ahead {
                ahead.request_before(index, batch.transfers());
            }
            let (offset, bytes) = (transfer.offset, transfer.memory.bytes());
            let too_far = bytes > 0 && !fits(offset, bytes);
            if bytes > 0 && !too_far && stretch.memory.is_empty() && is_single(&batch.transfers()[index..]) {
                if let Err(stop) = self.move_single(direction, transfer, &mut stretch, &mut moved) {
                    return ended(moved, stop);
                }
                continue;
            }
            let mut taken = 0;
            while taken < bytes && !too_far {
                if !stretch.takes(offset + taken as u64)
                    && let Err(stop) = self.flush(direction, &mut stretch, &mut moved)
                {
                    return ended(moved, stop);
                }
                let address = transfer.memory.address().wrapping_add(taken);
                taken += stretch.add(offset + taken as u64, address, bytes - taken);
            }
            if too_far {
                let stop = self.flush(direction, &mut stretch, &mut moved).err();
                return ended(moved, stop.unwrap_or_else(|| Stop::Failed(self.too_far(direction, offset))));
            }
        }
        match self.flush(direction, &mut stretch, &mut moved) {
            Ok(()) => BatchResult::moved(moved),
            Err(stop) => ended(moved, stop),
        }
    }

    /// Moves one transfer that is a stretch by itself. In most cases one call moves all of it, and then the
    /// stretch is not used. `stretch` is empty at the call.
    fn move_single(
        &self,
        direction: Direction,
        transfer: &Transfer<'_>,
        stretch: &mut Stretch,
        moved: &mut u64,
    ) -> Result<(), Stop> {
        let (offset, bytes) = (transfer.offset, transfer.memory.bytes());
        let piece = [libc::iovec { iov_base: transfer.memory.address().cast(), iov_len: bytes }];
        let outcome = self.call(direction, &piece, offset);
        if outcome.as_ref().is_ok_and(|of| *of == bytes) {
            *moved += bytes as u64;
            return Ok(());
        }
        stretch.add(offset, transfer.memory.address(), bytes);
        self.finish(direction, stretch, moved, Some(outcome))
    }

    /// Moves a whole stretch and empties it. Adds the moved bytes to `moved`, also if an error occurs.
    fn flush(&self, direction: Direction, stretch: &mut Stretch, moved: &mut u64) -> Result<(), Stop> {
        self.finish(direction, stretch, moved, None)
    }

    /// Like [`Self::flush`], but the first call for the stretch may have been made: `made` is its outcome.
    fn finish(
        &self,
        direction: Direction,
        stretch: &mut Stretch,
        moved: &mut u64,
        mut made: Option<io::Result<usize>>,
    ) -> Result<(), Stop> {
        let mut backoff = Backoff::default();
        while stretch.bytes > 0 {
            let outcome = made.take().unwrap_or_else(|| self.call(direction, stretch.rest(), stretch.offset));
            match outcome {
                Ok(0) => return Err(self.nothing_moved(direction, stretch.offset)),
                Ok(bytes) => {
                    stretch.advance(bytes);
                    *moved += bytes as u64;
                    backoff = Backoff::default();
                    self.note_incomplete(stretch.bytes > 0);
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => self.note_incomplete(true),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && backoff.pause(self.io) => {
                    self.note_incomplete(true);
                }
                Err(error) => {
                    return Err(Stop::Failed(self.failed(direction, error, stretch.offset)));
                }
            }
        }
        stretch.clear();
        Ok(())
    }

    fn call(&self, direction: Direction, pieces: &[libc::iovec], offset: u64) -> io::Result<usize> {
        // `fits` has checked that every offset fits in the signed type of the system.
        let offset = offset as i64;
        match direction {
            Direction::Read => {
                self.counts.reads.fetch_add(1, Relaxed);
                // SAFETY: `# Safety` of `SystemIo::read`: the pieces are parts of segments of a batch
                // that reads, and `run` borrows the batch during the call. Such a segment is valid for
                // writes while the batch lives (`# Safety` of `Segment::from_raw`, or a unique
                // reference).
                unsafe { self.io.read(self.fd, pieces, offset) }
            }
            Direction::Write => {
                self.counts.writes.fetch_add(1, Relaxed);
                // SAFETY: `# Safety` of `SystemIo::write`: the pieces are parts of segments of a batch,
                // and `run` borrows the batch during the call. Every segment is valid for reads while the
                // batch lives (`# Safety` of `Segment::from_raw`, or a reference).
                unsafe { self.io.write(self.fd, pieces, offset) }
            }
        }
    }

    fn note_incomplete(&self, incomplete: bool) {
        if incomplete {
            self.counts.incomplete.fetch_add(1, Relaxed);
        }
    }

    fn nothing_moved(&self, direction: Direction, offset: u64) -> Stop {
        match direction {
            Direction::Read => Stop::EndOfFile,
            Direction::Write => {
                let source =
                    io::Error::new(io::ErrorKind::WriteZero, "the system wrote nothing and gave no reason");
                Stop::Failed(Error::new(ErrorKind::Io, Operation::Write, self.path, source).at(offset))
            }
        }
    }

    fn failed(&self, direction: Direction, source: io::Error, offset: u64) -> Error {
        Error::system(operation(direction), self.path, source).at(offset)
    }

    fn too_far(&self, direction: Direction, offset: u64) -> Error {
        self.failed(direction, io::Error::from_raw_os_error(libc::EFBIG), offset)
    }
}

/// Whether the first of these transfers is a stretch by itself that one call can move. Transfers without
/// bytes are ignored.
fn is_single(transfers: &[Transfer<'_>]) -> bool {
    let Some((first, others)) = transfers.split_first() else { return false };
    let bytes = first.memory.bytes();
    let next = others.iter().find(|other| other.memory.bytes() > 0);
    bytes <= CALL_BYTES_MAX && next.is_none_or(|next| next.offset != first.offset + bytes as u64)
}

/// The operation of a batch of this direction, for errors.
pub(super) fn operation(direction: Direction) -> Operation {
    match direction {
        Direction::Read => Operation::Read,
        Direction::Write => Operation::Write,
    }
}

fn ended(moved: u64, stop: Stop) -> BatchResult {
    match stop {
        Stop::EndOfFile => BatchResult::moved(moved),
        Stop::Failed(error) => BatchResult::failed(moved, error),
    }
}

/// Whether the end of the range fits in the signed offsets of the system.
fn fits(offset: u64, bytes: usize) -> bool {
    offset.checked_add(bytes as u64).is_some_and(|end| i64::try_from(end).is_ok())
}
