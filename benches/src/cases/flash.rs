//! The blocks of the FLASH code, as in section 4.2 of the paper: 8 x 8 x 8 elements with four guard cells
//! on each side, 24 doubles in each element. A vector that is nested four times takes one variable, or
//! four neighboring ones, of all blocks.

use crate::cases::case::{Body, Case, Element, Ops};
use crate::hand::{Nest, Nests};

const SUITE: &str = "flash";
const INNER: usize = 8;
const GUARDS: usize = 4;
const EDGE: usize = INNER + 2 * GUARDS;
const VARIABLES: usize = 24;
const BLOCKS: [usize; 5] = [10, 50, 100, 250, 500];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for blocks in BLOCKS {
        cases.push(case("1v", blocks, body::<1>));
    }
    for blocks in BLOCKS {
        cases.push(case("4v", blocks, body::<4>));
    }
    cases
}

fn case(variables: &str, blocks: usize, build: fn(usize) -> Body) -> Case {
    let mut case = Case::new(SUITE, format!("FLASH-{variables}-{blocks}b"), f64::NAME, move || build(blocks));
    case.ops = Ops::Encode;
    case
}

fn body<const TAKEN: usize>(blocks: usize) -> Body {
    let bytes = f64::BYTES as usize;
    let (column, row, plane) = (VARIABLES, VARIABLES * EDGE, VARIABLES * EDGE * EDGE);
    let block = plane * EDGE;
    let stride = |elements: usize| (elements * bytes) as i64;
    let spec = f64::spec()
        .vector(INNER as u64, TAKEN as u64, column as i64)
        .hvector(INNER as u64, 1, stride(row))
        .hvector(INNER as u64, 1, stride(plane))
        .hvector(blocks as u64, 1, stride(block));
    let nest = Nest {
        origin: 0,
        counts: [blocks, INNER, INNER, INNER],
        strides: [block, plane, row, column],
        row: TAKEN,
    };
    let mut body = Body::new(spec, Nests::<f64, TAKEN>::new(vec![nest]));
    body.encoded = Some(nest);
    body.origin = GUARDS * (plane + row + column) * bytes;
    body
}
