//! Bitmaps: dense units of 4 or 8 bytes, with one bit per unit that tells whether it is present.

use super::super::address::{source_at, target_at};
use super::isa::Isa;

/// Units, some of which are present.
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
    /// The number of present units to copy.
    pub(crate) count: u64,
}

impl<'a> Bits<'a> {
    /// Iterates over groups (`Window`) of 64 unit positions. The first group begins `lead` positions, fewer
    /// than 64, before the first word.
    #[inline(always)]
    fn words(self, lead: u32) -> Words<'a> {
        let (keep, place) = (!0 << (self.first % 64), (self.first / 64) as usize);
        Words { bits: self, lead, place, keep, below: 0, done: 0 }
    }

    /// The number of positions before the first word at which a group begins at a cache line of 64 bytes.
    /// Then no unit crosses a line. 0 if the units lie across lines anyway.
    fn lead(&self, base: usize) -> u32 {
        let begin = base.wrapping_add(self.origin as usize) as u64 % 64;
        if begin.is_multiple_of(self.unit) { (begin / self.unit) as u32 } else { 0 }
    }
}

/// Iterator over the words of a bitmap, regrouped, without the bits of units that are not to be copied.
struct Words<'a> {
    bits: Bits<'a>,
    lead: u32,
    /// Index of the next word.
    place: usize,
    /// Mask of the bits of the next word that belong to the range.
    keep: u64,
    /// The previous word. A group has its last `lead` positions at the start.
    below: u64,
    /// Number of units in all groups before.
    done: u64,
}

/// A group of 64 unit positions.
#[derive(Clone, Copy)]
struct Window {
    /// Offset of the unit of the first bit, in bytes.
    offset: i64,
    /// Number of units in all groups before.
    done: u64,
    /// The bits of the units to copy.
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
        // The first `lead` positions of the group are the last positions of the previous word.
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

/// Whether a word has so few present units that packing them one by one is faster.
#[inline(always)]
fn is_gathered_singly(word: u64) -> bool {
    word.count_ones() < 8
}

/// Whether the units of a word are unpacked faster one by one. This holds if the vectors of 8-byte units
/// would hold few units, because each such vector costs as much as a full one. Measured with random strides
/// of 2 to 5 units from L3: 8.9 GB/s one by one and 5.5 by vectors; for 4-byte units 5.4 and 12.9.
#[inline(always)]
fn is_scattered_singly<const U: usize>(word: u64) -> bool {
    U == 8 && word.count_ones() < 32
}

/// Visits the set bits of a word as `(bit, number of set bits below it)`.
#[inline(always)]
fn for_each_bit(mut word: u64, mut visit: impl FnMut(usize, usize)) {
    let mut number = 0;
    while word != 0 {
        visit(word.trailing_zeros() as usize, number);
        word &= word - 1;
        number += 1;
    }
}

/// For each value of a byte, the positions of its set bits.
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

/// Number of units that are listed before they are moved; the last word may exceed it. A loop over the units
/// of a single word would end after an unpredictable number of iterations. Measured on Zen 3 with 4-byte
/// units at random strides of 2 to 5, 14 MiB: 2.0 GB/s unpacked word by word and 2.7 by lists; by lists
/// without prefetching 2.0, because the processor fetches no lines of the units while a list is made.
const LISTED: usize = 128;
/// Largest number of words per list. The positions of their units fit in 16 bits.
const WORDS: u16 = 256;
/// Prefetch distance in bytes.
const AHEAD_BYTES: usize = 4096;

/// Positions of some units.
struct List {
    /// In units, relative to `offset`. The extra entries take the last word and the write of eight entries
    /// at once.
    places: [u16; LISTED + 64 + 8],
    len: usize,
    /// Offset of position 0, in bytes.
    offset: i64,
    /// Number of units before those of the list.
    done: usize,
}

impl List {
    fn new() -> Self {
        Self { places: [0; LISTED + 64 + 8], len: 0, offset: 0, done: 0 }
    }

    /// Lists the next units. Returns `false` if no words were left. Calls `visit` with the offset of each
    /// group behind which there are at least `ahead` words.
    #[inline(always)]
    fn fill(&mut self, words: &mut Words<'_>, ahead: usize, visit: impl Fn(i64)) -> bool {
        // The length is kept in a register, because the entries of each byte depend on the length after the
        // byte before.
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

    /// Appends the set bits of a word to the first `len` entries, counted from position `first`. Returns the
    /// new length.
    #[inline(always)]
    fn push(&mut self, len: usize, first: u16, word: u64) -> usize {
        let (mut len, mut first) = (len, first);
        for byte in word.to_le_bytes() {
            // Always writes eight entries. Those beyond the set bits are overwritten by the next byte.
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
/// As for [`super::gather_bits`]. The processor must have the instructions of `I`.
#[inline(always)]
pub(super) unsafe fn gather<I: Isa>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    // SAFETY: `# Safety` of this function; `bits.unit` is 4 or 8, and `U` equals it.
    unsafe {
        match bits.unit {
            4 => gather_units::<I, 4>(source, target, bits),
            _ => gather_units::<I, 8>(source, target, bits),
        }
    }
}

/// # Safety
/// As for [`super::scatter_bits`]. The processor must have the instructions of `I`.
#[inline(always)]
pub(super) unsafe fn scatter<I: Isa>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    // SAFETY: `# Safety` of this function; `bits.unit` is 4 or 8, and `U` equals it.
    unsafe {
        match bits.unit {
            4 => scatter_units::<I, 4>(source, target, bits),
            _ => scatter_units::<I, 8>(source, target, bits),
        }
    }
}

/// # Safety
/// As for [`gather`], with units of `U` bytes.
#[inline(always)]
unsafe fn gather_units<I: Isa, const U: usize>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    if U > I::GATHERED_UNIT_MAX {
        // SAFETY: `# Safety` of this function is that of `by_lists` when it gathers.
        return unsafe { by_lists::<I, U, true>(source, target, bits) };
    }
    for Window { offset, done, word } in bits.words(bits.lead(source.addr())) {
        if word == 0 {
            continue;
        }
        let (from, to) = (source_at(source, offset), target.wrapping_add(done as usize * U));
        // SAFETY: `# Safety` of this function: the units of the set bits are readable, and `bits.count`
        // units are writable at `target`. If at least 64 units are still to come, a whole group fits at
        // `to`, and the units to come overwrite what `gather_word` writes behind the units of its word.
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
/// As for [`scatter`], with units of `U` bytes.
#[inline(always)]
unsafe fn scatter_units<I: Isa, const U: usize>(source: *const u8, target: *mut u8, bits: Bits<'_>) {
    if U > I::SCATTERED_UNIT_MAX {
        // SAFETY: `# Safety` of this function is that of `by_lists` when it scatters.
        return unsafe { by_lists::<I, U, false>(source, target, bits) };
    }
    for Window { offset, done, word } in bits.words(bits.lead(target.addr())) {
        if word == 0 {
            continue;
        }
        let (from, to) = (source.wrapping_add(done as usize * U), target_at(target, offset));
        // SAFETY: `# Safety` of this function: the units of the set bits are writable, and `bits.count`
        // consecutive units are readable at `source`. If at least 64 units are still to come, 64 units are
        // readable at `from`, as `ROOM` requires.
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

/// Copies in either direction without vector registers: lists positions, then moves their units one by one.
///
/// # Safety
/// As for [`gather`] if `GATHERS`, else as for [`scatter`]; with units of `U` bytes.
#[inline(always)]
unsafe fn by_lists<I: Isa, const U: usize, const GATHERS: bool>(
    source: *const u8,
    target: *mut u8,
    bits: Bits<'_>,
) {
    // A group spans `U` cache lines.
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
            // SAFETY: `# Safety` of this function: `listed` is the offset of the unit of a set bit, and
            // `dense` the offset of its number among all units to copy, relative to the starts of the list.
            unsafe { from.wrapping_add(s).copy_to_nonoverlapping(to.wrapping_add(t), U) };
        }
    }
}
