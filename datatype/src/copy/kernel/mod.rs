//! Kernels: the innermost loops, which copy equal blocks from given places to given places. For small blocks
//! the compiler knows the block size.
//!
//! Kernels write only the bytes of the blocks. They do not touch the target bytes between them, not even by
//! writing back the old value.

// The bodies of the loops must be compiled inside of functions that enable the instructions. Only inlining
// does that.
#![allow(clippy::inline_always)]
// The files of intrinsics use many of them.
#![allow(clippy::wildcard_imports)]

mod ahead;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod dispatch;
mod fixed;
mod index;
mod isa;
mod level;
#[cfg(target_arch = "x86_64")]
mod near;
#[cfg(target_arch = "aarch64")]
mod neon;
mod places;
mod rows;
mod run;
mod scalar;
mod schedule;
mod stream;
#[cfg(target_arch = "x86_64")]
mod strided;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(target_arch = "x86_64")]
mod transpose;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::address::{source_at, target_at};
use super::nest::{NestDim, ONCE};
use crate::lists::Runs;
pub(super) use bits::Bits;
use fixed::Exact;
pub(super) use places::{Kind, Listed, Places, Progression};
pub(super) use run::run;

/// Runs of at least this many bytes are not copied by the C library.
pub(super) const LONG_RUN_BYTES: u64 = stream::STRING_MIN_BYTES as u64;

/// Fewer blocks, each of at most a register, are copied faster by an inline loop than by a call of a kernel.
const FEW: u64 = 8;

/// Copies the blocks of a nest. `source` and `target` are the addresses of its first byte on each side.
/// Dimensions are innermost first.
///
/// # Safety
/// Every block of the nest must be readable at its place in the source and writable at its place in the
/// target, no byte that is read may be among the bytes that are written, and no two blocks of the target may
/// share a byte.
#[inline]
pub(super) unsafe fn nest_at(source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    // SAFETY: `# Safety` of this function is that of `schedule::nest`; `dispatch::table` only returns kernels
    // that this processor can run.
    unsafe { schedule::nest(dispatch::table(), source, target, block, dims) };
}

/// Copies the blocks of one dimension. Like [`nest_at`], but without a call for a few short blocks. The
/// dimension is passed by value: if one of its fields has just been stored, loading the whole value at once
/// would wait for that store.
///
/// # Safety
/// As for [`nest_at`].
#[inline]
pub(super) unsafe fn row(source: *const u8, target: *mut u8, block: u64, dim: NestDim) {
    let dense = block as i64;
    // SAFETY: `# Safety` of this function. Each `Exact` copies as many bytes as `block` has. A single block,
    // or blocks that touch on both sides, are one run. `dispatch::table` only returns kernels that this
    // processor can run.
    unsafe {
        match block {
            4 if dim.n < FEW => rows::exchange_row(Exact::<4>, source, target, &dim),
            8 if dim.n < FEW => rows::exchange_row(Exact::<8>, source, target, &dim),
            16 if dim.n < FEW => rows::exchange_row(Exact::<16>, source, target, &dim),
            _ if dim.n == 1 || (dim.source == dense && dim.target == dense) => {
                run(source, target, block * dim.n);
            }
            _ => (dispatch::table().nest)(source, target, block, &[dim, ONCE, ONCE]),
        }
    }
}

/// Copies the units of the set bits to consecutive bytes of `target`.
///
/// # Safety
/// At least `bits.count` bits must be set from bit `bits.first` on. The units of the first `bits.count` of
/// them must be readable at their places in the source, as many bytes must be writable at `target`, and the
/// two must not overlap.
pub(super) unsafe fn gather_bits((source, bits): (*const u8, Bits<'_>), target: *mut u8) {
    // SAFETY: `# Safety` of this function; `dispatch::table` only returns kernels that this processor can
    // run.
    unsafe { (dispatch::table().gather_bits)(source, target, bits) };
}

/// The reverse of [`gather_bits`].
///
/// # Safety
/// As for [`gather_bits`], with the sides exchanged. (The units of different bits never share a byte.)
pub(super) unsafe fn scatter_bits(source: *const u8, (target, bits): (*mut u8, Bits<'_>)) {
    // SAFETY: `# Safety` of this function; `dispatch::table` only returns kernels that this processor can
    // run.
    unsafe { (dispatch::table().scatter_bits)(source, target, bits) };
}

/// Copies runs at their displacements from `source` to consecutive bytes of `target`. Returns the number of
/// bytes.
///
/// # Safety
/// The runs must be readable, as many bytes must be writable at `target`, and the two must not overlap.
pub(super) unsafe fn gather_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    // SAFETY: `# Safety` of this function; `dispatch::table` only returns kernels that this processor can
    // run.
    unsafe { (dispatch::table().gather_runs)(source, target, runs) }
}

/// The reverse of [`gather_runs`], in the order of the list.
///
/// # Safety
/// As for [`gather_runs`], with the sides exchanged. No two runs of the target may share a byte.
pub(super) unsafe fn scatter_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    // SAFETY: `# Safety` of this function; `dispatch::table` only returns kernels that this processor can
    // run.
    unsafe { (dispatch::table().scatter_runs)(source, target, runs) }
}

/// Copies `count` blocks of `bytes` bytes. The kernel chooses the order in which blocks are written.
///
/// # Safety
/// For every `i < count`, `bytes` bytes must be readable at place `i` of the source and writable at place
/// `i` of the target. No byte that is read may be among the bytes that are written, and no two blocks of the
/// target may share a byte.
#[inline]
pub(super) unsafe fn blocks<S: Places, T: Places>(
    (source, from): (*const u8, S),
    (target, to): (*mut u8, T),
    bytes: u64,
    count: usize,
) {
    let dense = bytes as i64;
    // SAFETY: `# Safety` of this function: each kernel gets the first `count` places of both sides, and a
    // stride of `bytes` means consecutive blocks. `dispatch::table` only returns kernels that this processor
    // can run.
    unsafe {
        match (from.kind(), to.kind()) {
            (Kind::Progression(s), Kind::Progression(t)) => {
                let dims = [NestDim { n: count as u64, source: s.stride, target: t.stride }];
                let (source, target) = (source_at(source, s.offset), target_at(target, t.offset));
                schedule::nest(dispatch::table(), source, target, bytes, &dims);
            }
            (Kind::Listed(origin, list), Kind::Progression(t)) if t.stride == dense => {
                let (source, target) = (source_at(source, origin), target_at(target, t.offset));
                (dispatch::table().gather)(source, target, bytes, list.part(0, count));
            }
            (Kind::Progression(s), Kind::Listed(origin, list)) if s.stride == dense => {
                let (source, target) = (source_at(source, s.offset), target_at(target, origin));
                (dispatch::table().scatter)(source, target, bytes, list.part(0, count));
            }
            _ => index::exchange((source, from), (target, to), bytes, count),
        }
    }
}
