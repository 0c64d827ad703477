//! What can be wrong with a type or with a request on one.

use thiserror::Error;

/// Why a type could not be built, or a range not be packed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TypeError {
    /// A size, bound or displacement leaves the signed 64-bit range that MPI counts and offsets have.
    #[error("{what} does not fit in a signed 64-bit number")]
    Overflow {
        /// The quantity that does not fit.
        what: &'static str,
    },
    /// Two lists that must have one entry per block differ in length.
    #[error("{what}: {found} entries where {expected} are needed")]
    LengthMismatch {
        /// The list.
        what: &'static str,
        /// The number of entries that it must have.
        expected: usize,
        /// The number of entries that it has.
        found: usize,
    },
    /// A subarray without dimensions, or one that leaves its array (MPI 4.1, 5.1.3).
    #[error("subarray, dimension {dim}: start {start}, subsize {subsize}, size {size}")]
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
    /// A distribution that the standard does not allow (MPI 4.1, 5.1.4).
    #[error("distributed array, dimension {dim}: {why}")]
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
    /// A byte range of a stream that is longer than the stream, or that is reversed.
    #[error("stream bytes {start}..{end} of a stream of {size} bytes")]
    BadRange {
        /// First byte asked for.
        start: u64,
        /// End of the bytes asked for.
        end: u64,
        /// Bytes in the stream.
        size: u64,
    },
    /// The bytes of a typed range lie outside the memory that was given.
    #[error("the typed bytes lie at {low}..{high}, the memory has {memory_bytes} bytes")]
    OutOfMemory {
        /// Lowest offset touched, in bytes.
        low: i64,
        /// End of the highest byte touched.
        high: i64,
        /// Bytes of the memory given.
        memory_bytes: usize,
    },
    /// The packed side is not as long as the range.
    #[error("the packed side has {found} bytes where {expected} are needed")]
    PackedLength {
        /// Bytes of the range.
        expected: u64,
        /// Bytes given.
        found: usize,
    },
}

/// The result of everything here that checks its arguments.
pub type Result<T> = std::result::Result<T, TypeError>;

pub(crate) const fn overflow<T>(what: &'static str) -> Result<T> {
    Err(TypeError::Overflow { what })
}
