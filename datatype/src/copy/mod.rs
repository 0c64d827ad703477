//! Typed copies: bytes of the stream of one tiled layout to those of another, in one pass.
//!
//! Budget for B bytes: every byte is read once and written once; no buffer, no allocation per run. The cost beside the
//! copying is that of two walkers, paid per row. This is the only place of the crate with `unsafe` code.

// Transpack is about to call all of them.
#[allow(dead_code)]
mod kernel;
#[allow(dead_code)]
mod nest;
mod side;

use std::ops::Range;
use std::ptr;

use crate::error::{Result, TypeError};
use crate::piece::Piece;
use crate::tiled::Tiled;
use crate::walk::{Span, Walker};
use kernel::{Listed, Progression, source_at, target_at};
use side::{Front, Side};

/// Copies between two tiled layouts (the *transpack template* of Mir and Traeff): byte `k` of the one stream is byte `k` of
/// the other. The streams may differ in length; bytes have no type here.
///
/// ```
/// use capulet_datatype::{Datatype, Named, Tiled, TypedCopy};
/// let short = Datatype::named(Named::Short);
/// let row = Datatype::vector(4, 1, 2, &short)?;
/// let source = [1_u16, 0, 2, 0, 3, 0, 4];
/// let mut target = [9_u16; 4];
/// let copy = TypedCopy::new(Tiled::new(row.layout().clone(), 1)?, Tiled::new(short.layout().clone(), 4)?);
/// // SAFETY: the types lie within the arrays, which are apart.
/// let bytes = unsafe { copy.run(source.as_ptr().cast(), 2, target.as_mut_ptr().cast(), 2, 4) };
/// assert_eq!((bytes, target), (4, [9, 2, 3, 9]));
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TypedCopy {
    source: Tiled,
    target: Tiled,
}

impl TypedCopy {
    /// A copy from `source` to `target`.
    pub fn new(source: Tiled, target: Tiled) -> Self {
        Self { source, target }
    }

    /// The layout that is read.
    pub fn source(&self) -> &Tiled {
        &self.source
    }

    /// The layout that is written.
    pub fn target(&self) -> &Tiled {
        &self.target
    }

    /// Copies `bytes` bytes from stream position `source_start` of the source to stream position `target_start` of the
    /// target, and returns how many that were: fewer only where a stream ends before. Offsets of each layout count from
    /// its base address; a null base with absolute addresses as offsets (`MPI_BOTTOM`) is allowed. Bytes of the target
    /// that lie outside of the range are not touched, not even to write them back.
    ///
    /// # Safety
    /// Every byte of the range must be readable at its place in the source and writable at its place in the target, and no
    /// byte that is read may be among those that are written. With a null base, the memory must have been exposed, as
    /// memory from C has.
    pub unsafe fn run(
        &self,
        source_base: *const u8,
        source_start: u64,
        target_base: *mut u8,
        target_start: u64,
        bytes: u64,
    ) -> u64 {
        let (Some(source), Some(target)) = (self.source.root(), self.target.root()) else { return 0 };
        let source_left = self.source.size().saturating_sub(source_start);
        let bytes = bytes.min(source_left).min(self.target.size().saturating_sub(target_start));
        // SAFETY: the caller's promise, for a range that both streams have.
        unsafe { transfer((source_base, source, source_start), (target_base, target, target_start), bytes) };
        bytes
    }
}

/// Copies `bytes` stream bytes, which both pieces must have.
///
/// # Safety
/// As [`TypedCopy::run`].
unsafe fn transfer(
    (source_base, source, source_start): (*const u8, &Piece, u64),
    (target_base, target, target_start): (*mut u8, &Piece, u64),
    bytes: u64,
) {
    // Offsets from null are addresses: take the provenance that their memory was exposed with.
    let source_base = if source_base.is_null() { ptr::with_exposed_provenance(0) } else { source_base };
    let target_base = if target_base.is_null() { ptr::with_exposed_provenance_mut(0) } else { target_base };
    // SAFETY: the caller's promise covers the bytes of both ranges. Those of a single run are the bytes from
    // its base on.
    unsafe {
        if target.as_block().is_some() {
            let at = target_at(target_base, target.base.wrapping_add(target_start as i64));
            gather((source_base, Walker::new(source, source_start, bytes)), at);
        } else if source.as_block().is_some() {
            let at = source_at(source_base, source.base.wrapping_add(source_start as i64));
            scatter(at, (target_base, Walker::new(target, target_start, bytes)));
        } else {
            let from = Side::new(source, source_start, bytes);
            let to = Side::new(target, target_start, bytes);
            exchange((source_base, from), (target_base, to));
        }
    }
}

/// Copies all that a walker has to consecutive bytes.
///
/// # Safety
/// The bytes of the walker must be readable, as many must be writable at `target`, and the two be apart.
unsafe fn gather((source, mut walker): (*const u8, Walker<'_>), target: *mut u8) {
    let mut offset = 0;
    while let Some(span) = walker.next_span() {
        // SAFETY: each span is a part of the walker's bytes, and `offset` counts the bytes before it.
        unsafe {
            match span {
                Span::Strided { offset: first, block, count, stride } => {
                    let (from, to) =
                        (Progression { offset: first, stride }, Progression { offset, stride: block as i64 });
                    kernel::blocks((source, from), (target, to), block, count as usize);
                    offset += (block * count) as i64;
                }
                Span::Index { origin, displacements, block } => {
                    let (from, to) =
                        (Listed { origin, displacements }, Progression { offset, stride: block as i64 });
                    kernel::blocks((source, from), (target, to), block, displacements.len());
                    offset += block as i64 * displacements.len() as i64;
                }
                Span::VarIndex { origin, displacements, lengths } => {
                    for (displacement, &length) in displacements.iter().zip(lengths) {
                        let from = source_at(source, origin.wrapping_add(*displacement));
                        kernel::run(from, target_at(target, offset), length);
                        offset += length as i64;
                    }
                }
            }
        }
    }
}

/// The reverse of [`gather`].
///
/// # Safety
/// The bytes of the walker must be writable, as many must be readable at `source`, and the two be apart.
unsafe fn scatter(source: *const u8, (target, mut walker): (*mut u8, Walker<'_>)) {
    let mut offset = 0;
    while let Some(span) = walker.next_span() {
        // SAFETY: as in `gather`, with the sides exchanged.
        unsafe {
            match span {
                Span::Strided { offset: first, block, count, stride } => {
                    let (from, to) =
                        (Progression { offset, stride: block as i64 }, Progression { offset: first, stride });
                    kernel::blocks((source, from), (target, to), block, count as usize);
                    offset += (block * count) as i64;
                }
                Span::Index { origin, displacements, block } => {
                    let (from, to) =
                        (Progression { offset, stride: block as i64 }, Listed { origin, displacements });
                    kernel::blocks((source, from), (target, to), block, displacements.len());
                    offset += block as i64 * displacements.len() as i64;
                }
                Span::VarIndex { origin, displacements, lengths } => {
                    for (displacement, &length) in displacements.iter().zip(lengths) {
                        let to = target_at(target, origin.wrapping_add(*displacement));
                        kernel::run(source_at(source, offset), to, length);
                        offset += length as i64;
                    }
                }
            }
        }
    }
}

/// Copies between two sides of several runs each: as many equal blocks at once as both have at hand.
///
/// # Safety
/// The bytes of `from` must be readable, those of `to` writable, and the two be apart.
unsafe fn exchange((source, mut from): (*const u8, Side<'_>), (target, mut to): (*mut u8, Side<'_>)) {
    loop {
        let (read, write) = (from.run_bytes(), to.run_bytes());
        if read == 0 || write == 0 {
            return;
        }
        let bytes = read.min(write);
        let count = from.blocks_of(read, bytes).min(to.blocks_of(write, bytes));
        let n = count as usize;
        // SAFETY: the first `count` blocks of each side are bytes of that side.
        unsafe {
            match (from.front(read, bytes), to.front(write, bytes)) {
                (Front::Progression(s), Front::Progression(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Progression(s), Front::Listed(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Listed(s), Front::Progression(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Listed(s), Front::Listed(t)) => kernel::blocks((source, s), (target, t), bytes, n),
            }
        }
        from.take(read, bytes, count);
        to.take(write, bytes, count);
    }
}

/// Copies stream bytes `range` of `tiled`, which lies in `source` with offset 0 at its first byte, into `packed`, which must
/// be as long as the range.
///
/// # Errors
/// [`TypeError::BadRange`], [`TypeError::PackedLength`], [`TypeError::OutOfMemory`]; nothing is copied then.
pub fn pack(tiled: &Tiled, source: &[u8], range: Range<u64>, packed: &mut [u8]) -> Result<()> {
    check(tiled, source.len(), &range, packed.len())?;
    let Some(root) = tiled.root().filter(|_| !range.is_empty()) else { return Ok(()) };
    let dense = Piece::block(0, packed.len() as u64);
    let bytes = range.end - range.start;
    // SAFETY: `check` has shown that the bytes of the range lie in `source` and that `packed` holds them; a shared and a
    // unique borrow do not overlap.
    unsafe { transfer((source.as_ptr(), root, range.start), (packed.as_mut_ptr(), &dense, 0), bytes) };
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
    let dense = Piece::block(0, packed.len() as u64);
    let bytes = range.end - range.start;
    // SAFETY: as in `pack`, with source and target exchanged.
    unsafe { transfer((packed.as_ptr(), &dense, 0), (target.as_mut_ptr(), root, range.start), bytes) };
    Ok(())
}

fn check(tiled: &Tiled, memory_bytes: usize, range: &Range<u64>, packed_bytes: usize) -> Result<()> {
    tiled.check_range(range)?;
    let expected = range.end - range.start;
    if packed_bytes as u64 != expected {
        return Err(TypeError::PackedLength { expected, found: packed_bytes });
    }
    let fits = |low: i64, high: i64| low >= 0 && high as u64 <= memory_bytes as u64;
    if expected == 0 || fits(tiled.true_lb(), tiled.true_ub()) {
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
