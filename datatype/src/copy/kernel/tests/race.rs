//! Kernels do not write the bytes between the blocks, not even by writing back the old value: while they
//! run, another thread counts in these bytes, and no count is lost.

use std::sync::atomic::{AtomicU8, Ordering};

use super::super::super::nest::NestDim;
use super::super::bits::Bits;
use super::{Table, tables};
use crate::{Datatype, Named, Tiled, TypedCopy, flatten};

/// Approximate size of a target.
const TARGET_BYTES: usize = 1 << 14;
/// Approximate size of a target that exceeds the near caches of the core.
const FAR_BYTES: usize = 1 << 21;

/// Runs `kernel` over and over on a target and a source of the same size, filled with sevens. `is_own` tells
/// which target bytes the kernel may write. Meanwhile another thread counts in all other bytes up to
/// `last_round`.
fn check(last_round: u8, is_own: &[bool], case: &str, kernel: impl Fn(*const u8, *mut u8)) {
    let source = vec![7_u8; is_own.len()];
    let target: Vec<AtomicU8> = is_own.iter().map(|_| AtomicU8::new(0)).collect();
    let gaps = || target.iter().zip(is_own).filter_map(|(byte, is_own)| (!is_own).then_some(byte));
    let rounds = AtomicU8::new(0);
    let counted = std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            for round in 1..=last_round {
                gaps().for_each(|byte| byte.store(round, Ordering::Relaxed));
                // If the kernel has written a byte back, the byte has an old count.
                if gaps().any(|byte| byte.load(Ordering::Relaxed) != round) {
                    rounds.store(last_round, Ordering::Relaxed);
                    return false;
                }
                rounds.store(round, Ordering::Relaxed);
            }
            true
        });
        loop {
            kernel(source.as_ptr(), target.as_ptr().cast_mut().cast());
            if rounds.load(Ordering::Relaxed) == last_round {
                break;
            }
        }
        counting.join().expect("the counting thread does not panic")
    });
    assert!(counted, "{case}: the kernel wrote a byte between the blocks");
    let mut own = target.iter().zip(is_own).filter(|(_, is_own)| **is_own);
    assert!(own.all(|(byte, _)| byte.load(Ordering::Relaxed) == 7), "{case}: a block is missing");
}

/// Marks the bytes of `n` blocks of `block` bytes, `stride` bytes apart.
fn blocks(n: usize, block: usize, stride: usize) -> Vec<bool> {
    (0..n * stride).map(|byte| byte % stride < block).collect()
}

#[test]
#[cfg_attr(miri, ignore = "takes long, and Miri itself observes every written byte")]
fn kernels_do_not_write_between_blocks() {
    for (level, table) in tables() {
        for block in [1_usize, 2, 4, 8, 12, 16, 20, 24, 40] {
            // Strides of two, three and four blocks; and of one and a half, where registers bring blocks
            // together.
            for stride in [2 * block, 3 * block, 4 * block, block + block.div_ceil(2), block + 4, 128] {
                for (target_bytes, rounds) in [(TARGET_BYTES, 100), (FAR_BYTES, 2)] {
                    let n = target_bytes.div_ceil(stride);
                    let case = format!("{level:?}, {n} blocks of {block}, {stride} apart");
                    check(rounds, &blocks(n, block, stride), &case, |source, target| {
                        unpack(table, source, target, block, stride, n);
                    });
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long, and Miri itself observes every written byte")]
fn bitmap_kernels_do_not_write_absent_units() {
    for (level, table) in tables() {
        for unit in [4, 8] {
            for k in [2, 3, 4] {
                let n = TARGET_BYTES / unit / k;
                let words: Vec<u64> = (0..(n * k).div_ceil(64))
                    .map(|word| {
                        (0..64).filter(|bit| (word * 64 + bit) % k == 0).fold(0, |w, bit| w | 1 << bit)
                    })
                    .collect();
                let bits = Bits { origin: 0, unit: unit as u64, words: &words, first: 0, count: n as u64 };
                let case = format!("{level:?}, units of {unit}, one in {k}");
                check(200, &blocks(n, unit, unit * k), &case, |source, target| {
                    // SAFETY: `n` units are readable at the source, the units of the set bits lie in the
                    // target, and the two do not overlap. Only the kernel accesses the own bytes of the
                    // target while it runs.
                    unsafe { (table.scatter_bits)(source, target, bits) };
                });
            }
        }
    }
}

/// Pairs for which permutations bring units to their places, with stores that leave units out.
#[test]
#[cfg_attr(miri, ignore = "takes long, and Miri itself observes every written byte")]
fn typed_copies_do_not_write_omitted_bytes() -> crate::Result<()> {
    let (double, float) = (Datatype::named(Named::Double), Datatype::named(Named::Float));
    let permuted = |places: &[i64], old| Datatype::indexed_block(1, places, old);
    let pairs = [
        (Datatype::vector(4, 1, 2, &double)?, Datatype::vector(2, 2, 3, &double)?),
        (permuted(&[3, 1, 8, 0, 5, 2], &double)?, permuted(&[6, 0, 3, 8, 1, 7], &double)?),
        (permuted(&[0, 1, 3, 4, 7, 8], &float)?, permuted(&[9, 1, 4, 5, 0, 11], &float)?),
        (Datatype::vector(32, 3, 4, &float)?, Datatype::vector(48, 2, 3, &float)?),
    ];
    for (count, rounds) in [(50, 200), (5000, 3)] {
        for (i, (source, target)) in pairs.iter().enumerate() {
            let tiled = |datatype: &Datatype| Tiled::new(datatype.layout().clone(), count);
            let (source, target) = (tiled(source)?, tiled(target)?);
            let bytes = source.size();
            let mut is_own = vec![false; source.true_ub().max(target.true_ub()) as usize];
            for run in flatten(&target, 0..bytes, usize::MAX)?.runs {
                is_own[run.offset as usize..][..run.len as usize].fill(true);
            }
            let copy = TypedCopy::new(source, target);
            check(rounds, &is_own, &format!("pair {i}, {count} of them"), |source, target| {
                // SAFETY: both sides have the bytes of all their instances and do not overlap. Only the copy
                // accesses the own bytes of the target while it runs.
                assert_eq!(unsafe { copy.run(source, 0, target, 0, bytes) }, bytes);
            });
        }
    }
    Ok(())
}

fn unpack(table: &Table, source: *const u8, target: *mut u8, block: usize, stride: usize, n: usize) {
    let row = NestDim { n: n as u64, source: block as i64, target: stride as i64 };
    let once = NestDim { n: 1, source: 0, target: 0 };
    // SAFETY: `n` blocks are readable at the source and lie `stride` bytes apart in the target, and the two
    // do not overlap. Only the kernel accesses the own bytes of the target while it runs.
    unsafe { (table.nest)(source, target, block as u64, &[row, once, once]) };
}
