//! Dimensions with a stride on each side: what a nest of equal blocks is made of.
//!
//! The order of the dimensions is that of the stream. It does not bind a kernel: bytes of a target that does not overlap
//! itself may be written in any order. A target that does overlap itself must not be given to a kernel as a nest.

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
