//! Test program: compares all small distributed arrays that `MPI_Type_create_darray` and `capulet-datatype`
//! have built. Both must hold the same bytes at the same places, on every rank of the process grid.
//!
//! In one dimension: all arrays of up to 8 elements on up to 4 processes with blocks of up to 3 elements.
//! In two and three dimensions: fewer sizes, with all combinations of the kinds of distribution. Rank r of
//! P takes every P-th array.

#[path = "support/mod.rs"]
mod support;

use capulet_comm::MpiType;
use capulet_datatype::{ArrayOrder, Datatype, Distribution, Named};
use support::Random;
use support::construct::{construct, free};
use support::packing::{Map, Pair};
use support::spec::{Darray, Spec};

/// One dimension: the number of elements, the number of processes, and the distribution.
type Dim = (u64, u64, Distribution);

#[derive(Debug, Default)]
struct Tally {
    arrays: u64,
    elements: u64,
    /// Processes of a grid that hold no element.
    empty: u64,
}

fn main() {
    let (rank, size) = support::init();
    support::return_errors();
    let mut tally = Tally::default();
    let mut arrays = all_arrays();
    let whole = arrays.len();
    arrays.retain({
        let mut number = 0;
        move |_| {
            number += 1;
            number % size == rank
        }
    });
    for (index, array) in arrays.iter().enumerate() {
        // An element without holes, and an element with holes.
        let int = Spec::Named(Named::Int);
        let element = if index % 2 == 0 { int } else { Spec::Resized(0, 12, Box::new(int)) };
        compare(array, element, &mut tally);
    }
    let share = whole as u64 / u64::from(size);
    assert!(tally.arrays >= share && tally.elements > share && tally.empty > 0, "{tally:?}");
    if rank == 0 {
        println!("{whole} arrays; {tally:?}");
    }
    support::finish("darrays");
}

/// All ways to distribute `elements` elements over up to `processes_max` processes: cyclic with blocks of
/// up to `block_max` elements, and in blocks of the `block_max` smallest sizes that suffice.
fn dims(elements: u64, processes_max: u64, block_max: u64) -> Vec<Dim> {
    let mut dims = vec![(elements, 1, Distribution::None)];
    for processes in 1..=processes_max {
        let least = elements.div_ceil(processes);
        let blocks = (least..least + block_max).map(|block| Distribution::Block(Some(block)));
        let cycles = (1..=block_max).map(|block| Distribution::Cyclic(Some(block)));
        let plain = [Distribution::Block(None), Distribution::Cyclic(None)];
        dims.extend(plain.into_iter().chain(blocks).chain(cycles).map(|how| (elements, processes, how)));
    }
    dims
}

/// Adds the arrays of these dimensions, in both orders, for every process of the grid.
fn add_all(arrays: &mut Vec<Darray>, dims: &[Dim]) {
    let gsizes: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
    let psizes: Vec<u64> = dims.iter().map(|dim| dim.1).collect();
    let distributions: Vec<Distribution> = dims.iter().map(|dim| dim.2).collect();
    for order in [ArrayOrder::C, ArrayOrder::Fortran] {
        for rank in 0..psizes.iter().product() {
            let (gsizes, psizes) = (gsizes.clone(), psizes.clone());
            arrays.push(Darray { rank, gsizes, distributions: distributions.clone(), psizes, order });
        }
    }
}

fn all_arrays() -> Vec<Darray> {
    let mut arrays = Vec::new();
    for dim in (1..=8).flat_map(|elements| dims(elements, 4, 3)) {
        add_all(&mut arrays, &[dim]);
    }
    let two: Vec<Dim> = [1, 2, 5].into_iter().flat_map(|elements| dims(elements, 3, 2)).collect();
    for first in &two {
        for second in &two {
            add_all(&mut arrays, &[*first, *second]);
        }
    }
    let three: Vec<Dim> = dims(3, 2, 1).into_iter().chain(dims(4, 2, 1)).collect();
    for first in &three {
        for second in &three {
            for third in &three {
                add_all(&mut arrays, &[*first, *second, *third]);
            }
        }
    }
    arrays
}

fn compare(array: &Darray, element: Spec, tally: &mut Tally) {
    let element_bytes = element.native().expect("an element").size();
    let spec = Spec::Darray(array.clone(), Box::new(element));
    let native = spec.native().unwrap_or_else(|error| panic!("{error}: {spec:?}"));
    let handle = construct(&spec, tally.arrays.is_multiple_of(2))
        .unwrap_or_else(|| panic!("MPI refuses the type: {spec:?}"));
    // SAFETY: `# Safety` of `MpiType::datatype_of`: `construct` returns a valid type.
    let imported =
        unsafe { MpiType::datatype_of(handle) }.unwrap_or_else(|error| panic!("{error}: {spec:?}"));
    assert_eq!(native.size(), imported.size(), "{spec:?}");
    if native.size() == 0 {
        tally.empty += 1;
    } else {
        assert_eq!(bounds(&native), bounds(&imported), "{spec:?}");
        let mut random = Random(tally.arrays.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let pair = Pair { handle, datatype: native };
        let map = Map::learn(&pair, 1 + tally.arrays % 2);
        map.check_walks(&mut random);
        map.check_pack(&mut random);
        assert!(map.check_unpack(&mut random), "the array overlaps itself: {spec:?}");
        assert!(imported.is_equivalent(&pair.datatype), "{spec:?}");
        tally.elements += imported.size() / element_bytes;
    }
    tally.arrays += 1;
    free(handle);
}

fn bounds(datatype: &Datatype) -> (i64, i64, i64, i64) {
    (datatype.lb(), datatype.extent(), datatype.true_lb(), datatype.true_ub())
}
