//! The types that MPI predefines (MPI 4.1, sections 3.2.2, 6.9.4 and annex A.1.1), with the sizes of a
//! 64-bit Unix.

use std::ffi::{c_int, c_long, c_longlong, c_short};
use std::mem::size_of;

/// The meaning of the bits of a basic element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PrimKind {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// An IEEE floating-point number.
    Float,
    /// The C `long double` of the platform. Its width does not determine its format.
    LongDouble,
    /// Two IEEE floating-point numbers.
    Complex,
    /// Two `long double` numbers.
    LongDoubleComplex,
    /// A truth value.
    Logical,
    /// A printable character, as in `MPI_CHAR`.
    Text,
    /// A wide character.
    WideText,
    /// Uninterpreted bytes: `MPI_BYTE`, `MPI_PACKED` and types of unknown meaning.
    Byte,
}

/// One basic element of a type map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prim {
    /// The meaning of the bits.
    pub kind: PrimKind,
    /// Size in bytes.
    pub bytes: u32,
}

impl Prim {
    /// A basic element of `bytes` bytes.
    pub const fn new(kind: PrimKind, bytes: u32) -> Self {
        Self { kind, bytes }
    }

    /// The alignment that a C compiler gives to the element, in bytes. It is the `k` in the standard's
    /// definition of the padding epsilon (MPI 4.1, section 5.1).
    pub const fn align(self) -> u64 {
        match self.kind {
            PrimKind::Complex | PrimKind::LongDoubleComplex => (self.bytes / 2) as u64,
            PrimKind::Byte => 1,
            _ => self.bytes as u64,
        }
    }
}

/// The parts of a predefined type: one element, or a value followed by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    One(Prim),
    Pair(Prim, Prim),
}

const fn sized(kind: PrimKind, bytes: usize) -> Prim {
    Prim::new(kind, bytes as u32)
}

/// Builds the enum, the list of all variants without fields, and the table of names and parts.
macro_rules! named_types {
    ($($variant:ident, $name:literal, $parts:expr;)*) => {
        /// A predefined type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Named {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// An integer from `MPI_Type_create_f90_integer`.
            F90Integer {
                /// Size in bytes.
                bytes: u32,
            },
            /// A real from `MPI_Type_create_f90_real`.
            F90Real {
                /// Size in bytes.
                bytes: u32,
            },
            /// A complex from `MPI_Type_create_f90_complex`.
            F90Complex {
                /// Size in bytes.
                bytes: u32,
            },
            /// A predefined type of another MPI library, of which only the size is known. Size 0 stands
            /// for the markers `MPI_LB` and `MPI_UB`, which the standard has removed.
            Opaque {
                /// Size in bytes.
                bytes: u32,
            },
        }

        impl Named {
            /// All predefined types of fixed size.
            pub const ALL: &'static [Named] = &[$(Named::$variant,)*];

            /// The name in the standard.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::F90Integer { .. } => "MPI_Type_create_f90_integer",
                    Self::F90Real { .. } => "MPI_Type_create_f90_real",
                    Self::F90Complex { .. } => "MPI_Type_create_f90_complex",
                    Self::Opaque { .. } => "opaque",
                }
            }

            const fn parts(self) -> Parts {
                use Parts::{One, Pair};
                use PrimKind::{
                    Byte, Complex, Float, Logical, LongDouble, LongDoubleComplex, Signed, Text, Unsigned, WideText,
                };
                match self {
                    $(Self::$variant => $parts,)*
                    Self::F90Integer { bytes } => One(Prim::new(Signed, bytes)),
                    Self::F90Real { bytes } => One(Prim::new(Float, bytes)),
                    Self::F90Complex { bytes } => One(Prim::new(Complex, bytes)),
                    Self::Opaque { bytes } => One(Prim::new(Byte, bytes)),
                }
            }
        }
    };
}

named_types! {
    Char, "MPI_CHAR", One(sized(Text, 1));
    SignedChar, "MPI_SIGNED_CHAR", One(sized(Signed, 1));
    UnsignedChar, "MPI_UNSIGNED_CHAR", One(sized(Unsigned, 1));
    Short, "MPI_SHORT", One(sized(Signed, size_of::<c_short>()));
    UnsignedShort, "MPI_UNSIGNED_SHORT", One(sized(Unsigned, size_of::<c_short>()));
    Int, "MPI_INT", One(sized(Signed, size_of::<c_int>()));
    Unsigned, "MPI_UNSIGNED", One(sized(Unsigned, size_of::<c_int>()));
    Long, "MPI_LONG", One(sized(Signed, size_of::<c_long>()));
    UnsignedLong, "MPI_UNSIGNED_LONG", One(sized(Unsigned, size_of::<c_long>()));
    LongLong, "MPI_LONG_LONG", One(sized(Signed, size_of::<c_longlong>()));
    UnsignedLongLong, "MPI_UNSIGNED_LONG_LONG", One(sized(Unsigned, size_of::<c_longlong>()));
    Float, "MPI_FLOAT", One(sized(Float, 4));
    Double, "MPI_DOUBLE", One(sized(Float, 8));
    LongDouble, "MPI_LONG_DOUBLE", One(sized(LongDouble, 16));
    Wchar, "MPI_WCHAR", One(sized(WideText, 4));
    CBool, "MPI_C_BOOL", One(sized(Logical, 1));
    Int8, "MPI_INT8_T", One(sized(Signed, 1));
    Int16, "MPI_INT16_T", One(sized(Signed, 2));
    Int32, "MPI_INT32_T", One(sized(Signed, 4));
    Int64, "MPI_INT64_T", One(sized(Signed, 8));
    Uint8, "MPI_UINT8_T", One(sized(Unsigned, 1));
    Uint16, "MPI_UINT16_T", One(sized(Unsigned, 2));
    Uint32, "MPI_UINT32_T", One(sized(Unsigned, 4));
    Uint64, "MPI_UINT64_T", One(sized(Unsigned, 8));
    CFloatComplex, "MPI_C_FLOAT_COMPLEX", One(sized(Complex, 8));
    CDoubleComplex, "MPI_C_DOUBLE_COMPLEX", One(sized(Complex, 16));
    CLongDoubleComplex, "MPI_C_LONG_DOUBLE_COMPLEX", One(sized(LongDoubleComplex, 32));
    Aint, "MPI_AINT", One(sized(Signed, 8));
    Offset, "MPI_OFFSET", One(sized(Signed, 8));
    Count, "MPI_COUNT", One(sized(Signed, 8));
    Byte, "MPI_BYTE", One(sized(Byte, 1));
    Packed, "MPI_PACKED", One(sized(Byte, 1));
    CxxBool, "MPI_CXX_BOOL", One(sized(Logical, 1));
    CxxFloatComplex, "MPI_CXX_FLOAT_COMPLEX", One(sized(Complex, 8));
    CxxDoubleComplex, "MPI_CXX_DOUBLE_COMPLEX", One(sized(Complex, 16));
    CxxLongDoubleComplex, "MPI_CXX_LONG_DOUBLE_COMPLEX", One(sized(LongDoubleComplex, 32));
    Character, "MPI_CHARACTER", One(sized(Text, 1));
    Logical, "MPI_LOGICAL", One(sized(Logical, 4));
    Logical1, "MPI_LOGICAL1", One(sized(Logical, 1));
    Logical2, "MPI_LOGICAL2", One(sized(Logical, 2));
    Logical4, "MPI_LOGICAL4", One(sized(Logical, 4));
    Logical8, "MPI_LOGICAL8", One(sized(Logical, 8));
    Logical16, "MPI_LOGICAL16", One(sized(Logical, 16));
    Integer, "MPI_INTEGER", One(sized(Signed, 4));
    Integer1, "MPI_INTEGER1", One(sized(Signed, 1));
    Integer2, "MPI_INTEGER2", One(sized(Signed, 2));
    Integer4, "MPI_INTEGER4", One(sized(Signed, 4));
    Integer8, "MPI_INTEGER8", One(sized(Signed, 8));
    Integer16, "MPI_INTEGER16", One(sized(Signed, 16));
    Real, "MPI_REAL", One(sized(Float, 4));
    Real2, "MPI_REAL2", One(sized(Float, 2));
    Real4, "MPI_REAL4", One(sized(Float, 4));
    Real8, "MPI_REAL8", One(sized(Float, 8));
    Real16, "MPI_REAL16", One(sized(Float, 16));
    DoublePrecision, "MPI_DOUBLE_PRECISION", One(sized(Float, 8));
    Complex, "MPI_COMPLEX", One(sized(Complex, 8));
    Complex4, "MPI_COMPLEX4", One(sized(Complex, 4));
    Complex8, "MPI_COMPLEX8", One(sized(Complex, 8));
    Complex16, "MPI_COMPLEX16", One(sized(Complex, 16));
    Complex32, "MPI_COMPLEX32", One(sized(Complex, 32));
    DoubleComplex, "MPI_DOUBLE_COMPLEX", One(sized(Complex, 16));
    FloatInt, "MPI_FLOAT_INT", Pair(sized(Float, 4), sized(Signed, 4));
    DoubleInt, "MPI_DOUBLE_INT", Pair(sized(Float, 8), sized(Signed, 4));
    LongInt, "MPI_LONG_INT", Pair(sized(Signed, size_of::<c_long>()), sized(Signed, 4));
    ShortInt, "MPI_SHORT_INT", Pair(sized(Signed, 2), sized(Signed, 4));
    TwoInt, "MPI_2INT", Pair(sized(Signed, 4), sized(Signed, 4));
    LongDoubleInt, "MPI_LONG_DOUBLE_INT", Pair(sized(LongDouble, 16), sized(Signed, 4));
    TwoReal, "MPI_2REAL", Pair(sized(Float, 4), sized(Float, 4));
    TwoDoublePrecision, "MPI_2DOUBLE_PRECISION", Pair(sized(Float, 8), sized(Float, 8));
    TwoInteger, "MPI_2INTEGER", Pair(sized(Signed, 4), sized(Signed, 4));
    TwoComplex, "MPI_2COMPLEX", Pair(sized(Complex, 8), sized(Complex, 8));
    TwoDoubleComplex, "MPI_2DOUBLE_COMPLEX", Pair(sized(Complex, 16), sized(Complex, 16));
}

impl Named {
    /// The basic elements with their displacements in bytes. A value-index pair has two elements, at the
    /// offsets of the fields of the corresponding C `struct` (MPI 4.1, section 6.9.4).
    pub fn elements(self) -> impl Iterator<Item = (u64, Prim)> {
        let (first, second) = match self.parts() {
            Parts::One(prim) => (prim, None),
            Parts::Pair(value, index) => {
                (value, Some((u64::from(value.bytes).next_multiple_of(index.align()), index)))
            }
        };
        std::iter::once((0, first)).chain(second)
    }

    /// Bytes of data in one element.
    pub fn size(self) -> u64 {
        self.elements().map(|(_, prim)| u64::from(prim.bytes)).sum()
    }

    /// The alignment of the basic element with the strictest alignment, in bytes; at least 1.
    pub fn align(self) -> u64 {
        self.elements().map(|(_, prim)| prim.align()).max().unwrap_or(1).max(1)
    }

    /// The distance between two consecutive elements of an array, in bytes. The lower bound is 0.
    pub fn extent(self) -> u64 {
        self.true_extent().next_multiple_of(self.align())
    }

    /// The end of the last byte of data, in bytes from the start of the element.
    pub fn true_extent(self) -> u64 {
        self.elements().map(|(at, prim)| at + u64::from(prim.bytes)).max().unwrap_or(0)
    }

    /// The kind of the basic element, or of the value in a value-index pair.
    pub fn kind(self) -> PrimKind {
        match self.parts() {
            Parts::One(prim) | Parts::Pair(prim, _) => prim.kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Named;

    #[test]
    fn value_index_pairs_have_the_layout_of_a_c_struct() {
        let facts = |named: Named| (named.size(), named.extent(), named.true_extent());
        assert_eq!(facts(Named::FloatInt), (8, 8, 8));
        assert_eq!(facts(Named::DoubleInt), (12, 16, 12));
        assert_eq!(facts(Named::LongInt), (12, 16, 12));
        assert_eq!(facts(Named::ShortInt), (6, 8, 8));
        assert_eq!(facts(Named::TwoInt), (8, 8, 8));
        assert_eq!(facts(Named::LongDoubleInt), (20, 32, 20));
    }

    #[test]
    fn extent_of_every_named_type_is_a_multiple_of_its_alignment() {
        for named in Named::ALL {
            assert!(named.size() > 0 && named.extent() % named.align() == 0, "{}", named.name());
            assert!(named.align().is_power_of_two(), "{}", named.name());
        }
    }

    #[test]
    fn opaque_type_has_alignment_one() {
        let opaque = Named::Opaque { bytes: 7 };
        assert_eq!((opaque.size(), opaque.extent(), opaque.align()), (7, 7, 1));
        assert_eq!((Named::Opaque { bytes: 0 }).extent(), 0);
    }
}
