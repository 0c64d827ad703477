//! Nests that transpose: one side is consecutive along dimension `p`, the other along `q`.
//!
//! In stream order every block of the strided side takes a cache line, and the next block of that line is
//! needed only a whole row later. Tiles use whole lines on both sides: a tile is a few lines of the source
//! wide along `p`, and it covers all of `q` before the next tile begins.

use super::super::nest::{NestDim, ONCE};
use super::level::Table;

/// Width of a tile of plain moves along `p`, in bytes of the source: two lines.
const TILE_BYTES: u64 = 128;
/// Largest number of target rows that are written at a time. All of them may fall into one set of a cache of
/// 12 ways.
const TILE_BLOCKS_MAX: u64 = 8;
/// Smaller nests do not gain, because they stay in a cache in any order.
const TOTAL_MIN_BYTES: u64 = 2 << 10;
/// Bytes of a cache line. Blocks closer than this can share a line.
pub(super) const LINE_BYTES: u64 = 64;

/// Whether tiles pay for a nest of `p`, the dimension of the smallest stride in the source, and `q`, the
/// dimension of the smallest stride in the target.
pub(super) fn pays(block: u64, p: &NestDim, q: &NestDim) -> bool {
    let shares = |stride: i64| stride != 0 && stride.unsigned_abs() < LINE_BYTES;
    let jumps = |stride: i64| stride.unsigned_abs() >= LINE_BYTES;
    let strided = (shares(p.source) && jumps(q.source)) || (shares(q.target) && jumps(p.target));
    strided && p.n.min(q.n) >= 4 && p.n.saturating_mul(q.n).saturating_mul(block) >= TOTAL_MIN_BYTES
}

/// Small planes that spread over this many bytes are not transposed in registers. Measured with planes of 8
/// x 8 doubles, 576 bytes apart, in ns per plane: in the caches 10 to 15 in registers and 14 to 19 by plain
/// moves; over 57 MB, 47 in registers and 36 by plain moves.
pub(super) const FAR_SQUARES_BYTES: u64 = 8 << 20;

/// Bytes of a row of a square that a kernel transposes in registers.
const SQUARE_BYTES: u64 = 64;

/// Whether planes of `p` and `q` consist of whole squares of units that kernels transpose in registers, on
/// an instruction set with such a kernel.
pub(super) fn are_squares(block: u64, p: &NestDim, q: &NestDim) -> bool {
    let is_side = |n: u64| n > 0 && n.is_multiple_of(SQUARE_BYTES / block);
    matches!(block, 4 | 8 | 16) && [p.source, q.target] == [block as i64; 2] && is_side(p.n) && is_side(q.n)
}

/// Copies the plane of `p` and `q`.
///
/// # Safety
/// As for [`super::nest_at`], with these two dimensions and the addresses of the first byte of each side.
/// The processor must have the instructions of the table.
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
        // SAFETY: `# Safety` of this function; the condition above makes the plane consecutive as
        // `Isa::transpose` requires.
        unsafe { (table.transpose)(source, target, block, [&p, &q, &ONCE]) }
    } else {
        [0, 0]
    };
    let below = NestDim { n: q.n - done_q, ..q };
    let beside = NestDim { n: p.n - done_p, ..p };
    let done = NestDim { n: done_p, ..p };
    // SAFETY: `# Safety` of this function: both calls get a part of the rest of the plane, which is all of
    // `q` beside the part that is done, and the rest of `q` below it.
    unsafe {
        let (from, to) = skip(source, target, &p, done_p);
        plain(table, from, to, block, beside, q);
        let (from, to) = skip(source, target, &q, done_q);
        plain(table, from, to, block, done, below);
    }
}

/// The addresses of repetition `n` of a dimension.
fn skip(source: *const u8, target: *mut u8, dim: &NestDim, n: u64) -> (*const u8, *mut u8) {
    let at = |stride: i64| stride.wrapping_mul(n as i64) as isize;
    (source.wrapping_offset(at(dim.source)), target.wrapping_offset(at(dim.target)))
}

/// Copies a plane in tiles by plain moves.
///
/// # Safety
/// As for [`plane`].
unsafe fn plain(table: &Table, source: *const u8, target: *mut u8, block: u64, p: NestDim, q: NestDim) {
    if p.n == 0 || q.n == 0 {
        return;
    }
    let wide = (TILE_BYTES / p.source.unsigned_abs().max(1)).clamp(1, TILE_BLOCKS_MAX).min(p.n);
    let tiles = p.n / wide;
    let within = NestDim { n: wide, ..p };
    let across = NestDim { n: tiles, source: p.source * wide as i64, target: p.target * wide as i64 };
    let rest = NestDim { n: p.n % wide, ..p };
    // SAFETY: `# Safety` of this function, for the same blocks in another order: first the whole tiles, then
    // the rest of `p`.
    unsafe {
        (table.nest)(source, target, block, &[within, q, across]);
        let (from, to) = skip(source, target, &p, tiles * wide);
        (table.nest)(from, to, block, &[rest, q, ONCE]);
    }
}
