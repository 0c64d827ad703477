//! Table 1 of Ross, Latham, Gropp, Lusk, Thakur, "Processing MPI Datatypes Outside MPI" (`EuroPVM/MPI`
//! 2009), with its sizes. The indexed type has three variants, and the interior of a cube is added.

use capulet_datatype::ArrayOrder;

use crate::cases::case::{Body, Case, Element};
use crate::hand::{Alternating, Contiguous, Listed, Nest, Nests, Strided};
use crate::random::Random;

const SUITE: &str = "table1";
/// Number of elements, or of blocks of one element.
const COUNT: u64 = 1 << 20;
/// Elements along an edge of the cube whose faces are taken.
const EDGE: u64 = 256;
/// Elements along an edge of the cube whose interior is taken, and along an edge of the interior.
const OUTER: u64 = 132;
const INNER: u64 = 128;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = of_element::<f32>();
    cases.extend(of_element::<f64>());
    cases
}

fn of_element<T: Element>() -> Vec<Case> {
    let case = |name: &str, build: fn() -> Body| Case::new(SUITE, name, T::NAME, build);
    vec![
        case("Contig", || Body::new(T::spec().contiguous(COUNT), Contiguous)),
        case("Vector", || Body::new(T::spec().vector(COUNT, 1, 2), Strided::<T, 2>::new())),
        case("Indexed13", || indexed::<T, 1, 4>(COUNT / 2)),
        case("Indexed23", || indexed::<T, 2, 5>(COUNT)),
        case("IndexedRnd", random_strides::<T>),
        case("XYFace", || Body::new(T::spec().contiguous(EDGE * EDGE), Contiguous)),
        case("XZFace", || {
            let rows = rows(EDGE as usize, (EDGE * EDGE) as usize, EDGE as usize);
            Body::new(T::spec().vector(EDGE, EDGE, (EDGE * EDGE) as i64), Nests::<T, 0>::new(vec![rows]))
        }),
        case("YZFace", || {
            let spec = T::spec().vector(EDGE * EDGE, 1, EDGE as i64);
            Body::new(spec, Strided::<T, { EDGE as usize }>::new())
        }),
        case("Sub3D", interior::<T>),
    ]
}

/// `count` rows at a stride.
fn rows(count: usize, stride: usize, row: usize) -> Nest {
    Nest { origin: 0, counts: [1, 1, 1, count], strides: [0, 0, 0, stride], row }
}

/// Single elements at two alternating strides: `STEP`, and the rest of `PERIOD`.
fn indexed<T: Element, const STEP: usize, const PERIOD: usize>(count: u64) -> Body {
    let at = |i: u64| (i / 2) as usize * PERIOD + (i % 2) as usize * STEP;
    let places = (0..count).map(|i| at(i) as i64).collect();
    Body::new(T::spec().indexed(vec![1; count as usize], places), Alternating::<T, STEP, PERIOD>::new())
}

/// Single elements, each 2 to 5 elements after the one before.
fn random_strides<T: Element>() -> Body {
    let mut random = Random::new(1);
    let mut at = 0;
    let mut step = || {
        let here = at;
        at += 2 + random.below(4) as i64;
        here
    };
    let places: Vec<i64> = (0..COUNT).map(|_| step()).collect();
    let loops = Listed::<T, 1>::new(0, &places);
    Body::new(T::spec().indexed(vec![1; COUNT as usize], places), loops)
}

fn interior<T: Element>() -> Body {
    let start = (OUTER - INNER) / 2;
    let spec = T::spec().subarray(&[OUTER; 3], &[INNER; 3], &[start; 3], ArrayOrder::C);
    let (inner, outer, start) = (INNER as usize, OUTER as usize, start as usize);
    let nest = Nest {
        origin: (start * outer + start) * outer + start,
        counts: [1, 1, inner, inner],
        strides: [0, 0, outer * outer, outer],
        row: inner,
    };
    Body::new(spec, Nests::<T, 0>::new(vec![nest]))
}
