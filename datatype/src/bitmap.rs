//! Dense units of 4 or 8 bytes in rising order, with one bit for each place.

use std::mem::size_of_val;
use std::ops::ControlFlow;

use crate::facts::bits_shape;

/// Words for each entry of the directory of places: 512 places.
const STEP: usize = 8;
/// Units for each entry of the directory of blocks.
const UNITS_PER_ENTRY: u64 = 512;

/// Units at multiples of their length from the first byte on, in rising order. The first and the last place
/// hold a unit.
#[derive(Debug, PartialEq)]
pub(crate) struct Bitmap {
    /// Bytes of a unit: 4 or 8.
    pub(crate) unit: u64,
    /// Bit `i % 64` of word `i / 64` is set if place `i` holds a unit.
    pub(crate) words: Box<[u64]>,
    /// Number of units.
    units: u64,
    ranks: Box<[Rank]>,
    /// The block of `STEP` words that holds the unit, for every 512th unit; then the last block.
    blocks: Box<[u32]>,
    shape: u128,
}

/// Counts of everything before the first word of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rank {
    units: u32,
    /// Runs that start before that word.
    runs: u32,
}

/// Memory of a bitmap over `places` places, in bytes.
pub(crate) fn bitmap_bytes(places: u64) -> u64 {
    let words = places.div_ceil(64);
    // The directory of places, and at most as many entries for the directory of units.
    words * 8 + words.div_ceil(STEP as u64) * (8 + 4) + 16
}

impl Bitmap {
    /// The bitmap of runs that are given as `(displacement, bytes)` in rising order. Both numbers are
    /// multiples of `unit`. The runs end at `high`, at most `u32::MAX` units after the first byte.
    pub(crate) fn new(unit: u64, high: i64, runs: impl Iterator<Item = (i64, u64)>) -> Self {
        let shift = unit.trailing_zeros();
        let mut words = vec![0_u64; (high as u64 >> shift).div_ceil(64) as usize];
        // The current word is a local variable: if bits were set in memory one by one, each would wait for
        // the one before.
        let (mut place, mut word) = (0, 0);
        for (at, bytes) in runs {
            let (first, mut left) = (at as u64 >> shift, bytes >> shift);
            if (first / 64) as usize != place {
                words[place] |= word;
                (place, word) = ((first / 64) as usize, 0);
            }
            let mut bit = first % 64;
            while bit + left > 64 {
                words[place] |= word | !0 << bit;
                left -= 64 - bit;
                (place, word, bit) = (place + 1, 0, 0);
            }
            word |= !0 >> (64 - left) << bit;
        }
        words[place] |= word;
        Self::of_words(unit, words.into())
    }

    fn of_words(unit: u64, words: Box<[u64]>) -> Self {
        let (mut units, mut runs, mut carry) = (0, 0, 0);
        let mut ranks = Vec::with_capacity(words.len().div_ceil(STEP));
        for block in words.chunks(STEP) {
            ranks.push(Rank { units, runs });
            for &word in block {
                units += word.count_ones();
                runs += (word & !(word << 1 | carry)).count_ones();
                carry = word >> 63;
            }
        }
        let mut blocks = Vec::with_capacity(units as usize / UNITS_PER_ENTRY as usize + 2);
        for (block, rank) in ranks.iter().enumerate().skip(1) {
            while (blocks.len() as u64) * UNITS_PER_ENTRY < rank.units.into() {
                blocks.push(block as u32 - 1);
            }
        }
        while (blocks.len() as u64) * UNITS_PER_ENTRY < u64::from(units) + UNITS_PER_ENTRY {
            blocks.push(ranks.len() as u32 - 1);
        }
        let shape = bits_shape(unit, &words);
        Self { unit, words, units: units.into(), ranks: ranks.into(), blocks: blocks.into(), shape }
    }

    /// The fingerprint.
    pub(crate) fn shape(&self) -> u128 {
        self.shape
    }

    /// The number of units.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// The place of the unit with number `unit`. O(log n) at worst, O(1) where units are spread evenly.
    #[inline]
    pub(crate) fn select(&self, unit: u64) -> u64 {
        let entry = (unit / UNITS_PER_ENTRY) as usize;
        let (first, last) = (self.blocks[entry] as usize, self.blocks[entry + 1] as usize);
        let block =
            first + self.ranks[first + 1..=last].partition_point(|rank| u64::from(rank.units) <= unit);
        let (mut word, mut left) = (block * STEP, (unit - u64::from(self.ranks[block].units)) as u32);
        loop {
            let ones = self.words[word].count_ones();
            if left < ones {
                return word as u64 * 64 + u64::from(select_in(self.words[word], left));
            }
            left -= ones;
            word += 1;
        }
    }

    /// The number of units at places below `place`, which may lie beyond the end. O(1).
    pub(crate) fn units_below(&self, place: u64) -> u64 {
        let word = (place / 64) as usize;
        if word >= self.words.len() {
            return self.units;
        }
        let block = word / STEP;
        let before: u32 = self.words[block * STEP..word].iter().map(|word| word.count_ones()).sum();
        let below = self.words[word] & !(!0 << (place % 64));
        u64::from(self.ranks[block].units + before + below.count_ones())
    }

    /// Whether `place` holds a unit.
    pub(crate) fn has(&self, place: u64) -> bool {
        self.words.get((place / 64) as usize).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The number of runs that start at or below `place`, which must lie in the map. O(1).
    pub(crate) fn runs_through(&self, place: u64) -> u64 {
        let last = (place / 64) as usize;
        let block = last / STEP;
        let mut runs = self.ranks[block].runs;
        let mut carry = if block == 0 { 0 } else { self.words[block * STEP - 1] >> 63 };
        for &word in &self.words[block * STEP..last] {
            runs += (word & !(word << 1 | carry)).count_ones();
            carry = word >> 63;
        }
        let word = self.words[last];
        let through = !0 >> (63 - place % 64);
        u64::from(runs + (word & !(word << 1 | carry) & through).count_ones())
    }

    /// Memory of the map and its directories, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.ranks) + size_of_val(&*self.blocks)
    }
}

/// The place of the set bit with number `number`, in a word that has more than `number` set bits.
fn select_in(word: u64, number: u32) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // Byte i holds the number of set bits in bytes 0 to i.
    let sums = bytes.wrapping_mul(ONES);
    // 0x80 in each byte whose sum is at most `number`. These are the bytes before the wanted one.
    let before = ((u64::from(number) * ONES) | (ONES << 7)).wrapping_sub(sums) & (ONES << 7);
    let byte = before.count_ones();
    let skipped = if byte == 0 { 0 } else { (sums >> ((byte - 1) * 8)) as u32 & 0xff };
    let mut rest = (word >> (byte * 8)) & 0xff;
    for _ in skipped..number {
        rest &= rest - 1;
    }
    byte * 8 + rest.trailing_zeros()
}

/// Visits the runs of `count` units as `(place, units)`, from bit `first` on, which is set, until `visit`
/// breaks. The first run begins with the first of these units, and the last run ends with the last.
#[inline]
pub(crate) fn try_for_each_run<B>(
    words: &[u64],
    first: u64,
    mut count: u64,
    mut visit: impl FnMut(u64, u64) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut word = (first / 64) as usize;
    let mut bits = words[word] & !0 << (first % 64);
    while count > 0 {
        while bits == 0 {
            word += 1;
            bits = words[word];
        }
        let begin = bits.trailing_zeros();
        let end = begin + (bits >> begin).trailing_ones();
        let (place, mut run) = (word as u64 * 64 + u64::from(begin), u64::from(end - begin));
        bits = if end < 64 { bits & !0 << end } else { 0 };
        // The run may continue in the next words.
        while end == 64 && bits == 0 && run < count {
            word += 1;
            let more = words.get(word).map_or(0, |word| word.trailing_ones());
            run += u64::from(more);
            if more < 64 {
                bits = words.get(word).map_or(0, |bits| bits & !0 << more);
                break;
            }
        }
        let run = run.min(count);
        visit(place, run)?;
        count -= run;
    }
    ControlFlow::Continue(())
}

/// The number of consecutive set bits from `place` on.
#[inline]
pub(crate) fn run_at(words: &[u64], place: u64) -> u64 {
    let mut word = (place / 64) as usize;
    let mut run = u64::from((words[word] >> (place % 64)).trailing_ones());
    if place % 64 + run < 64 {
        return run;
    }
    loop {
        word += 1;
        let more = words.get(word).map_or(0, |word| word.trailing_ones());
        run += u64::from(more);
        if more < 64 {
            return run;
        }
    }
}

/// The first set bit at or after `place`. There must be one.
#[inline]
pub(crate) fn next_unit(words: &[u64], place: u64) -> u64 {
    let mut word = (place / 64) as usize;
    let mut bits = words[word] & !0 << (place % 64);
    while bits == 0 {
        word += 1;
        bits = words[word];
    }
    word as u64 * 64 + u64::from(bits.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::{Bitmap, run_at, select_in};

    /// Runs of one to three units of 4 bytes, with gaps of one to four units and, after every 100 runs, of
    /// 700.
    fn runs(seed: u64) -> Vec<(i64, u64)> {
        let (mut state, mut at, mut runs) = (seed, 0, Vec::new());
        for i in 0..900 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = 4 * (1 + (state >> 60) % 3);
            runs.push((at, bytes));
            let gap = if i % 100 == 99 { 700 } else { 1 + (state >> 50) % 4 };
            at += (bytes + 4 * gap) as i64;
        }
        runs
    }

    #[test]
    fn queries_agree_with_counting() {
        for seed in 0..if cfg!(miri) { 1 } else { 20 } {
            let runs = runs(seed);
            let &(at, bytes) = runs.last().expect("there are 900 runs");
            let map = Bitmap::new(4, at + bytes as i64, runs.iter().copied());
            let places: Vec<u64> =
                runs.iter().flat_map(|&(at, bytes)| (at as u64 / 4)..(at as u64 + bytes) / 4).collect();
            assert_eq!(map.units(), places.len() as u64);
            for (number, &place) in places.iter().enumerate().step_by(if cfg!(miri) { 41 } else { 1 }) {
                assert_eq!(map.select(number as u64), place);
                assert_eq!(map.units_below(place), number as u64);
                assert!(map.has(place));
                let starts = runs.iter().filter(|run| run.0 as u64 / 4 <= place).count();
                assert_eq!(map.runs_through(place), starts as u64);
            }
            for &(at, bytes) in &runs {
                assert_eq!(run_at(&map.words, at as u64 / 4), bytes / 4);
                assert!(!map.has((at as u64 + bytes) / 4));
            }
            assert_eq!(map.units_below(u64::MAX), map.units());
        }
    }

    #[test]
    fn runs_may_cross_words() {
        for first in [1, 62, 63, 64, 65] {
            for units in [1, 2, 62, 63, 64, 65, 127, 128, 129, 300] {
                // A unit, the run after a gap, and a unit some words later.
                let (end, last) = (1 + first + units, 1 + first + units + 130);
                let runs = [(0, 1), (1 + first, units), (last, 1)];
                let map = Bitmap::new(
                    4,
                    4 * (last as i64 + 1),
                    runs.into_iter().map(|(at, n)| (4 * at as i64, 4 * n)),
                );
                let expected = |place: u64| place == 0 || (1 + first..end).contains(&place) || place == last;
                assert!(
                    (0..last + 70).all(|place| map.has(place) == expected(place)),
                    "{units} units from unit {first}"
                );
                assert_eq!(map.units(), units + 2);
            }
        }
    }

    #[test]
    fn select_finds_every_set_bit_of_a_word() {
        for word in [1, !0, 1 << 63, 0x8000_0000_0000_0001, 0x00ff_0000_00f0_0000, 0x5555_5555_5555_5555] {
            let bits = (0..64).filter(|bit| word >> bit & 1 == 1);
            for (number, bit) in bits.enumerate() {
                assert_eq!(select_in(word, number as u32), bit, "set bit {number} of {word:x}");
            }
        }
    }
}
