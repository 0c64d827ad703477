//! Typed copies by program: the thirteen pairs, ranges, overlapping targets, and cached plans.

mod pairs;

use capulet_datatype::{Datatype, Named, Result, Tiled, TypedCopy, pack, unpack};
use pairs::pairs;

const CANARY: u8 = 0xc3;
/// Extra bytes on both sides of the bytes that a type may touch.
const MARGIN: usize = 96;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

fn memory_bytes(tiled: &Tiled) -> usize {
    tiled.true_ub() as usize + 2 * MARGIN
}

/// The expected target, computed byte by byte.
fn expected(source: &Tiled, memory: &[u8], target: &Tiled, parts: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut found = vec![CANARY; memory_bytes(target)];
    for &(read, write, bytes) in parts {
        for i in 0..bytes {
            let (from, to) = (source.offset_of(read + i), target.offset_of(write + i));
            found[to as usize + MARGIN] = memory[from as usize + MARGIN];
        }
    }
    found
}

/// The target that the copy leaves.
fn found(copy: &TypedCopy, memory: &[u8], parts: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut found = vec![CANARY; memory_bytes(copy.target())];
    for &(read, write, bytes) in parts {
        let (from, to) = (memory[MARGIN..].as_ptr(), found[MARGIN..].as_mut_ptr());
        // SAFETY: `# Safety` of `TypedCopy::run`: both memories cover their types behind the margin, and two
        // vectors do not overlap.
        let copied = unsafe { copy.run(from, read, to, write, bytes) };
        assert_eq!(copied, bytes);
    }
    found
}

fn check(source: &Tiled, target: &Tiled, parts: &[(u64, u64, u64)], what: &str) {
    let memory = pattern(memory_bytes(source));
    let copy = TypedCopy::new(source.clone(), target.clone());
    let fresh = TypedCopy::fresh(source.clone(), target.clone());
    let (once, again) = (found(&fresh, &memory, parts), found(&copy, &memory, parts));
    assert!(once == again, "{what}: the fresh copy differs from the cached one");
    let (found, expected) = (again, expected(source, &memory, target, parts));
    let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{what}: index of the first wrong byte, with a margin of {MARGIN}");
}

#[test]
fn thirteen_pairs_are_copied_at_any_count() -> Result<()> {
    let counts: &[u64] = if cfg!(miri) { &[3] } else { &[1, 2, 3, 10, 100, 1000] };
    for &count in counts {
        for pair in pairs(count)? {
            let (source, target) = pair.tiled(count)?;
            let bytes = source.size();
            assert_eq!(bytes, target.size());
            check(&source, &target, &[(0, 0, bytes)], pair.name);
            check(&target, &source, &[(0, 0, bytes)], pair.name);
        }
    }
    Ok(())
}

/// Programs that are compiled for one copy each, at every range: no byte outside of the range is written.
#[test]
fn every_range_of_small_pairs_is_copied() -> Result<()> {
    for count in if cfg!(miri) { vec![2] } else { vec![1, 5, 6] } {
        for pair in pairs(count)? {
            let (source, target) = pair.tiled(count)?;
            let bytes = source.size() as usize;
            if bytes > if cfg!(miri) { 32 } else { 400 } {
                continue;
            }
            let memory = pattern(memory_bytes(&source));
            let place = |tiled: &Tiled, at: usize| tiled.offset_of(at as u64) as usize + MARGIN;
            let places: Vec<_> = (0..bytes).map(|at| (place(&source, at), place(&target, at))).collect();
            let kept = TypedCopy::fresh(source.clone(), target.clone());
            let mut found = vec![CANARY; memory_bytes(&target)];
            for start in 0..bytes {
                for end in start + 1..=bytes {
                    // Compiling a program for each range would take long, so only some ranges get one.
                    let fresh = TypedCopy::fresh(source.clone(), target.clone());
                    let copy = if (start + end) % 8 == 0 { &fresh } else { &kept };
                    found.fill(CANARY);
                    let (from, to) = (memory[MARGIN..].as_ptr(), found[MARGIN..].as_mut_ptr());
                    // SAFETY: `# Safety` of `TypedCopy::run`: both memories cover their types behind the
                    // margin, and two vectors do not overlap.
                    unsafe { copy.run(from, start as u64, to, start as u64, (end - start) as u64) };
                    for &(from, to) in &places[start..end] {
                        assert_eq!(found[to], memory[from], "{} {start}..{end}", pair.name);
                        found[to] = CANARY;
                    }
                    let written = found.iter().position(|byte| *byte != CANARY);
                    assert_eq!(
                        written, None,
                        "{} {start}..{end}: wrote a byte outside of the range",
                        pair.name
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn thirteen_pairs_are_copied_at_odd_ranges() -> Result<()> {
    let count = if cfg!(miri) { 5 } else { 40 };
    for pair in pairs(count)? {
        let (source, target) = pair.tiled(count)?;
        let bytes = source.size();
        let ranges = [(bytes / 3, bytes - 5), (7, 9), (5, 5), (33, 34), (1, bytes), (0, bytes - 1)];
        for &(start, end) in &ranges[..if cfg!(miri) { 1 } else { 6 }] {
            check(&source, &target, &[(start, start, end - start)], pair.name);
        }
        // Different starts: they differ by whole instances of a side, or by less.
        let one = bytes / count;
        let starts = [(one + 12, 20), (0, 3 * one), (one, 0), (8, 0), (0, 4), (3, one)];
        for &(read, write) in &starts[..if cfg!(miri) { 1 } else { 6 }] {
            check(&source, &target, &[(read, write, bytes - read.max(write))], pair.name);
        }
        // Consecutive parts.
        for step in if cfg!(miri) { vec![one + 1] } else { vec![1, 31, 64, one, one + 1, 5 * one] } {
            let parts: Vec<_> =
                (0..bytes).step_by(step as usize).map(|at| (at, at, step.min(bytes - at))).collect();
            check(&source, &target, &parts, pair.name);
        }
    }
    Ok(())
}

/// Rows of few periods. A copy that has moved many bytes copies such rows whole; the ends of a range lie
/// inside of rows.
#[test]
fn short_rows_are_copied_after_warming_up() -> Result<()> {
    let float = Datatype::named(Named::Float);
    for (rows, gap) in [(32, 4), (16, 5), (8, 7), (64, 4)] {
        let source = Datatype::vector(rows, 3, gap, &float)?;
        let target = Datatype::vector(rows * 3 / 2, 2, 3, &float)?;
        let count = if cfg!(miri) { 4 } else { 256 * 1024 / (rows * 12) };
        let source = Tiled::new(source.layout().clone(), count)?;
        let target = Tiled::new(target.layout().clone(), count)?;
        let (bytes, one) = (source.size(), rows * 12);
        for (start, end) in
            [(0, 0), (0, 0), (4, 4), (one, 0), (one + 24, one - 24), (7, 3 * one - 5), (one - 1, 1)]
        {
            let moved = bytes - start - end;
            check(&source, &target, &[(start, start, moved)], &format!("{rows} rows, {start} to {end}"));
        }
        check(&source, &target, &[(one + 8, 2 * one + 8, bytes - 3 * one)], "rows apart");
    }
    Ok(())
}

#[test]
fn transpacking_equals_packing_and_unpacking() -> Result<()> {
    let count = if cfg!(miri) { 5 } else { 100 };
    for pair in pairs(count)? {
        let (source, target) = pair.tiled(count)?;
        let memory = pattern(source.true_ub() as usize);
        let mut packed = vec![0; source.size() as usize];
        pack(&source, &memory, 0..source.size(), &mut packed)?;
        let mut unpacked = vec![CANARY; target.true_ub() as usize];
        unpack(&target, &packed, 0..target.size(), &mut unpacked)?;
        let mut copied = vec![CANARY; unpacked.len()];
        let copy = TypedCopy::new(source.clone(), target);
        // SAFETY: `# Safety` of `TypedCopy::run`: both memories cover their types, and two vectors do not
        // overlap.
        unsafe { copy.run(memory.as_ptr(), 0, copied.as_mut_ptr(), 0, source.size()) };
        assert!(copied == unpacked, "{}", pair.name);
    }
    Ok(())
}

#[test]
fn pairs_of_different_sizes_are_copied() -> Result<()> {
    let byte = Datatype::named(Named::Byte);
    let short = Datatype::named(Named::Short);
    let types = [
        Datatype::hindexed(&[1, 2, 3], &[0, 3, 9], &byte)?,
        Datatype::hindexed(&[4, 1], &[20, 3], &byte)?,
        Datatype::vector(3, 2, 5, &short)?,
        Datatype::resized(0, 11, &Datatype::vector(2, 1, 3, &byte)?)?,
        Datatype::vector(5, 1, 2, &Datatype::indexed(&[1, 2], &[0, 2], &short)?)?,
        Datatype::hindexed_block(3, &[0, 5, 11, 40, 33, 60, 71], &byte)?,
        Datatype::vector(if cfg!(miri) { 20 } else { 200 }, 7, 9, &byte)?,
    ];
    for source in &types {
        for target in &types {
            let counts: &[(u64, u64)] =
                if cfg!(miri) { &[(3, 2)] } else { &[(1, 1), (7, 90), (60, 60), (200, 3)] };
            for &(reads, writes) in counts {
                let source = Tiled::new(source.layout().clone(), reads)?;
                let target = Tiled::new(target.layout().clone(), writes)?;
                let bytes = source.size().min(target.size());
                let half = bytes / 2;
                check(&source, &target, &[(0, 0, bytes)], "whole");
                check(&source, &target, &[(0, 0, half), (half, half, bytes - half)], "halves");
                check(&source, &target, &[(bytes - half, 0, half)], "shifted");
                check(&source, &target, &[(1, bytes - half, half - 1)], "shifted");
            }
        }
    }
    Ok(())
}

#[test]
fn last_byte_remains_where_the_target_overlaps() -> Result<()> {
    let double = Datatype::named(Named::Double);
    let rows = Datatype::vector(6, 1, 2, &double)?;
    let meeting = [
        // Overlaps inside of one instance, and between instances.
        Datatype::hindexed(&[1, 1, 1], &[0, 4, 16], &double)?,
        Datatype::resized(0, 4, &Datatype::hvector(3, 1, 16, &double)?)?,
        Datatype::resized(0, 0, &double)?,
        Datatype::resized(
            0,
            16,
            &Datatype::hindexed(&[1, 1], &[0, 40], &Datatype::contiguous(3, &double)?)?,
        )?,
    ];
    for target in &meeting {
        for count in if cfg!(miri) { vec![1, 3] } else { vec![1, 2, 3, 100, 3000] } {
            let target = Tiled::new(target.layout().clone(), count)?;
            let bytes = target.size();
            for source in [&rows, &double] {
                let source = Tiled::new(source.layout().clone(), bytes / source.size() + 1)?;
                check(&source, &target, &[(0, 0, bytes)], "in order");
                check(&source, &target, &[(8, 0, bytes - 3)], "in order, shifted");
            }
            let packed = pattern(bytes as usize);
            let mut memory = vec![CANARY; target.true_ub() as usize];
            unpack(&target, &packed, 0..bytes, &mut memory)?;
            let mut last = vec![CANARY; memory.len()];
            (0..bytes).for_each(|i| last[target.offset_of(i) as usize] = packed[i as usize]);
            assert!(memory == last, "unpacking {count} instances");
        }
    }
    Ok(())
}

#[test]
fn cached_plans_match_only_their_own_layouts() -> Result<()> {
    // A layout may get the address of another one that has been dropped.
    let byte = Datatype::named(Named::Byte);
    for round in 0..if cfg!(miri) { 8_u64 } else { 300 } {
        let source = Datatype::hvector(5, 1 + round % 7, 9 + round as i64 % 5, &byte)?;
        let target = Datatype::hindexed(&[1 + round % 7, 3], &[0, 10 + round as i64 % 3], &byte)?;
        let (source, target) =
            (Tiled::new(source.layout().clone(), 8)?, Tiled::new(target.layout().clone(), 8)?);
        let bytes = source.size().min(target.size());
        check(&source, &target, &[(0, 0, bytes)], "kept");
    }
    Ok(())
}

#[test]
fn rows_of_negative_strides_are_copied() -> Result<()> {
    let float = Datatype::named(Named::Float);
    let back = |n: u64, block, stride: i64, at: i64| {
        Datatype::hindexed(&[1], &[at], &Datatype::hvector(n, block, stride, &float)?)
    };
    let sides = [back(40, 1, -8, 400)?, back(20, 2, -20, 400)?, back(10, 4, 24, 0)?];
    for source in &sides {
        for target in &sides {
            let (source, target) =
                (Tiled::new(source.layout().clone(), 1)?, Tiled::new(target.layout().clone(), 1)?);
            check(&source, &target, &[(0, 0, 160)], "back and forth");
            check(&source, &target, &[(3, 3, 5), (8, 8, 77), (85, 85, 75)], "back and forth");
        }
    }
    Ok(())
}
