//! Two-sided nests: the value that a copy kernel executes.

use smallvec::SmallVec;

/// One dimension of a [`Nest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NestDim {
    /// Repetitions.
    pub(crate) n: u64,
    /// Distance of two repetitions in the source, in bytes.
    pub(crate) source: i64,
    /// Distance of two repetitions in the target, in bytes.
    pub(crate) target: i64,
}

/// Equal blocks that lie in nested arithmetic progressions on both sides.
///
/// The order of the dimensions is that of the stream. It does not bind a kernel: bytes of a target that does not overlap
/// itself may be written in any order. A target that does overlap itself must not be given to a kernel as a nest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nest {
    /// Offset of the first byte from the base of the source, in bytes.
    pub(crate) source: i64,
    /// Offset of the first byte from the base of the target, in bytes.
    pub(crate) target: i64,
    /// Bytes of one block.
    pub(crate) block: u64,
    /// The dimensions, innermost first. One repetition of nothing else where there are none.
    pub(crate) dims: SmallVec<[NestDim; 3]>,
}
