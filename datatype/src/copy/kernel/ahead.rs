//! Prefetching: cache lines are prefetched some blocks before the blocks are moved, where the processor does
//! not do it by itself. These are short blocks so far apart that each has a line of its own.
//!
//! Measured on Zen 5 with blocks of 4, 8 and 12 bytes. The numbers are the time of plain loops divided by
//! the time of loops with prefetching. Packing gains wherever the lines come from memory (1.1 to 1.5, and 2
//! for strides up to 256 bytes), except for strides of a whole page, whose lines fall into few sets of the
//! first-level cache, and of several pages (0.8 to 0.95). From the third level it gains up to strides of 256
//! bytes (1.2 to 1.4), and costs as much beyond; from the second level it gains if every other line is
//! needed (1.2). Unpacking gains in the last case too (1.1), and in memory for strides up to 256 bytes (1.2
//! to 1.5) and from 2 KiB on (1.05 to 1.2). Strides in between lose up to a fifth, and strides of 1 KiB gain
//! or lose depending on the placement of the pages.
//!
//! On an Intel processor with AVX-512, packing from strides of a page and more loses a fifth by prefetching.
//! Unpacking to strides of 1 KiB from memory gains a tenth, and loses as much if the lines have been packed
//! just before. Unpacking short rows (8 blocks of 8 or 32 bytes, 192 bytes apart) gains by 1.1 from the
//! second level and by 1.25 to 1.45 beyond, if the prefetched lines belong to later rows (beyond the second
//! level, six rows ahead gain up to 4 % over two). Packing such rows loses up to a fifth, and from memory
//! gains nothing by any method: loads do not wait for each other as stores do.

use std::ops::Range;

use super::super::nest::NestDim;

/// Longest block that is prefetched, in bytes.
const BLOCK_MAX_BYTES: usize = 16;

/// The number of bytes that the blocks of a nest span on one side. `stride` is the stride of the innermost
/// dimension there.
#[inline(always)]
pub(super) fn span_bytes(dims: &[NestDim; 3], stride: i64) -> u64 {
    dims.iter().fold(stride.unsigned_abs(), |span, dim| span.saturating_mul(dim.n))
}

/// The distance from the block that is moved to the block whose line is prefetched in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    /// Nothing is prefetched.
    None,
    /// A number of blocks in the same row.
    Blocks(usize),
    /// A number of rows.
    Rows(u64),
}

/// Distance in blocks if lines come from the second-level cache.
const SHORT: usize = 16;
/// Distance in blocks if lines come from memory.
const LONG: usize = 48;

/// Strides, in bytes, at which every other line is needed. The processor's prefetcher of neighboring lines
/// brings the lines in between.
const EVERY_OTHER_LINE: Range<u64> = 128..160;
/// Least span of a nest of these strides, in bytes, for which prefetching pays. The nest may be one of
/// several.
const EVERY_OTHER_LINE_MIN_BYTES: u64 = 256 << 10;
/// Strides, in bytes, of blocks that have a line each but lie so close together that their pages cost
/// little.
const CLOSE: Range<u64> = 128..257;
/// Span in bytes that exceeds the second-level cache.
const PAST_SECOND_LEVEL_BYTES: u64 = 4 << 20;
/// Span in bytes that exceeds the third-level cache.
const PAST_THIRD_LEVEL_BYTES: u64 = 32 << 20;
/// Strides, in bytes, at which packing from memory gains.
const FROM_MEMORY: Range<u64> = 128..4 << 10;
/// Strides, in bytes, at which unpacking to memory gains if the blocks span at least `SCATTERED_MIN_BYTES`:
/// then no cache holds the translations of the addresses of their pages.
const SCATTERED: Range<u64> = 2 << 10..4 << 10;
const SCATTERED_MIN_BYTES: u64 = 64 << 20;

/// Longest block of a short row that is prefetched, in bytes.
const SHORT_ROW_BLOCK_MAX_BYTES: usize = 64;
/// Span in bytes that exceeds the first-level cache.
const PAST_FIRST_LEVEL_BYTES: u64 = 64 << 10;

/// Whether rows are so short that lines of later rows are prefetched. The rows must not share lines. Blocks
/// of 12 bytes are excluded, because they have a store of their own
/// ([`Isa::unpack_12`](super::isa::Isa::unpack_12)). A nest without blocks spans 0 bytes, so the answer for
/// it is `false`.
#[inline(always)]
fn are_short_rows(block: usize, stride: u64, dims: &[NestDim; 3]) -> bool {
    dims[0].n < LONG as u64
        && dims[1].n > 1
        && dims[1].target.unsigned_abs() >= stride
        && block <= SHORT_ROW_BLOCK_MAX_BYTES
        && block != 12
        && CLOSE.contains(&stride)
        && span_bytes(dims, stride as i64) >= PAST_FIRST_LEVEL_BYTES
}

/// The prefetch distance in blocks for packing blocks of `block` bytes. `None`: no prefetching.
#[inline(always)]
pub(super) fn reads(block: usize, dims: &[NestDim; 3]) -> Option<usize> {
    let stride = dims[0].source.unsigned_abs();
    if block > BLOCK_MAX_BYTES || !FROM_MEMORY.contains(&stride) {
        return None;
    }
    match span_bytes(dims, stride as i64) {
        PAST_THIRD_LEVEL_BYTES.. => Some(LONG),
        PAST_SECOND_LEVEL_BYTES.. if CLOSE.contains(&stride) => Some(LONG),
        EVERY_OTHER_LINE_MIN_BYTES.. if EVERY_OTHER_LINE.contains(&stride) => Some(SHORT),
        _ => None,
    }
}

/// The prefetch distance for unpacking blocks of `block` bytes.
#[inline(always)]
pub(super) fn writes(block: usize, dims: &[NestDim; 3]) -> Distance {
    let stride = dims[0].target.unsigned_abs();
    if are_short_rows(block, stride, dims) {
        let blocks = if span_bytes(dims, stride as i64) < PAST_SECOND_LEVEL_BYTES { SHORT } else { LONG };
        return Distance::Rows((blocks as u64).div_ceil(dims[0].n));
    }
    let is_scattered = SCATTERED.contains(&stride);
    if block > BLOCK_MAX_BYTES || !(CLOSE.contains(&stride) || is_scattered) {
        return Distance::None;
    }
    match span_bytes(dims, stride as i64) {
        SCATTERED_MIN_BYTES.. => Distance::Blocks(LONG),
        PAST_THIRD_LEVEL_BYTES.. if CLOSE.contains(&stride) => Distance::Blocks(LONG),
        EVERY_OTHER_LINE_MIN_BYTES.. if EVERY_OTHER_LINE.contains(&stride) => Distance::Blocks(SHORT),
        _ => Distance::None,
    }
}

/// Visits blocks `0..n` of a row in order. Prefetches each block `distance` blocks before it is visited.
/// Never prefetches behind the row, because those lines may belong to another core.
#[inline(always)]
pub(super) fn each(n: usize, distance: usize, ask: impl Fn(usize), block: impl Fn(usize)) {
    let asked = n.saturating_sub(distance);
    for i in 0..asked {
        ask(i + distance);
        block(i);
    }
    for i in asked..n {
        block(i);
    }
}

/// The offsets on both sides of the rows of two outer dimensions, relative to the first row.
#[derive(Debug, Clone)]
struct Rows<'a> {
    middle: &'a NestDim,
    last: &'a NestDim,
    plane: (i64, i64),
    row: (i64, i64),
    /// The number of rows left in this plane, and the number of planes left, including this one.
    left: (u64, u64),
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn new(middle: &'a NestDim, last: &'a NestDim) -> Self {
        Self { middle, last, plane: (0, 0), row: (0, 0), left: (middle.n, last.n) }
    }
}

impl Iterator for Rows<'_> {
    type Item = (i64, i64);

    #[inline(always)]
    fn next(&mut self) -> Option<(i64, i64)> {
        if self.left.0 == 0 {
            if self.left.1 <= 1 {
                return None;
            }
            self.left = (self.middle.n, self.left.1 - 1);
            self.plane =
                (self.plane.0.wrapping_add(self.last.source), self.plane.1.wrapping_add(self.last.target));
            self.row = self.plane;
        }
        let row = self.row;
        self.left.0 -= 1;
        self.row = (row.0.wrapping_add(self.middle.source), row.1.wrapping_add(self.middle.target));
        Some(row)
    }
}

/// Visits the rows of two outer dimensions in order, each with the row that comes `rows` rows later, if
/// there is one.
#[inline(always)]
pub(super) fn each_row(outer: &[NestDim], rows: u64, mut visit: impl FnMut((i64, i64), Option<(i64, i64)>)) {
    let [middle, last] = outer else { return };
    debug_assert!(middle.n > 0 && last.n > 0, "there must be a row");
    let mut later = Rows::new(middle, last);
    for _ in 0..rows {
        later.next();
    }
    for row in Rows::new(middle, last) {
        visit(row, later.next());
    }
}
