//! Random types, compared with the naive oracle: everything that the library reports about a type and does
//! with it.

mod cases;
mod oracle;

use std::ops::ControlFlow;

use capulet_datatype::{Cursor, Datatype, Prim, Run, Tiled, TypedCopy, flatten, pack, unpack};
use cases::cases;
use oracle::{TypeMap, any_tree, runs_of, tree, tree_of_bytes, tree_of_many_runs};
use proptest::prelude::*;

const CANARY: u8 = 0xa5;

fn pairs(runs: &[Run]) -> Vec<(i64, u64)> {
    runs.iter().map(|run| (run.offset, run.len)).collect()
}

fn tiled(datatype: &Datatype, count: u64) -> Tiled {
    Tiled::new(datatype.layout().clone(), count).expect("the type is small")
}

fn rises(bytes: &[i64]) -> bool {
    bytes.windows(2).all(|pair| pair[0] < pair[1])
}

fn elements(datatype: &Datatype) -> Vec<Prim> {
    let mut elements = Vec::new();
    let _ = datatype.signature().for_each_run(|prim, count| {
        elements.extend(std::iter::repeat_n(prim, count as usize));
        ControlFlow::<()>::Continue(())
    });
    elements
}

/// Memory that covers the given offsets, with the offset of its first byte.
struct Memory {
    bytes: Vec<u8>,
    low: i64,
}

impl Memory {
    fn covering(offsets: &[i64], fill: impl Fn(usize) -> u8) -> Self {
        let low = offsets.iter().min().copied().unwrap_or(0);
        let high = offsets.iter().max().map_or(0, |high| high + 1);
        Self { bytes: (0..(high - low) as usize).map(fill).collect(), low }
    }

    fn at(&mut self, offset: i64) -> &mut u8 {
        &mut self.bytes[(offset - self.low) as usize]
    }
}

fn check_facts(datatype: &Datatype, map: &TypeMap) {
    let bytes = map.bytes(1);
    assert_eq!(datatype.size(), bytes.len() as u64);
    assert_eq!((datatype.lb(), datatype.ub()), (map.lb(), map.ub()), "bounds");
    assert_eq!(datatype.extent(), map.extent());
    assert_eq!((datatype.true_lb(), datatype.true_ub()), (map.true_lb(), map.true_ub()), "true bounds");
    let expected: Vec<Prim> = map.elements.iter().map(|element| element.0).collect();
    assert_eq!(elements(datatype), expected, "signature");
    assert_eq!(datatype.signature().elements(), expected.len() as u64);
    let in_order = map.elements.iter().map(|element| element.1);
    assert_eq!(datatype.has_nondecreasing_displacements(), in_order.is_sorted(), "order of displacements");

    let layout = datatype.layout();
    assert_eq!(layout.is_monotone(), rises(&bytes), "monotone");
    let mut sorted = bytes.clone();
    sorted.sort_unstable();
    assert_eq!(layout.has_overlap(), sorted.windows(2).any(|pair| pair[0] == pair[1]), "overlap");
    assert_eq!(layout.block_count(), runs_of(&bytes).len() as u64, "blocks");
    let dense = runs_of(&bytes).len() == 1 && bytes.len() as i64 == map.extent();
    assert_eq!(layout.is_dense(), dense, "dense");
}

proptest! {
    #![proptest_config(cases(400, 2))]

    #[test]
    fn bounds_size_signature_and_flags_match(tree in prop_oneof![tree_of_bytes(0, 4000), tree_of_many_runs()]) {
        check_facts(&tree.datatype().expect("the type is small"), &tree.type_map());
    }

    #[test]
    fn runs_match_at_any_count(tree in prop_oneof![tree_of_bytes(0, 600), tree_of_many_runs()], count in 0..4_u64) {
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let bytes = map.bytes(count);
        let tiled = tiled(&datatype, count);
        let all = flatten(&tiled, 0..tiled.size(), usize::MAX).expect("the range lies in the stream");
        prop_assert_eq!(pairs(&all.runs), runs_of(&bytes));
        prop_assert_eq!(all.next, tiled.size());
        prop_assert_eq!(tiled.runs(), runs_of(&bytes).len() as u64);
        prop_assert_eq!(tiled.is_monotone(), rises(&bytes));
        let hull = bytes.iter().min().zip(bytes.iter().max()).map(|(low, high)| (*low, high + 1));
        prop_assert_eq!((tiled.true_lb(), tiled.true_ub()), hull.unwrap_or((0, 0)));
    }

    #[test]
    fn every_position_is_found_both_ways(tree in any_tree(300), count in 1..4_u64) {
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let bytes = map.bytes(count);
        let tiled = tiled(&datatype, count);
        let mut cursor = Cursor::new(tiled.clone());
        for (stream, &offset) in bytes.iter().enumerate().step_by(if cfg!(miri) { 7 } else { 1 }) {
            prop_assert_eq!(tiled.offset_of(stream as u64), offset);
            cursor.seek(stream as u64);
            let len = (offset..).zip(&bytes[stream..]).take_while(|(next, byte)| next == *byte).count() as u64;
            prop_assert_eq!(cursor.peek(), Some(Run { offset, len }));
            prop_assert_eq!(cursor.remaining(), (bytes.len() - stream) as u64);
        }
        prop_assert_eq!(tiled.offset_of(bytes.len() as u64), bytes[bytes.len() - 1] + 1);
        if tiled.is_monotone() {
            for offset in (bytes[0] - 2..bytes[bytes.len() - 1] + 4).step_by(if cfg!(miri) { 7 } else { 1 }) {
                let below = bytes.partition_point(|&byte| byte < offset) as u64;
                prop_assert_eq!(tiled.bytes_below(offset), below, "offset {}", offset);
            }
        }
    }

    #[test]
    fn partial_ranges_match(tree in any_tree(600), count in 1..4_u64, a in any::<u64>(), b in any::<u64>(), step in 1..9_usize) {
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let bytes = map.bytes(count);
        let tiled = tiled(&datatype, count);
        let (a, b) = (a % (tiled.size() + 1), b % (tiled.size() + 1));
        let range = a.min(b)..a.max(b);
        let expected = runs_of(&bytes[range.start as usize..range.end as usize]);
        prop_assert_eq!(tiled.block_count(range.clone()), Ok(expected.len() as u64));

        // In parts, by number of runs.
        let (mut runs, mut next) = (Vec::new(), range.start);
        while next < range.end {
            let part = flatten(&tiled, next..range.end, step).expect("the range lies in the stream");
            prop_assert!(part.runs.len() <= step && part.next > next);
            runs.extend(pairs(&part.runs));
            next = part.next;
        }
        prop_assert_eq!(&runs, &expected);

        // In parts, by number of bytes; the parts of one run join again.
        let mut cursor = Cursor::new(tiled.clone());
        cursor.seek(range.start);
        let mut pieces = Vec::new();
        while cursor.position() < range.end {
            let run = cursor
                .next_run((range.end - cursor.position()).min(step as u64))
                .expect("the cursor is not at the end");
            pieces.extend(run.offset..run.end());
        }
        prop_assert_eq!(pieces, &bytes[range.start as usize..range.end as usize]);

        // After a break, the cursor stands behind the visited runs.
        let mut cursor = Cursor::new(tiled.clone());
        cursor.seek(range.start);
        let mut seen = Vec::new();
        let flow = cursor.for_each_run(range.end - range.start, |run| {
            seen.push((run.offset, run.len));
            if seen.len() == step { ControlFlow::Break(run.len) } else { ControlFlow::Continue(()) }
        });
        prop_assert_eq!(&seen[..], &expected[..step.min(expected.len())]);
        prop_assert_eq!(flow.is_break(), expected.len() >= step);
        prop_assert_eq!(cursor.position() - range.start, seen.iter().map(|run| run.1).sum::<u64>());
    }

    #[test]
    fn cursor_follows_mixed_steps(tree in any_tree(400), count in 1..4_u64, steps in prop::collection::vec((0..4_u8, any::<u64>()), 1..30)) {
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let bytes = map.bytes(count);
        let mut cursor = Cursor::new(tiled(&datatype, count));
        let mut at = 0_usize;
        for (kind, number) in steps {
            match kind {
                0 => {
                    at = (number % (bytes.len() as u64 + 1)) as usize;
                    cursor.seek(at as u64);
                }
                1 => {
                    let _ = cursor.for_each_run(number % 50, |run| {
                        assert_eq!(bytes[at], run.offset);
                        at += run.len as usize;
                        ControlFlow::<()>::Continue(())
                    });
                }
                _ => {
                    let max = if kind == 2 { u64::MAX } else { number % 20 };
                    let expected = runs_of(&bytes[at..]).first().map(|run| (run.0, run.1.min(max)));
                    let run = cursor.next_run(max).map(|run| (run.offset, run.len));
                    prop_assert_eq!(run, expected.filter(|run| run.1 > 0));
                    at += run.map_or(0, |run| run.1 as usize);
                }
            }
            prop_assert_eq!(cursor.position(), at as u64);
        }
    }

    #[test]
    fn pack_and_unpack_do_not_touch_gaps(tree in any_tree(500), count in 1..4_u64, a in any::<u64>(), b in any::<u64>()) {
        let map = tree.type_map();
        let low = map.bytes(count).into_iter().min().unwrap_or(0);
        // Moved so that the lowest byte lies at offset 0, because the memory is a slice here.
        let one = tree.datatype().expect("the type is small");
        let all = Datatype::contiguous(count, &one).expect("the type is small");
        let moved = tiled(&Datatype::hindexed(&[1], &[-low], &all).expect("the type is small"), 1);
        let offsets: Vec<i64> = map.bytes(count).iter().map(|offset| offset - low).collect();
        let (a, b) = (a % (moved.size() + 1), b % (moved.size() + 1));
        let range = a.min(b)..a.max(b);
        let here = &offsets[range.start as usize..range.end as usize];

        let mut memory = Memory::covering(&offsets, |i| (i * 7 + 3) as u8);
        let mut packed = vec![0; here.len()];
        pack(&moved, &memory.bytes, range.clone(), &mut packed).expect("the bytes lie in memory");
        let expected: Vec<u8> = here.iter().map(|&offset| *memory.at(offset)).collect();
        prop_assert_eq!(&packed, &expected);

        let mut target = Memory::covering(&offsets, |_| CANARY);
        let packed: Vec<u8> = (0..here.len()).map(|i| (i % 160) as u8).collect();
        unpack(&moved, &packed, range, &mut target.bytes).expect("the bytes lie in memory");
        let mut expected = Memory::covering(&offsets, |_| CANARY);
        here.iter().zip(&packed).for_each(|(&offset, &byte)| *expected.at(offset) = byte);
        prop_assert_eq!(target.bytes, expected.bytes);
    }

    #[test]
    fn typed_copies_match_between_any_two_types(
        from in any_tree(300), to in any_tree(300),
        counts in (1..4_u64, 1..4_u64), starts in (any::<u64>(), any::<u64>()), bytes in any::<u64>(),
    ) {
        let sources = from.type_map().bytes(counts.0);
        let targets = to.type_map().bytes(counts.1);
        let starts = ((starts.0 % sources.len() as u64) as usize, (starts.1 % targets.len() as u64) as usize);
        let most = (sources.len() - starts.0).min(targets.len() - starts.1);
        // Sometimes more bytes than there are: the copy then ends with the shorter stream.
        let asked = bytes as usize % (most + 2);
        let copy = TypedCopy::new(
            tiled(&from.datatype().expect("the type is small"), counts.0),
            tiled(&to.datatype().expect("the type is small"), counts.1),
        );
        let mut source = Memory::covering(&sources, |i| (i * 11 + 5) as u8);
        let mut target = Memory::covering(&targets, |_| CANARY);
        let source_base = source.bytes.as_ptr().wrapping_offset(-source.low as isize);
        let target_base = target.bytes.as_mut_ptr().wrapping_offset(-target.low as isize);
        // SAFETY: `# Safety` of `TypedCopy::run`: each memory covers all offsets of its type, and two
        // vectors do not overlap.
        let copied = unsafe { copy.run(source_base, starts.0 as u64, target_base, starts.1 as u64, asked as u64) };
        prop_assert_eq!(copied as usize, asked.min(most));
        let mut expected = Memory::covering(&targets, |_| CANARY);
        for i in 0..asked.min(most) {
            *expected.at(targets[starts.1 + i]) = *source.at(sources[starts.0 + i]);
        }
        prop_assert_eq!(target.bytes, expected.bytes);
    }

    #[test]
    fn types_with_the_same_map_have_the_same_layout(tree in any_tree(2000)) {
        // The same bytes as one flat list of runs with the same bounds.
        let (datatype, map) = (tree.datatype().expect("the type is small"), tree.type_map());
        let runs = runs_of(&map.bytes(1));
        let (displacements, lengths): (Vec<i64>, Vec<u64>) = runs.into_iter().unzip();
        let byte = Datatype::named(capulet_datatype::Named::Byte);
        let flat = Datatype::hindexed(&lengths, &displacements, &byte).expect("the type is small");
        let flat = flat.with_bounds(map.lb(), map.extent()).expect("the type is small");
        if lengths.len() <= 32 {
            prop_assert_eq!(datatype.layout(), flat.layout());
        }
        prop_assert!(datatype.is_tiling_of(&byte));
    }

    #[test]
    fn one_instance_has_the_layout_of_its_type(tree in any_tree(2000)) {
        let datatype = tree.datatype().expect("the type is small");
        let (layout, one) = (datatype.layout(), std::slice::from_ref(&datatype));
        let again = [
            Datatype::contiguous(1, &datatype),
            Datatype::hvector(1, 1, 77, &datatype),
            Datatype::hindexed(&[1], &[0], &datatype),
            Datatype::hindexed_block(1, &[0], &datatype),
            Datatype::structure(&[1], &[0], one),
            Datatype::dup(&datatype),
        ];
        for again in again {
            let again = again.and_then(|again| again.with_bounds(layout.lb(), layout.extent()));
            let again = again.expect("the type is small");
            prop_assert_eq!(again.layout(), layout);
        }
    }

    #[test]
    fn small_trees_fit_in_small_layouts(tree in tree()) {
        let datatype = tree.datatype().expect("the type is small");
        // At most 24 nodes of at most five arguments.
        prop_assert!(datatype.layout().heap_bytes() < 64 * 1024);
    }
}
