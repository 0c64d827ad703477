//! Units at a distance of a few units, by registers: whole vectors are loaded and their units selected (pack), or units are
//! spread over vectors and stored under a mask (unpack). Packing is written once for every instruction set that has
//! permutations, unpacking for those whose stores under a mask are any good.

// A closure or an adaptor of iterators that is not inlined would run without the instructions, and call a function for each.
#![allow(clippy::needless_range_loop)]

use super::x86;

/// A register of at most 16 units, and what can be done with it.
pub(super) trait Lanes {
    /// Bytes of a unit.
    const UNIT: usize;
    /// The register.
    type Vector: Copy;
    /// Which lane goes where.
    type Index: Copy;
    /// Some of the lanes.
    type Mask: Copy;

    /// Lane `i` is to come from lane `lanes[i]`.
    ///
    /// # Safety
    /// The processor must have the instructions; so for every function of this trait.
    unsafe fn index(lanes: &[u8; 16]) -> Self::Index;
    /// The lanes of the set bits.
    ///
    /// # Safety
    /// As [`Lanes::index`].
    unsafe fn mask(bits: u32) -> Self::Mask;
    /// # Safety
    /// A whole register must be readable at `from`.
    unsafe fn load(from: *const u8) -> Self::Vector;
    /// # Safety
    /// A whole register must be writable at `to`.
    unsafe fn store(to: *mut u8, vector: Self::Vector);
    /// # Safety
    /// As [`Lanes::index`].
    unsafe fn permute(index: Self::Index, vector: Self::Vector) -> Self::Vector;
    /// `into`, with the lanes of the mask replaced by those of the permuted `vector`.
    ///
    /// # Safety
    /// As [`Lanes::index`].
    unsafe fn merge(
        into: Self::Vector,
        mask: Self::Mask,
        index: Self::Index,
        vector: Self::Vector,
    ) -> Self::Vector;
    /// The even lanes of two registers: what `index` selects of both, and `mask` takes from the second one.
    ///
    /// # Safety
    /// As [`Lanes::index`].
    #[inline(always)]
    unsafe fn evens(index: Self::Index, mask: Self::Mask, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: the caller's promise.
        unsafe { Self::merge(Self::permute(index, a), mask, index, b) }
    }
}

/// Registers of which some lanes are moved as fast as all are.
pub(super) trait MaskedLanes: Lanes {
    /// Zero in the other lanes, whose bytes are not read.
    ///
    /// # Safety
    /// The lanes of the mask must be readable from `from` on.
    unsafe fn load_masked(from: *const u8, mask: Self::Mask) -> Self::Vector;
    /// The bytes of the other lanes are not written.
    ///
    /// # Safety
    /// The lanes of the mask must be writable from `to` on.
    unsafe fn store_masked(to: *mut u8, mask: Self::Mask, vector: Self::Vector);
}

/// For `K` vectors of `LANES` lanes that hold every `K`-th unit of a vector: lane `o` of the dense one is unit `o * K`.
struct Pattern<const LANES: usize, const K: usize>;

/// Bits below `n`, at most 32 of them.
#[inline(always)]
fn low(n: usize) -> u32 {
    ((1_u64 << n.min(32)) - 1) as u32
}

/// The lane that dense lane `o` comes from, in whichever of the vectors that is.
const fn pack_lanes(lanes: usize, k: usize) -> [u8; 16] {
    let mut from = [0; 16];
    let mut o = 0;
    while o < lanes {
        from[o] = (o * k % lanes) as u8;
        o += 1;
    }
    from
}

/// The dense lanes that come from vector `j`.
const fn pack_mask(lanes: usize, k: usize, j: usize) -> u32 {
    let (mut mask, mut o) = (0, 0);
    while o < lanes {
        if o * k / lanes == j {
            mask |= 1 << o;
        }
        o += 1;
    }
    mask
}

/// The dense lane that each lane of vector `j` comes from.
const fn unpack_lanes(lanes: usize, k: usize, j: usize) -> [u8; 16] {
    let mut from = [0; 16];
    let mut lane = 0;
    while lane < lanes {
        from[lane] = ((j * lanes + lane) / k) as u8;
        lane += 1;
    }
    from
}

/// The lanes of vector `j` that hold a unit.
const fn unpack_mask(lanes: usize, k: usize, j: usize) -> u32 {
    let (mut mask, mut lane) = (0, 0);
    while lane < lanes {
        if (j * lanes + lane).is_multiple_of(k) {
            mask |= 1 << lane;
        }
        lane += 1;
    }
    mask
}

impl<const LANES: usize, const K: usize> Pattern<LANES, K> {
    const PACK_LANES: [u8; 16] = pack_lanes(LANES, K);
    const PACK_MASKS: [u32; 4] =
        [pack_mask(LANES, K, 0), pack_mask(LANES, K, 1), pack_mask(LANES, K, 2), pack_mask(LANES, K, 3)];
    const UNPACK_LANES: [[u8; 16]; 4] = [
        unpack_lanes(LANES, K, 0),
        unpack_lanes(LANES, K, 1),
        unpack_lanes(LANES, K, 2),
        unpack_lanes(LANES, K, 3),
    ];
    const UNPACK_MASKS: [u32; 4] = [
        unpack_mask(LANES, K, 0),
        unpack_mask(LANES, K, 1),
        unpack_mask(LANES, K, 2),
        unpack_mask(LANES, K, 3),
    ];
}

/// Units `K` units apart (2 to 4) to consecutive ones, as many as whole registers hold, and returns how many. `LANES` is that of
/// `L`. Where the source `is_far` from the core, its lines are asked for ahead.
///
/// # Safety
/// `n` units must be readable from `source` on, `K` units apart, and writable one after the other at `target`; the
/// processor must have the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn pack<L: Lanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    is_far: bool,
) -> usize {
    let vector = LANES * L::UNIT;
    // SAFETY: constants of the instruction set that the caller promises.
    let index = unsafe { L::index(&Pattern::<LANES, K>::PACK_LANES) };
    let mut i = 0;
    if is_far {
        let ahead = (READ_AHEAD_BYTES + K * vector).div_ceil(K * L::UNIT);
        while i + ahead < n {
            // SAFETY: as below.
            unsafe { pack_register::<L, LANES, K>(source, target, i, index, true) };
            i += LANES;
        }
    }
    while i + LANES < n {
        // SAFETY: unit `i + LANES` exists.
        unsafe { pack_register::<L, LANES, K>(source, target, i, index, false) };
        i += LANES;
    }
    i
}

/// Units `i..i + LANES` of both sides.
///
/// # Safety
/// As [`pack`], and there must be a unit behind these.
#[inline(always)]
unsafe fn pack_register<L: Lanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    i: usize,
    index: L::Index,
    asks: bool,
) {
    let (vector, masks) = (LANES * L::UNIT, Pattern::<LANES, K>::PACK_MASKS);
    let (from, to) = (source.wrapping_add(i * K * L::UNIT), target.wrapping_add(i * L::UNIT));
    // SAFETY: unit `i + LANES` exists and lies behind the `K` vectors, which begin with unit `i`; so these lie between
    // bytes of the source, less than `K` vectors apart. The target has `n > i + LANES` units.
    unsafe {
        for j in 0..if asks { K } else { 0 } {
            if (j * vector).is_multiple_of(LINE_BYTES) {
                x86::ask_to_read(from.wrapping_add(j * vector + READ_AHEAD_BYTES));
            }
        }
        let dense = if K == 2 {
            L::evens(index, L::mask(masks[1]), L::load(from), L::load(from.wrapping_add(vector)))
        } else {
            let mut dense = L::permute(index, L::load(from));
            for j in 1..K {
                dense = L::merge(dense, L::mask(masks[j]), index, L::load(from.wrapping_add(j * vector)));
            }
            dense
        };
        L::store(to, dense);
    }
}

/// The last units of [`pack`], from unit `i` on: `LANES` at most.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
pub(super) unsafe fn pack_rest<L: MaskedLanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    i: usize,
) {
    let rest = n - i;
    if rest == 0 {
        return;
    }
    let (vector, masks) = (LANES * L::UNIT, Pattern::<LANES, K>::PACK_MASKS);
    // SAFETY: constants of the instruction set that the caller promises.
    let index = unsafe { L::index(&Pattern::<LANES, K>::PACK_LANES) };
    let (from, to) = (source.wrapping_add(i * K * L::UNIT), target.wrapping_add(i * L::UNIT));
    let reach = (rest - 1) * K + 1;
    // SAFETY: as above, with no lane read behind the last unit (`reach` lanes from unit `i` on) and none written there.
    unsafe {
        let mut dense = L::permute(index, L::load_masked(from, L::mask(low(reach.min(LANES)))));
        for j in 1..K {
            let lanes = reach.saturating_sub(j * LANES).min(LANES);
            let loaded = L::load_masked(from.wrapping_add(j * vector), L::mask(low(lanes)));
            dense = L::merge(dense, L::mask(masks[j]), index, loaded);
        }
        L::store_masked(to, L::mask(low(rest)), dense);
    }
}

/// Units of so many bytes, 3 or more of their size apart, are unpacked by plain moves as long as the target is in a cache
/// near by: 34 to 55 GB/s by them, 23 to 33 under masks.
pub(super) const PLAIN_UNITS_BYTES: usize = 8;

/// How far ahead of the stores lines are asked for, in bytes: at 8-byte units 2 apart 30 GB/s with it and 18 without, of
/// the distances from 256 to 8192 the best or close to it at every stride.
pub(super) const WRITE_AHEAD_BYTES: usize = 4096;

/// How far ahead of the loads, where the source is far: 8-byte units 2 apart, 16 MiB of them, 19 GB/s with it and 16 without; the
/// same with half of it, nothing with less.
const READ_AHEAD_BYTES: usize = 8192;

const LINE_BYTES: usize = 64;

/// The reverse of [`pack`]. Where the target `is_far` from the core, its lines are asked for ahead: a masked store waits for
/// its line, where plain ones of whole lines would not.
///
/// # Safety
/// As [`pack`], with the sides exchanged.
#[inline(always)]
pub(super) unsafe fn unpack<L: MaskedLanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    is_far: bool,
) {
    let vector = LANES * L::UNIT;
    // A masked store that crosses a line costs several times one that does not. Short rows are not worth the search.
    let is_on_line = |i: &usize| target.wrapping_add(i * K * L::UNIT).addr().is_multiple_of(vector);
    let mut i = if n < 8 * LANES { 0 } else { (0..LANES).find(is_on_line).unwrap_or(0) };
    // SAFETY: registers and parts of them are of units of both sides.
    unsafe {
        if i > 0 {
            unpack_part::<L, LANES, K>(source, target, 0, i);
        }
        if is_far {
            // No line behind the row is asked for: it may be another core's.
            let ahead = (WRITE_AHEAD_BYTES + K * vector).div_ceil(K * L::UNIT);
            while i + ahead <= n {
                unpack_register::<L, LANES, K>(source, target, i, true);
                i += LANES;
            }
        }
        while i + LANES <= n {
            unpack_register::<L, LANES, K>(source, target, i, false);
            i += LANES;
        }
        if i < n {
            unpack_part::<L, LANES, K>(source, target, i, n - i);
        }
    }
}

/// Units `i..i + count` of both sides, with `count <= LANES`.
///
/// # Safety
/// As [`unpack`]; these units must be there.
#[inline(always)]
unsafe fn unpack_part<L: MaskedLanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    i: usize,
    count: usize,
) {
    let (lanes, masks) = (&Pattern::<LANES, K>::UNPACK_LANES, Pattern::<LANES, K>::UNPACK_MASKS);
    let (from, to) = (source.wrapping_add(i * L::UNIT), target.wrapping_add(i * K * L::UNIT));
    // SAFETY: these units exist on both sides; the masks have only lanes of units, and none from `count * K` on.
    unsafe {
        let dense = L::load_masked(from, L::mask(low(count)));
        for j in 0..K {
            let here = masks[j] & low((count * K).saturating_sub(j * LANES));
            let spread = L::permute(L::index(&lanes[j]), dense);
            L::store_masked(to.wrapping_add(j * LANES * L::UNIT), L::mask(here), spread);
        }
    }
}

/// Units `i..i + LANES` of both sides.
///
/// # Safety
/// As [`unpack`]; these units must be there.
#[inline(always)]
unsafe fn unpack_register<L: MaskedLanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    i: usize,
    asks: bool,
) {
    let vector = LANES * L::UNIT;
    let (lanes, masks) = (&Pattern::<LANES, K>::UNPACK_LANES, Pattern::<LANES, K>::UNPACK_MASKS);
    let (from, to) = (source.wrapping_add(i * L::UNIT), target.wrapping_add(i * K * L::UNIT));
    // SAFETY: these units exist on both sides; the masks have only lanes of units.
    unsafe {
        let dense = L::load(from);
        for j in 0..K {
            if asks && (j * vector).is_multiple_of(LINE_BYTES) {
                x86::ask_to_write(to.wrapping_add(j * vector + WRITE_AHEAD_BYTES));
            }
            let spread = L::permute(L::index(&lanes[j]), dense);
            L::store_masked(to.wrapping_add(j * vector), L::mask(masks[j]), spread);
        }
    }
}
