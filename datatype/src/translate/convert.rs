//! The conversion of one element: bits of one side to bits of the other.

use std::marker::PhantomData;

use crate::translate::number::{Bits, Cast, Get, Number, NumberKind, Put};
use crate::translate::quad::{extended_of_quad, overflows_extended, quad_of_extended};

/// A conversion of single elements. It is defined for all bits, so that a kernel can convert first and
/// afterwards find the elements that were out of range.
pub(super) trait Convert {
    /// The bits that are read, in the byte order of their side.
    type From: Bits;
    /// The bits that are written, in the byte order of their side.
    type To: Bits;
    /// Whether kernels exist for every short block. They pay off for the conversions that simulations use
    /// most.
    const HOT: bool = false;

    fn convert(from: Self::From) -> Self::To;

    /// Whether the value is out of the range of the other side.
    #[inline(always)]
    fn misfits(_from: Self::From) -> bool {
        false
    }
}

/// A change of the byte order. It is its own inverse.
pub(super) struct Swap<B>(PhantomData<B>);

impl<B: Bits> Convert for Swap<B> {
    type From = B;
    type To = B;
    const HOT: bool = true;

    #[inline(always)]
    fn convert(from: B) -> B {
        from.reordered()
    }
}

/// A number in memory to a big-endian number.
pub(super) struct Encode<M, X>(PhantomData<(M, X)>);

impl<M: Cast<X, Put>, X: Number> Convert for Encode<M, X> {
    type From = M::Bits;
    type To = X::Bits;
    const HOT: bool = is_common::<M, X>();

    #[inline(always)]
    fn convert(from: M::Bits) -> X::Bits {
        M::of_bits(from).cast().bits().reordered()
    }

    #[inline(always)]
    fn misfits(from: M::Bits) -> bool {
        M::of_bits(from).misfits()
    }
}

/// A big-endian number to a number in memory.
pub(super) struct Decode<X, M>(PhantomData<(X, M)>);

impl<X: Cast<M, Get>, M: Number> Convert for Decode<X, M> {
    type From = X::Bits;
    type To = M::Bits;
    const HOT: bool = is_common::<M, X>();

    #[inline(always)]
    fn convert(from: X::Bits) -> M::Bits {
        X::of_bits(from.reordered()).cast().bits()
    }

    #[inline(always)]
    fn misfits(from: X::Bits) -> bool {
        X::of_bits(from.reordered()).misfits()
    }
}

/// Double precision in memory and single precision in the file: the conversion that codes use to save
/// space.
const fn is_common<M: Number, X: Number>() -> bool {
    matches!((M::KIND, X::KIND), (NumberKind::F64, NumberKind::F32))
}

/// Big-endian truth values to native ones. Any value except 0 becomes 1, the only *true* that every
/// compiler knows.
pub(super) struct Truth<B>(PhantomData<B>);

impl<B: Bits + Default + PartialEq + From<bool>> Convert for Truth<B> {
    type From = B;
    type To = B;

    #[inline(always)]
    fn convert(from: B) -> B {
        B::from(from != B::default())
    }
}

/// An x87 `long double` to binary128.
pub(super) struct ToQuad;

impl Convert for ToQuad {
    type From = u128;
    type To = u128;

    #[inline(always)]
    fn convert(from: u128) -> u128 {
        quad_of_extended(u128::from_le(from)).to_be()
    }
}

/// Binary128 to an x87 `long double`.
pub(super) struct FromQuad;

impl Convert for FromQuad {
    type From = u128;
    type To = u128;

    #[inline(always)]
    fn convert(from: u128) -> u128 {
        extended_of_quad(u128::from_be(from)).to_le()
    }

    #[inline(always)]
    fn misfits(from: u128) -> bool {
        overflows_extended(u128::from_be(from))
    }
}
