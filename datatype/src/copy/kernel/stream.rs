//! Copies of long runs.
//!
//! A store to a line that is not in a cache reads the line first. The string instruction knows the length of
//! the copy in advance and saves this read. Measured on Zen 5 with 32 MiB of third-level cache: from 1 MiB
//! on, where the C library no longer uses the instruction, it reached 52 to 60 GB/s and the library 45 to
//! 52; at 16 MiB, 35 and 23. Beyond some size, the copy would evict what it has just written from the caches
//! anyway. Stores that bypass the caches save the read too: from 32 MiB on they reached 22 to 25 GB/s and
//! the library 15 to 19. There the string instruction is as fast for most misalignments and slower for some.

use super::fixed::{Many, Mover as _};
use super::isa::Isa;

/// Runs of at least this many bytes are copied by the string instruction: source and target together exceed
/// a second-level cache.
pub(super) const STRING_MIN_BYTES: usize = 1 << 20;

/// Runs of at least this many bytes are written with stores that bypass the caches: more than the third
/// level holds. The next reader of a shorter target may find it in a cache.
pub(super) const STREAM_MIN_BYTES: usize = 32 << 20;

/// The string instruction is fastest if its target is a multiple of this.
const LINE_BYTES: usize = 64;

/// Copies one run.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, and the two must not overlap. The
/// processor must have the instructions of `I`.
#[inline(always)]
pub(super) unsafe fn copy<I: Isa>(source: *const u8, target: *mut u8, bytes: usize) {
    if bytes < STRING_MIN_BYTES {
        // SAFETY: `# Safety` of this function. `Many` needs at least one whole line, which the condition
        // checks.
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
        // SAFETY: `# Safety` of this function, for the head and the rest of the run: `head < LINE_BYTES <=
        // bytes`.
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
        // SAFETY: `# Safety` of this function.
        return unsafe { source.copy_to_nonoverlapping(target, bytes) };
    }
    let head = target.addr().wrapping_neg() % piece;
    let pieces = (bytes - head) / piece;
    let tail = head + pieces * piece;
    // SAFETY: `# Safety` of this function: head, pieces and tail are the run, because `head < piece <=
    // bytes`. Behind the head, the target is a multiple of a piece, as `Isa::stream` requires.
    unsafe {
        source.copy_to_nonoverlapping(target, head);
        I::stream(source.add(head), target.add(head), pieces);
        source.add(tail).copy_to_nonoverlapping(target.add(tail), bytes - tail);
    }
}
