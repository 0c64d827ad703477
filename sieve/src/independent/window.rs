//! A sieving read: the span of an access is read window by window, and its runs are copied out.

use std::cell::RefCell;

use capulet_datatype::TypedCopy;
use capulet_drivers::{Batch, Transfer};

use super::WINDOW_BYTES;
use crate::access::Access;
use crate::counters::Counters;
use crate::{Target, Transferred};

thread_local! {
    /// The window of this thread. Kept, as new memory would be zeroed by the system page by page.
    static WINDOW: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls with this thread's window, of [`WINDOW_BYTES`].
pub(super) fn with_window<T>(call: impl FnOnce(&mut [u8]) -> T) -> T {
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

/// Reads the next window and copies its runs out. False if the access is over.
fn fill(
    target: &Target,
    access: &Access,
    copy: &TypedCopy,
    window: &mut [u8],
    outcome: &mut Transferred,
) -> bool {
    let first = access.offset_of(outcome.bytes);
    let end = access.bytes_below(first.saturating_add(window.len() as u64));
    // The window ends with the last byte that is asked for.
    let bytes = access.offset_of(end - 1) + 1 - first;
    Counters::add(&target.counters.pieces, 1);
    Counters::add(&target.counters.batches, 1);
    let transfer = Transfer::into_memory(first, &mut window[..bytes as usize]);
    let result = target.file.submit(Batch::read(vec![transfer])).wait();
    let is_short = result.error.is_some() || result.bytes < bytes;
    let end = if is_short { access.bytes_below(first + result.bytes).max(outcome.bytes) } else { end };
    let (start, len) = (outcome.bytes, end - outcome.bytes);
    // Where offset 0 of the access's file layout would lie, were the window the file.
    let shift = access.displacement_bytes().wrapping_sub(first as i64);
    let file = window.as_ptr().wrapping_offset(shift as isize);
    // SAFETY: the bytes from `start` on, `len` of them, lie in the file between `first` and the end of what was read, so in
    // the window; their places in user memory are valid until the access is over (`Memory::new`).
    unsafe { copy.run(file, access.file_start() + start, access.memory().base(), start, len) };
    Counters::add(&target.counters.copied_bytes, len);
    outcome.bytes = end;
    outcome.error = result.error.map(Into::into);
    !is_short
}
