//! Types of 10^8 runs and more: memory follows the description, and every question is answered at once.

use std::ops::ControlFlow;

use capulet_datatype::{ArrayOrder, Cursor, Datatype, Distribution, Named, Result, Run, Tiled, flatten};

fn double() -> Datatype {
    Datatype::named(Named::Double)
}

/// The huge types, with the number of runs of each.
fn huge_types() -> Result<Vec<(u64, Datatype)>> {
    let d = double();
    let row = Datatype::vector(1_000_000, 1, 2, &d)?;
    let nested = Datatype::hvector(1_000_000, 1, 16_000_016, &row)?;
    let n = 1 << 20;
    let block = Distribution::Block(None);
    let cyclic = Distribution::Cyclic(Some(3));
    let odd = Datatype::structure(&[1, 1, 1], &[0, 8, 1 << 30], &[row.clone(), d.clone(), nested.clone()])?;
    Ok(vec![
        (100_000_000, Datatype::vector(100_000_000, 1, 2, &d)?),
        (100_000_000, Datatype::hvector(100_000_000, 1, -24, &d)?),
        (1_000_000_000_000, nested),
        (n / 4 * n, Datatype::subarray(&[n, n, 4], &[n / 4, n, 2], &[5, 0, 1], ArrayOrder::C, &d)?),
        // Per row, the second process has 174,762 whole blocks and one of a single element.
        (n / 2 * 174_763, {
            let (rows, columns) = (n, n);
            Datatype::darray(1, &[rows, columns], &[block, cyclic], &[2, 2], ArrayOrder::C, &d)?
        }),
        (1_000_000 + 1 + 1_000_000_000_000, odd),
    ])
}

#[test]
fn huge_types_take_less_than_a_kilobyte_and_no_loop_over_runs() -> Result<()> {
    for (runs, datatype) in huge_types()? {
        let layout = datatype.layout();
        assert_eq!(layout.block_count(), runs, "{:?}", datatype.combiner());
        assert!(layout.heap_bytes() < 1024, "{} bytes for {:?}", layout.heap_bytes(), datatype.combiner());
        assert!(datatype.signature().elements() >= 100_000_000);
        assert!(datatype.signature().repetitions_of(double().signature()).is_some());

        let tiled = Tiled::new(layout.clone(), 3)?;
        let mut cursor = Cursor::new(tiled.clone());
        let steps = if cfg!(miri) { 10 } else { 1000 };
        for step in 0..steps {
            let stream = tiled.size() / steps * step + step % 8;
            cursor.seek(stream);
            let run = cursor.next_run(u64::MAX).expect("the position lies in the stream");
            assert_eq!(run.offset, tiled.offset_of(stream));
            assert!(tiled.block_count(stream..stream + 80)? <= 11);
            if tiled.is_monotone() {
                assert_eq!(tiled.bytes_below(run.offset), stream);
            }
        }
    }
    Ok(())
}

#[test]
fn view_tiles_to_the_last_offset() -> Result<()> {
    let column = Datatype::resized(0, 8 * 1024, &double())?;
    let view = Tiled::forever(column.layout().clone());
    assert_eq!(view.count(), (i64::MAX as u64 - 8) / 8192 + 1);
    let last = view.size() - 1;
    assert_eq!(view.bytes_below(view.offset_of(last)), last);
    assert_eq!(view.bytes_below(i64::MAX), view.size());
    assert!(view.is_monotone());
    let mut cursor = Cursor::new(view.clone());
    cursor.seek(last);
    assert_eq!(cursor.next_run(9), Some(Run { offset: view.offset_of(last), len: 1 }));
    assert_eq!(cursor.next_run(9), None);

    let bounded = Tiled::until(column.layout().clone(), 3 * 8192);
    assert_eq!((bounded.count(), bounded.true_ub()), (3, 2 * 8192 + 8));
    assert_eq!(Tiled::until(column.layout().clone(), 7).count(), 0);
    assert_eq!(Tiled::until(column.layout().clone(), 8).count(), 1);
    let dense = Tiled::forever(double().layout().clone());
    assert_eq!(dense.size(), i64::MAX as u64 / 8 * 8);
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "uses lists of millions")]
fn long_list_is_kept_once() -> Result<()> {
    // Sparse and without a period, so the list is neither a bitmap nor a repetition.
    let places: Vec<i64> = (0..1_000_000).map(|i| 12 * i + i * i % 7 * (i % 1009) % 8).collect();
    let lengths: Vec<u64> = (0..1_000_000).map(|i| 1 + i * i % 11 % (1 + i % 503) % 3).collect();
    let d = double();
    let equal = Datatype::indexed_block(1, &places, &d)?;
    assert!((4_000_000..4_000_000 + 1024).contains(&equal.layout().heap_bytes()));
    let varied = Datatype::indexed(&lengths, &places, &d)?;
    assert!((8_000_000..8_000_000 + 64 * 1024).contains(&varied.layout().heap_bytes()));
    // Beyond 2 GiB, displacements take 8 bytes.
    let far: Vec<i64> = places.iter().map(|place| place * 40).collect();
    assert!(Datatype::indexed_block(1, &far, &d)?.layout().heap_bytes() < 8_000_000 + 1024);
    assert!(Datatype::indexed(&lengths, &far, &d)?.layout().heap_bytes() < 16_000_000 + 64 * 1024);
    // Repeated, resized and nested types share the list.
    let wide = Datatype::contiguous(1000, &Datatype::resized(0, 1 << 30, &varied)?)?;
    assert!(wide.layout().heap_bytes() < 8_000_000 + 65 * 1024);
    assert_eq!(wide.layout().block_count(), 1_000_000_000);
    let tiled = Tiled::new(varied.layout().clone(), 2)?;
    for stream in (0..tiled.size()).step_by(999_983) {
        assert_eq!(tiled.bytes_below(tiled.offset_of(stream)), stream);
        assert_eq!(flatten(&tiled, stream..stream + 1, 1)?.runs[0].offset, tiled.offset_of(stream));
    }
    Ok(())
}

#[test]
#[cfg_attr(miri, ignore = "uses lists of millions")]
fn all_runs_of_a_large_vector_are_visited() -> Result<()> {
    let tiled =
        Tiled::new(Datatype::vector(10_000_000, 1, 2, &Datatype::named(Named::Float))?.layout().clone(), 1)?;
    let (mut runs, mut sum) = (0_u64, 0_i64);
    let flow = Cursor::new(tiled).for_each_run(u64::MAX, |run| {
        runs += 1;
        sum += run.offset;
        ControlFlow::<()>::Continue(())
    });
    assert!(flow.is_continue());
    assert_eq!((runs, sum), (10_000_000, 8 * (10_000_000 * 9_999_999 / 2)));
    Ok(())
}
