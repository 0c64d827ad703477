//! Bitmaps: dense units of 4 or 8 bytes, one bit each.

use super::isa::Isa;
use super::{source_at, target_at};

/// Units of which some are present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits<'a> {
    /// Offset of the unit of bit 0 from the base address, in bytes.
    pub(crate) origin: i64,
    /// Bytes of a unit: 4 or 8.
    pub(crate) unit: u64,
    /// Bit `i % 64` of word `i / 64` tells whether unit `i` is present.
    pub(crate) words: &'a [u64],
    /// The bit at which to start.
    pub(crate) first: u64,
    /// How many present units to copy.
    pub(crate) count: u64,
}

impl Bits<'_> {
    /// Visits the words that have units to copy, without the bits of others: the offset of the unit of the word's first
    /// bit, the units before the word, and the word.
    #[inline(always)]
    fn for_each_word(self, mut visit: impl FnMut(i64, u64, u64)) {
        let mut done = 0;
        let mut keep = !0 << (self.first % 64);
        let start = (self.first / 64) as usize;
        for (place, word) in self.words.iter().enumerate().skip(start) {
            let left = self.count - done;
            if left == 0 {
                return;
            }
            let mut word = word & keep;
            keep = !0;
            while u64::from(word.count_ones()) > left {
                word &= !(1 << word.ilog2());
            }
            if word != 0 {
                let offset = self.origin.wrapping_add((place as u64 * 64 * self.unit) as i64);
                visit(offset, done, word);
                done += u64::from(word.count_ones());
            }
        }
    }
}

/// Whether the units of a word are better moved one by one: a vector of 8-byte units then holds few of them, and costs as much as
/// a full one. Strides of 2 to 5 units at random, out of L3: 7.3 GB/s packed and 8.7 unpacked one by one, 3.7 and 4.5 by
/// vectors; 4-byte units 5.4 and 5.4 one by one, 7 and 9 by vectors.
#[inline(always)]
fn is_sparse<const U: usize>(word: u64) -> bool {
    U == 8 && word.count_ones() < 32
}

/// Visits the set bits of a word, each with its number among them.
#[inline(always)]
fn for_each_bit(mut word: u64, mut visit: impl FnMut(usize, usize)) {
    let mut number = 0;
    while word != 0 {
        visit(word.trailing_zeros() as usize, number);
        word &= word - 1;
        number += 1;
    }
}

/// # Safety
/// As [`super::gather_bits`].
#[inline(always)]
pub(super) unsafe fn gather<I: Isa>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    // SAFETY: the caller's promise; `U` is the unit.
    unsafe {
        match bits.unit {
            4 => gather_units::<I, 4>(source, target, bits),
            _ => gather_units::<I, 8>(source, target, bits),
        }
    }
}

/// # Safety
/// As [`super::scatter_bits`].
#[inline(always)]
pub(super) unsafe fn scatter<I: Isa>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    // SAFETY: the caller's promise; `U` is the unit.
    unsafe {
        match bits.unit {
            4 => scatter_units::<I, 4>(source, target, bits),
            _ => scatter_units::<I, 8>(source, target, bits),
        }
    }
}

/// # Safety
/// As [`super::gather_bits`], with units of `U` bytes.
#[inline(always)]
unsafe fn gather_units<I: Isa, const U: usize>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    bits.for_each_word(|offset, done, word| {
        let (from, to) = (source_at(source, offset), target.wrapping_add(done as usize * U));
        // SAFETY: the caller promises the units of the set bits in the source, and `bits.count` of them in the target: room
        // for a whole word where 64 of them are still to come, which also overwrite what the word leaves behind its own.
        unsafe {
            if bits.count - done >= 64 && !is_sparse::<U>(word) && I::gather_word::<U>(from, to, word) {
                return;
            }
            for_each_bit(word, |bit, number| {
                from.wrapping_add(bit * U).copy_to_nonoverlapping(to.wrapping_add(number * U), U);
            });
        }
    });
}

/// # Safety
/// As [`super::scatter_bits`], with units of `U` bytes.
#[inline(always)]
unsafe fn scatter_units<I: Isa, const U: usize>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    bits.for_each_word(|offset, done, word| {
        let (from, to) = (source.wrapping_add(done as usize * U), target_at(target, offset));
        // SAFETY: the caller promises the units of the set bits in the target, and as many in a row in the source.
        unsafe {
            if !is_sparse::<U>(word) && I::scatter_word::<U>(from, to, word) {
                return;
            }
            for_each_bit(word, |bit, number| {
                from.wrapping_add(number * U).copy_to_nonoverlapping(to.wrapping_add(bit * U), U);
            });
        }
    });
}
