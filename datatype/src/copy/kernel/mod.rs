//! The innermost loops: equal blocks from places to places, with block sizes that the compiler knows where they are small.
//!
//! Only the bytes of the blocks are written; nothing between them is touched, not even to write it back.

// The bodies of the loops must be compiled within functions that have the instructions switched on; only inlining does that.
#![allow(clippy::inline_always)]
// A file of intrinsics is written in them.
#![allow(clippy::wildcard_imports)]

mod ahead;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod fixed;
mod index;
mod isa;
mod level;
#[cfg(target_arch = "x86_64")]
mod near;
#[cfg(target_arch = "aarch64")]
mod neon;
mod rows;
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

use super::nest::NestDim;
use crate::lists::{Displacements, Runs};
pub(super) use bits::Bits;
use fixed::Exact;

/// Runs of at least so many bytes are copied otherwise than by the C library.
pub(super) const LONG_RUN_BYTES: u64 = stream::STRING_MIN_BYTES as u64;

/// Fewer blocks of a register or less are copied faster than kernels are called.
const FEW: u64 = 8;

/// Where the blocks of one side lie, in bytes from its base address.
pub(super) trait Places: Copy {
    /// The offset of block `i`.
    fn at(self, i: usize) -> i64;
    /// What kind of places these are.
    fn kind(&self) -> Kind<'_>;
}

/// The kinds of [`Places`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'a> {
    Progression(Progression),
    /// An origin, and a displacement from it for each block.
    Listed(i64, Displacements<'a>),
}

/// Blocks at a constant distance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progression {
    pub(super) offset: i64,
    pub(super) stride: i64,
}

impl Places for Progression {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.offset.wrapping_add(self.stride.wrapping_mul(i as i64))
    }

    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Progression(*self)
    }
}

/// Blocks at listed places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'a, D = i64> {
    pub(super) origin: i64,
    pub(super) displacements: &'a [D],
}

impl Places for Listed<'_, i64> {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.origin.wrapping_add(self.displacements[i])
    }

    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Listed(self.origin, Displacements::Wide(self.displacements))
    }
}

impl Places for Listed<'_, i32> {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.origin.wrapping_add(self.displacements[i].into())
    }

    #[inline]
    fn kind(&self) -> Kind<'_> {
        Kind::Listed(self.origin, Displacements::Narrow(self.displacements))
    }
}

/// The address `offset` bytes from a base, which may be null where offsets are addresses (`MPI_BOTTOM`).
#[inline]
pub(super) fn source_at(base: *const u8, offset: i64) -> *const u8 {
    base.wrapping_offset(offset as isize)
}

/// As [`source_at`], for writing.
#[inline]
pub(super) fn target_at(base: *mut u8, offset: i64) -> *mut u8 {
    base.wrapping_offset(offset as isize)
}

/// Copies the blocks of a nest, from and to the first byte of each side. Dimensions are innermost first.
///
/// # Safety
/// Every block of the nest must be readable at its place in the source and writable at its place in the target, no byte that
/// is read may be among those that are written, and no two blocks of the target may share a byte.
#[inline]
pub(super) unsafe fn nest_at(source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { schedule::nest(level::table(), source, target, block, dims) };
}

/// Copies the blocks of one dimension: as [`nest_at`], without a call for a few short ones. The dimension comes by value: where
/// one field has just been stored, a copy of all of them would wait for that.
///
/// # Safety
/// As [`nest_at`].
#[inline]
pub(super) unsafe fn row(source: *const u8, target: *mut u8, block: u64, dim: NestDim) {
    let dense = block as i64;
    // SAFETY: the caller's promise, handed on unchanged; the movers are of the length that is matched. Blocks that touch on
    // both sides are one.
    unsafe {
        match block {
            4 if dim.n < FEW => rows::exchange_row(Exact::<4>, source, target, &dim),
            8 if dim.n < FEW => rows::exchange_row(Exact::<8>, source, target, &dim),
            16 if dim.n < FEW => rows::exchange_row(Exact::<16>, source, target, &dim),
            _ if dim.n == 1 || (dim.source == dense && dim.target == dense) => {
                run(source, target, block * dim.n);
            }
            _ => (level::table().nest)(source, target, block, &[dim, schedule::ONCE, schedule::ONCE]),
        }
    }
}

/// Copies to consecutive bytes of `target` the units that the bits tell of.
///
/// # Safety
/// `bits.count` bits must be set from bit `bits.first` on; their units must be readable at their places in the source, and as
/// many bytes writable at `target`, apart from each other.
pub(super) unsafe fn gather_bits((source, bits): (*const u8, Bits<'_>), target: *mut u8) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { (level::table().gather_bits)(source, target, bits) };
}

/// The reverse of [`gather_bits`].
///
/// # Safety
/// As [`gather_bits`], with the sides exchanged. Places that bits tell of never share a byte.
pub(super) unsafe fn scatter_bits(source: *const u8, (target, bits): (*mut u8, Bits<'_>)) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { (level::table().scatter_bits)(source, target, bits) };
}

/// Copies runs at their displacements from `source` to consecutive bytes of `target`, and returns how many bytes.
///
/// # Safety
/// The runs must be readable, and as many bytes writable at `target`, apart from each other.
pub(super) unsafe fn gather_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { (level::table().gather_runs)(source, target, runs) }
}

/// The reverse of [`gather_runs`], in the order of the list.
///
/// # Safety
/// As [`gather_runs`], with the sides exchanged, and no two runs of the target may share a byte.
pub(super) unsafe fn scatter_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { (level::table().scatter_runs)(source, target, runs) }
}

/// Copies `count` blocks of `bytes` bytes.
///
/// # Safety
/// For every `i < count`, `bytes` bytes must be readable at place `i` of the source and writable at place `i` of the
/// target, no byte that is read may be among those that are written, and no two blocks of the target may share a byte: the
/// order in which blocks are written is the kernel's choice.
#[inline]
pub(super) unsafe fn blocks<S: Places, T: Places>(
    (source, from): (*const u8, S),
    (target, to): (*mut u8, T),
    bytes: u64,
    count: usize,
) {
    let dense = bytes as i64;
    // SAFETY: the caller's promise, handed on unchanged: `count` places of each side are its first ones, and a stride of
    // `bytes` makes consecutive blocks.
    unsafe {
        match (from.kind(), to.kind()) {
            (Kind::Progression(s), Kind::Progression(t)) => {
                let dims = [NestDim { n: count as u64, source: s.stride, target: t.stride }];
                let (source, target) = (source_at(source, s.offset), target_at(target, t.offset));
                schedule::nest(level::table(), source, target, bytes, &dims);
            }
            (Kind::Listed(origin, list), Kind::Progression(t)) if t.stride == dense => {
                let (source, target) = (source_at(source, origin), target_at(target, t.offset));
                (level::table().gather)(source, target, bytes, list.part(0, count));
            }
            (Kind::Progression(s), Kind::Listed(origin, list)) if s.stride == dense => {
                let (source, target) = (source_at(source, s.offset), target_at(target, origin));
                (level::table().scatter)(source, target, bytes, list.part(0, count));
            }
            _ => index::exchange((source, from), (target, to), bytes, count),
        }
    }
}

/// Copies one run.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
#[inline]
pub(super) unsafe fn run(source: *const u8, target: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if bytes <= index::SHORT_MAX_BYTES {
            index::short(source, target, bytes as usize);
        } else {
            (level::table().copy)(source, target, bytes as usize);
        }
    }
}
