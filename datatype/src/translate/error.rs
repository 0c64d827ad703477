//! What can be wrong with a translation, and what can go wrong in one.

use thiserror::Error;

use crate::error::TypeError;
use crate::named::Prim;
use crate::translate::netcdf::{NetcdfFormat, NetcdfType};

/// Why a type cannot be translated, or a range of it was not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The type, or a range of its bytes; nothing was converted.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A basic element that the external representation has nothing for (`NC_EBADTYPE`; `MPI_ERR_CONVERSION`).
    #[error("a basic element of kind {:?} and {} bytes has no external form", prim.kind, prim.bytes)]
    Unsupported {
        /// The element.
        prim: Prim,
    },
    /// The type has elements of several kinds, but a netCDF variable has one type.
    #[error("a netCDF variable holds one type, elements of several kinds were given")]
    Mixed,
    /// Characters with numbers: netCDF converts neither into the other (`NC_ECHAR`).
    #[error("text and numbers are not converted into each other")]
    TextAndNumbers,
    /// An external type that the file format does not have (`NC_ESTRICTCDF2`).
    #[error("{format:?} has no type {external:?}")]
    NotInFormat {
        /// The external type.
        external: NetcdfType,
        /// The format without it.
        format: NetcdfFormat,
    },
    /// A value for out-of-range elements that is not as long as an external element.
    #[error("a fill value of {found} bytes for external elements of {expected}")]
    FillLength {
        /// Bytes of an external element.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A range of elements that is reversed, or leaves the elements there are; nothing was converted.
    #[error("elements {start}..{end} of {elements}")]
    BadElements {
        /// First element asked for.
        start: u64,
        /// End of the elements asked for.
        end: u64,
        /// Elements there are.
        elements: u64,
    },
    /// Values that the other side cannot hold (`NC_ERANGE`; `MPI_ERR_CONVERSION`). All other elements were converted;
    /// these hold what [`crate::OutOfRange`] says.
    #[error("{count} elements are out of range, the first is element {first}")]
    OutOfRange {
        /// Index of the first such element, counted from the start of the stream.
        first: u64,
        /// Number of such elements in the range.
        count: u64,
    },
}
