//! The numbers of both sides, and the conversions between them.

use std::ops::BitOr;

use crate::named::{Prim, PrimKind};

/// The numbers that netCDF knows, in memory or in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberKind {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl NumberKind {
    /// The number that a basic element represents, if netCDF knows it.
    pub(super) fn of(prim: Prim) -> Option<Self> {
        Some(match (prim.kind, prim.bytes) {
            (PrimKind::Signed, 1) => Self::I8,
            (PrimKind::Unsigned, 1) => Self::U8,
            (PrimKind::Signed, 2) => Self::I16,
            (PrimKind::Unsigned, 2) => Self::U16,
            (PrimKind::Signed, 4) => Self::I32,
            (PrimKind::Unsigned, 4) => Self::U32,
            (PrimKind::Signed, 8) => Self::I64,
            (PrimKind::Unsigned, 8) => Self::U64,
            (PrimKind::Float, 4) => Self::F32,
            (PrimKind::Float, 8) => Self::F64,
            _ => return None,
        })
    }

    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// The bits of a number, whose bytes can be put in the order of the other side.
pub(super) trait Bits: Copy + PartialEq + BitOr<Output = Self> {
    /// No bit is set.
    const ZERO: Self;

    /// Converts from native to big-endian order, and back.
    fn reordered(self) -> Self;

    /// All bits, or no bit. The result of a comparison is as wide as the compared numbers, as in vector
    /// registers.
    fn mask(all: bool) -> Self;
}

macro_rules! bits {
    ($($bits:ty)*) => {$(
        impl Bits for $bits {
            const ZERO: Self = 0;
            #[inline(always)]
            fn reordered(self) -> Self {
                self.to_be()
            }
            #[inline(always)]
            fn mask(all: bool) -> Self {
                if all { Self::MAX } else { 0 }
            }
        }
    )*};
}
bits!(u8 u16 u32 u64 u128);

/// A number that can be converted to and from its bits.
pub(super) trait Number: Copy {
    type Bits: Bits;
    const KIND: NumberKind;
    fn of_bits(bits: Self::Bits) -> Self;
    fn bits(self) -> Self::Bits;
}

/// From memory to a file.
pub(super) struct Put;
/// From a file to memory.
pub(super) struct Get;

/// The conversion of a number in the direction `W`.
pub(super) trait Cast<To, W>: Number {
    /// The result of C's cast where C defines it. Elsewhere the nearest value of the target type, and 0 for
    /// NaN.
    fn cast(self) -> To;
    /// Whether netCDF counts the value as out of range.
    fn misfits(self) -> bool;
}

macro_rules! numbers {
    ($($number:ty, $kind:ident, $bits:ty, $of:expr, $to:expr;)*) => {$(
        impl Number for $number {
            type Bits = $bits;
            const KIND: NumberKind = NumberKind::$kind;
            #[inline(always)]
            fn of_bits(bits: $bits) -> Self {
                $of(bits)
            }
            #[inline(always)]
            fn bits(self) -> $bits {
                $to(self)
            }
        }
    )*};
}
numbers! {
    i8, I8, u8, u8::cast_signed, Self::cast_unsigned;
    u8, U8, u8, std::convert::identity, std::convert::identity;
    i16, I16, u16, u16::cast_signed, Self::cast_unsigned;
    u16, U16, u16, std::convert::identity, std::convert::identity;
    i32, I32, u32, u32::cast_signed, Self::cast_unsigned;
    u32, U32, u32, std::convert::identity, std::convert::identity;
    i64, I64, u64, u64::cast_signed, Self::cast_unsigned;
    u64, U64, u64, std::convert::identity, std::convert::identity;
    f32, F32, u32, Self::from_bits, Self::to_bits;
    f64, F64, u64, Self::from_bits, Self::to_bits;
}

/// A conversion between integers keeps the low bytes.
macro_rules! between_integers {
    ($($from:ty: $($to:ty)*;)*) => {$($(
        impl<W> Cast<$to, W> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
            #[inline(always)]
            #[allow(clippy::unnecessary_fallible_conversions)] // one macro serves all pairs
            fn misfits(self) -> bool {
                <$to>::try_from(self).is_err()
            }
        }
    )*)*};
}
between_integers! {
    i8: u8 i16 u16 i32 u32 i64 u64;
    u8: i8 i16 u16 i32 u32 i64 u64;
    i16: i8 u8 u16 i32 u32 i64 u64;
    u16: i8 u8 i16 i32 u32 i64 u64;
    i32: i8 u8 i16 u16 u32 i64 u64;
    u32: i8 u8 i16 u16 i32 i64 u64;
    i64: i8 u8 i16 u16 i32 u32 u64;
    u64: i8 u8 i16 u16 i32 u32 i64;
}

/// Integers and reals. The bounds of an integer type are compared as `double`, before any digit is cut off.
/// The number next to the largest 64-bit integer (2^63 or 2^64) therefore counts as that integer. NaN is
/// not out of range.
macro_rules! integers_and_reals {
    ($($integer:ty)*) => {$(
        integers_and_reals!($integer, f32);
        integers_and_reals!($integer, f64);
    )*};
    ($integer:ty, $real:ty) => {
        impl<W> Cast<$real, W> for $integer {
            #[inline(always)]
            #[allow(clippy::cast_lossless)] // one macro serves all pairs
            fn cast(self) -> $real {
                self as $real
            }
            #[inline(always)]
            fn misfits(self) -> bool {
                false
            }
        }
        impl<W> Cast<$integer, W> for $real {
            #[inline(always)]
            fn cast(self) -> $integer {
                self as $integer
            }
            #[inline(always)]
            #[allow(clippy::cast_lossless)] // one macro serves all pairs
            fn misfits(self) -> bool {
                let value = self as f64;
                (value > <$integer>::MAX as f64) | (value < <$integer>::MIN as f64)
            }
        }
    };
}
integers_and_reals!(i8 u8 i16 u16 i32 u32 i64 u64);

impl<W> Cast<f32, W> for f64 {
    #[inline(always)]
    fn cast(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn misfits(self) -> bool {
        self.abs() > Self::from(f32::MAX)
    }
}

impl Cast<f64, Put> for f32 {
    #[inline(always)]
    fn cast(self) -> f64 {
        f64::from(self)
    }
    /// netCDF compares with the largest `double` only when it writes.
    #[inline(always)]
    fn misfits(self) -> bool {
        self.is_infinite()
    }
}

impl Cast<f64, Get> for f32 {
    #[inline(always)]
    fn cast(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn misfits(self) -> bool {
        false
    }
}
