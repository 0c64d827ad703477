//! Bytes between the blocks are not even written back: another thread counts in them meanwhile, and no count is lost.

use std::sync::atomic::{AtomicU8, Ordering};

use super::super::super::nest::NestDim;
use super::super::bits::Bits;
use super::{Table, tables};

/// Units in the target; those at multiples of the stride are the kernel's.
const UNITS: usize = 512;
/// Units in a target that is too large for the caches near the core.
const FAR_UNITS: usize = (1 << 18) + 11;

/// Runs `kernel` with a target of `units` units of `unit` bytes, those that are a multiple of `k` being its own. The bytes
/// between are counted up `last_round` times.
fn check(
    (units, last_round): (usize, u8),
    (unit, k): (usize, usize),
    case: &str,
    kernel: impl Fn(*const u8, *mut u8),
) {
    let source = vec![7_u8; units * 8];
    let target: Vec<AtomicU8> = (0..units * 8).map(|_| AtomicU8::new(0)).collect();
    let gaps = || (0..units * unit).filter(|byte| !(byte / unit).is_multiple_of(k));
    let rounds = AtomicU8::new(0);
    let counted = std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            for round in 1..=last_round {
                gaps().for_each(|byte| target[byte].store(round, Ordering::Relaxed));
                // What the kernel wrote back in between is seen as an old count.
                if gaps().any(|byte| target[byte].load(Ordering::Relaxed) != round) {
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
        counting.join().expect("it only counts")
    });
    assert!(counted, "{case}: a byte between the blocks was written");
    let own = (0..units * unit).filter(|byte| (byte / unit).is_multiple_of(k));
    assert!(
        own.into_iter().all(|byte| target[byte].load(Ordering::Relaxed) == 7),
        "{case}: a block is missing"
    );
}

#[test]
#[cfg_attr(miri, ignore = "takes long, and Miri sees every byte that is written")]
fn bytes_between_blocks_are_left_to_others() {
    for (level, table) in tables() {
        for unit in [4, 8] {
            for k in [2, 3, 4] {
                let n = UNITS.div_ceil(k);
                let case = format!("{level:?}, units of {unit}, {k} apart");
                check((UNITS, 200), (unit, k), &case, |source, target| {
                    unpack(table, source, target, unit, k, n);
                });
                let case = format!("{case}, far");
                check((FAR_UNITS, 3), (unit, k), &case, |source, target| {
                    unpack(table, source, target, unit, k, FAR_UNITS.div_ceil(k));
                });
                let words: Vec<u64> = (0..UNITS / 64)
                    .map(|word| {
                        (0..64).filter(|bit| (word * 64 + bit) % k == 0).fold(0, |w, bit| w | 1 << bit)
                    })
                    .collect();
                let bits = Bits { origin: 0, unit: unit as u64, words: &words, first: 0, count: n as u64 };
                check((UNITS, 200), (unit, k), &case, |source, target| {
                    // SAFETY: `n` units are readable, and every unit of the target may be written.
                    unsafe { (table.scatter_bits)(source, target, bits) };
                });
            }
        }
    }
}

fn unpack(table: &Table, source: *const u8, target: *mut u8, unit: usize, k: usize, n: usize) {
    let row = NestDim { n: n as u64, source: unit as i64, target: (unit * k) as i64 };
    let once = NestDim { n: 1, source: 0, target: 0 };
    // SAFETY: `n` units are readable, and as many lie `k` units apart in the target.
    unsafe { (table.nest)(source, target, unit as u64, &[row, once, once]) };
}
