//! Lines that are sent for some blocks before they are moved, as the processor does not by itself: of short blocks so far apart
//! that each has a line of its own.
//!
//! Measured on Zen 5 with blocks of 4, 8 and 12 bytes, as times of plain loops over times of these. Packing pays wherever the
//! lines come from memory (1.1 to 1.5, and 2 for strides up to 256), but for strides of whole pages, whose lines fall into few
//! sets of the first cache, and those of several (0.8 to 0.95). Out of the third level it pays up to 256 bytes (1.2 to 1.4), and
//! costs as much beyond; out of the second where every other line is wanted (1.2). Unpacking pays there too (1.1), and in memory
//! up to 256 bytes (1.2 to 1.5) and from 2 KiB on (1.05 to 1.2); strides between lose up to a fifth, and those of 1 KiB are good
//! or bad as pages fall.
//!
//! On an Intel processor with AVX-512 packing from strides of a page and more loses a fifth by it. Unpacking to strides of 1 KiB from
//! memory gains a tenth, and loses as much where the lines were packed just before. Unpacking short rows, 8 blocks of 8 or 32 bytes
//! 192 bytes apart, pays by 1.1 out of the second level and by 1.25 to 1.45 beyond, if what is sent for is of the rows behind
//! (beyond the second level six rows gain up to 4 % over two); packing them loses up to a fifth, and from memory gains nothing however
//! it is done: loads do not wait for each other as stores do.

use std::ops::Range;

use super::super::nest::NestDim;
use super::rows::span_bytes;

/// Longest block, in bytes.
const BLOCK_MAX_BYTES: usize = 16;

/// What lies between the block that is sent for and the one that is moved, where targets are sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distance {
    /// Nothing is sent for.
    None,
    /// Blocks of the same row.
    Blocks(usize),
    /// Rows.
    Rows(u64),
}

/// Where lines come from the second level of caches.
const SHORT: usize = 16;
/// Where they come from memory.
const LONG: usize = 48;

/// Strides, in bytes, at which every other line is wanted: what fetches neighbors brings the others.
const EVERY_OTHER_LINE: Range<u64> = 128..160;
/// Nests of so many bytes from end to end; there may be others of the kind.
const EVERY_OTHER_LINE_MIN_BYTES: u64 = 256 << 10;
/// Strides of blocks with a line each that lie so close that their pages cost little.
const CLOSE: Range<u64> = 128..257;
/// More than the second level holds.
const PAST_SECOND_LEVEL_BYTES: u64 = 4 << 20;
/// More than the third holds.
const PAST_THIRD_LEVEL_BYTES: u64 = 32 << 20;
/// Strides of packed blocks that come from memory.
const FROM_MEMORY: Range<u64> = 128..4 << 10;
/// Strides of unpacked blocks so many that no cache holds what tells where their pages are, and the bytes of these.
const SCATTERED: Range<u64> = 2 << 10..4 << 10;
const SCATTERED_MIN_BYTES: u64 = 64 << 20;

/// Longest block of a short row, in bytes.
const SHORT_ROW_BLOCK_MAX_BYTES: usize = 64;
/// More than the first level holds.
const PAST_FIRST_LEVEL_BYTES: u64 = 64 << 10;

/// Whether rows are so short that the lines of those behind are sent for: of other lines, and not of 12 bytes, which have a store of
/// their own ([`Isa::unpack_12`](super::isa::Isa::unpack_12)). No nest without blocks spans so many bytes.
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

/// How many blocks ahead lines are sent for where blocks of so many bytes are packed.
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

/// How far ahead lines are sent for where blocks of so many bytes are unpacked.
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

/// Moves blocks `0..n` of a row in turn, after asking for each of them so many blocks before; never for one behind the row, which
/// may be another core's.
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

/// The first bytes of the rows of two outer dimensions, from that of the first one, in both sides.
#[derive(Debug, Clone)]
struct Rows<'a> {
    middle: &'a NestDim,
    last: &'a NestDim,
    plane: (i64, i64),
    row: (i64, i64),
    /// How many rows of this plane are left, and how many planes with it.
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

/// Visits the rows of two outer dimensions in turn, each with the one that comes so many rows later, if there is one.
#[inline(always)]
pub(super) fn each_row(outer: &[NestDim], rows: u64, mut visit: impl FnMut((i64, i64), Option<(i64, i64)>)) {
    let [middle, last] = outer else { return };
    debug_assert!(middle.n > 0 && last.n > 0, "there is no row");
    let mut later = Rows::new(middle, last);
    for _ in 0..rows {
        later.next();
    }
    for row in Rows::new(middle, last) {
        visit(row, later.next());
    }
}
