//! Addresses of the two sides of a copy.

use super::nest::NestDim;

/// The address `offset` bytes from `base`, which may be null if the offsets are absolute addresses
/// (`MPI_BOTTOM`).
#[inline]
pub(super) fn source_at(base: *const u8, offset: i64) -> *const u8 {
    base.wrapping_offset(offset as isize)
}

/// Like [`source_at`], for the target.
#[inline]
pub(super) fn target_at(base: *mut u8, offset: i64) -> *mut u8 {
    base.wrapping_offset(offset as isize)
}

/// An address on each side.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) source: *const u8,
    pub(super) target: *mut u8,
}

impl At {
    /// The addresses, moved by the given number of bytes on each side.
    #[inline]
    pub(super) fn by(self, source: i64, target: i64) -> Self {
        Self { source: source_at(self.source, source), target: target_at(self.target, target) }
    }

    /// The addresses, moved by `n` repetitions of `dim`.
    #[inline]
    pub(super) fn times(self, dim: NestDim, n: u64) -> Self {
        self.by(dim.source.wrapping_mul(n as i64), dim.target.wrapping_mul(n as i64))
    }
}
