use super::super::bits::Bits;
use crate::lists::{Displacements, RunSlice, Runs};

use super::{Arena, Move, Placement, tables};

/// A generator of pseudo-random numbers; the sequence is the same in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Runs of the given lengths at places in random order, without overlaps. Returns their displacements, and
/// the moves from these to consecutive bytes.
fn listed(lengths: &[u64], state: &mut u64) -> (Vec<i64>, Vec<Move>) {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random(state) as usize % (i + 1));
    }
    let mut displacements = vec![0; lengths.len()];
    let mut at = -100;
    for i in order {
        at += (random(state) % 40) as i64;
        displacements[i] = at;
        at += lengths[i] as i64;
    }
    let mut dense = 0;
    let mut moves = Vec::new();
    for (displacement, length) in displacements.iter().zip(lengths) {
        moves.push((*displacement, dense, *length as usize));
        dense += *length as i64;
    }
    (displacements, moves)
}

fn reversed(moves: &[Move]) -> Vec<Move> {
    moves.iter().map(|m| (m.1, m.0, m.2)).collect()
}

#[test]
fn equal_blocks_at_listed_places() {
    let mut arena = Arena::new(1 << 18);
    let mut state = 1;
    for block in [1_u64, 2, 4, 8, 12, 16, 17, 24, 32, 40, 64, 100, 600] {
        let lengths: &[usize] =
            if cfg!(miri) { &[0, 9] } else { &[0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 64, 130] };
        for &n in lengths {
            let (displacements, moves) = listed(&vec![block; n], &mut state);
            let narrow: Vec<i32> = displacements.iter().map(|at| *at as i32).collect();
            for (level, table) in tables() {
                for (at, list) in [
                    (Placement::Start(n % 64), Displacements::Wide(&displacements)),
                    (Placement::End, Displacements::Wide(&displacements)),
                    (Placement::End, Displacements::Narrow(&narrow)),
                ] {
                    let case = format!("{level:?}, {n} blocks of {block}");
                    arena.check(&moves, at, &case, |source, target| {
                        // SAFETY: the arena has the bytes of all moves, which are the blocks of the list;
                        // its sides do not overlap.
                        unsafe { (table.gather)(source, target, block, list) };
                    });
                    arena.check(&reversed(&moves), at, &case, |source, target| {
                        // SAFETY: as for the gather above, with the sides exchanged; the blocks of the list
                        // do not overlap.
                        unsafe { (table.scatter)(source, target, block, list) };
                    });
                }
            }
        }
    }
}

#[test]
fn runs_of_every_length() {
    let mut arena = Arena::new(1 << 18);
    let mut state = 2;
    let mut lengths: Vec<u64> = if cfg!(miri) { (0..140).step_by(7).collect() } else { (0..=140).collect() };
    lengths.extend([250, 511, 512, 513, 1000]);
    for _ in 0..if cfg!(miri) { 1 } else { 8 } {
        for i in (1..lengths.len()).rev() {
            lengths.swap(i, random(&mut state) as usize % (i + 1));
        }
        let (displacements, moves) = listed(&lengths, &mut state);
        let total = lengths.iter().sum();
        let starts: Vec<u64> = moves.iter().map(|m| m.1 as u64).chain([total]).collect();
        let narrow: Vec<i32> = displacements.iter().map(|at| *at as i32).collect();
        let narrow_starts: Vec<u32> = starts.iter().map(|start| *start as u32).collect();
        let wide = Runs::Wide(RunSlice { displacements: &displacements, starts: &starts });
        let narrow = Runs::Narrow(RunSlice { displacements: &narrow, starts: &narrow_starts });
        for (level, table) in tables() {
            let misaligned = Placement::Start(random(&mut state) as usize % 64);
            for (at, runs) in [(misaligned, wide), (Placement::End, wide), (Placement::End, narrow)] {
                let case = format!("{level:?}");
                arena.check(&moves, at, &case, |source, target| {
                    // SAFETY: the arena has the bytes of all moves, which are the runs of the list; its
                    // sides do not overlap.
                    assert_eq!(unsafe { (table.gather_runs)(source, target, runs) }, total);
                });
                arena.check(&reversed(&moves), at, &case, |source, target| {
                    // SAFETY: as for the gather above, with the sides exchanged; the runs of the list do not
                    // overlap.
                    assert_eq!(unsafe { (table.scatter_runs)(source, target, runs) }, total);
                });
            }
        }
    }
}

/// The moves of the first `count` units that are present from bit `first` on.
fn present(words: &[u64], first: u64, count: u64, unit: u64) -> Vec<Move> {
    (first..words.len() as u64 * 64)
        .filter(|bit| words[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
        .take(count as usize)
        .zip(0..)
        .map(|(bit, number)| ((bit * unit) as i64, number * unit as i64, unit as usize))
        .collect()
}

#[test]
fn bitmaps_of_every_density_from_any_bit_to_any_bit() {
    let mut arena = Arena::new(1 << 17);
    let mut state = 3;
    let sparse =
        |state: &mut u64| (random(state) << 33 ^ random(state)) & (random(state) << 32 ^ random(state));
    for round in 0..if cfg!(miri) { 2 } else { 40 } {
        let dense = round % 4 == 0;
        let words: Vec<u64> = (0..5)
            .map(|_| if dense { !sparse(&mut state) } else { sparse(&mut state) })
            .chain([0, !0, 1 << 63])
            .collect();
        for unit in [4, 8] {
            for _ in 0..if cfg!(miri) { 3 } else { 12 } {
                let first = random(&mut state) % 300;
                let all = present(&words, first, u64::MAX, unit).len() as u64;
                let count =
                    if random(&mut state).is_multiple_of(3) { all } else { random(&mut state) % (all + 1) };
                let moves = present(&words, first, count, unit);
                let bits = Bits { origin: 0, unit, words: &words, first, count };
                for (level, table) in tables() {
                    for at in [Placement::Start(random(&mut state) as usize % 64), Placement::End] {
                        let case = format!("{level:?}, {bits:?}");
                        arena.check(&moves, at, &case, |source, target| {
                            // SAFETY: the arena has the bytes of all moves, which are the units of the set
                            // bits; its sides do not overlap.
                            unsafe { (table.gather_bits)(source, target, bits) };
                        });
                        arena.check(&reversed(&moves), at, &case, |source, target| {
                            // SAFETY: as for the gather above, with the sides exchanged.
                            unsafe { (table.scatter_bits)(source, target, bits) };
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn bitmaps_of_a_few_units_far_apart() {
    // The distance between two units exceeds the range of the positions in a list: there are 1,100 words,
    // and 3 of them have units.
    let mut arena = Arena::new(1 << 20);
    let mut words = vec![0; 1100];
    (words[0], words[1], words[1099]) = (1, 1 << 63, 1 << 5 | 1);
    for unit in [4, 8] {
        let bits = Bits { origin: 0, unit, words: &words, first: 0, count: 4 };
        let moves = present(&words, 0, 4, unit);
        for (level, table) in tables() {
            let case = format!("{level:?}, units of {unit}");
            arena.check(&moves, Placement::End, &case, |source, target| {
                // SAFETY: the arena has the bytes of all moves, which are the units of the set bits; its
                // sides do not overlap.
                unsafe { (table.gather_bits)(source, target, bits) };
            });
            arena.check(&reversed(&moves), Placement::End, &case, |source, target| {
                // SAFETY: as for the gather above, with the sides exchanged.
                unsafe { (table.scatter_bits)(source, target, bits) };
            });
        }
    }
}
