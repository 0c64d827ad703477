//! Lists of blocks of which a few touch: in memory they are a list of equal blocks, but queries report
//! maximal runs.

use capulet_datatype::{Cursor, Datatype, Named, Result, Run, Tiled, TypedCopy, flatten, pack, unpack};

const CANARY: u8 = 0xee;

/// A permutation of blocks with holes, in elements: most neighbors are far apart, and in every `each` a few
/// touch.
fn places(n: usize, each: usize, length: i64) -> Vec<i64> {
    let mut state = 11_u64;
    let mut free: Vec<i64> = (0..2 * n as i64).collect();
    let mut places: Vec<i64> = Vec::new();
    while places.len() < n {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = free.swap_remove((state >> 33) as usize % free.len());
        places.push(at * 3 * length);
        for i in 1..=2 {
            if places.len() % each < 2 {
                places.push((at * 3 + i) * length);
            }
        }
    }
    places
}

/// The same places, with touching blocks joined.
fn joined(places: &[i64], length: i64) -> (Vec<u64>, Vec<i64>) {
    let (mut lengths, mut starts): (Vec<u64>, Vec<i64>) = (Vec::new(), Vec::new());
    for &at in places {
        match (lengths.last_mut(), starts.last()) {
            (Some(last), Some(start)) if start + *last as i64 == at => *last += length as u64,
            _ => {
                lengths.push(length as u64);
                starts.push(at);
            }
        }
    }
    (lengths, starts)
}

fn once(datatype: &Datatype) -> Tiled {
    Tiled::new(datatype.layout().clone(), 1).expect("the type is small")
}

#[test]
fn joined_and_split_blocks_are_one_layout() -> Result<()> {
    let all = [(Named::Double, 3), (Named::Double, 1), (Named::Float, 1), (Named::Char, 5)];
    for &(named, length) in &all[..if cfg!(miri) { 1 } else { 4 }] {
        let element = Datatype::named(named);
        let unit = element.extent();
        let places = places(900, 30, length);
        let (lengths, starts) = joined(&places, length);
        assert!(starts.len() < places.len() && 5 * starts.len() > 4 * places.len());
        let scaled: Vec<i64> = starts.iter().map(|at| at * unit).collect();
        let types = [
            Datatype::indexed_block(length as u64, &places, &element)?,
            Datatype::indexed(&lengths, &starts, &element)?,
            Datatype::hindexed(&lengths, &scaled, &element)?,
            Datatype::structure(&lengths, &scaled, &vec![element.clone(); scaled.len()])?,
        ];
        let expected: Vec<Run> =
            scaled.iter().zip(&lengths).map(|(&offset, n)| Run { offset, len: n * unit as u64 }).collect();
        for datatype in &types {
            let [left, right] = [&types[0], datatype].map(|datatype| datatype.with_bounds(0, 1 << 40));
            assert_eq!(left?.layout(), right?.layout(), "{:?}", datatype.combiner().name());
            let layout = datatype.layout();
            assert_eq!(layout.block_count(), expected.len() as u64);
            // Four bytes per block, a word per 256 seams, and the memory that any layout takes.
            let list = 4 * places.len();
            assert!((list..list + 640).contains(&layout.heap_bytes()), "{} bytes", layout.heap_bytes());
            let tiled = once(datatype);
            assert_eq!(flatten(&tiled, 0..tiled.size(), usize::MAX)?.runs, expected);
        }
    }
    Ok(())
}

#[test]
fn runs_are_whole_from_every_position() -> Result<()> {
    let datatype = Datatype::indexed_block(3, &places(300, 20, 3), &Datatype::named(Named::Short))?;
    for tiled in [once(&datatype), Tiled::new(datatype.layout().clone(), 2)?] {
        let all = flatten(&tiled, 0..tiled.size(), usize::MAX)?.runs;
        let mut cursor = Cursor::new(tiled.clone());
        let (mut begin, mut before) = (0, 0);
        for run in &all {
            let end = begin + run.len;
            for position in (begin..end).step_by(if cfg!(miri) { 17 } else { 1 }) {
                let inside = position - begin;
                assert_eq!(tiled.offset_of(position), run.offset + inside as i64);
                cursor.seek(position);
                let rest = Run { offset: run.offset + inside as i64, len: run.len - inside };
                assert_eq!(cursor.next_run(u64::MAX), Some(rest), "from {position} on");
                assert_eq!(tiled.block_count(0..position + 1)?, before + 1);
                assert_eq!(tiled.block_count(position..tiled.size())?, all.len() as u64 - before);
            }
            (begin, before) = (end, before + 1);
        }
        assert_eq!(begin, tiled.size());
    }
    Ok(())
}

#[test]
fn every_range_is_copied() -> Result<()> {
    for (named, length) in [(Named::Double, 1), (Named::Float, 3), (Named::Char, 1)] {
        let element = Datatype::named(named);
        let datatype = Datatype::indexed_block(length as u64, &places(100, 20, length), &element)?;
        let tiled = once(&datatype);
        let offsets: Vec<usize> = (0..tiled.size()).map(|at| tiled.offset_of(at) as usize).collect();
        let memory: Vec<u8> = (0..tiled.true_ub()).map(|i| (i % 199) as u8).collect();
        let mirror = TypedCopy::new(tiled.clone(), tiled.clone());
        let step = if cfg!(miri) { 97 } else { 7 };
        for start in (0..=offsets.len()).step_by(step) {
            for end in (start..=offsets.len()).step_by(step) {
                let range = start as u64..end as u64;
                let mut packed = vec![0; end - start];
                pack(&tiled, &memory, range.clone(), &mut packed)?;
                let expected: Vec<u8> = offsets[start..end].iter().map(|&at| memory[at]).collect();
                assert_eq!(packed, expected, "{range:?} of {named:?}");
                let mut whole = vec![CANARY; memory.len()];
                offsets[start..end].iter().for_each(|&at| whole[at] = memory[at]);
                let mut target = vec![CANARY; memory.len()];
                unpack(&tiled, &packed, range.clone(), &mut target)?;
                assert_eq!(target, whole, "{range:?} of {named:?}");
                let mut target = vec![CANARY; memory.len()];
                // SAFETY: `# Safety` of `TypedCopy::run`: both memories cover the type, and two vectors do
                // not overlap.
                unsafe {
                    mirror.run(
                        memory.as_ptr(),
                        range.start,
                        target.as_mut_ptr(),
                        range.start,
                        (end - start) as u64,
                    );
                }
                assert_eq!(target, whole, "{range:?} of {named:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn lists_with_long_or_many_joined_runs_keep_their_lengths() -> Result<()> {
    let d = Datatype::named(Named::Double);
    // One run of nine among single elements; a third of the elements in pairs; elements longer than any
    // short run.
    let places: Vec<i64> = (0..200).map(|i| 40 * (i * 37 % 200) + i % 3).collect();
    let mut long = vec![1; 200];
    long[100] = 9;
    let pairs: Vec<u64> = (0..200).map(|i| 1 + u64::from(i * i % 7 < 3)).collect();
    let mut wide = vec![9; 200];
    wide[100] = 18;
    for lengths in [long, pairs, wide] {
        let layout = Datatype::indexed(&lengths, &places, &d)?.layout().clone();
        assert!(layout.heap_bytes() >= 1600, "{} bytes", layout.heap_bytes());
        assert_eq!(layout.block_count(), 200);
        let runs = flatten(&Tiled::new(layout, 1)?, 0..8 * lengths.iter().sum::<u64>(), usize::MAX)?.runs;
        let expected = places.iter().zip(&lengths).map(|(at, n)| Run { offset: 8 * at, len: 8 * n });
        assert!(runs.into_iter().eq(expected));
    }
    Ok(())
}
