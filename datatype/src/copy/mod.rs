//! Typed copies: bytes of the stream of one tiled layout to those of another, in one pass.
//!
//! | step | module | what |
//! |---|---|---|
//! | align | `align` | two canonical forms to common repetitions over a block or a template |
//! | template | `template` | one period of an irregular pair: a list of moves, and the loops that run it |
//! | list | `listing` | the runs of simple leaves one by one, for a template; of others walkers tell |
//! | program | `program` | repetitions over a body, as a value; runs any range of the stream |
//! | keep | `plan` | programs by pair of layouts (per thread), and by layout for packing |
//! | execute | `kernel` | equal blocks in nests, lists and bitmaps, by instruction set |
//! | else | `step` | two walkers in step, a row or a slice of a list at a time |
//!
//! Budget for B bytes: every byte is read once and written once; no buffer, no allocation per run. This is the only place
//! of the crate with `unsafe` code.

mod align;
mod kernel;
mod listing;
mod nest;
mod permute;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod permute_x86;
mod plan;
mod program;
mod side;
mod step;
mod template;
#[cfg(test)]
mod tests;
mod typed;

use std::ops::Range;

use crate::error::{Result, TypeError};
use crate::tiled::Tiled;
use crate::walk::{Span, Walker};
pub(crate) use plan::Kept;
use program::At;
use typed::Part;
pub use typed::TypedCopy;

/// Copies stream bytes `range` of `tiled`, which lies in `source` with offset 0 at its first byte, into `packed`, which must
/// be as long as the range.
///
/// # Errors
/// [`TypeError::BadRange`], [`TypeError::PackedLength`], [`TypeError::OutOfMemory`]; nothing is copied then.
pub fn pack(tiled: &Tiled, source: &[u8], range: Range<u64>, packed: &mut [u8]) -> Result<()> {
    check(tiled, source.len(), &range, packed.len())?;
    let Some(root) = tiled.root().filter(|_| !range.is_empty()) else { return Ok(()) };
    let at = At { source: source.as_ptr(), target: packed.as_mut_ptr() };
    let bytes = range.end - range.start;
    // SAFETY: `check` has shown that the bytes of the range lie in `source` and that `packed` holds them; a shared and a
    // unique borrow do not overlap.
    unsafe { typed::gather(at, Part { tiled, root, start: range.start }, bytes) };
    Ok(())
}

/// The reverse of [`pack`]: copies `packed` to where stream bytes `range` of `tiled` lie in `target`. No other byte of the
/// target is written.
///
/// # Errors
/// As [`pack`].
pub fn unpack(tiled: &Tiled, packed: &[u8], range: Range<u64>, target: &mut [u8]) -> Result<()> {
    check(tiled, target.len(), &range, packed.len())?;
    let Some(root) = tiled.root().filter(|_| !range.is_empty()) else { return Ok(()) };
    let at = At { source: packed.as_ptr(), target: target.as_mut_ptr() };
    let bytes = range.end - range.start;
    // SAFETY: as in `pack`, with source and target exchanged.
    unsafe { typed::scatter(at, Part { tiled, root, start: range.start }, bytes) };
    Ok(())
}

fn check(tiled: &Tiled, memory_bytes: usize, range: &Range<u64>, packed_bytes: usize) -> Result<()> {
    tiled.check_range(range)?;
    let expected = range.end - range.start;
    if packed_bytes as u64 != expected {
        return Err(TypeError::PackedLength { expected, found: packed_bytes });
    }
    check_memory(tiled, memory_bytes, range)
}

/// Refuses stream bytes, which the layout must have, that do not lie in memory of `memory_bytes` bytes.
pub(crate) fn check_memory(tiled: &Tiled, memory_bytes: usize, range: &Range<u64>) -> Result<()> {
    let fits = |low: i64, high: i64| low >= 0 && high as u64 <= memory_bytes as u64;
    if range.is_empty() || fits(tiled.true_lb(), tiled.true_ub()) {
        return Ok(());
    }
    let (low, high) = touched(tiled, range);
    if fits(low, high) { Ok(()) } else { Err(TypeError::OutOfMemory { low, high, memory_bytes }) }
}

/// The hull of the bytes of a nonempty range.
fn touched(tiled: &Tiled, range: &Range<u64>) -> (i64, i64) {
    if tiled.is_monotone() {
        return (tiled.offset_of(range.start), tiled.offset_of(range.end - 1) + 1);
    }
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    let mut hull = |offset: i64, bytes: u64| {
        low = low.min(offset);
        high = high.max(offset + bytes as i64);
    };
    if let Some(root) = tiled.root() {
        let mut walker = Walker::new(root, range.start, range.end - range.start);
        while let Some(span) = walker.next_span() {
            match span {
                Span::Strided { offset, block, count, stride } => {
                    hull(offset, block);
                    hull(offset + stride * (count as i64 - 1), block);
                }
                lists => lists.for_each(&mut hull),
            }
        }
    }
    (low, high)
}
