//! Finds the periods of lists.

use crate::canon::SMALL_BLOCKS;

/// The longest period that is searched for.
const PERIOD_MAX: usize = 64;
/// A period with fewer repetitions is not worth a dimension.
const PERIODS_MIN: usize = 4;
/// Number of keys that reveals any period up to the longest: two words, of which the second repeats the
/// first, and a rest that is compared.
const KEYS: usize = 3 * PERIOD_MAX;

/// The only period of at most 64 entries that a list of `n` entries can have, derived from its first keys.
/// The caller must still compare each entry from the second period on with the entry one period before.
/// `key(i)` describes the step from entry `i` to the next entry. A short list has no period that leaves a
/// rest, because its canonical form is one list.
///
/// The smallest period of a prefix that is twice as long as the longest period divides every period of the
/// whole list (Fine and Wilf), so no other period needs to be tried. The smallest period follows from the
/// longest border of the prefix (Knuth, Morris and Pratt).
pub(crate) fn period<K: PartialEq>(n: usize, key: impl Fn(usize) -> K) -> Option<usize> {
    if n < 2 * PERIODS_MIN {
        return None;
    }
    let keys = (n - 1).min(KEYS);
    let mut borders = [0_usize; KEYS + 1];
    let mut border = 0;
    for i in 1..keys {
        while border > 0 && key(i) != key(border) {
            border = borders[border];
        }
        border += usize::from(key(i) == key(border));
        borders[i + 1] = border;
    }
    let period = keys - border;
    let fits = period <= PERIOD_MAX && n / period >= PERIODS_MIN;
    (fits && (n.is_multiple_of(period) || n as u64 > SMALL_BLOCKS)).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::period;

    #[test]
    fn smallest_period_of_a_list_is_found() {
        let of = |n: usize, keys: &[u32]| period(n, |i| keys[i % keys.len()]);
        assert_eq!(of(1000, &[2, 3]), Some(2));
        assert_eq!(of(1001, &[2, 3]), Some(2));
        assert_eq!(of(1000, &[1, 1, 2, 1, 1, 2]), Some(3));
        assert_eq!(of(20, &[2, 3]), Some(2));
        assert_eq!(of(21, &[2, 3]), None, "a short list has no period with a rest");
        assert_eq!(of(7, &[2, 3]), None, "the list is too short");
        let long: Vec<u32> = (0..64).collect();
        assert_eq!(of(256, &long), Some(64));
        assert_eq!(of(255, &long), None, "there are fewer than four repetitions");
        assert_eq!(of(1000, &(0..65).collect::<Vec<_>>()), None, "the period is too long");
        assert_eq!(period(1000, |i| i), None);
    }
}
