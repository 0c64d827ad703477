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

impl<'a> Bits<'a> {
    /// Windows of 64 places, the first of which begins `lead` places, below 64, before the first word.
    #[inline(always)]
    fn words(self, lead: u32) -> Words<'a> {
        let (keep, place) = (!0 << (self.first % 64), (self.first / 64) as usize);
        Words { bits: self, lead, place, keep, below: 0, done: 0 }
    }

    /// How many places before the first word a window must begin to begin with a line of 64 bytes, where units never cross one.
    fn lead(&self, base: usize) -> u32 {
        let begin = base.wrapping_add(self.origin as usize) as u64 % 64;
        if begin.is_multiple_of(self.unit) { (begin / self.unit) as u32 } else { 0 }
    }
}

/// The words of a bitmap, without the bits of units that are not to be copied.
struct Words<'a> {
    bits: Bits<'a>,
    lead: u32,
    /// Of the next word.
    place: usize,
    /// Its bits that count.
    keep: u64,
    /// The word before, of which a window has the last places.
    below: u64,
    /// Units of all windows before.
    done: u64,
}

/// 64 places.
#[derive(Clone, Copy)]
struct Window {
    /// Of the unit of the first bit.
    offset: i64,
    /// Units before.
    done: u64,
    word: u64,
}

impl Iterator for Words<'_> {
    type Item = Window;

    #[inline(always)]
    fn next(&mut self) -> Option<Window> {
        let left = self.bits.count - self.done;
        if left == 0 || self.place > self.bits.words.len() {
            return None;
        }
        let here = self.bits.words.get(self.place).copied().unwrap_or(0) & self.keep;
        self.keep = !0;
        // The places before those of this word come from the word before.
        let mut word = if self.lead == 0 { here } else { here << self.lead | self.below >> (64 - self.lead) };
        self.below = here;
        while u64::from(word.count_ones()) > left {
            word &= !(1 << word.ilog2());
        }
        let first = (self.place as u64 * 64).wrapping_sub(self.lead.into());
        let offset = self.bits.origin.wrapping_add(first.wrapping_mul(self.bits.unit) as i64);
        let window = Window { offset, done: self.done, word };
        self.done += u64::from(word.count_ones());
        self.place += 1;
        Some(window)
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

/// For each byte, the numbers of its set bits.
pub(super) static SET_BITS: [[u8; 8]; 256] = {
    let (mut all, mut byte) = ([[0; 8]; 256], 0);
    while byte < 256 {
        let (mut bit, mut number) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                all[byte][number] = bit as u8;
                number += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// Units that are listed before they are moved, or a word more: a loop over as many as a word has ends where nobody can foresee it.
/// Strides of 2 to 5 at random, 4 bytes, 14 MiB, on Zen 3: 2.0 GB/s unpacked word by word and 2.7 by lists; 2.0 where
/// no lines are asked for ahead, for nothing does so while a list is made.
const LISTED: usize = 128;
/// Words that a list is made of, at most: their places fit into 16 bits.
const WORDS: u16 = 256;
/// How far ahead lines are asked for, in bytes.
const AHEAD_BYTES: usize = 4096;

/// Places of some units.
struct List {
    /// In units from the offset.
    places: [u16; LISTED + 64 + 8],
    len: usize,
    offset: i64,
    /// Units before these.
    done: usize,
}

impl List {
    fn new() -> Self {
        Self { places: [0; LISTED + 64 + 8], len: 0, offset: 0, done: 0 }
    }

    /// Lists the next units; tells whether there were any words left. Visits the windows from which on there are so many words
    /// more.
    #[inline(always)]
    fn fill(&mut self, words: &mut Words<'_>, ahead: usize, visit: impl Fn(i64)) -> bool {
        // In a register: each byte waits for the one before.
        let (mut len, mut turn) = (0, 0);
        while len <= LISTED && turn < WORDS {
            let has_ahead = words.place + ahead < words.bits.words.len();
            let Some(window) = words.next() else { break };
            if turn == 0 {
                (self.offset, self.done) = (window.offset, window.done as usize);
            }
            if has_ahead {
                visit(window.offset);
            }
            len = self.push(len, turn * 64, window.word);
            turn += 1;
        }
        self.len = len;
        turn > 0
    }

    /// Adds the set bits of a word, behind so many others; returns how many there are then.
    #[inline(always)]
    fn push(&mut self, len: usize, first: u16, word: u64) -> usize {
        let (mut len, mut first) = (len, first);
        for byte in word.to_le_bytes() {
            // All eight, of which the next byte overwrites those that there are not.
            let (places, bits) = (&mut self.places[len..len + 8], &SET_BITS[usize::from(byte)]);
            for i in 0..8 {
                places[i] = first.wrapping_add(bits[i].into());
            }
            len += byte.count_ones() as usize;
            first = first.wrapping_add(8);
        }
        len
    }

    #[inline(always)]
    fn places(&self) -> &[u16] {
        &self.places[..self.len]
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
    if U > I::GATHERED_UNIT_MAX {
        // SAFETY: the caller's promise.
        return unsafe { by_lists::<I, U, true>(source, target, bits) };
    }
    for Window { offset, done, word } in bits.words(bits.lead(source.addr())) {
        if word == 0 {
            continue;
        }
        let (from, to) = (source_at(source, offset), target.wrapping_add(done as usize * U));
        // SAFETY: the caller promises the units of the set bits in the source, and `bits.count` of them in the target: room
        // for a whole word where 64 of them are still to come, which also overwrite what the word leaves behind its own.
        unsafe {
            if bits.count - done >= 64 && !is_gathered_singly(word) && I::gather_word::<U>(from, to, word) {
                continue;
            }
            for_each_bit(word, |bit, number| {
                from.wrapping_add(bit * U).copy_to_nonoverlapping(to.wrapping_add(number * U), U);
            });
        }
    }
}

/// # Safety
/// As [`super::scatter_bits`], with units of `U` bytes.
#[inline(always)]
unsafe fn scatter_units<I: Isa, const U: usize>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    if U > I::SCATTERED_UNIT_MAX {
        // SAFETY: the caller's promise.
        return unsafe { by_lists::<I, U, false>(source, target, bits) };
    }
    for Window { offset, done, word } in bits.words(bits.lead(target.addr())) {
        if word == 0 {
            continue;
        }
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
                continue;
            }
            for_each_bit(word, |bit, number| {
                from.wrapping_add(number * U).copy_to_nonoverlapping(to.wrapping_add(bit * U), U);
            });
        }
    }
}

/// Either way, without registers: places are listed, then their units moved one by one.
///
/// # Safety
/// As [`super::gather_bits`], or [`super::scatter_bits`], with units of `U` bytes.
#[inline(always)]
unsafe fn by_lists<I: Isa, const U: usize, const GATHERS: bool>(
    source: *const u8,
    target: *mut u8,
    bits: Bits<'_>,
) {
    // A window has `U` lines.
    const LINE_BYTES: usize = 64;
    let ask = |offset: i64| {
        for line in 0..U {
            let further = line * LINE_BYTES + AHEAD_BYTES;
            if GATHERS {
                I::ask_to_read(source_at(source, offset).wrapping_add(further));
            } else {
                I::ask_to_write(target_at(target, offset).wrapping_add(further));
            }
        }
    };
    let (mut words, mut list) = (bits.words(0), List::new());
    while list.fill(&mut words, AHEAD_BYTES / (U * LINE_BYTES), ask) {
        let dense = list.done * U;
        let (from, to) = if GATHERS {
            (source_at(source, list.offset), target.wrapping_add(dense))
        } else {
            (source.wrapping_add(dense), target_at(target, list.offset))
        };
        for (number, place) in list.places().iter().enumerate() {
            let (dense, listed) = (number * U, usize::from(*place) * U);
            let (s, t) = if GATHERS { (listed, dense) } else { (dense, listed) };
            // SAFETY: the unit of a set bit, and its place among all of them.
            unsafe { from.wrapping_add(s).copy_to_nonoverlapping(to.wrapping_add(t), U) };
        }
    }
}
