//! Rows of equal blocks: one loop nest over up to three dimensions, so that a short row costs no call.

use std::marker::PhantomData;
use std::ops::Range;

use super::super::address::{source_at, target_at};
use super::super::nest::NestDim;
use super::ahead::{self, Distance, span_bytes};
use super::fixed::{LONG_BYTES, Mover};
use super::isa::Isa;

/// Rows of fewer units are copied by plain moves.
const UNITS_MIN: usize = 8;

/// Targets that span at least this many bytes count as far: more than a second-level cache holds (1 or 2
/// MiB). Targets that are in the third level nevertheless lose a tenth by this, others gain as much again.
const FAR_MIN_BYTES: u64 = 1 << 20;
/// Sources that span at least this many bytes count as far. The processor itself prefetches smaller ones
/// well enough.
const FAR_SOURCE_MIN_BYTES: u64 = 12 << 20;

/// Longest block, in bytes, that a loop copies if the next block of the row begins close behind it.
const NEAR_ROW_MAX_BYTES: usize = 2 << 10;

/// Number of units that plain moves unpack per iteration, so that there is only one branch for all of them.
const SPREAD: usize = 8;

/// Longest block of a row, in bytes, that a loop copies better than the C library. The library first
/// accesses the end of a block. If the next block is close behind, this fetches the wrong line (blocks of 1
/// KiB with gaps of 32 bytes: 26 GB/s by a loop and 17 by the library). If the next block is far, it fetches
/// the better line (34 to 60 GB/s by a loop and 53 to 62 by the library).
#[inline(always)]
pub(super) fn loop_max_bytes<I: Isa>(block: u64, inner: &NestDim) -> usize {
    if are_near(block, inner) { I::LOOP_MAX_BYTES.min(NEAR_ROW_MAX_BYTES) } else { LONG_BYTES }
}

/// Bounds of the blocks, in bytes, that the string instruction copies better than loops and the C library.
/// The lower bound is the first constant if the next block is near, and the second if it is far in the
/// target (blocks of 1 KiB: 78 GB/s, and 60 by the library; of 3 KiB: 102 and 86). From the third constant,
/// 16 KiB, on the library does the same. If the next block is far in the source, the string instruction is
/// not used, because its lines are not fetched early: blocks of 2 KiB gain a twentieth if their pages lie
/// well in the cache, and lose up to a quarter if they do not.
const STRING_NEAR_BYTES: u64 = 3 << 9;
const STRING_FAR_TARGET_BYTES: u64 = 1 << 10;
const STRING_END_BYTES: u64 = 16 << 10;

/// Whether the string instruction copies the blocks of a row.
#[inline(always)]
pub(super) fn are_strings<I: Isa>(block: u64, inner: &NestDim) -> bool {
    let least = match are_near(block, inner) {
        true => STRING_NEAR_BYTES,
        false if inner.source == block as i64 => STRING_FAR_TARGET_BYTES,
        false => STRING_END_BYTES,
    };
    (least..STRING_END_BYTES).contains(&block) && I::moves_strings().are_short
}

/// Whether the next block of a row begins close behind each block, on both sides.
#[inline(always)]
fn are_near(block: u64, inner: &NestDim) -> bool {
    inner.source.unsigned_abs().max(inner.target.unsigned_abs()) < block.saturating_mul(2)
}

/// Copies any number of bytes by the string instruction.
#[derive(Debug)]
pub(super) struct StringMove<I>(pub(super) usize, pub(super) PhantomData<I>);

impl<I> Clone for StringMove<I> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I> Copy for StringMove<I> {}

impl<I: Isa> Mover for StringMove<I> {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        // SAFETY: `# Safety` of `Mover::copy` is that of `Isa::move_string`.
        unsafe { I::move_string(source, target, self.0) };
    }
}

/// Strides, in bytes, at which blocks of 12 bytes are unpacked by one masked store instead of two plain
/// ones, where their lines are not prefetched. With one store per block, twice as many blocks can wait for
/// their lines. Measured in ns per block by two stores and by one: 128 bytes apart in 2 MB 0.8 and 0.65, in
/// the second-level cache 0.65 and 0.35. Multiples of `FEW_SETS_BYTES` are excluded, because such places
/// share few sets of the first-level cache: 0.9 and 2.9.
const ONE_STORE_STRIDES: Range<i64> = 64..1 << 10;
const FEW_SETS_BYTES: i64 = 512;
const LINE_BYTES: usize = 64;

/// Whether blocks of 12 bytes at a stride from `target` are best written by one masked store of 16 bytes
/// each. No such store may cross the end of a line, because that takes twice the time.
#[inline(always)]
fn takes_one_store(target: *mut u8, stride: i64) -> bool {
    let keeps_place = stride % LINE_BYTES as i64 == 0 && target.addr() % LINE_BYTES <= LINE_BYTES - 16;
    keeps_place && ONE_STORE_STRIDES.contains(&stride) && stride % FEW_SETS_BYTES != 0
}

/// Rows of at least this many blocks of a few units are copied by registers, if that gains and if the stride
/// is at most the constant below. Shorter rows do not repay what is computed when a row begins.
const REGISTER_ROW_MIN: usize = 512;
/// The largest strides, in bytes.
const REGISTER_PACKED_STRIDE_MAX: i64 = 64;
const REGISTER_UNPACKED_STRIDE_MAX: i64 = 32;

#[inline(always)]
fn is_near(block: usize, (stride, longest): (i64, i64), n: usize) -> bool {
    matches!(block, 8 | 12 | 16 | 20) && (block as i64..=longest).contains(&stride) && n >= REGISTER_ROW_MIN
}

/// # Safety
/// As for [`super::nest_at`], with blocks of `mover.bytes()` bytes. The processor must have the instructions
/// of `I`.
#[inline(always)]
pub(super) unsafe fn rows<I: Isa, M: Mover>(
    mover: M,
    source: *const u8,
    target: *mut u8,
    dims: &[NestDim; 3],
) {
    let [inner, outer @ ..] = dims;
    let (n, bytes) = (inner.n as usize, mover.bytes());
    // SAFETY: `# Safety` of this function: every row is a part of the nest, with the strides of its
    // innermost dimension. `done` blocks at the start of a row are copied by registers, and the rest by the
    // mover.
    unsafe {
        if inner.target == bytes as i64 {
            match ahead::reads(bytes, dims) {
                None => each_row(source, target, outer, |s, t| {
                    let done = if is_near(bytes, (inner.source, REGISTER_PACKED_STRIDE_MAX), n) {
                        I::pack_near((s, inner.source), t, bytes, n)
                    } else {
                        0
                    };
                    let rest = source_at(s, inner.source.wrapping_mul(done as i64));
                    pack_row(mover, rest, t.add(done * bytes), n - done, inner.source);
                }),
                Some(distance) => each_row(source, target, outer, |s, t| {
                    let place = |i: usize| source_at(s, inner.source.wrapping_mul(i as i64));
                    let block = |i: usize| mover.copy(place(i), t.add(i * bytes));
                    ahead::each(n, distance, |i| I::ask_to_read(place(i)), block);
                }),
            }
        } else if inner.source == bytes as i64 {
            match ahead::writes(bytes, dims) {
                Distance::None => {
                    let is_far = span_bytes(dims, inner.target) >= FAR_MIN_BYTES;
                    each_row(source, target, outer, |s, t| {
                        let is_one_store = bytes == 12 && takes_one_store(t, inner.target);
                        let done = if is_near(bytes, (inner.target, REGISTER_UNPACKED_STRIDE_MAX), n) {
                            I::unpack_near(s, (t, inner.target), bytes, n, is_far)
                        } else if is_one_store {
                            I::unpack_12(s, t, n, inner.target)
                        } else {
                            0
                        };
                        let rest = target_at(t, inner.target.wrapping_mul(done as i64));
                        unpack_row(mover, s.add(done * bytes), rest, n - done, inner.target);
                    });
                }
                Distance::Blocks(distance) => each_row(source, target, outer, |s, t| {
                    let place = |i: usize| target_at(t, inner.target.wrapping_mul(i as i64));
                    let block = |i: usize| mover.spread(s.add(i * bytes), place(i));
                    ahead::each(n, distance, |i| I::ask_to_write(place(i)), block);
                }),
                Distance::Rows(distance) => ahead::each_row(outer, distance, |(s, t), later| {
                    let (s, t) = (source_at(source, s), target_at(target, t));
                    let Some((_, later)) = later else { return unpack_row(mover, s, t, n, inner.target) };
                    for i in 0..n {
                        let at = inner.target.wrapping_mul(i as i64);
                        I::ask_to_write(target_at(target, later.wrapping_add(at)));
                        mover.spread(s.add(i * bytes), target_at(t, at));
                    }
                }),
            }
        } else {
            each_row(source, target, outer, |s, t| exchange_row(mover, s, t, inner));
        }
    }
}

/// Like [`rows`], for units of `U` bytes (4 or 8). Some strides of such units have vector code.
///
/// # Safety
/// As for [`rows`], with blocks of `U` bytes.
#[inline(always)]
pub(super) unsafe fn unit_rows<I: Isa, M: Mover, const U: usize>(
    mover: M,
    source: *const u8,
    target: *mut u8,
    dims: &[NestDim; 3],
) {
    let [inner, outer @ ..] = dims;
    let (n, unit) = (inner.n as usize, U as i64);
    let times = |stride: i64| if n < UNITS_MIN { 0 } else { stride / unit * i64::from(stride % unit == 0) };
    // Refers to the side that has the stride.
    let is_far = if inner.target == unit {
        span_bytes(dims, inner.source) >= FAR_SOURCE_MIN_BYTES
    } else {
        span_bytes(dims, inner.target) >= FAR_MIN_BYTES
    };
    // SAFETY: `# Safety` of this function: every row is a part of the nest, with the strides of its
    // innermost dimension: `n` units of `U` bytes, consecutive on one side, and 2, 3 or 4 units apart on the
    // other side.
    unsafe {
        match (times(inner.source), times(inner.target)) {
            (2, 1) => each_row(source, target, outer, |s, t| pack_units::<I, U, 2>(s, t, n, is_far)),
            (3, 1) => each_row(source, target, outer, |s, t| pack_units::<I, U, 3>(s, t, n, is_far)),
            (4, 1) => each_row(source, target, outer, |s, t| pack_units::<I, U, 4>(s, t, n, is_far)),
            (1, 2) => each_row(source, target, outer, |s, t| unpack_units::<I, U, 2>(s, t, n, is_far)),
            (1, 3) => each_row(source, target, outer, |s, t| unpack_units::<I, U, 3>(s, t, n, is_far)),
            (1, 4) => each_row(source, target, outer, |s, t| unpack_units::<I, U, 4>(s, t, n, is_far)),
            _ => rows::<I, M>(mover, source, target, dims),
        }
    }
}

/// # Safety
/// As for [`Isa::pack`].
#[inline(always)]
unsafe fn pack_units<I: Isa, const U: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    is_far: bool,
) {
    // SAFETY: `# Safety` of this function is that of `Isa::pack`.
    let done = unsafe { I::pack::<U, K>(source, target, n, is_far) };
    for i in done..n {
        // SAFETY: `# Safety` of this function, for unit `i < n` of both sides.
        unsafe { source.add(i * U * K).copy_to_nonoverlapping(target.add(i * U), U) };
    }
}

/// # Safety
/// As for [`Isa::unpack`].
#[inline(always)]
unsafe fn unpack_units<I: Isa, const U: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    is_far: bool,
) {
    // SAFETY: `# Safety` of this function is that of `Isa::unpack`.
    let mut done = unsafe { I::unpack::<U, K>(source, target, n, is_far) };
    while done + SPREAD <= n {
        // SAFETY: `# Safety` of this function, for units `done..done + SPREAD` of both sides, which are
        // below `n`.
        unsafe {
            let units = source.add(done * U).cast::<[[u8; U]; SPREAD]>().read();
            for (i, unit) in units.into_iter().enumerate() {
                target.add((done + i) * U * K).cast::<[u8; U]>().write(unit);
            }
        }
        done += SPREAD;
    }
    for i in done..n {
        // SAFETY: `# Safety` of this function, for unit `i < n` of both sides.
        unsafe { source.add(i * U).copy_to_nonoverlapping(target.add(i * U * K), U) };
    }
}

/// Copies a row of `n` blocks that are consecutive in the target.
///
/// # Safety
/// `n` blocks must be readable from `source` on, `stride` bytes apart, `n` consecutive blocks writable at
/// `target`, and the two must not overlap.
#[inline(always)]
unsafe fn pack_row<M: Mover>(mover: M, source: *const u8, target: *mut u8, n: usize, stride: i64) {
    let mut from = source;
    for i in 0..n {
        // SAFETY: `# Safety` of this function, for block `i < n` of both sides.
        unsafe { mover.copy(from, target.add(i * mover.bytes())) };
        from = from.wrapping_offset(stride as isize);
    }
}

/// Copies a row of `n` blocks that are consecutive in the source.
///
/// # Safety
/// As for [`pack_row`], with the sides exchanged.
#[inline(always)]
unsafe fn unpack_row<M: Mover>(mover: M, source: *const u8, target: *mut u8, n: usize, stride: i64) {
    let mut to = target;
    for i in 0..n {
        // SAFETY: `# Safety` of this function, for block `i < n` of both sides.
        unsafe { mover.spread(source.add(i * mover.bytes()), to) };
        to = to.wrapping_offset(stride as isize);
    }
}

/// Copies a row with a stride on each side.
///
/// # Safety
/// The blocks of the row must be readable and writable at their places, and the two must not overlap.
#[inline(always)]
pub(super) unsafe fn exchange_row<M: Mover>(mover: M, source: *const u8, target: *mut u8, dim: &NestDim) {
    let (mut from, mut to) = (source, target);
    for _ in 0..dim.n {
        // SAFETY: `# Safety` of this function, for this block of both sides.
        unsafe { mover.copy(from, to) };
        from = from.wrapping_offset(dim.source as isize);
        to = to.wrapping_offset(dim.target as isize);
    }
}

/// Visits the addresses of each row of two outer dimensions; the first one of them is the inner one.
#[inline(always)]
fn each_row(source: *const u8, target: *mut u8, outer: &[NestDim], mut row: impl FnMut(*const u8, *mut u8)) {
    let [middle, last] = outer else { return };
    let (mut plane_source, mut plane_target) = (source, target);
    for _ in 0..last.n {
        let (mut from, mut to) = (plane_source, plane_target);
        for _ in 0..middle.n {
            row(from, to);
            from = from.wrapping_offset(middle.source as isize);
            to = to.wrapping_offset(middle.target as isize);
        }
        plane_source = plane_source.wrapping_offset(last.source as isize);
        plane_target = plane_target.wrapping_offset(last.target as isize);
    }
}
