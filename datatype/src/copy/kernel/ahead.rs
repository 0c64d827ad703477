//! Lines that are sent for some blocks before they are moved, as the processor does not by itself: of short blocks so far apart
//! that each has a line of its own.
//!
//! Measured on Zen 5 with blocks of 4, 8 and 12 bytes, as times of plain loops over times of these. Packing pays wherever the
//! lines come from memory (1.1 to 1.5, and 2 for strides up to 256), but for strides of whole pages, whose lines fall into few
//! sets of the first cache, and those of several (0.8 to 0.95). Out of the third level it pays up to 256 bytes (1.2 to 1.4), and
//! costs as much beyond; out of the second where every other line is wanted (1.2). Unpacking pays there too (1.1), and in memory
//! up to 256 bytes (1.2 to 1.5) and from 2 KiB on (1.05 to 1.2); strides between lose up to a fifth, and those of 1 KiB are good
//! or bad as pages fall.

use std::ops::Range;

use super::super::nest::NestDim;
use super::rows::span_bytes;

/// Longest block, in bytes.
const BLOCK_MAX_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;

/// Blocks between the one that is sent for and the one that is moved.
type Distance = usize;
const NONE: Distance = 0;
/// Where lines come from the second level of caches.
const SHORT: Distance = 16;
/// Where they come from memory.
const LONG: Distance = 48;

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
const FROM_MEMORY: Range<u64> = 128..5 << 10;
/// Strides of unpacked blocks so many that no cache holds what tells where their pages are, and the bytes of these.
const SCATTERED: Range<u64> = 2 << 10..4 << 10;
const SCATTERED_MIN_BYTES: u64 = 96 << 20;

/// How far ahead lines are sent for where blocks of so many bytes are packed.
#[inline(always)]
pub(super) fn reads(block: usize, dims: &[NestDim; 3]) -> Distance {
    let stride = dims[0].source.unsigned_abs();
    if block > BLOCK_MAX_BYTES || !FROM_MEMORY.contains(&stride) {
        return NONE;
    }
    match span_bytes(dims, stride as i64) {
        PAST_THIRD_LEVEL_BYTES.. if !stride.is_multiple_of(PAGE_BYTES) => LONG,
        PAST_SECOND_LEVEL_BYTES.. if CLOSE.contains(&stride) => LONG,
        EVERY_OTHER_LINE_MIN_BYTES.. if EVERY_OTHER_LINE.contains(&stride) => SHORT,
        _ => NONE,
    }
}

/// How far ahead lines are sent for where blocks of so many bytes are unpacked.
#[inline(always)]
pub(super) fn writes(block: usize, dims: &[NestDim; 3]) -> Distance {
    let stride = dims[0].target.unsigned_abs();
    if block > BLOCK_MAX_BYTES || !(CLOSE.contains(&stride) || SCATTERED.contains(&stride)) {
        return NONE;
    }
    match span_bytes(dims, stride as i64) {
        SCATTERED_MIN_BYTES.. => LONG,
        PAST_THIRD_LEVEL_BYTES.. if CLOSE.contains(&stride) => LONG,
        EVERY_OTHER_LINE_MIN_BYTES.. if EVERY_OTHER_LINE.contains(&stride) => SHORT,
        _ => NONE,
    }
}

/// Moves blocks `0..n` of a row in turn, after asking for each of them so many blocks before; never for one behind the row, which
/// may be another core's.
#[inline(always)]
pub(super) fn each(n: usize, distance: Distance, ask: impl Fn(usize), block: impl Fn(usize)) {
    let asked = n.saturating_sub(distance);
    for i in 0..asked {
        ask(i + distance);
        block(i);
    }
    for i in asked..n {
        block(i);
    }
}
