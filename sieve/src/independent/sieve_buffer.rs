//! Data sieving: the span of an access is read through the sieve buffer, part by part, and the runs are
//! copied out. A write reads a part, copies the runs in, and writes the part back.

use std::cell::RefCell;

use capulet_datatype::TypedCopy;
use capulet_drivers::{Batch, BatchResult, Transfer};

use super::SIEVE_BUFFER_BYTES;
use crate::access::Access;
use crate::counters::Counters;
use crate::{Sieve, Target, Transferred};

thread_local! {
    /// The sieve buffer of this thread. It is kept between accesses, because the system would zero new
    /// memory page by page.
    static SIEVE_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `call` with the sieve buffer of this thread, which has [`SIEVE_BUFFER_BYTES`].
pub(crate) fn with_sieve_buffer<T>(call: impl FnOnce(&mut [u8]) -> T) -> T {
    with_sieve_buffer_of(SIEVE_BUFFER_BYTES, call)
}

/// Calls `call` with `bytes` bytes of the sieve buffer of this thread.
fn with_sieve_buffer_of<T>(bytes: u64, call: impl FnOnce(&mut [u8]) -> T) -> T {
    let bytes = bytes as usize;
    SIEVE_BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        call(&mut buffer[..bytes])
    })
}

/// Bytes of the sieve buffer for an access: as the hint says, but no more than the access spans.
fn buffer_bytes(sieve: Sieve, access: &Access) -> u64 {
    let span = access.side().span();
    sieve.buffer_bytes.min(span.end - span.start).max(1)
}

/// Reads a monotone access.
pub(super) fn read(target: &Target, access: &Access) -> Transferred {
    with_sieve_buffer_of(buffer_bytes(target.sieves.read, access), |buffer| {
        let copy = TypedCopy::new(access.file().clone(), access.memory().tiled().clone());
        let mut outcome = Transferred::default();
        while outcome.bytes < access.bytes() && read_part(target, access, &copy, buffer, &mut outcome) {}
        outcome
    })
}

/// The holes cannot be read, or cannot be written back. If the storage is full, it may still have room
/// for the runs.
pub(crate) struct Refused;

/// Writes a monotone access.
///
/// # Errors
/// If [`Refused`] is returned, a part of the access may be written.
pub(super) fn write(target: &Target, access: &Access) -> Result<Transferred, Refused> {
    with_sieve_buffer_of(buffer_bytes(target.sieves.write, access), |buffer| {
        let copy = TypedCopy::new(access.memory().tiled().clone(), access.file().clone());
        let mut bytes = 0;
        while bytes < access.bytes() {
            bytes = write_part(target, access, &copy, buffer, bytes)?;
        }
        Ok(Transferred { bytes, ..Transferred::default() })
    })
}

/// The next part of an access that fits in the sieve buffer.
struct FilePart {
    /// The first file offset.
    first: u64,
    /// Bytes of the file, up to the last requested byte.
    bytes: u64,
    /// The byte of the access after the part.
    end: u64,
}

impl FilePart {
    fn next(access: &Access, done: u64, buffer: &[u8]) -> Self {
        let first = access.offset_of(done);
        let end = access.bytes_below(first.saturating_add(buffer.len() as u64));
        Self { first, bytes: access.offset_of(end - 1) + 1 - first, end }
    }

    /// The address that stands for offset 0 of the access's file layout, if the sieve buffer holds the
    /// file from `first` on. It may lie outside of the buffer.
    fn file_origin_in(&self, access: &Access, buffer: *mut u8) -> *mut u8 {
        buffer.wrapping_offset(access.displacement_bytes().wrapping_sub(self.first as i64) as isize)
    }
}

/// Moves bytes between the file and the buffer by one transfer, and waits for it.
fn submit(target: &Target, batch: Batch<'_>) -> BatchResult {
    Counters::add(&target.counters.pieces, 1);
    Counters::add(&target.counters.batches, 1);
    target.file.submit(batch).wait()
}

/// Reads bytes of the file that will be written back. Beyond the end of the file the buffer gets zeros,
/// which the file will have there.
pub(crate) fn read_back(target: &Target, first: u64, buffer: &mut [u8]) -> Result<(), Refused> {
    let result = submit(target, Batch::read(vec![Transfer::into_memory(first, buffer)]));
    if result.error.is_some() {
        return Err(Refused);
    }
    buffer[result.bytes as usize..].fill(0);
    Ok(())
}

/// Reads the part from byte `start` of the access on if it has holes, copies its runs in, and writes it
/// back. Returns the byte of the access after the part.
fn write_part(
    target: &Target,
    access: &Access,
    copy: &TypedCopy,
    buffer: &mut [u8],
    start: u64,
) -> Result<u64, Refused> {
    let part = FilePart::next(access, start, buffer);
    let len = part.end - start;
    let buffer = &mut buffer[..part.bytes as usize];
    if len < part.bytes {
        read_back(target, part.first, buffer)?;
    }
    let file = part.file_origin_in(access, buffer.as_mut_ptr());
    // SAFETY: `FilePart::next` chose the `len` bytes of the access from `start` on so that they lie in
    // the part, and so in the buffer. Their places in user memory are valid until the access is over
    // (`# Safety` of `Memory::new`).
    unsafe { copy.run(access.memory().base(), start, file, access.file_start() + start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    let result = submit(target, Batch::write(vec![Transfer::from_memory(part.first, buffer)]));
    if result.error.is_some() || result.bytes < part.bytes {
        return Err(Refused);
    }
    Ok(part.end)
}

/// Reads the next part and copies its runs out. False if the read was short or failed.
fn read_part(
    target: &Target,
    access: &Access,
    copy: &TypedCopy,
    buffer: &mut [u8],
    outcome: &mut Transferred,
) -> bool {
    let part = FilePart::next(access, outcome.bytes, buffer);
    let FilePart { first, bytes, end } = part;
    let result =
        submit(target, Batch::read(vec![Transfer::into_memory(first, &mut buffer[..bytes as usize])]));
    let is_short = result.error.is_some() || result.bytes < bytes;
    let end = if is_short { access.bytes_below(first + result.bytes).max(outcome.bytes) } else { end };
    let (start, len) = (outcome.bytes, end - outcome.bytes);
    let file = part.file_origin_in(access, buffer.as_mut_ptr());
    // SAFETY: the `len` bytes of the access from `start` on lie in the file between `first` and the end
    // of what was read, and so in the buffer. Their places in user memory are valid until the access is
    // over (`# Safety` of `Memory::new`).
    unsafe { copy.run(file, access.file_start() + start, access.memory().base(), start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    outcome.bytes = end;
    outcome.error = result.error.map(Into::into);
    !is_short
}
