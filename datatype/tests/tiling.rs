//! Filetypes that consist of whole etypes, compared with the definition over written-out type maps.

mod cases;
mod oracle;

use capulet_datatype::{ArrayOrder, Datatype, Named, Prim, PrimKind, Result};
use cases::cases;
use oracle::{Tree, TypeMap, any_tree, tree_of_bytes};
use proptest::prelude::*;

/// Whether the map of the filetype repeats the map of the etype, at distances of whole extents.
fn tiles(filetype: &TypeMap, etype: &TypeMap) -> bool {
    let (mine, unit, extent) = (filetype.bytes(1), etype.bytes(1), etype.extent());
    if mine.is_empty() {
        return true;
    }
    let elements = |map: &TypeMap| map.elements.iter().map(|element| element.0).collect::<Vec<Prim>>();
    let bytes_only = |map: &TypeMap| map.elements.iter().all(|(prim, _)| prim.kind == PrimKind::Byte);
    let (my_elements, its_elements) = (elements(filetype), elements(etype));
    if unit.is_empty() || extent <= 0 || mine.len() % unit.len() != 0 {
        return false;
    }
    let repeats = my_elements.len() % its_elements.len() == 0
        && my_elements.chunks(its_elements.len()).all(|chunk| chunk == its_elements);
    (repeats || bytes_only(filetype) || bytes_only(etype))
        && filetype.extent() % extent == 0
        && filetype.lb() % extent == 0
        && mine.chunks(unit.len()).all(|chunk| {
            let origin = chunk[0] - unit[0];
            origin % extent == 0 && chunk.iter().zip(&unit).all(|(byte, other)| byte - other == origin)
        })
}

fn over(etype: Tree) -> impl Strategy<Value = Tree> {
    let old = Box::new(etype.clone());
    let whole = etype.type_map().extent();
    prop_oneof![
        (1..5_u64, Just(old.clone())).prop_map(|(n, old)| Tree::Contiguous(n, old)),
        (1..5_u64, 1..4_u64, -2..6_i64, Just(old.clone()))
            .prop_map(|(n, b, s, old)| Tree::Vector(n, b, s, old)),
        (prop::collection::vec((0..4_u64, 0..8_i64), 1..5), Just(old.clone()))
            .prop_map(|(blocks, old)| Tree::Indexed(blocks, old)),
        (prop::collection::vec((1..3_u64, 0..4_i64), 1..4), 0..3_i64).prop_map(move |(fields, slip)| {
            let place = |at: i64| at * whole + i64::from(slip == 2);
            Tree::Struct(fields.into_iter().map(|(n, at)| (n, place(at), etype.clone())).collect())
        }),
        (1..5_u64, Just(old)).prop_map(|(n, old)| Tree::Subarray(vec![(5, n, 5 - n)], ArrayOrder::C, old)),
    ]
}

proptest! {
    #![proptest_config(cases(600, 2))]

    #[test]
    fn any_two_types_match_the_definition(filetype in any_tree(600), etype in tree_of_bytes(1, 40)) {
        let (filetype_map, etype_map) = (filetype.type_map(), etype.type_map());
        // Beyond this number of etypes, a filetype that consists of etypes only by chance is refused.
        prop_assume!(filetype_map.bytes(1).len() <= 4096 * etype_map.bytes(1).len());
        let expected = tiles(&filetype_map, &etype_map);
        let [filetype, etype] = [filetype, etype].map(|tree| tree.datatype().expect("the type is small"));
        prop_assert_eq!(filetype.is_tiling_of(&etype), expected);
    }

    #[test]
    fn types_made_of_the_etype_match_the_definition((filetype, etype) in tree_of_bytes(1, 40).prop_flat_map(|etype| (over(etype.clone()), Just(etype)))) {
        let expected = tiles(&filetype.type_map(), &etype.type_map());
        let [filetype, etype] = [filetype, etype].map(|tree| tree.datatype().expect("the type is small"));
        prop_assert_eq!(filetype.is_tiling_of(&etype), expected);
    }
}

#[test]
fn huge_filetypes_are_decided_at_once() -> Result<()> {
    let (int, double) = (Datatype::named(Named::Int), Datatype::named(Named::Double));
    let record = Datatype::structure(&[1, 1], &[0, 8], &[double.clone(), int.clone()])?;
    for etype in [&int, &double, &record, &Datatype::named(Named::DoubleInt)] {
        let extent = etype.extent();
        let every_third = Datatype::vector(100_000_000, 1, 3, etype)?;
        let whole = Datatype::resized(0, 300_000_000 * extent, &every_third)?;
        assert!(whole.is_tiling_of(etype));
        assert!(!Datatype::resized(0, 300_000_000 * extent + 1, &every_third)?.is_tiling_of(etype));
        let slipped = Datatype::hvector(100_000_000, 1, 3 * extent + 1, etype)?;
        assert!(!Datatype::resized(0, 600_000_000 * extent, &slipped)?.is_tiling_of(etype));
    }
    let doubles = Datatype::vector(100_000_000, 1, 2, &double)?.with_bounds(0, 1_600_000_000)?;
    assert!(!doubles.is_tiling_of(&int), "the basic type differs");
    assert!(doubles.is_tiling_of(&Datatype::named(Named::Byte)), "bytes match every type");
    assert!(doubles.is_tiling_of(&Datatype::named(Named::DoublePrecision)), "the representation is the same");
    Ok(())
}
