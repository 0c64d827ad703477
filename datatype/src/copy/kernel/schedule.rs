//! The order in which the blocks of a nest are copied. The order does not affect the result, only the use of
//! the caches.

use smallvec::SmallVec;

use super::super::nest::{NestDim, ONCE};
use super::level::Table;
use super::run::run;
use super::tile;

/// Copies the blocks of a nest.
///
/// # Safety
/// As for [`super::nest_at`]. The processor must have the instructions of the table.
#[inline]
pub(super) unsafe fn nest(table: &Table, source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    let (mut block, mut dims) = (block, dims);
    while let [inner, rest @ ..] = dims
        && (inner.n == 1 || (inner.source == block as i64 && inner.target == block as i64))
    {
        block *= inner.n;
        dims = rest;
    }
    // SAFETY: `# Safety` of this function: the same blocks, with blocks that touch on both sides joined.
    unsafe {
        match dims {
            [] => run(source, target, block),
            [_] => straight(table, source, target, block, dims),
            [inner, outer @ ..] if outer.iter().all(|outer| is_within(inner, outer)) => {
                straight(table, source, target, block, dims);
            }
            _ => reordered(table, source, target, block, dims),
        }
    }
}

/// A stride as a distance. A stride of 0 counts as the greatest distance, because staying in place is no
/// reason to go along a dimension.
fn distance(stride: i64) -> u64 {
    stride.unsigned_abs().wrapping_sub(1)
}

/// Whether the inner dimension has the smaller steps on both sides.
fn is_within(inner: &NestDim, outer: &NestDim) -> bool {
    distance(inner.source) <= distance(outer.source) && distance(inner.target) <= distance(outer.target)
}

/// Copies the blocks in the order of the dimensions.
///
/// # Safety
/// As for [`nest`].
unsafe fn straight(table: &Table, source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    // SAFETY: `# Safety` of this function. With more dimensions than one kernel loops over, each repetition
    // of the outermost dimension is a part of the nest.
    unsafe {
        match *dims {
            [] => run(source, target, block),
            [inner] => (table.nest)(source, target, block, &[inner, ONCE, ONCE]),
            [inner, middle] => (table.nest)(source, target, block, &[inner, middle, ONCE]),
            [inner, middle, outer] => (table.nest)(source, target, block, &[inner, middle, outer]),
            [ref inner @ .., outer] => {
                each(source, target, &outer, |from, to| straight(table, from, to, block, inner));
            }
        }
    }
}

/// Copies with the dimension of the smallest steps innermost, or in tiles if this dimension differs between
/// the sides.
///
/// # Safety
/// As for [`nest`], with two dimensions or more.
unsafe fn reordered(table: &Table, source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    let smallest = |stride: fn(&NestDim) -> i64| (0..dims.len()).min_by_key(|&i| distance(stride(&dims[i])));
    let (Some(p), Some(q)) = (smallest(|dim| dim.source), smallest(|dim| dim.target)) else { return };
    let mut others: SmallVec<[NestDim; 4]> =
        (0..dims.len()).filter(|&i| i != p && i != q).map(|i| dims[i]).collect();
    // SAFETY: `# Safety` of this function, for the same blocks in another order.
    unsafe {
        if p == q {
            others.insert(0, dims[p]);
            if p > 0 {
                // The blocks of the new innermost dimension may touch, or another dimension may be out of
                // order too.
                nest(table, source, target, block, &others);
            } else {
                straight(table, source, target, block, dims);
            }
        } else if tile::pays(block, &dims[p], &dims[q]) {
            planes(table, source, target, block, [dims[p], dims[q]], &others);
        } else if !squares(table, source, target, block, [&dims[p], &dims[q]], &others) {
            straight(table, source, target, block, dims);
        }
    }
}

/// Transposes small planes in registers, if they are whole squares and repeat along at most one other
/// dimension. Returns whether a kernel copied them.
///
/// # Safety
/// As for [`nest`], with all these dimensions.
unsafe fn squares(
    table: &Table,
    source: *const u8,
    target: *mut u8,
    block: u64,
    [p, q]: [&NestDim; 2],
    others: &[NestDim],
) -> bool {
    let planes = match others {
        [] => &ONCE,
        [planes] => planes,
        _ => return false,
    };
    let span = planes.n.saturating_mul(planes.source.unsigned_abs().max(planes.target.unsigned_abs()));
    if span >= tile::FAR_SQUARES_BYTES || !tile::are_squares(block, p, q) {
        return false;
    }
    // SAFETY: `# Safety` of this function; `are_squares` has checked that the planes are consecutive as
    // `Isa::transpose` requires, and that they consist of whole squares.
    unsafe { (table.transpose)(source, target, block, [p, q, planes]) == [p.n, q.n] }
}

/// Copies the plane of each repetition of the other dimensions.
///
/// # Safety
/// As for [`nest`], with all these dimensions.
unsafe fn planes(
    table: &Table,
    source: *const u8,
    target: *mut u8,
    block: u64,
    plane: [NestDim; 2],
    others: &[NestDim],
) {
    // SAFETY: `# Safety` of this function: each repetition of the outermost dimension is a part of the nest.
    unsafe {
        match others {
            [] => tile::plane(table, source, target, block, plane[0], plane[1]),
            [inner @ .., outer] => {
                each(source, target, outer, |from, to| planes(table, from, to, block, plane, inner));
            }
        }
    }
}

/// Visits the addresses of every repetition of a dimension.
fn each(source: *const u8, target: *mut u8, dim: &NestDim, mut visit: impl FnMut(*const u8, *mut u8)) {
    let (mut from, mut to) = (source, target);
    for _ in 0..dim.n {
        visit(from, to);
        from = from.wrapping_offset(dim.source as isize);
        to = to.wrapping_offset(dim.target as isize);
    }
}
