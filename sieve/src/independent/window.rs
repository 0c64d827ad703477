//! Data sieving: the span of an access is read through the sieve buffer, part by part, and the runs are
//! copied out. A write reads a part, copies the runs in, and writes the part back.

use std::cell::RefCell;

use capulet_datatype::TypedCopy;
use capulet_drivers::{Batch, BatchResult, Transfer};

use super::WINDOW_BYTES;
use crate::access::Access;
use crate::counters::Counters;
use crate::{Target, Transferred};

thread_local! {
    /// The sieve buffer of this thread. It is kept between accesses, because the system would zero new
    /// memory page by page.
    static WINDOW: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `call` with the sieve buffer of this thread, which has [`WINDOW_BYTES`].
pub(crate) fn with_window<T>(call: impl FnOnce(&mut [u8]) -> T) -> T {
    WINDOW.with_borrow_mut(|window| {
        window.resize(WINDOW_BYTES as usize, 0);
        call(window)
    })
}

/// Reads a monotone access.
pub(super) fn read(target: &Target, access: &Access) -> Transferred {
    with_window(|window| {
        let copy = TypedCopy::new(access.file().clone(), access.memory().tiled().clone());
        let mut outcome = Transferred::default();
        while outcome.bytes < access.bytes() && fill(target, access, &copy, window, &mut outcome) {}
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
    with_window(|window| {
        let copy = TypedCopy::new(access.memory().tiled().clone(), access.file().clone());
        let mut bytes = 0;
        while bytes < access.bytes() {
            bytes = put(target, access, &copy, window, bytes)?;
        }
        Ok(Transferred { bytes, ..Transferred::default() })
    })
}

/// The next part of an access that fits in the sieve buffer.
struct Span {
    /// The first file offset.
    first: u64,
    /// Bytes of the file, up to the last requested byte.
    bytes: u64,
    /// The byte of the access after the part.
    end: u64,
}

impl Span {
    fn next(access: &Access, done: u64, window: &[u8]) -> Self {
        let first = access.offset_of(done);
        let end = access.bytes_below(first.saturating_add(window.len() as u64));
        Self { first, bytes: access.offset_of(end - 1) + 1 - first, end }
    }

    /// The address that stands for offset 0 of the access's file layout, if the sieve buffer holds the
    /// file from `first` on. It may lie outside of the buffer.
    fn file_in(&self, access: &Access, window: *mut u8) -> *mut u8 {
        window.wrapping_offset(access.displacement_bytes().wrapping_sub(self.first as i64) as isize)
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
pub(crate) fn read_back(target: &Target, first: u64, window: &mut [u8]) -> Result<(), Refused> {
    let result = submit(target, Batch::read(vec![Transfer::into_memory(first, window)]));
    if result.error.is_some() {
        return Err(Refused);
    }
    window[result.bytes as usize..].fill(0);
    Ok(())
}

/// Reads the part from byte `start` of the access on if it has holes, copies its runs in, and writes it
/// back. Returns the byte of the access after the part.
fn put(
    target: &Target,
    access: &Access,
    copy: &TypedCopy,
    window: &mut [u8],
    start: u64,
) -> Result<u64, Refused> {
    let span = Span::next(access, start, window);
    let len = span.end - start;
    let window = &mut window[..span.bytes as usize];
    if len < span.bytes {
        read_back(target, span.first, window)?;
    }
    let file = span.file_in(access, window.as_mut_ptr());
    // SAFETY: `Span::next` chose the `len` bytes of the access from `start` on so that they lie in the
    // span, and so in the buffer. Their places in user memory are valid until the access is over
    // (`# Safety` of `Memory::new`).
    unsafe { copy.run(access.memory().base(), start, file, access.file_start() + start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    let result = submit(target, Batch::write(vec![Transfer::from_memory(span.first, window)]));
    if result.error.is_some() || result.bytes < span.bytes {
        return Err(Refused);
    }
    Ok(span.end)
}

/// Reads the next part and copies its runs out. False if the access is over.
fn fill(
    target: &Target,
    access: &Access,
    copy: &TypedCopy,
    window: &mut [u8],
    outcome: &mut Transferred,
) -> bool {
    let span = Span::next(access, outcome.bytes, window);
    let Span { first, bytes, end } = span;
    let result =
        submit(target, Batch::read(vec![Transfer::into_memory(first, &mut window[..bytes as usize])]));
    let is_short = result.error.is_some() || result.bytes < bytes;
    let end = if is_short { access.bytes_below(first + result.bytes).max(outcome.bytes) } else { end };
    let (start, len) = (outcome.bytes, end - outcome.bytes);
    let file = span.file_in(access, window.as_mut_ptr());
    // SAFETY: the `len` bytes of the access from `start` on lie in the file between `first` and the end
    // of what was read, and so in the buffer. Their places in user memory are valid until the access is
    // over (`# Safety` of `Memory::new`).
    unsafe { copy.run(file, access.file_start() + start, access.memory().base(), start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    outcome.bytes = end;
    outcome.error = result.error.map(Into::into);
    !is_short
}
