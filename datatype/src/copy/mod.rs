//! Typed copies: bytes of the stream of one tiled layout are copied to the stream of another in one
//! pass.
//!
//! | step | module | contents |
//! |---|---|---|
//! | align | `align` | brings two canonical forms to common repetitions over a block or a template |
//! | template | `template` | one period of an irregular pair: a list of moves, and the loops that run it |
//! | list | `listing` | lists the runs of simple leaves for a template; walkers list the others |
//! | program | `program` | repetitions over a body, as a value; runs any range of the stream |
//! | keep | `plan`, `kept` | caches programs: per thread by pair of layouts, per layout for packing |
//! | execute | `kernel` | copies equal blocks in nests, lists and bitmaps, by instruction set |
//! | fallback | `step` | two walkers in step; one call copies a row or a slice of a list |
//!
//! Budget for B bytes: every byte is read once and written once. There is no intermediate buffer and no
//! allocation per run. This is the only module of the crate that contains `unsafe` code.

mod address;
mod align;
mod kept;
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
use address::At;
pub(crate) use kept::Kept;
use typed::Part;
pub use typed::TypedCopy;

/// Copies stream bytes `range` of `tiled` from `source` to `packed`. Offset 0 of the layout is the first
/// byte of `source`. The length of `packed` must equal the length of the range.
///
/// # Errors
/// [`TypeError::BadRange`], [`TypeError::PackedLength`], [`TypeError::OutOfMemory`]. On an error nothing
/// is copied.
pub fn pack(tiled: &Tiled, source: &[u8], range: Range<u64>, packed: &mut [u8]) -> Result<()> {
    check(tiled, source.len(), &range, packed.len())?;
    let Some(root) = tiled.root().filter(|_| !range.is_empty()) else { return Ok(()) };
    let at = At { source: source.as_ptr(), target: packed.as_mut_ptr() };
    let bytes = range.end - range.start;
    // SAFETY: `# Safety` of `typed::gather`: `check` returned without an error, so all bytes of the
    // range lie in `source` and `packed` has exactly as many bytes. `source` is borrowed shared and
    // `packed` exclusively, so they do not overlap.
    unsafe { typed::gather(at, Part { tiled, root, start: range.start }, bytes) };
    Ok(())
}

/// The reverse of [`pack`]: copies `packed` to the places of stream bytes `range` of `tiled` in
/// `target`. Offset 0 of the layout is the first byte of `target`. No other byte of the target is
/// written.
///
/// # Errors
/// The errors of [`pack`].
pub fn unpack(tiled: &Tiled, packed: &[u8], range: Range<u64>, target: &mut [u8]) -> Result<()> {
    check(tiled, target.len(), &range, packed.len())?;
    let Some(root) = tiled.root().filter(|_| !range.is_empty()) else { return Ok(()) };
    let at = At { source: packed.as_ptr(), target: target.as_mut_ptr() };
    let bytes = range.end - range.start;
    // SAFETY: `# Safety` of `typed::scatter`: `check` returned without an error, so all bytes of the
    // range lie in `target` and `packed` has exactly as many bytes. `packed` is borrowed shared and
    // `target` exclusively, so they do not overlap.
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

/// Returns an error if a byte of `range` lies outside of memory of `memory_bytes` bytes. The stream must
/// contain the range.
pub(crate) fn check_memory(tiled: &Tiled, memory_bytes: usize, range: &Range<u64>) -> Result<()> {
    let fits = |low: i64, high: i64| low >= 0 && high as u64 <= memory_bytes as u64;
    if range.is_empty() || fits(tiled.true_lb(), tiled.true_ub()) {
        return Ok(());
    }
    let (low, high) = touched(tiled, range);
    if fits(low, high) { Ok(()) } else { Err(TypeError::OutOfMemory { low, high, memory_bytes }) }
}

/// The hull (lowest offset and end of the highest) of the bytes of a nonempty range.
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
