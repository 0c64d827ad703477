//! Facts and fingerprints of long lists, at a few cycles per entry: one pass, no division, no chain of
//! dependent multiplications.

use crate::lists::{Place, Start};
use crate::piece::{Facts, gcd, mix};

/// The facts of a list of one body at each displacement, and the number of seams at which neighbors touch.
pub(crate) fn list_facts<P: Place>(displacements: &[P], body: &Facts) -> (Facts, u64) {
    let (mut low, mut high, mut bits, mut touches, mut rising) = (0, 0, 0, 0, true);
    for pair in displacements.windows(2) {
        let (end, at) = (pair[0].wide() + body.end, pair[1].wide());
        rising &= end <= at;
        touches += u64::from(end == at);
        low = at.min(low);
        high = at.max(high);
        bits |= at as u64;
    }
    let n = displacements.len() as u64;
    let last = displacements.last().map_or(0, |at| at.wide());
    let distances = displacements.iter().map(|at| at.wide().unsigned_abs());
    let facts = Facts {
        size: body.size * n,
        low: low + body.low,
        high: high + body.high,
        end: last + body.end,
        blocks: body.blocks * n - touches,
        granule: common_divisor(body.granule, bits, distances),
        monotone: body.monotone && rising,
    };
    (facts, touches)
}

/// The facts of runs with individual lengths, of which no neighbors touch.
pub(crate) fn table_facts<S: Start>(displacements: &[S::Place], starts: &[S]) -> Facts {
    let (mut low, mut high, mut bits, mut rising, mut end) = (0, 0, 0, true, 0);
    for (at, start) in displacements.iter().zip(starts.windows(2)) {
        let (at, from, to) = (at.wide(), start[0].wide(), start[1].wide());
        rising &= end <= at;
        end = at + (to - from) as i64;
        low = at.min(low);
        high = end.max(high);
        bits |= at as u64 | to;
    }
    let size = starts.last().map_or(0, |start| start.wide());
    let distances = displacements.iter().map(|at| at.wide().unsigned_abs());
    let numbers = starts[1..].iter().map(|start| start.wide()).chain(distances);
    Facts {
        size,
        low,
        high,
        end,
        blocks: displacements.len() as u64,
        granule: common_divisor(starts[1].wide(), bits, numbers),
        monotone: rising,
    }
}

/// Lists of fewer runs are not cut into parts.
const CUT_RUNS_MIN: usize = 64;
/// Number of runs whose lengths are sampled to find the most common length.
const CUT_SAMPLE: usize = 16;
/// Lists whose common run is longer are not cut: copying such a run costs more than telling runs apart.
const CUT_BYTES_MAX: u64 = 64;
/// A list in which a run has more parts is not cut, because a query for a run steps over its parts.
const CUT_PARTS_MAX: u64 = 8;

/// The size in bytes of the equal parts into which runs of nearly always one length can be cut, if there
/// are at most a quarter more parts than runs. A list of blocks of which a few touch has such runs. The
/// answer depends on the runs alone.
pub(crate) fn common_part<S: Start>(starts: &[S]) -> Option<u64> {
    let n = starts.len() - 1;
    let lengths = || starts.windows(2).map(|pair| pair[1].wide() - pair[0].wide());
    let size = starts[n].wide();
    let part = lengths().take(CUT_SAMPLE).min()?;
    if n < CUT_RUNS_MIN || part > CUT_BYTES_MAX || size / part > n as u64 / 4 * 5 {
        return None;
    }
    let (longest, bits) = lengths()
        .zip(starts)
        .fold((0, size), |(longest, bits), (length, start)| (length.max(longest), bits | start.wide()));
    let is_common = common_divisor(part, bits, starts.iter().map(|start| start.wide())) == part;
    (is_common && longest <= part * CUT_PARTS_MAX).then_some(part)
}

/// The greatest common divisor of `first > 0` and all numbers. `bits` is the bitwise or of all numbers.
fn common_divisor(first: u64, bits: u64, numbers: impl Iterator<Item = u64>) -> u64 {
    let twos = first.trailing_zeros().min(bits.trailing_zeros());
    let mut odd = first >> first.trailing_zeros();
    let mut inverse = inverse(odd);
    for number in numbers {
        if odd == 1 {
            break;
        }
        // If `odd` divides the number, the product with the inverse is the quotient. If not, the product is
        // larger than any quotient.
        if number.wrapping_mul(inverse) > u64::MAX / odd {
            odd = gcd(odd, number);
            inverse = self::inverse(odd);
        }
    }
    odd << twos
}

/// The inverse of an odd number modulo 2^64. Each Newton step doubles the number of correct bits; the first
/// guess, the number itself, has 3.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

/// Number of independent lanes of a fingerprint, so that multiplications overlap in time.
const LANES: usize = 8;

fn fold(state: u128, count: usize, value: impl Fn(usize) -> u64) -> u128 {
    let mut lanes = [0x9e37_79b9_7f4a_7c15_u64; LANES];
    let whole = count / LANES * LANES;
    for from in (0..whole).step_by(LANES) {
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = (lane.rotate_left(23) ^ value(from + i)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        }
    }
    let state = lanes.into_iter().fold(mix(state, count as u64), mix);
    (whole..count).map(value).fold(state, mix)
}

/// The fingerprint of a list over a body with fingerprint `body`.
pub(crate) fn list_shape<P: Place>(displacements: &[P], body: u128) -> u128 {
    fold(mix(body, 0x1d), displacements.len(), |entry| displacements[entry].wide() as u64)
}

/// The fingerprint of a list of runs.
pub(crate) fn table_shape<S: Start>(displacements: &[S::Place], starts: &[S]) -> u128 {
    let state = fold(0x7a, displacements.len(), |entry| displacements[entry].wide() as u64);
    fold(state, starts.len(), |entry| starts[entry].wide())
}

/// The fingerprint of a bitmap.
pub(crate) fn bits_shape(unit: u64, words: &[u64]) -> u128 {
    fold(mix(0xb5, unit), words.len(), |word| words[word])
}

#[cfg(test)]
mod tests {
    use super::common_divisor;
    use crate::piece::gcd;

    #[test]
    fn common_divisor_agrees_with_euclid() {
        let lists = [
            vec![12, 24, 36],
            vec![12, 24, 35],
            vec![1 << 40, 3 << 20, 5 << 21],
            vec![9, 0, 27, 18, 81],
            vec![15, 45, 75, 35, 10],
            vec![u64::MAX >> 1, 0],
            vec![7 * 64, 7 * 32, u64::MAX / 7 * 7],
        ];
        for list in lists {
            let bits = list.iter().fold(0, |bits, number| bits | number);
            let expected = list.iter().fold(0, |divisor, &number| gcd(divisor, number));
            assert_eq!(common_divisor(list[0], bits, list.iter().copied()), expected, "{list:?}");
        }
    }
}
