//! Long runs.
//!
//! A store to a line that is not in a cache reads the line first. Past some size the copy would throw out of the caches
//! what it has just written anyway, and stores that go past them save that read.

use super::isa::Isa;

/// Runs of at least so many bytes are written past the caches: twice a second-level cache of the larger kind (2 MiB) for
/// each of source and target. Below, whoever reads the target next finds it in a cache.
pub(super) const STREAM_MIN_BYTES: usize = 8 << 20;

/// Copies one run.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
#[inline(always)]
pub(super) unsafe fn copy<I: Isa>(source: *const u8, target: *mut u8, bytes: usize) {
    let piece = I::STREAM_BYTES;
    if piece == 0 || bytes < STREAM_MIN_BYTES {
        // SAFETY: the caller's promise.
        return unsafe { source.copy_to_nonoverlapping(target, bytes) };
    }
    let head = target.addr().wrapping_neg() % piece;
    let pieces = (bytes - head) / piece;
    let tail = head + pieces * piece;
    // SAFETY: head, pieces and tail are the run: `head < piece <= bytes`, and behind the head the target is a multiple of a
    // piece.
    unsafe {
        source.copy_to_nonoverlapping(target, head);
        I::stream(source.add(head), target.add(head), pieces);
        source.add(tail).copy_to_nonoverlapping(target.add(tail), bytes - tail);
    }
}
