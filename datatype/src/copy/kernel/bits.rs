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
    /// Visits windows of 64 places that have units to copy, as words without the bits of others: the offset of the unit of the
    /// word's first bit, the units before the word, and the word. The first window begins `lead` places, below 64, before the
    /// first word.
    #[inline(always)]
    fn for_each_word(self, lead: u32, mut visit: impl FnMut(i64, u64, u64)) {
        let (mut done, mut below) = (0, 0);
        let mut keep = !0 << (self.first % 64);
        let start = (self.first / 64) as usize;
        for place in start..=self.words.len() {
            let left = self.count - done;
            if left == 0 {
                return;
            }
            let here = self.words.get(place).copied().unwrap_or(0) & keep;
            keep = !0;
            // The places before those of this word come from the word before.
            let mut word = if lead == 0 { here } else { here << lead | below >> (64 - lead) };
            below = here;
            while u64::from(word.count_ones()) > left {
                word &= !(1 << word.ilog2());
            }
            if word != 0 {
                let first = (place as u64 * 64).wrapping_sub(lead.into());
                let offset = self.origin.wrapping_add(first.wrapping_mul(self.unit) as i64);
                visit(offset, done, word);
                done += u64::from(word.count_ones());
            }
        }
    }

    /// How many places before the first word a window must begin to begin with a line of 64 bytes, where units never cross one.
    fn lead(&self, base: usize) -> u32 {
        let begin = base.wrapping_add(self.origin as usize) as u64 % 64;
        if begin.is_multiple_of(self.unit) { (begin / self.unit) as u32 } else { 0 }
    }
}

/// Whether so few units of a word are present that they are better packed one by one.
#[inline(always)]
fn is_gathered_singly(word: u64) -> bool {
    word.count_ones() < 8
}

/// Whether the units of a word are better unpacked one by one: a vector of 8-byte units then holds few of them, and costs as much as
/// a full one. Strides of 2 to 5 units at random, out of L3: 8.9 GB/s one by one and 5.5 by vectors; 4-byte units 5.4 and 12.9.
#[inline(always)]
fn is_scattered_singly<const U: usize>(word: u64) -> bool {
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
    bits.for_each_word(bits.lead(source.addr()), |offset, done, word| {
        let (from, to) = (source_at(source, offset), target.wrapping_add(done as usize * U));
        // SAFETY: the caller promises the units of the set bits in the source, and `bits.count` of them in the target: room
        // for a whole word where 64 of them are still to come, which also overwrite what the word leaves behind its own.
        unsafe {
            if bits.count - done >= 64 && !is_gathered_singly(word) && I::gather_word::<U>(from, to, word) {
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
    bits.for_each_word(bits.lead(target.addr()), |offset, done, word| {
        let (from, to) = (source.wrapping_add(done as usize * U), target_at(target, offset));
        // SAFETY: the caller promises the units of the set bits in the target, and `bits.count` in a row in the source: room for
        // a whole word where 64 of them are still to come.
        unsafe {
            let is_done = if is_scattered_singly::<U>(word) {
                false
            } else if bits.count - done >= 64 {
                I::scatter_word::<U, true>(from, to, word)
            } else {
                I::scatter_word::<U, false>(from, to, word)
            };
            if is_done {
                return;
            }
            for_each_bit(word, |bit, number| {
                from.wrapping_add(number * U).copy_to_nonoverlapping(to.wrapping_add(bit * U), U);
            });
        }
    });
}
