//! Bitmaps: dense units of 4 or 8 bytes, one bit each.

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
    /// Visits the offsets of the units, each with its number among them.
    #[inline]
    fn for_each(self, mut visit: impl FnMut(i64, usize)) {
        let (mut number, count) = (0, self.count as usize);
        let mut place = (self.first / 64) as usize;
        let mut skip = !0 << (self.first % 64);
        while number < count && place < self.words.len() {
            let mut word = self.words[place] & skip;
            while word != 0 && number < count {
                let bit = place as u64 * 64 + u64::from(word.trailing_zeros());
                visit(self.origin.wrapping_add((bit * self.unit) as i64), number);
                number += 1;
                word &= word - 1;
            }
            place += 1;
            skip = !0;
        }
    }
}

/// # Safety
/// As [`super::gather_bits`].
pub(super) unsafe fn gather((source, bits): (*const u8, Bits<'_>), target: *mut u8) {
    bits.for_each(|offset, number| {
        let (from, to) = (source_at(source, offset), target.wrapping_add(number * bits.unit as usize));
        // SAFETY: the caller promises the units of the set bits in the source, and as many in a row in the target.
        unsafe { copy_unit(from, to, bits.unit) };
    });
}

/// # Safety
/// As [`super::scatter_bits`].
pub(super) unsafe fn scatter(source: *const u8, (target, bits): (*mut u8, Bits<'_>)) {
    bits.for_each(|offset, number| {
        let (from, to) = (source.wrapping_add(number * bits.unit as usize), target_at(target, offset));
        // SAFETY: as in `gather`, with the sides exchanged.
        unsafe { copy_unit(from, to, bits.unit) };
    });
}

/// # Safety
/// `unit` bytes must be readable at `from` and writable at `to`, apart from each other.
#[inline]
unsafe fn copy_unit(from: *const u8, to: *mut u8, unit: u64) {
    // SAFETY: the caller's promise; 8 bytes only where the unit is that large.
    unsafe {
        match unit {
            8 => from.copy_to_nonoverlapping(to, 8),
            4 => from.copy_to_nonoverlapping(to, 4),
            _ => from.copy_to_nonoverlapping(to, unit as usize),
        }
    }
}
