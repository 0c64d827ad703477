//! All conversions, as values.

use crate::translate::convert::{Decode, Encode, FromQuad, Swap, ToQuad, Truth};
use crate::translate::kernel::Kernel;
use crate::translate::number::NumberKind;
use crate::translate::script::Both;

/// The conversion of a basic element, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Parts of this many bytes in big-endian order: 1 (no change), 2, 4, 8 or 16.
    Swap(u8),
    /// A truth value of this many bytes, big-endian.
    Truth(u8),
    /// A number in memory as another kind of number, big-endian.
    Cast(NumberKind, NumberKind),
    /// An x87 `long double` as binary128, big-endian.
    Quad,
}

/// A change with its loops.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) change: Change,
    /// Number of parts of a basic element that are converted separately: 2 for a complex number, else 1.
    pub(super) parts: u64,
    /// Bytes of a basic element.
    pub(super) bytes: Both,
    pub(super) encode: Kernel,
    pub(super) decode: Kernel,
}

impl Unit {
    pub(super) fn new(change: Change, parts: u64) -> Self {
        let (encode, decode) = match change {
            Change::Swap(bytes) => swaps(bytes),
            Change::Truth(bytes) => (swaps(bytes).0, truths(bytes)),
            Change::Cast(memory, external) => casts(memory, external),
            Change::Quad => (Kernel::gathering::<ToQuad>(), Kernel::scattering::<FromQuad>()),
        };
        let part = Both { memory: encode.from_bytes as u64, packed: encode.to_bytes as u64 };
        Self { change, parts, bytes: part.times(parts), encode, decode }
    }
}

fn swaps(bytes: u8) -> (Kernel, Kernel) {
    macro_rules! both {
        ($bits:ty) => {
            (Kernel::gathering::<Swap<$bits>>(), Kernel::scattering::<Swap<$bits>>())
        };
    }
    match bytes {
        2 => both!(u16),
        4 => both!(u32),
        8 => both!(u64),
        16 => both!(u128),
        _ => both!(u8),
    }
}

fn truths(bytes: u8) -> Kernel {
    match bytes {
        2 => Kernel::scattering::<Truth<u16>>(),
        4 => Kernel::scattering::<Truth<u32>>(),
        8 => Kernel::scattering::<Truth<u64>>(),
        16 => Kernel::scattering::<Truth<u128>>(),
        _ => Kernel::scattering::<Truth<u8>>(),
    }
}

/// The loops from each kind of number to every other kind.
macro_rules! cast_table {
    ($memory:ident, $external:ident; $($m:ident $mt:ty: $($x:ident $xt:ty),*;)*) => {
        match ($memory, $external) {
            $($((NumberKind::$m, NumberKind::$x) => (
                Kernel::gathering::<Encode<$mt, $xt>>(),
                Kernel::scattering::<Decode<$xt, $mt>>(),
            ),)*)*
            // Memory and file hold the same kind of number.
            _ => swaps($memory.bytes() as u8),
        }
    };
}

fn casts(memory: NumberKind, external: NumberKind) -> (Kernel, Kernel) {
    cast_table! { memory, external;
        I8 i8: U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64;
        U8 u8: I8 i8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64;
        I16 i16: I8 i8, U8 u8, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64;
        U16 u16: I8 i8, U8 u8, I16 i16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64;
        I32 i32: I8 i8, U8 u8, I16 i16, U16 u16, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64;
        U32 u32: I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, I64 i64, U64 u64, F32 f32, F64 f64;
        I64 i64: I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, U64 u64, F32 f32, F64 f64;
        U64 u64: I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, F32 f32, F64 f64;
        F32 f32: I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F64 f64;
        F64 f64: I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32;
    }
}
