//! Wrong arguments become typed errors: no panic, no overflow, and no wrong value without an error.

use capulet_datatype::{
    ArrayOrder, DEPTH_MAX, Datatype, Distribution, Named, Result, Tiled, TypeError, flatten, pack, unpack,
};

const HUGE: u64 = i64::MAX as u64;

fn int() -> Datatype {
    Datatype::named(Named::Int)
}

#[allow(clippy::needless_pass_by_value)] // passing by value keeps the calls short
fn overflows(result: Result<Datatype>) {
    assert!(matches!(result, Err(TypeError::Overflow { .. })), "{result:?}");
}

#[test]
fn sizes_and_bounds_that_overflow_are_refused() {
    let i = int();
    overflows(Datatype::contiguous(HUGE, &i));
    overflows(Datatype::contiguous(u64::MAX, &i));
    overflows(Datatype::vector(1 << 40, 1 << 40, 0, &i));
    overflows(Datatype::vector(2, 1, i64::MAX, &i));
    overflows(Datatype::vector(2, 1, i64::MIN, &i));
    overflows(Datatype::hvector(3, 1, i64::MAX, &i));
    overflows(Datatype::hvector(u64::MAX, u64::MAX, i64::MIN, &i));
    overflows(Datatype::indexed(&[1], &[i64::MAX], &i));
    overflows(Datatype::hindexed(&[1], &[i64::MAX], &i));
    overflows(Datatype::hindexed(&[1, 1], &[i64::MIN, 0], &i));
    overflows(Datatype::hindexed(&[u64::MAX, u64::MAX], &[0, 0], &i));
    overflows(Datatype::indexed_block(2, &[i64::MAX / 4], &i));
    overflows(Datatype::hindexed_block(HUGE, &[0, 0, 0, 0, 0], &i));
    overflows(Datatype::structure(&[HUGE / 4, HUGE / 4], &[0, 0], &[i.clone(), i.clone()]));
    overflows(Datatype::structure(&[1, 1], &[i64::MIN, i64::MAX - 4], &[i.clone(), i.clone()]));
    overflows(Datatype::subarray(&[HUGE, HUGE], &[1, 1], &[0, 0], ArrayOrder::C, &i));
    overflows(Datatype::subarray(&[u64::MAX; 9], &[1; 9], &[0; 9], ArrayOrder::Fortran, &i));
    let blocks = [Distribution::Cyclic(None); 2];
    overflows(Datatype::darray(0, &[HUGE, 2], &blocks, &[1, 1], ArrayOrder::C, &i));
    overflows(Datatype::darray(0, &[4, 4], &blocks, &[HUGE, HUGE], ArrayOrder::C, &i));
    overflows(Datatype::resized(i64::MAX, 1, &i));
    overflows(Datatype::resized(i64::MIN, -1, &i));
    overflows(int().with_bounds(i64::MAX, 1));
    let far = Datatype::resized(0, i64::MAX, &i).expect("the type fits");
    overflows(Datatype::contiguous(3, &far));
    overflows(Datatype::vector(1, 3, 1, &far));
    overflows(Datatype::subarray(&[3], &[1], &[0], ArrayOrder::C, &far));
}

#[test]
fn unused_arguments_may_have_any_value() -> Result<()> {
    let i = int();
    assert_eq!(Datatype::vector(1, 3, i64::MAX, &i)?.size(), 12);
    assert_eq!(Datatype::hvector(1, 3, i64::MIN, &i)?.extent(), 12);
    assert_eq!(Datatype::indexed(&[0, 1], &[i64::MAX, 0], &i)?.size(), 4);
    assert_eq!(Datatype::hindexed(&[0, 1], &[i64::MIN, 0], &i)?.size(), 4);
    assert_eq!(Datatype::structure(&[0], &[i64::MAX], &[i])?.size(), 0);
    Ok(())
}

#[test]
fn addresses_near_the_limits_are_accepted() -> Result<()> {
    // Displacements may be addresses. Only the offsets of the bytes must fit.
    let shifted = Datatype::hindexed(&[1], &[i64::MAX - 8], &int())?;
    assert_eq!((shifted.true_lb(), shifted.true_ub()), (i64::MAX - 8, i64::MAX - 4));
    let back = Datatype::hindexed(&[2], &[i64::MIN + 8], &shifted)?;
    assert_eq!((back.true_lb(), back.true_ub()), (-1, 7));
    let tiled = Tiled::new(back.layout().clone(), 1)?;
    assert_eq!((tiled.offset_of(0), tiled.offset_of(5)), (-1, 4));
    let low = Datatype::hindexed(&[1], &[i64::MIN], &int())?;
    assert_eq!(low.layout().true_lb(), i64::MIN);
    assert_eq!(Tiled::new(low.layout().clone(), 1)?.bytes_below(i64::MIN + 1), 1);
    Ok(())
}

#[test]
fn lists_may_end_at_the_limits() -> Result<()> {
    let i = int();
    let most = i64::MAX / 4;
    // One more element would reach beyond the last offset.
    overflows(Datatype::indexed(&[1], &[most], &i));
    overflows(Datatype::indexed(&[1, 2], &[0, most - 1], &i));
    overflows(Datatype::indexed_block(1, &[0, most], &i));
    overflows(Datatype::hindexed(&[1, 1], &[0, i64::MAX - 3], &i));
    overflows(Datatype::hindexed_block(1, &[-8, i64::MAX - 8], &i));
    overflows(Datatype::structure(&[1, 1], &[-8, i64::MAX - 8], &[i.clone(), i.clone()]));
    for datatype in [
        Datatype::indexed(&[1, 1], &[0, most - 1], &i)?,
        Datatype::indexed_block(1, &[0, most - 1], &i)?,
        Datatype::hindexed(&[1, 1], &[0, 4 * (most - 1)], &i)?,
        Datatype::structure(&[1, 1], &[0, 4 * (most - 1)], &[i.clone(), i.clone()])?,
    ] {
        assert_eq!((datatype.true_lb(), datatype.true_ub(), datatype.size()), (0, 4 * most, 8));
        let tiled = Tiled::new(datatype.layout().clone(), 1)?;
        assert_eq!((tiled.offset_of(4), tiled.bytes_below(i64::MAX)), (4 * (most - 1), 8));
    }
    let low = Datatype::indexed_block(1, &[i64::MIN / 4, i64::MIN / 4 + 2], &i)?;
    assert_eq!((low.true_lb(), low.true_ub()), (i64::MIN, i64::MIN + 12));
    // An empty block may lie anywhere.
    assert_eq!(Datatype::indexed(&[0, 1], &[i64::MAX, 3], &i)?.true_lb(), 12);
    Ok(())
}

#[test]
fn lists_of_different_lengths_are_refused() {
    let i = int();
    let mismatch = |result: Result<Datatype>| {
        assert!(matches!(result, Err(TypeError::LengthMismatch { .. })), "{result:?}");
    };
    mismatch(Datatype::indexed(&[1, 2], &[0], &i));
    mismatch(Datatype::hindexed(&[1], &[0, 1], &i));
    mismatch(Datatype::structure(&[1, 1], &[0, 8], std::slice::from_ref(&i)));
    mismatch(Datatype::structure(&[1], &[0, 8], std::slice::from_ref(&i)));
    mismatch(Datatype::subarray(&[4, 4], &[2], &[0, 0], ArrayOrder::C, &i));
    mismatch(Datatype::subarray(&[4], &[2], &[0, 0], ArrayOrder::C, &i));
    mismatch(Datatype::darray(0, &[4], &[], &[1], ArrayOrder::C, &i));
    mismatch(Datatype::darray(0, &[4], &[Distribution::None], &[], ArrayOrder::C, &i));
}

#[test]
fn invalid_arrays_are_refused() {
    let i = int();
    for (sizes, subsizes, starts) in [
        (vec![], vec![], vec![]),
        (vec![4], vec![0], vec![0]),
        (vec![4], vec![3], vec![2]),
        (vec![4], vec![5], vec![0]),
        (vec![4, 4], vec![4, 1], vec![0, u64::MAX]),
    ] {
        let result = Datatype::subarray(&sizes, &subsizes, &starts, ArrayOrder::C, &i);
        assert!(matches!(result, Err(TypeError::BadSubarray { .. })), "{result:?}");
    }
    for (rank, gsize, distribution, psize) in [
        (1, 4, Distribution::None, 1),
        (0, 4, Distribution::None, 2),
        (0, 4, Distribution::Block(Some(1)), 3),
        (0, 4, Distribution::Block(Some(0)), 3),
        (0, 4, Distribution::Cyclic(Some(0)), 3),
        (3, 4, Distribution::Cyclic(None), 3),
        (0, 4, Distribution::Cyclic(None), 0),
        (0, 0, Distribution::Block(None), 1),
    ] {
        let result = Datatype::darray(rank, &[gsize], &[distribution], &[psize], ArrayOrder::C, &i);
        assert!(
            matches!(result, Err(TypeError::BadDarray { .. })),
            "{rank} {gsize} {distribution:?} {psize}"
        );
    }
    let result = Datatype::darray(0, &[], &[], &[], ArrayOrder::C, &i);
    assert!(matches!(result, Err(TypeError::BadDarray { .. })));
}

#[test]
fn huge_distribution_arguments_are_accepted() -> Result<()> {
    let i = int();
    // Blocks so large that only the first process has one.
    for (rank, size) in [(0, 40), (1, 0), (u64::MAX - 2, 0)] {
        for distribution in [Distribution::Cyclic(Some(u64::MAX)), Distribution::Block(Some(u64::MAX))] {
            let part = Datatype::darray(rank, &[10], &[distribution], &[u64::MAX], ArrayOrder::C, &i)?;
            assert_eq!((part.size(), part.extent()), (size, 40));
        }
    }
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "runs hundreds of constructors")]
fn nesting_depth_is_limited() -> Result<()> {
    let mut datatype = int();
    for _ in 1..DEPTH_MAX {
        datatype = Datatype::structure(&[1, 1], &[0, 4], &[datatype.clone(), int()])?;
    }
    // The two innermost integers touch. Each further integer overlaps the ones before.
    assert_eq!(datatype.layout().block_count(), u64::from(DEPTH_MAX) - 1);
    assert!(datatype.layout().heap_bytes() < 512 * 1024);
    assert_eq!(Datatype::dup(&datatype).err(), Some(TypeError::TooDeep { limit: DEPTH_MAX }));
    Ok(())
}

#[test]
fn shared_parts_are_kept_once() -> Result<()> {
    // Each level holds the level below twice, in two different ways: 2^60 runs from 60 constructors.
    let mut datatype = Datatype::resized(0, 2, &Datatype::named(Named::Byte))?;
    for level in 0..56 {
        let spread = Datatype::resized(0, datatype.extent(), &datatype)?;
        let displacements = [0, datatype.extent() + i64::from(level % 3)];
        let pair = Datatype::structure(&[1, 1], &displacements, &[datatype, spread])?;
        datatype = Datatype::resized(0, displacements[1] + displacements[1] / 2 * 2 + 2, &pair)?;
        if datatype.extent() > 1 << 60 {
            break;
        }
    }
    assert!(datatype.layout().heap_bytes() < 64 * 1024);
    assert!(datatype.layout().block_count() > 1 << 20);
    let _ = datatype.layout().has_overlap();
    Ok(())
}

#[test]
fn instances_that_overflow_are_refused() -> Result<()> {
    let tiled =
        |datatype: &Datatype, count| Tiled::new(datatype.layout().clone(), count).map(|tiled| tiled.size());
    let i = int();
    assert!(matches!(tiled(&i, HUGE), Err(TypeError::Overflow { .. })));
    assert!(matches!(tiled(&i, u64::MAX), Err(TypeError::Overflow { .. })));
    let back = Datatype::resized(0, i64::MIN / 2, &i)?;
    assert!(matches!(tiled(&back, 4), Err(TypeError::Overflow { .. })));
    assert_eq!(tiled(&back, 1), Ok(4));
    assert_eq!(tiled(&Datatype::contiguous(0, &i)?, u64::MAX), Ok(0));
    Ok(())
}

#[test]
fn ranges_and_memory_that_do_not_fit_are_refused() -> Result<()> {
    let tiled = Tiled::new(Datatype::vector(2, 1, 2, &int())?.layout().clone(), 1)?;
    let (mut memory, mut packed) = ([0_u8; 12], [0_u8; 8]);
    let bad_range = |result| assert!(matches!(result, Err(TypeError::BadRange { .. })));
    bad_range(pack(&tiled, &memory, 0..9, &mut [0; 9]));
    #[allow(clippy::reversed_empty_ranges)] // the test passes a reversed range on purpose
    let reversed = 5..4;
    bad_range(unpack(&tiled, &packed, reversed.clone(), &mut memory));
    bad_range(flatten(&tiled, 0..9, 1).map(drop));
    bad_range(tiled.block_count(reversed).map(drop));
    assert_eq!(
        pack(&tiled, &memory, 0..8, &mut packed[..7]),
        Err(TypeError::PackedLength { expected: 8, found: 7 })
    );
    let short = pack(&tiled, &memory[..11], 0..8, &mut packed);
    assert_eq!(short, Err(TypeError::OutOfMemory { low: 0, high: 12, memory_bytes: 11 }));
    // Only the bytes of the range must lie in memory.
    pack(&tiled, &memory[..11], 0..7, &mut packed[..7])?;
    unpack(&tiled, &packed[..4], 0..4, &mut memory[..4])?;
    unpack(&tiled, &[], 3..3, &mut [])?;
    let negative = Datatype::hindexed(&[1, 1], &[4, -1], &int())?;
    let negative = Tiled::new(negative.layout().clone(), 1)?;
    let before = unpack(&negative, &packed, 0..8, &mut memory);
    assert_eq!(before, Err(TypeError::OutOfMemory { low: -1, high: 8, memory_bytes: 12 }));
    unpack(&negative, &packed[..4], 0..4, &mut memory)
}
