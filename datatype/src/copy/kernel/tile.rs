//! Nests that transpose: one side is consecutive along `p`, the other along `q`.
//!
//! In the order of the stream every block of the strided side costs a line of the cache, of which the next block of that line
//! is needed a whole row later. Tiles use whole lines on both sides: a few lines of the source at a time along `p`, and
//! all of `q` before the next.

use super::super::nest::NestDim;
use super::level::Table;
use super::schedule::ONCE;

/// Bytes of the source along `p` that a tile of plain moves is wide: two lines.
const TILE_BYTES: u64 = 128;
/// At most so many rows of the target are written at a time: they may all fall into one set of a cache of 12 ways.
const TILE_BLOCKS_MAX: u64 = 8;
/// Nests of less bytes are not worth it: they stay in a cache in any order.
const TOTAL_MIN_BYTES: u64 = 2 << 10;
/// Blocks of a line share it.
pub(super) const LINE_BYTES: u64 = 64;

/// Whether tiles pay for a nest of `p`, the dimension of the smallest stride in the source, and `q`, that in the target.
pub(super) fn pays(block: u64, p: &NestDim, q: &NestDim) -> bool {
    let shares = |stride: i64| stride != 0 && stride.unsigned_abs() < LINE_BYTES;
    let jumps = |stride: i64| stride.unsigned_abs() >= LINE_BYTES;
    let strided = (shares(p.source) && jumps(q.source)) || (shares(q.target) && jumps(p.target));
    strided && p.n.min(q.n) >= 4 && p.n.saturating_mul(q.n).saturating_mul(block) >= TOTAL_MIN_BYTES
}

/// Small planes that are spread over so many bytes are not transposed in registers: 8 x 8 doubles 576 bytes apart took 10 to 15
/// ns each in the caches and 14 to 19 by plain moves, in 57 MB 47 and 36.
pub(super) const FAR_SQUARES_BYTES: u64 = 8 << 20;

/// Bytes of a row of a square that a kernel transposes in registers.
const SQUARE_BYTES: u64 = 64;

/// Whether planes of `p` and `q` are whole squares of units that kernels transpose, if they have such a kernel.
pub(super) fn are_squares(block: u64, p: &NestDim, q: &NestDim) -> bool {
    let is_side = |n: u64| n > 0 && n.is_multiple_of(SQUARE_BYTES / block);
    matches!(block, 4 | 8 | 16) && [p.source, q.target] == [block as i64; 2] && is_side(p.n) && is_side(q.n)
}

/// # Safety
/// As [`super::nest_at`] for the two dimensions, with the pointers at the first byte of each side; the processor must have the
/// instructions of the table.
pub(super) unsafe fn plane(
    table: &Table,
    source: *const u8,
    target: *mut u8,
    block: u64,
    p: NestDim,
    q: NestDim,
) {
    let unit = block as i64;
    let [done_p, done_q] = if p.source == unit && q.target == unit {
        // SAFETY: the caller's promise; both sides are consecutive as the kernel needs it.
        unsafe { (table.transpose)(source, target, block, [&p, &q, &ONCE]) }
    } else {
        [0, 0]
    };
    let below = NestDim { n: q.n - done_q, ..q };
    let beside = NestDim { n: p.n - done_p, ..p };
    let done = NestDim { n: done_p, ..p };
    // SAFETY: what is left of the plane: all of `q` beside the part that is done, and the rest of `q` below it.
    unsafe {
        let (from, to) = skip(source, target, &p, done_p);
        plain(table, from, to, block, beside, q);
        let (from, to) = skip(source, target, &q, done_q);
        plain(table, from, to, block, done, below);
    }
}

/// The first byte of repetition `n` of a dimension.
fn skip(source: *const u8, target: *mut u8, dim: &NestDim, n: u64) -> (*const u8, *mut u8) {
    let at = |stride: i64| stride.wrapping_mul(n as i64) as isize;
    (source.wrapping_offset(at(dim.source)), target.wrapping_offset(at(dim.target)))
}

/// Tiles by plain moves.
///
/// # Safety
/// As [`plane`].
unsafe fn plain(table: &Table, source: *const u8, target: *mut u8, block: u64, p: NestDim, q: NestDim) {
    if p.n == 0 || q.n == 0 {
        return;
    }
    let wide = (TILE_BYTES / p.source.unsigned_abs().max(1)).clamp(1, TILE_BLOCKS_MAX).min(p.n);
    let tiles = p.n / wide;
    let within = NestDim { n: wide, ..p };
    let across = NestDim { n: tiles, source: p.source * wide as i64, target: p.target * wide as i64 };
    let rest = NestDim { n: p.n % wide, ..p };
    // SAFETY: the same blocks in another order: whole tiles, then what is left of `p`.
    unsafe {
        (table.nest)(source, target, block, &[within, q, across]);
        let (from, to) = skip(source, target, &p, tiles * wide);
        (table.nest)(from, to, block, &[rest, q, ONCE]);
    }
}
