//! The innermost loops: equal blocks from places to places, with block sizes that the compiler knows where they are small.
//!
//! Only the bytes of the blocks are written; nothing between them is touched, not even to write it back.

mod bits;
mod fixed;

use super::nest::{Nest, NestDim};
use crate::lists::Place;
pub(super) use bits::Bits;

/// Where the blocks of one side lie, in bytes from its base address.
pub(super) trait Places: Copy {
    /// The offset of block `i`.
    fn at(self, i: usize) -> i64;
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
}

/// Blocks at listed places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'a, D = i64> {
    pub(super) origin: i64,
    pub(super) displacements: &'a [D],
}

impl<D: Place> Places for Listed<'_, D> {
    #[inline]
    fn at(self, i: usize) -> i64 {
        self.origin.wrapping_add(self.displacements[i].wide())
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

/// Copies the blocks of a nest.
///
/// # Safety
/// Every block of the nest must be readable at its place in the source and writable at its place in the target, no byte that
/// is read may be among those that are written, and no two blocks of the target may share a byte.
pub(super) unsafe fn nest(source: *const u8, target: *mut u8, nest: &Nest) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe {
        fixed::nest(source_at(source, nest.source), target_at(target, nest.target), nest.block, &nest.dims);
    };
}

/// As [`nest`], from and to the pointers themselves.
///
/// # Safety
/// As [`nest`], of the nest with these dimensions and no offsets.
pub(super) unsafe fn nest_at(source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { fixed::nest(source, target, block, dims) };
}

/// Copies to consecutive bytes of `target` the units that the bits tell of.
///
/// # Safety
/// `bits.count` bits must be set from bit `bits.first` on; their units must be readable at their places in the source, and as
/// many bytes writable at `target`, apart from each other.
pub(super) unsafe fn gather_bits((source, bits): (*const u8, Bits<'_>), target: *mut u8) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { bits::gather((source, bits), target) };
}

/// The reverse of [`gather_bits`].
///
/// # Safety
/// As [`gather_bits`], with the sides exchanged.
pub(super) unsafe fn scatter_bits(source: *const u8, (target, bits): (*mut u8, Bits<'_>)) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe { bits::scatter(source, (target, bits)) };
}

/// Copies `count` blocks of `bytes` bytes.
///
/// # Safety
/// For every `i < count`, `bytes` bytes must be readable at place `i` of the source and writable at place `i` of the
/// target, and no byte that is read may be among those that are written.
pub(super) unsafe fn blocks<S: Places, T: Places>(
    (source, from): (*const u8, S),
    (target, to): (*mut u8, T),
    bytes: u64,
    count: usize,
) {
    // SAFETY: the caller's promise, handed on unchanged; each arm copies `bytes` bytes per block.
    unsafe {
        match bytes {
            1 => fixed::<1, S, T>((source, from), (target, to), count),
            2 => fixed::<2, S, T>((source, from), (target, to), count),
            4 => fixed::<4, S, T>((source, from), (target, to), count),
            8 => fixed::<8, S, T>((source, from), (target, to), count),
            12 => fixed::<12, S, T>((source, from), (target, to), count),
            16 => fixed::<16, S, T>((source, from), (target, to), count),
            24 => fixed::<24, S, T>((source, from), (target, to), count),
            32 => fixed::<32, S, T>((source, from), (target, to), count),
            64 => fixed::<64, S, T>((source, from), (target, to), count),
            _ => {
                for i in 0..count {
                    source_at(source, from.at(i))
                        .copy_to_nonoverlapping(target_at(target, to.at(i)), bytes as usize);
                }
            }
        }
    }
}

/// Copies one run.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
#[inline]
pub(super) unsafe fn run(source: *const u8, target: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise; each arm copies `bytes` bytes.
    unsafe {
        match bytes {
            4 => source.copy_to_nonoverlapping(target, 4),
            8 => source.copy_to_nonoverlapping(target, 8),
            16 => source.copy_to_nonoverlapping(target, 16),
            _ => source.copy_to_nonoverlapping(target, bytes as usize),
        }
    }
}

/// # Safety
/// As [`blocks`], with `bytes` of `N`.
#[inline]
unsafe fn fixed<const N: usize, S: Places, T: Places>(
    (source, from): (*const u8, S),
    (target, to): (*mut u8, T),
    count: usize,
) {
    for i in 0..count {
        // SAFETY: the caller promises `N` readable and `N` writable bytes at place `i`, apart from each other.
        unsafe { source_at(source, from.at(i)).copy_to_nonoverlapping(target_at(target, to.at(i)), N) };
    }
}
