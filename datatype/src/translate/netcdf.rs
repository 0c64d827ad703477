//! The external types of netCDF's classic formats, and the conversions into them (netCDF User's Guide,
//! *Type Conversion*).

use crate::named::{Prim, PrimKind};
use crate::translate::error::TranslateError;
use crate::translate::number::NumberKind;
use crate::translate::unit::Change;

/// The classic file formats. They differ in their types, and in their strictness with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetcdfFormat {
    /// `CDF-1`: `NC_FORMAT_CLASSIC`
    Cdf1,
    /// `CDF-2`: `NC_FORMAT_64BIT_OFFSET`
    Cdf2,
    /// `CDF-5`: `NC_FORMAT_64BIT_DATA`
    Cdf5,
}

/// An external type, with its number in `netcdf.h`. All external types are big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NetcdfType {
    /// `NC_BYTE`: 1 byte, signed
    Byte = 1,
    /// `NC_CHAR`: text
    Char = 2,
    /// `NC_SHORT`: 2 bytes, signed
    Short = 3,
    /// `NC_INT`: 4 bytes, signed
    Int = 4,
    /// `NC_FLOAT`: IEEE single precision
    Float = 5,
    /// `NC_DOUBLE`: IEEE double precision
    Double = 6,
    /// `NC_UBYTE`: 1 byte, unsigned; CDF-5 only, like all types after it
    Ubyte = 7,
    /// `NC_USHORT`: 2 bytes, unsigned
    Ushort = 8,
    /// `NC_UINT`: 4 bytes, unsigned
    Uint = 9,
    /// `NC_INT64`: 8 bytes, signed
    Int64 = 10,
    /// `NC_UINT64`: 8 bytes, unsigned
    Uint64 = 11,
}

impl NetcdfType {
    /// All external types.
    pub const ALL: [Self; 11] = [
        Self::Byte,
        Self::Char,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
        Self::Ubyte,
        Self::Ushort,
        Self::Uint,
        Self::Int64,
        Self::Uint64,
    ];

    /// The type with the given number in `netcdf.h`.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|external| *external as i32 == number)
    }

    /// Bytes of one element in the file.
    pub fn bytes(self) -> usize {
        self.number().map_or(1, NumberKind::bytes)
    }

    fn number(self) -> Option<NumberKind> {
        Some(match self {
            Self::Char => return None,
            Self::Byte => NumberKind::I8,
            Self::Short => NumberKind::I16,
            Self::Int => NumberKind::I32,
            Self::Float => NumberKind::F32,
            Self::Double => NumberKind::F64,
            Self::Ubyte => NumberKind::U8,
            Self::Ushort => NumberKind::U16,
            Self::Uint => NumberKind::U32,
            Self::Int64 => NumberKind::I64,
            Self::Uint64 => NumberKind::U64,
        })
    }
}

/// The value that an element out of range becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OutOfRange {
    /// The result of C's cast, as netCDF-C stores it: integers keep their low bytes, and reals beyond the
    /// range of `float` become infinite. Where C leaves the result undefined, a real becomes the nearest
    /// value of the integer type, and NaN becomes 0. In `external32`, a `long` keeps its low 4 bytes and a
    /// wide character its low 2 bytes, as in `MPI_Pack_external`.
    #[default]
    Cast,
    /// The default fill value of netCDF for the type that is written (`NC_FILL_INT` and the like), as
    /// `PnetCDF` stores it. There is one difference: into `long`, `PnetCDF` reads `NC_FILL_INT`, but this
    /// crate reads `NC_FILL_INT64`, because a type map does not distinguish `long` from `long long`. For
    /// `external32`, the same as [`OutOfRange::Cast`].
    DefaultFill,
}

/// The change of elements of one kind that become elements of a variable.
pub(super) fn change_of(
    prim: Prim,
    external: NetcdfType,
    format: NetcdfFormat,
) -> Result<Change, TranslateError> {
    if format != NetcdfFormat::Cdf5 && external as u8 > NetcdfType::Double as u8 {
        return Err(TranslateError::NotInFormat { external, format });
    }
    let is_text = prim.kind == PrimKind::Text && prim.bytes == 1;
    let (external_number, memory) = (external.number(), NumberKind::of(prim));
    let (memory, number) = match (memory, external_number) {
        _ if is_text && external == NetcdfType::Char => return Ok(Change::Swap(1)),
        (None, _) if !is_text => return Err(TranslateError::Unsupported { prim }),
        (Some(memory), Some(number)) => (memory, number),
        _ => return Err(TranslateError::TextAndNumbers),
    };
    // The formats without unsigned types let `unsigned char` through to NC_BYTE unchecked.
    let unchecked = format != NetcdfFormat::Cdf5 && memory == NumberKind::U8 && number == NumberKind::I8;
    Ok(if memory == number || unchecked {
        Change::Swap(memory.bytes() as u8)
    } else {
        Change::Cast(memory, number)
    })
}

/// The default fill value (`NC_FILL_*`) of a number, in native byte order.
pub(super) fn default_fill(number: NumberKind) -> Fill {
    // 15 * 2^119, which is exact in both precisions.
    const REAL: f32 = f32::from_bits(0x7cf0_0000);
    match number {
        NumberKind::I8 => Fill::of(&(-127_i8).to_ne_bytes()),
        NumberKind::U8 => Fill::of(&255_u8.to_ne_bytes()),
        NumberKind::I16 => Fill::of(&(-32767_i16).to_ne_bytes()),
        NumberKind::U16 => Fill::of(&65535_u16.to_ne_bytes()),
        NumberKind::I32 => Fill::of(&(-2_147_483_647_i32).to_ne_bytes()),
        NumberKind::U32 => Fill::of(&4_294_967_295_u32.to_ne_bytes()),
        NumberKind::I64 => Fill::of(&(-9_223_372_036_854_775_806_i64).to_ne_bytes()),
        NumberKind::U64 => Fill::of(&18_446_744_073_709_551_614_u64.to_ne_bytes()),
        NumberKind::F32 => Fill::of(&REAL.to_ne_bytes()),
        NumberKind::F64 => Fill::of(&f64::from(REAL).to_ne_bytes()),
    }
}

/// The bytes of one element that are stored for elements out of range. Only the first `len` bytes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fill {
    bytes: [u8; 8],
    len: usize,
}

impl Fill {
    pub(super) fn of(value: &[u8]) -> Self {
        let len = value.len().min(8);
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&value[..len]);
        Self { bytes, len }
    }

    /// The value in the opposite byte order.
    pub(super) fn reversed(mut self) -> Self {
        self.bytes[..self.len].reverse();
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
