//! The errors of constructors and of requests on a type.

use thiserror::Error;

/// Why a type was not built, or why a byte range was not packed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TypeError {
    /// A size, bound or displacement does not fit in a signed 64-bit number, the range of MPI's counts
    /// and offsets.
    #[error("{what} does not fit in a signed 64-bit number")]
    Overflow {
        /// The quantity that does not fit.
        what: &'static str,
    },
    /// Two lists that must have one entry for each block differ in length.
    #[error("the list of {what} has {found} entries, but {expected} are required")]
    LengthMismatch {
        /// The name of the list with the wrong length.
        what: &'static str,
        /// The number of entries that it must have.
        expected: usize,
        /// The number of entries that it has.
        found: usize,
    },
    /// A subarray without dimensions, an empty subarray, or a subarray that leaves its array (MPI 4.1,
    /// section 5.1.3).
    #[error("invalid subarray in dimension {dim}: start {start}, subsize {subsize}, size {size}")]
    BadSubarray {
        /// The dimension, counted from 0.
        dim: usize,
        /// Elements of the whole array in this dimension.
        size: u64,
        /// Elements of the part in this dimension.
        subsize: u64,
        /// First element of the part in this dimension.
        start: u64,
    },
    /// A distribution that the standard does not allow (MPI 4.1, section 5.1.4).
    #[error("invalid distributed array in dimension {dim}: {why}")]
    BadDarray {
        /// The dimension, counted from 0.
        dim: usize,
        /// The rule that is broken.
        why: &'static str,
    },
    /// The constructors are nested deeper than [`crate::DEPTH_MAX`].
    #[error("the type is nested deeper than {limit} constructors")]
    TooDeep {
        /// The deepest nesting that is accepted.
        limit: u32,
    },
    /// A byte range that is reversed or that exceeds its stream.
    #[error("the byte range {start}..{end} is reversed or exceeds the stream of {size} bytes")]
    BadRange {
        /// First requested byte.
        start: u64,
        /// End of the requested bytes.
        end: u64,
        /// Bytes in the stream.
        size: u64,
    },
    /// Bytes of the typed range lie outside the given memory.
    #[error("the typed bytes at offsets {low}..{high} are not all within the memory of {memory_bytes} bytes")]
    OutOfMemory {
        /// Lowest offset that the range touches, in bytes.
        low: i64,
        /// End of the highest byte that the range touches, in bytes.
        high: i64,
        /// Size of the given memory, in bytes.
        memory_bytes: usize,
    },
    /// The length of the packed side differs from the length of the range.
    #[error("the packed buffer has {found} bytes, but {expected} are required")]
    PackedLength {
        /// Size of the range, in bytes.
        expected: u64,
        /// Size of the packed side, in bytes.
        found: usize,
    },
}

/// The result of a function of this crate that checks its arguments.
pub type Result<T> = std::result::Result<T, TypeError>;

pub(crate) const fn overflow<T>(what: &'static str) -> Result<T> {
    Err(TypeError::Overflow { what })
}
