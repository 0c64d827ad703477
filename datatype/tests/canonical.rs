//! Different descriptions of one type map become one layout. Descriptions that only look alike keep
//! different layouts.

use capulet_datatype::{ArrayOrder, Datatype, Distribution, Named, Result, Run, Tiled, flatten};

fn float() -> Datatype {
    Datatype::named(Named::Float)
}

fn runs(datatype: &Datatype) -> Vec<(i64, u64)> {
    let tiled = Tiled::new(datatype.layout().clone(), 1).expect("the type is small");
    let all = flatten(&tiled, 0..tiled.size(), usize::MAX).expect("the range lies in the stream");
    all.runs.iter().map(|run| (run.offset, run.len)).collect()
}

/// Asserts that all types have the same layout, once they have the same bounds.
fn same(types: &[Datatype]) -> Result<()> {
    for datatype in types {
        let [left, right] = [&types[0], datatype].map(|datatype| datatype.with_bounds(0, 1 << 40));
        assert_eq!(left?.layout(), right?.layout(), "{:?}\n{:?}", types[0].combiner(), datatype.combiner());
    }
    Ok(())
}

#[test]
fn dense_descriptions_are_one_layout() -> Result<()> {
    let f = float();
    let many: Vec<i64> = (0..100).collect();
    let types = [
        Datatype::contiguous(100, &f)?,
        Datatype::contiguous(10, &Datatype::contiguous(10, &f)?)?,
        Datatype::vector(10, 10, 10, &f)?,
        Datatype::hvector(100, 1, 4, &f)?,
        Datatype::vector(1, 100, -7, &f)?,
        Datatype::indexed(&[40, 0, 60], &[0, 999, 40], &f)?,
        Datatype::hindexed(&[40, 60], &[0, 160], &f)?,
        Datatype::indexed_block(1, &many, &f)?,
        Datatype::hindexed_block(50, &[0, 200], &f)?,
        Datatype::structure(&[60, 40], &[0, 240], &[f.clone(), Datatype::named(Named::Int)])?,
        Datatype::subarray(&[10, 10], &[10, 10], &[0, 0], ArrayOrder::C, &f)?,
        Datatype::subarray(&[30, 10], &[10, 10], &[0, 0], ArrayOrder::C, &f)?,
        Datatype::darray(0, &[100], &[Distribution::Block(None)], &[1], ArrayOrder::C, &f)?,
        Datatype::darray(0, &[100], &[Distribution::Cyclic(Some(7))], &[1], ArrayOrder::Fortran, &f)?,
        Datatype::dup(&Datatype::resized(-8, 3, &Datatype::contiguous(100, &f)?)?)?,
    ];
    same(&types)?;
    assert_eq!(runs(&types[0]), [(0, 400)]);
    assert!(types[..14].iter().enumerate().all(|(i, t)| t.layout().is_dense() == (i != 11)));
    Ok(())
}

#[test]
fn strided_descriptions_are_one_layout() -> Result<()> {
    let f = float();
    let places: Vec<i64> = (0..1000).map(|i| 3 * i).collect();
    let bytes: Vec<i64> = places.iter().map(|i| 4 * i).collect();
    let element = Datatype::resized(0, 12, &f)?;
    let ones = vec![1; 1000];
    let (head, tail) = (Datatype::vector(400, 1, 3, &f)?, Datatype::vector(600, 1, 3, &f)?);
    same(&[
        Datatype::vector(1000, 1, 3, &f)?,
        Datatype::hvector(1000, 1, 12, &f)?,
        Datatype::contiguous(1000, &element)?,
        Datatype::contiguous(20, &Datatype::contiguous(50, &element)?)?,
        Datatype::indexed_block(1, &places, &f)?,
        Datatype::hindexed(&ones, &bytes, &f)?,
        Datatype::structure(&ones, &bytes, &vec![f.clone(); 1000])?,
        Datatype::structure(&[1, 1], &[0, 4800], &[head.clone(), tail])?,
        Datatype::structure(&[1, 600], &[0, 4800], &[head, element])?,
        Datatype::subarray(&[1000, 3], &[1000, 1], &[0, 0], ArrayOrder::C, &f)?,
        Datatype::subarray(&[3, 1000], &[1, 1000], &[0, 0], ArrayOrder::Fortran, &f)?,
        Datatype::darray(0, &[2998], &[Distribution::Cyclic(None)], &[3], ArrayOrder::C, &f)?,
    ])
}

#[test]
fn grid_descriptions_are_one_layout() -> Result<()> {
    let f = float();
    // 20 x 30 rows of 5 elements, in an array of 40 x 60 x 10.
    let rows: Vec<i64> = (0..20).flat_map(|i| (0..30).map(move |j| (i * 60 + j) * 10)).collect();
    let plane = Datatype::vector(30, 5, 10, &f)?;
    let planes: Vec<i64> = (0..20).map(|i| i * 60 * 10 * 4).collect();
    same(&[
        Datatype::subarray(&[40, 60, 10], &[20, 30, 5], &[0, 0, 0], ArrayOrder::C, &f)?,
        Datatype::subarray(&[10, 60, 40], &[5, 30, 20], &[0, 0, 0], ArrayOrder::Fortran, &f)?,
        Datatype::hvector(20, 1, 2400, &plane)?,
        Datatype::indexed_block(5, &rows, &f)?,
        Datatype::hindexed_block(1, &planes, &plane)?,
        Datatype::structure(&[1; 20], &planes, &vec![plane; 20])?,
    ])
}

#[test]
fn stride_in_bytes_differs_from_stride_in_elements() -> Result<()> {
    // Blocks of 2 floats every 2 *bytes*. They overlap, so they are not a run of 8 floats.
    let overlapping = Datatype::hvector(4, 2, 2, &float())?;
    assert_eq!(runs(&overlapping), [(0, 8), (2, 8), (4, 8), (6, 8)]);
    assert_eq!((overlapping.true_ub(), overlapping.size()), (14, 32));
    assert!(overlapping.layout().has_overlap() && !overlapping.layout().is_monotone());
    assert!(!overlapping.layout().is_dense());
    Ok(())
}

#[test]
fn stream_order_is_kept() -> Result<()> {
    let f = float();
    let forward = Datatype::hindexed(&[1, 1], &[0, 4], &f)?;
    let backward = Datatype::hindexed(&[1, 1], &[4, 0], &f)?;
    assert_eq!((runs(&forward), runs(&backward)), (vec![(0, 8)], vec![(4, 4), (0, 4)]));
    assert_ne!(forward.layout(), backward.layout());
    // The columns of a matrix one after the other: the bytes of the dense matrix in another order.
    let column = Datatype::resized(0, 4, &Datatype::vector(10, 1, 10, &f)?)?;
    let transposed = Datatype::contiguous(10, &column)?;
    let straight = Datatype::contiguous(100, &f)?;
    assert_eq!(transposed.size(), straight.size());
    assert_ne!(transposed.layout(), straight.layout());
    assert_eq!(transposed.layout().block_count(), 100);
    assert!(!transposed.layout().has_overlap());
    Ok(())
}

#[test]
fn only_an_equal_part_extends_a_repetition() -> Result<()> {
    let f = float();
    let rows = |n, bytes| {
        Datatype::hvector(3, 1, 1000, &Datatype::hvector(n, bytes, 8, &Datatype::named(Named::Byte))?)
    };
    let first = rows(40, 4)?;
    // Each of these begins where the three rows end, but it is a different row.
    let longer = Datatype::vector(41, 1, 2, &f)?;
    let wider = Datatype::hvector(40, 1, 12, &f)?;
    let thinner = rows(40, 3)?;
    for next in [&longer, &wider, &thinner] {
        let both = Datatype::structure(&[1, 1], &[0, 3000], &[first.clone(), next.clone()])?;
        let mut expected = runs(&first);
        expected.extend(runs(next).into_iter().map(|(offset, len)| (offset + 3000, len)));
        assert_eq!(runs(&both), expected);
        assert_eq!(both.layout().size(), first.size() + next.size());
    }
    // Different blocks at the place where one more block of the row would lie.
    let row = Datatype::vector(40, 1, 2, &f)?;
    let bytes = Datatype::named(Named::Byte);
    for next in [Datatype::contiguous(7, &bytes)?, Datatype::hvector(40, 3, 8, &bytes)?] {
        let both = Datatype::structure(&[1, 1], &[0, 320], &[row.clone(), next.clone()])?;
        let mut expected = runs(&row);
        expected.extend(runs(&next).into_iter().map(|(offset, len)| (offset + 320, len)));
        assert_eq!(runs(&both), expected);
    }
    let same = Datatype::structure(&[1, 1], &[0, 3000], &[first, Datatype::vector(40, 1, 2, &f)?])?;
    let four = Datatype::hvector(4, 1, 1000, &Datatype::vector(40, 1, 2, &f)?)?;
    assert_eq!(same.layout().block_count(), 160);
    assert_eq!(runs(&same), runs(&four));
    assert!(same.layout().heap_bytes() == four.layout().heap_bytes());
    Ok(())
}

#[test]
fn types_without_data_have_empty_layouts() -> Result<()> {
    let f = float();
    let none = Datatype::contiguous(0, &f)?;
    for empty in [
        Datatype::vector(4, 0, 3, &f)?,
        Datatype::vector(0, 4, 3, &f)?,
        Datatype::indexed(&[0, 0], &[5, 9], &f)?,
        Datatype::structure(&[0, 3], &[100, 200], &[f.clone(), none.clone()])?,
        Datatype::hindexed(&[1], &[100], &none)?,
        Datatype::vector(1 << 40, 1 << 40, i64::MAX, &none)?,
    ] {
        assert_eq!((empty.size(), empty.extent(), empty.true_ub()), (0, 0, 0));
        assert_eq!(empty.layout().block_count(), 0);
        assert!(empty.layout().is_monotone() && !empty.layout().has_overlap());
        assert_eq!(flatten(&Tiled::forever(empty.layout().clone()), 0..0, 9)?.runs, []);
    }
    // MPICH reports an extent of 36 for vector(4, 0, 3). The extent that the library in use reports holds
    // for the types built from it.
    let mpich = Datatype::vector(4, 0, 3, &f)?.with_bounds(0, 36)?;
    assert_eq!(Datatype::contiguous(2, &mpich)?.extent(), 72);
    Ok(())
}

#[test]
fn alignment_pads_extents_and_explicit_bounds_persist() -> Result<()> {
    let (double, character) = (Datatype::named(Named::Double), Datatype::named(Named::Char));
    let record = Datatype::structure(&[1, 1], &[0, 8], &[double.clone(), character.clone()])?;
    assert_eq!((record.size(), record.extent(), record.true_ub()), (9, 16, 9));
    assert_eq!(Datatype::contiguous(2, &record)?.extent(), 32);
    let explicit = Datatype::resized(0, 8, &double)?;
    let tight = Datatype::structure(&[1, 1], &[0, 8], &[explicit, character.clone()])?;
    assert_eq!((tight.extent(), tight.true_ub()), (8, 9));
    let dense = Datatype::resized(0, 9, &record)?;
    assert_eq!(runs(&Datatype::contiguous(3, &dense)?), [(0, 27)]);
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "uses lists of thousands")]
fn overlap_of_many_interleaved_runs_is_found() -> Result<()> {
    let f = float();
    // 400 x 400 elements, visited by columns: not monotone, but without overlap.
    let column = Datatype::resized(0, 4, &Datatype::vector(400, 1, 400, &f)?)?;
    let columns = Datatype::contiguous(400, &column)?;
    assert!(!columns.layout().is_monotone() && !columns.layout().has_overlap());
    // Columns one byte closer: neighbors overlap.
    let narrow = Datatype::contiguous(400, &Datatype::resized(0, 3, &column)?)?;
    assert!(narrow.layout().has_overlap());
    // The same columns again, one row further.
    assert!(Datatype::hvector(2, 1, 1600, &columns)?.layout().has_overlap());
    assert!(!Datatype::hvector(2, 1, 640_000, &columns)?.layout().has_overlap());
    // 1,000 by 300 elements at strides of 7 and 7,000 bytes, then of 7 and 5,001, which share no factor.
    let skewed = |apart| Datatype::hvector(300, 1, apart, &Datatype::hvector(1000, 1, 7, &f)?);
    assert!(!skewed(7000)?.layout().has_overlap());
    assert!(skewed(5001)?.layout().has_overlap(), "5001 = 714 * 7 + 3");
    let comb = |apart| Datatype::hvector(2, 1, apart, &Datatype::hvector(40_000, 1, 12, &f)?);
    for (apart, meets) in [
        (4, false),
        (8, false),
        (3, true),
        (9, true),
        (-12_008, false),
        (12_001, true),
        (-480_001, false),
        (-479_990, true),
    ] {
        assert_eq!(comb(apart)?.layout().has_overlap(), meets, "{apart} bytes apart");
    }
    // A descending list of 100,000 places; then the same list with one place twice.
    let mut places: Vec<i64> = (0..100_000).map(|i| (100_000 - i) * 9 + i % 3).collect();
    let falling = Datatype::indexed_block(1, &places, &f)?;
    assert!(!falling.layout().is_monotone() && !falling.layout().has_overlap());
    places[7] = places[70_000];
    assert!(Datatype::indexed_block(1, &places, &f)?.layout().has_overlap());
    Ok(())
}

#[test]
fn instances_of_a_dense_layout_are_one_run() -> Result<()> {
    let tiled = Tiled::new(float().layout().clone(), 1_000_000_007)?;
    let all = flatten(&tiled, 0..tiled.size(), 2)?;
    assert_eq!(all.runs, [Run { offset: 0, len: 4_000_000_028 }]);
    assert!(tiled.is_dense() && tiled.runs() == 1);
    Ok(())
}

/// Ascending places with gaps of one to three elements and no regularity.
fn irregular(n: usize) -> Vec<i64> {
    let mut state = 7_u64;
    let gaps = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        2 + (state >> 61) as i64 % 3
    });
    gaps.scan(0, |at, gap| {
        *at += gap;
        Some(*at)
    })
    .take(n)
    .collect()
}

#[test]
#[cfg_attr(miri, ignore = "uses lists of thousands")]
fn dense_lists_are_bitmaps() -> Result<()> {
    for named in [Named::Float, Named::Double] {
        let element = Datatype::named(named);
        let bytes = element.extent();
        let places = irregular(10_000);
        let scaled: Vec<i64> = places.iter().map(|place| place * bytes).collect();
        let types = [
            Datatype::indexed_block(1, &places, &element)?,
            Datatype::hindexed_block(1, &scaled, &element)?,
            Datatype::indexed(&vec![1; 10_000], &places, &element)?,
            Datatype::structure(&vec![1; 10_000], &scaled, &vec![element.clone(); 10_000])?,
        ];
        same(&types)?;
        // At most one bit per place, plus directories of three sixteenths of that.
        let span = places[9_999] - places[0];
        let layout = types[0].layout();
        assert!(layout.heap_bytes() < span as usize / 8 * 19 / 16 + 400, "{} bytes", layout.heap_bytes());
        assert!(layout.is_monotone() && !layout.has_overlap() && layout.block_count() == 10_000);
        assert_eq!(runs(&types[0]), scaled.iter().map(|&at| (at, bytes as u64)).collect::<Vec<_>>());
    }
    // Runs of one and of two units.
    let lengths: Vec<u64> = (0..10_000).map(|i| 1 + i % 7 % 2).collect();
    let places: Vec<i64> = irregular(10_000).iter().zip(0..).map(|(place, i)| place + i).collect();
    let mixed = Datatype::indexed(&lengths, &places, &float())?;
    assert!(mixed.layout().heap_bytes() < 10_000, "{} bytes", mixed.layout().heap_bytes());
    assert_eq!(runs(&mixed).len(), 10_000);
    // Sparse lists stay lists, with 4 bytes per place.
    let sparse: Vec<i64> = irregular(10_000).iter().map(|place| place * 9).collect();
    let sparse = Datatype::indexed_block(1, &sparse, &float())?;
    assert!((40_000..40_500).contains(&sparse.layout().heap_bytes()));
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "uses lists of thousands")]
fn recurring_lists_are_repetitions() -> Result<()> {
    let f = float();
    // Distances of 2, 3 and 7, repeated, from 5 on.
    let place = |i: i64| 5 + i / 3 * 12 + [0, 2, 5][(i % 3) as usize];
    let places: Vec<i64> = (0..3000).map(place).collect();
    let body = Datatype::resized(0, 48, &Datatype::indexed_block(1, &[0, 2, 5], &f)?)?;
    let types = [
        Datatype::indexed_block(1, &places, &f)?,
        Datatype::indexed(&vec![1; 3000], &places, &f)?,
        Datatype::hindexed(&[1000], &[20], &body)?,
        Datatype::hindexed(&[1], &[20], &Datatype::contiguous(1000, &body)?)?,
        Datatype::hindexed(&[400, 600], &[20, 20 + 400 * 48], &body)?,
    ];
    same(&types)?;
    assert!(types[0].layout().heap_bytes() < 600, "{} bytes", types[0].layout().heap_bytes());
    // Runs of different lengths.
    let lengths: Vec<u64> = (0..3000).map(|i| [1, 2, 1][i % 3]).collect();
    let mixed = Datatype::indexed(&lengths, &places, &f)?;
    let body = Datatype::resized(0, 48, &Datatype::indexed(&[1, 2, 1], &[0, 2, 5], &f)?)?;
    same(&[mixed.clone(), Datatype::hindexed(&[1000], &[20], &body)?])?;
    assert_eq!((mixed.layout().block_count(), mixed.size()), (3000, 16_000));
    // A rest that does not fill a period.
    for rest in 1..3 {
        let n = 3000 - rest;
        let torn = Datatype::indexed(&lengths[..n], &places[..n], &f)?;
        assert!(torn.layout().heap_bytes() < 1500, "{} bytes", torn.layout().heap_bytes());
        assert_eq!(runs(&torn), runs(&mixed)[..n]);
    }
    // All places from one on are off by one, far behind the first periods, while the lengths still recur.
    let mut torn = places.clone();
    torn[2500..].iter_mut().for_each(|place| *place += 1);
    let torn = Datatype::indexed(&lengths, &torn, &f)?;
    assert_eq!(
        runs(&torn)[2499..2502],
        [(4 * place(2499), 4), (4 * (place(2500) + 1), 8), (4 * (place(2501) + 1), 4)]
    );
    // A single place is off by one.
    let mut off = places.clone();
    off[2000] += 1;
    let off = Datatype::indexed_block(1, &off, &f)?;
    assert_ne!(off.layout(), types[0].with_bounds(off.lb(), off.extent())?.layout());
    assert_eq!(runs(&off)[2000].0, 4 * (place(2000) + 1));
    Ok(())
}

#[test]
fn recurring_structures_are_repetitions() -> Result<()> {
    let f = float();
    let (row, column) = (Datatype::vector(50, 1, 2, &f)?, Datatype::vector(40, 2, 3, &f)?);
    let n = if cfg!(miri) { 40 } else { 200 };
    let fields: Vec<Datatype> =
        (0..n).map(|i| if i % 2 == 0 { row.clone() } else { column.clone() }).collect();
    let at: Vec<i64> = (0..n).map(|i| i / 2 * 1000 + i % 2 * 408).collect();
    let pair = Datatype::structure(&[1, 1], &[0, 408], &[row, column])?;
    let types = [
        Datatype::structure(&vec![1; n as usize], &at, &fields)?,
        Datatype::hvector(n as u64 / 2, 1, 1000, &pair)?,
    ];
    same(&types)?;
    assert!(types[0].layout().heap_bytes() < 1200, "{} bytes", types[0].layout().heap_bytes());
    Ok(())
}

#[test]
fn equal_structures_add_a_dimension() -> Result<()> {
    let f = float();
    let inner = Datatype::subarray(&[20, 30], &[10, 7], &[3, 4], ArrayOrder::C, &f)?;
    let at: Vec<i64> = (0..6).map(|i| i * 5000).collect();
    let back: Vec<i64> = at.iter().rev().copied().collect();
    same(&[
        Datatype::structure(&[1; 6], &at, &vec![inner.clone(); 6])?,
        Datatype::hvector(6, 1, 5000, &inner)?,
        Datatype::hindexed_block(1, &at, &inner)?,
        Datatype::contiguous(6, &Datatype::resized(0, 5000, &inner)?)?,
        Datatype::structure(&[2, 4], &[0, 10_000], &vec![Datatype::resized(0, 5000, &inner)?; 2])?,
        // The same shape, built by another constructor.
        {
            let rows = Datatype::hindexed(&[1], &[4 * 94], &Datatype::vector(10, 7, 30, &f)?)?;
            Datatype::structure(
                &[1; 6],
                &at,
                &[rows, inner.clone(), inner.clone(), inner.clone(), inner.clone(), inner.clone()],
            )?
        },
    ])?;
    same(&[
        Datatype::structure(&[1; 6], &back, &vec![inner.clone(); 6])?,
        Datatype::hindexed(&[1], &[25_000], &Datatype::hvector(6, 1, -5000, &inner)?)?,
    ])
}
