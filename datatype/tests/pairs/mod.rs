//! Thirteen pairs of types for typed copies, of the kinds that Mir and Traeff name (EuroPVM/MPI 2008):
//! unequal blocks, lists, permutations, structures of arrays, arrays in either order.

use capulet_datatype::{ArrayOrder, Datatype, Named, Result, Tiled};

/// A source and a target with the same number of bytes.
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    source: Datatype,
    target: Datatype,
}

impl Pair {
    /// `count` instances of both types.
    pub(crate) fn tiled(&self, count: u64) -> Result<(Tiled, Tiled)> {
        let tiled = |datatype: &Datatype| Tiled::new(datatype.layout().clone(), count);
        Ok((tiled(&self.source)?, tiled(&self.target)?))
    }
}

/// The three copied elements of a record of five.
const FIELDS: [i64; 3] = [0, 2, 3];

/// A structure of arrays: three arrays of `count` doubles. An instance has one element of each.
fn arrays(count: u64) -> Result<Datatype> {
    let double = Datatype::named(Named::Double);
    let places: Vec<i64> = (0..3).map(|field| field * count as i64 * 8).collect();
    Datatype::resized(0, 8, &Datatype::hindexed_block(1, &places, &double)?)
}

/// Records of five doubles. An instance has three of them.
fn records() -> Result<Datatype> {
    Datatype::resized(0, 40, &Datatype::indexed_block(1, &FIELDS, &Datatype::named(Named::Double))?)
}

/// The columns of 8 x 8 doubles, in the order of a transposed copy.
fn columns() -> Result<Datatype> {
    let column = Datatype::hvector(8, 1, 64, &Datatype::named(Named::Double))?;
    Datatype::resized(0, 512, &Datatype::hvector(8, 1, 8, &column)?)
}

/// The pairs X1 to X13. Pairs with structures of arrays are made for `count` instances.
pub(crate) fn pairs(count: u64) -> Result<Vec<Pair>> {
    let (double, float) = (Datatype::named(Named::Double), Datatype::named(Named::Float));
    let vector = |n, block, stride, old: &Datatype| Datatype::vector(n, block, stride, old);
    let permuted = |places: &[i64]| Datatype::indexed_block(1, places, &double);
    let four = Datatype::indexed(&[1, 2, 3, 2], &[0, 2, 5, 9], &double)?;
    let five = Datatype::indexed(&[2, 1, 1, 3, 1], &[0, 3, 5, 7, 11], &double)?;
    let pair = |name, source, target| Pair { name, source, target };
    Ok(vec![
        pair("X1", vector(4, 1, 2, &double)?, vector(2, 2, 3, &double)?),
        pair("X2", vector(8, 1, 2, &double)?, four.clone()),
        pair("X3", four, five),
        pair("X4", vector(4, 2, 4, &double)?, vector(2, 4, 5, &double)?),
        pair("X5", permuted(&[3, 1, 7, 0, 5, 2, 6, 4])?, permuted(&[6, 0, 3, 5, 1, 7, 4, 2])?),
        pair("X6", vector(16, 1, 2, &double)?, vector(16, 1, 3, &double)?),
        pair("X7", vector(32, 3, 4, &float)?, vector(48, 2, 3, &float)?),
        pair(
            "X8",
            Datatype::indexed_block(1, &[0, 1, 3, 4, 7, 8, 11, 13], &float)?,
            vector(8, 1, 2, &float)?,
        ),
        pair("X9", records()?, arrays(count)?),
        pair("X10", arrays(count)?, records()?),
        pair(
            "X11",
            Datatype::subarray(&[10, 10], &[8, 8], &[1, 1], ArrayOrder::C, &double)?,
            Datatype::subarray(&[12, 9], &[8, 8], &[2, 0], ArrayOrder::Fortran, &double)?,
        ),
        pair("X12", Datatype::resized(0, 640, &vector(8, 8, 10, &double)?)?, columns()?),
        pair("X13", vector(4, 1, 2, &float)?, Datatype::indexed_block(1, &[0, 3, 4, 9], &float)?),
    ])
}
