//! Sieving: the span of an access is read window by window, and its runs are copied out; or copied in, and the window is written back.

use std::cell::RefCell;

use capulet_datatype::TypedCopy;
use capulet_drivers::{Batch, BatchResult, Transfer};

use super::WINDOW_BYTES;
use crate::access::Access;
use crate::counters::Counters;
use crate::{Target, Transferred};

thread_local! {
    /// The window of this thread. Kept, as new memory would be zeroed by the system page by page.
    static WINDOW: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls with this thread's window, of [`WINDOW_BYTES`].
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

/// Holes cannot be read, or not be written back: where the storage is full there may be room for the runs.
pub(crate) struct Refused;

/// Writes a monotone access.
///
/// # Errors
/// Some of it may be written then.
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

/// The next part of an access that fits in a window.
struct Span {
    /// Its first byte in the file.
    first: u64,
    /// To the last byte that is asked for.
    bytes: u64,
    /// Where it ends in the access.
    end: u64,
}

impl Span {
    fn next(access: &Access, done: u64, window: &[u8]) -> Self {
        let first = access.offset_of(done);
        let end = access.bytes_below(first.saturating_add(window.len() as u64));
        Self { first, bytes: access.offset_of(end - 1) + 1 - first, end }
    }

    /// Where offset 0 of the access's file layout would lie, were the window the file.
    fn file_in(&self, access: &Access, window: *mut u8) -> *mut u8 {
        window.wrapping_offset(access.displacement_bytes().wrapping_sub(self.first as i64) as isize)
    }
}

/// Moves bytes between the file and a window by one transfer.
fn submit(target: &Target, batch: Batch<'_>) -> BatchResult {
    Counters::add(&target.counters.pieces, 1);
    Counters::add(&target.counters.batches, 1);
    target.file.submit(batch).wait()
}

/// Reads bytes of the file that are to be written back: zeros where there are none yet, as they will be.
pub(crate) fn read_back(target: &Target, first: u64, window: &mut [u8]) -> Result<(), Refused> {
    let result = submit(target, Batch::read(vec![Transfer::into_memory(first, window)]));
    if result.error.is_some() {
        return Err(Refused);
    }
    window[result.bytes as usize..].fill(0);
    Ok(())
}

/// Reads the window from byte `start` of the access on if it has holes, copies its runs in, and writes it. How far in the access it
/// reaches.
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
    // SAFETY: the bytes from `start` on, `len` of them, lie in the span, so in the window; their places in user memory are valid until
    // the access is over (`Memory::new`).
    unsafe { copy.run(access.memory().base(), start, file, access.file_start() + start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    let result = submit(target, Batch::write(vec![Transfer::from_memory(span.first, window)]));
    if result.error.is_some() || result.bytes < span.bytes {
        return Err(Refused);
    }
    Ok(span.end)
}

/// Reads the next window and copies its runs out. False if the access is over.
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
    // SAFETY: the bytes from `start` on, `len` of them, lie in the file between `first` and the end of what was read, so in
    // the window; their places in user memory are valid until the access is over (`Memory::new`).
    unsafe { copy.run(file, access.file_start() + start, access.memory().base(), start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    outcome.bytes = end;
    outcome.error = result.error.map(Into::into);
    !is_short
}
