//! Long runs.
//!
//! A store to a line that is not in a cache reads the line first. An instruction that copies strings is told how much there
//! is to come and saves that read; from 1 MiB on, where the C library no longer uses it, it took 52 to 60 GB/s against 45 to
//! 52 of the library, and 35 against 23 at 16 MiB (Zen 5, 32 MiB of third-level cache). Past some size the copy would throw
//! out of the caches what it has just written anyway. Stores that go past them save the read too: 22 to 25 GB/s against 15
//! to 19 of the library from 32 MiB on, where the string instruction is as fast for most misalignments and slower for some.

use super::fixed::{Many, Mover as _};
use super::isa::Isa;

/// Runs of at least so many bytes are copied by the string instruction: more than a second-level cache holds of source and
/// target.
pub(super) const STRING_MIN_BYTES: usize = 1 << 20;

/// Runs of at least so many bytes are written past the caches: more than the third level has. Below, whoever reads the
/// target next may find it there.
pub(super) const STREAM_MIN_BYTES: usize = 32 << 20;

/// The string instruction wants its target at a multiple of this.
const LINE_BYTES: usize = 64;

/// Copies one run.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
#[inline(always)]
pub(super) unsafe fn copy<I: Isa>(source: *const u8, target: *mut u8, bytes: usize) {
    if bytes < STRING_MIN_BYTES {
        // SAFETY: the caller's promise. A loop of whole lines is for runs of more than one.
        return unsafe {
            if LINE_BYTES <= bytes && bytes <= I::LOOP_MAX_BYTES {
                Many::<LINE_BYTES>(bytes).copy(source, target);
            } else {
                source.copy_to_nonoverlapping(target, bytes);
            }
        };
    }
    if bytes < STREAM_MIN_BYTES {
        let head = target.addr().wrapping_neg() % LINE_BYTES;
        // SAFETY: the caller's promise, for the head and the rest of the run: `head < LINE_BYTES <= bytes`.
        return unsafe {
            source.copy_to_nonoverlapping(target, head);
            let (source, target, bytes) = (source.add(head), target.add(head), bytes - head);
            if I::moves_strings().are_long {
                I::move_string(source, target, bytes);
            } else {
                source.copy_to_nonoverlapping(target, bytes);
            }
        };
    }
    let piece = I::STREAM_BYTES;
    if piece == 0 {
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
