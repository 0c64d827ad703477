//! The errors of making a translation and of running it.

use thiserror::Error;

use crate::error::TypeError;
use crate::named::Prim;
use crate::translate::netcdf::{NetcdfFormat, NetcdfType};

/// Why a type cannot be translated, or why a range of it was not translated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// An error of the type, or of a range of its bytes. Nothing was converted.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A basic element without a counterpart in the external representation (`NC_EBADTYPE`;
    /// `MPI_ERR_CONVERSION`).
    #[error("a basic element of kind {:?} and {} bytes has no external form", prim.kind, prim.bytes)]
    Unsupported {
        /// The element.
        prim: Prim,
    },
    /// The type has elements of several kinds, but a netCDF variable has one type.
    #[error("a netCDF variable has one type, but the elements are of several kinds")]
    Mixed,
    /// Characters and numbers were combined. netCDF converts neither into the other (`NC_ECHAR`).
    #[error("netCDF does not convert between text and numbers")]
    TextAndNumbers,
    /// The file format does not have the external type (`NC_ESTRICTCDF2`).
    #[error("the format {format:?} has no type {external:?}")]
    NotInFormat {
        /// The external type.
        external: NetcdfType,
        /// The format without it.
        format: NetcdfFormat,
    },
    /// A fill value for elements that are out of range does not have the length of an external element.
    #[error("the fill value has {found} bytes, but an external element has {expected} bytes")]
    FillLength {
        /// Bytes of an external element.
        expected: usize,
        /// Bytes of the given value.
        found: usize,
    },
    /// A range of elements is reversed or exceeds the elements of the type. Nothing was converted.
    #[error("the element range {start}..{end} is reversed or exceeds the {elements} elements of the type")]
    BadElements {
        /// First requested element.
        start: u64,
        /// End of the requested elements.
        end: u64,
        /// Number of elements of the type.
        elements: u64,
    },
    /// Some values do not fit on the other side (`NC_ERANGE`; `MPI_ERR_CONVERSION`). All other elements
    /// were converted; these elements hold the values that [`crate::OutOfRange`] describes.
    #[error("{count} elements are out of range; the first is element {first}")]
    OutOfRange {
        /// Index of the first such element, counted from the start of the stream.
        first: u64,
        /// Number of such elements in the range.
        count: u64,
    },
}
