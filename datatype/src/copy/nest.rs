//! The dimensions of a nest of equal blocks. Each dimension has one stride per side.
//!
//! The order of the dimensions is the stream order. A kernel need not keep this order: bytes of a target
//! that does not overlap itself may be written in any order. A target that overlaps itself must not be
//! given to a kernel as a nest.

/// One dimension of a nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NestDim {
    /// Repetitions.
    pub(crate) n: u64,
    /// Distance of two repetitions in the source, in bytes.
    pub(crate) source: i64,
    /// Distance of two repetitions in the target, in bytes.
    pub(crate) target: i64,
}

/// A dimension with one repetition, which fills unused places.
pub(super) const ONCE: NestDim = NestDim { n: 1, source: 0, target: 0 };
