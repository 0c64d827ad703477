//! Arguments at the ends of their ranges: each constructor gives a type or an error, and each type answers
//! every question. There is never a panic (these tests run with overflow checks), and never a loop over runs
//! that were not asked for.

mod cases;

use std::sync::Arc;

use capulet_datatype::{ArrayOrder, Cursor, Datatype, Distribution, Named, Result, Tiled, flatten};
use cases::cases;
use proptest::prelude::*;

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..5_u64, 1 => (0..64_u32).prop_map(|bit| 1 << bit), 1 => (0..64_u32).prop_map(|bit| u64::MAX >> bit)]
}

fn place() -> impl Strategy<Value = i64> {
    let near = |place: i64| (-9..9_i64).prop_map(move |by| place.saturating_add(by));
    prop_oneof![
        4 => -20..40_i64,
        1 => near(i64::MIN),
        1 => near(i64::MAX),
        1 => (0..63_u32, any::<bool>()).prop_map(|(bit, back)| if back { -(1 << bit) } else { 1 << bit }),
    ]
}

/// One constructor over an old type. A number selects the constructor.
type Step = (u8, Vec<u64>, Vec<i64>);

fn apply(old: &Datatype, (kind, counts, places): &Step) -> Result<Datatype> {
    let (n, block) = (counts[0], counts[1]);
    let pair = [old.clone(), Datatype::dup(old)?];
    let cyclic = [Distribution::Cyclic(Some(block.max(1))), Distribution::Block(None)];
    match kind {
        0 => Datatype::contiguous(n, old),
        1 => Datatype::vector(n, block, places[0], old),
        2 => Datatype::hvector(n, block, places[0], old),
        3 => Datatype::indexed(&counts[..2], &places[..2], old),
        4 => Datatype::hindexed(counts, places, old),
        5 => Datatype::indexed_block(n, places, old),
        6 => Datatype::hindexed_block(n, places, old),
        7 => Datatype::structure(&counts[..2], &places[..2], &pair),
        8 => Datatype::resized(places[0], places[1], old),
        9 => Datatype::subarray(&[n, block], &[n / 2, block], &[n / 2, 0], ArrayOrder::Fortran, old),
        10 => Datatype::darray(counts[2], &[n, 7], &cyclic, &[block, 2], ArrayOrder::C, old),
        _ => old.with_bounds(places[0], places[1]),
    }
}

fn interrogate(datatype: &Datatype, counts: &[u64], places: &[i64]) {
    let layout = datatype.layout();
    assert_eq!(layout.size(), datatype.size());
    assert!(layout.heap_bytes() < 64 * 1024);
    assert!(layout.block_count() <= layout.size());
    let _ = layout.has_overlap();
    let _ = datatype.is_tiling_of(&Datatype::named(Named::Short));
    assert!(datatype.is_equivalent(datatype));
    let tilings = [Tiled::forever(Arc::clone(layout)), Tiled::until(Arc::clone(layout), places[2])];
    let counted = counts.iter().filter_map(|&n| Tiled::new(Arc::clone(layout), n).ok());
    for tiled in tilings.into_iter().chain(counted) {
        let size = tiled.size();
        assert!(tiled.true_lb() <= tiled.true_ub() && i64::try_from(size).is_ok());
        let mut cursor = Cursor::new(tiled.clone());
        for stream in counts.iter().copied().chain([0, 1, size / 2, size.saturating_sub(1), size]) {
            cursor.seek(stream);
            if let Some(run) = cursor.next_run(3) {
                assert_eq!(run.offset, tiled.offset_of(stream));
                assert!(tiled.true_lb() <= run.offset && run.end() <= tiled.true_ub());
                if tiled.is_monotone() {
                    assert_eq!(tiled.bytes_below(run.offset), stream);
                }
            }
            let part = flatten(&tiled, stream.min(size)..size, 3).expect("the range lies in the stream");
            assert!(part.next <= size);
            assert!(tiled.block_count(stream.min(size)..size).expect("the range lies in the stream") <= size);
        }
        for &place in places {
            assert!(tiled.bytes_below(place) <= size);
        }
    }
}

proptest! {
    #![proptest_config(cases(6000, 10))]

    #[test]
    fn extreme_arguments_give_types_or_errors(
        steps in prop::collection::vec((0..12_u8, prop::collection::vec(count(), 3), prop::collection::vec(place(), 3)), 1..5),
    ) {
        let mut datatype = Datatype::named(Named::Int);
        for step in &steps {
            match apply(&datatype, step) {
                Ok(next) => datatype = next,
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            interrogate(&datatype, &step.1, &step.2);
        }
    }
}
