//! Pairs of types of equal size, none of them contiguous, after Mir and Traeff, "Constructing MPI
//! Input-output Datatypes for Efficient Transpacking" (`EuroPVM/MPI` 2008) and section 4.3 of the
//! `MPITypes` paper.

use capulet_datatype::ArrayOrder;

use crate::cases::case::Element;
use crate::spec::Spec;

/// Numbers of instances that are copied.
pub(crate) const COUNTS: [u64; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// A pair of types of equal size. Types of structures of arrays depend on the number of instances.
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    pub(crate) element: &'static str,
    pub(crate) source: fn(u64) -> Spec,
    pub(crate) target: fn(u64) -> Spec,
}

const fn pair(
    name: &'static str,
    element: &'static str,
    source: fn(u64) -> Spec,
    target: fn(u64) -> Spec,
) -> Pair {
    Pair { name, element, source, target }
}

pub(crate) fn pairs() -> Vec<Pair> {
    let (float, double) = (f32::NAME, f64::NAME);
    vec![
        pair("X1 vec(4,1,2)d>vec(2,2,3)d", double, |_| vector(4, 1, 2), |_| vector(2, 2, 3)),
        pair("X2 vec(8,1,2)d>idx{1,2,3,2}d", double, |_| vector(8, 1, 2), |_| four_blocks()),
        pair(
            "X3 idx{1,2,3,2}d>idx{2,1,1,3,1}d",
            double,
            |_| four_blocks(),
            |_| f64::spec().indexed(vec![2, 1, 1, 3, 1], vec![0, 3, 5, 7, 11]),
        ),
        pair("X4 vec(4,2,4)d>vec(2,4,5)d", double, |_| vector(4, 2, 4), |_| vector(2, 4, 5)),
        pair(
            "X5 perm8d>perm8d",
            double,
            |_| permutation(&[3, 1, 7, 0, 5, 2, 6, 4]),
            |_| permutation(&[6, 0, 3, 5, 1, 7, 4, 2]),
        ),
        pair("X6 vec(16,1,2)d>vec(16,1,3)d", double, |_| vector(16, 1, 2), |_| vector(16, 1, 3)),
        pair(
            "X7 vec(32,3,4)f>vec(48,2,3)f",
            float,
            |_| f32::spec().vector(32, 3, 4),
            |_| f32::spec().vector(48, 2, 3),
        ),
        pair(
            "X8 idx8f>vec(8,1,2)f",
            float,
            |_| f32::spec().indexed_block(1, vec![0, 1, 3, 4, 7, 8, 11, 13]),
            |_| f32::spec().vector(8, 1, 2),
        ),
        pair("X9 AoS(3of5d)>SoA", double, |_| structure(), arrays),
        pair("X10 SoA>AoS(3of5d)", double, arrays, |_| structure()),
        pair(
            "X11 sub8x8(10x10)d>subF8x8(12x9)d",
            double,
            |_| f64::spec().subarray(&[10, 10], &[8, 8], &[1, 1], ArrayOrder::C),
            |_| f64::spec().subarray(&[12, 9], &[8, 8], &[2, 0], ArrayOrder::Fortran),
        ),
        pair(
            "X12 rows8x8>cols8x8 transpose d",
            double,
            |_| f64::spec().vector(8, 8, 9),
            |_| {
                let column = f64::spec().vector(8, 1, 9).resized(0, f64::BYTES);
                column.contiguous(8).resized(0, 72 * f64::BYTES)
            },
        ),
        pair(
            "X13 vec(4,1,2)f>idx4f{0,3,4,9}",
            float,
            |_| f32::spec().vector(4, 1, 2),
            |_| f32::spec().indexed_block(1, vec![0, 3, 4, 9]),
        ),
    ]
}

fn vector(count: u64, blocklength: u64, stride: i64) -> Spec {
    f64::spec().vector(count, blocklength, stride)
}

fn four_blocks() -> Spec {
    f64::spec().indexed(vec![1, 2, 3, 2], vec![0, 2, 5, 9])
}

fn permutation(places: &[i64]) -> Spec {
    f64::spec().indexed_block(1, places.to_vec())
}

/// Three doubles of a structure of five.
fn structure() -> Spec {
    f64::spec().indexed_block(1, vec![0, 2, 3]).resized(0, 5 * f64::BYTES)
}

/// The same three doubles in an array each. The arrays are longer than the number of instances; otherwise
/// one instance would be contiguous.
fn arrays(count: u64) -> Spec {
    f64::spec().vector(3, 1, count as i64 + 8).resized(0, f64::BYTES)
}
