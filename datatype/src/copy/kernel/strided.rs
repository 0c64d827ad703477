//! Units at a distance of a few units, by registers. Packing loads whole vectors and selects their units.
//! Unpacking spreads units over vectors and stores them under a mask. Packing is written once for every
//! instruction set that has permutations, unpacking for the sets whose masked stores are fast.

// A closure or iterator adaptor that is not inlined would be compiled without the instructions, with a call
// for each of them.
#![allow(clippy::needless_range_loop)]

use super::x86;

/// A register of at most 16 units, and its operations.
pub(super) trait Lanes {
    /// Bytes of a unit.
    const UNIT: usize;
    /// The register.
    type Vector: Copy;
    /// A permutation: the lane that each lane comes from.
    type Index: Copy;
    /// A set of lanes.
    type Mask: Copy;

    /// The permutation in which lane `i` comes from lane `lanes[i]`.
    ///
    /// # Safety
    /// The processor must have the instructions; this holds for every function of this trait.
    unsafe fn index(lanes: &[u8; 16]) -> Self::Index;
    /// The lanes of the set bits.
    ///
    /// # Safety
    /// As for [`Lanes::index`].
    unsafe fn mask(bits: u32) -> Self::Mask;
    /// # Safety
    /// A whole register must be readable at `from`. The processor must have the instructions.
    unsafe fn load(from: *const u8) -> Self::Vector;
    /// # Safety
    /// A whole register must be writable at `to`. The processor must have the instructions.
    unsafe fn store(to: *mut u8, vector: Self::Vector);
    /// # Safety
    /// As for [`Lanes::index`].
    unsafe fn permute(index: Self::Index, vector: Self::Vector) -> Self::Vector;
    /// `into`, with the lanes of the mask replaced by those of the permuted `vector`.
    ///
    /// # Safety
    /// As for [`Lanes::index`].
    unsafe fn merge(
        into: Self::Vector,
        mask: Self::Mask,
        index: Self::Index,
        vector: Self::Vector,
    ) -> Self::Vector;
    /// The even lanes of two registers. `index` selects the even lanes of each, and `mask` has the lanes
    /// that come from `b`.
    ///
    /// # Safety
    /// As for [`Lanes::index`].
    #[inline(always)]
    unsafe fn evens(index: Self::Index, mask: Self::Mask, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: `# Safety` of this function: the processor has the instructions.
        unsafe { Self::merge(Self::permute(index, a), mask, index, b) }
    }
}

/// Registers for which moving some lanes is as fast as moving all.
pub(super) trait MaskedLanes: Lanes {
    /// Loads the lanes of the mask. The other lanes are zero, and their bytes are not read.
    ///
    /// # Safety
    /// The lanes of the mask must be readable from `from` on. The processor must have the instructions.
    unsafe fn load_masked(from: *const u8, mask: Self::Mask) -> Self::Vector;
    /// Stores the lanes of the mask. The bytes of the other lanes are not written.
    ///
    /// # Safety
    /// The lanes of the mask must be writable from `to` on. The processor must have the instructions.
    unsafe fn store_masked(to: *mut u8, mask: Self::Mask, vector: Self::Vector);
}

/// Constants for `K` vectors of `LANES` lanes in which every `K`-th lane holds a unit. Lane `o` of the dense
/// vector is lane `o * K` of these vectors.
struct Pattern<const LANES: usize, const K: usize>;

/// The lowest `n` bits, at most 32.
#[inline(always)]
fn low(n: usize) -> u32 {
    ((1_u64 << n.min(32)) - 1) as u32
}

/// The lane that dense lane `o` comes from, within its vector.
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

/// Packs units that are `K` units apart (2 to 4) to consecutive bytes, as many as fill whole registers.
/// Returns their number. `LANES` must be that of `L`. If `is_far`, the source is far from the core, and its
/// lines are prefetched.
///
/// # Safety
/// `n` units must be readable from `source` on, `K` units apart, `n` consecutive units writable at `target`,
/// and the two must not overlap. The processor must have the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn pack<L: Lanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    is_far: bool,
) -> usize {
    let vector = LANES * L::UNIT;
    // SAFETY: `# Safety` of this function: the processor has the instructions of `L`.
    let index = unsafe { L::index(&Pattern::<LANES, K>::PACK_LANES) };
    let mut i = 0;
    if is_far {
        let ahead = (READ_AHEAD_BYTES + K * vector).div_ceil(K * L::UNIT);
        while i + ahead < n {
            // SAFETY: `# Safety` of this function; `ahead >= LANES`, so unit `i + LANES` exists.
            unsafe { pack_register::<L, LANES, K>(source, target, i, index, true) };
            i += LANES;
        }
    }
    while i + LANES < n {
        // SAFETY: `# Safety` of this function; unit `i + LANES` exists.
        unsafe { pack_register::<L, LANES, K>(source, target, i, index, false) };
        i += LANES;
    }
    i
}

/// Packs units `i..i + LANES`. If `asks`, prefetches the lines of the source.
///
/// # Safety
/// As for [`pack`]. Unit `i + LANES` must exist.
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
    // SAFETY: `# Safety` of this function. The `K` vectors begin with unit `i` and end before unit `i +
    // LANES`, which exists. So the bytes read lie between units of the source, less than `K` vectors apart.
    // The target has `n > i + LANES` units.
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

/// Packs the last units of [`pack`], from unit `i` on, at most `LANES` units.
///
/// # Safety
/// As for [`pack`].
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
    // SAFETY: `# Safety` of this function: the processor has the instructions of `L`.
    let index = unsafe { L::index(&Pattern::<LANES, K>::PACK_LANES) };
    let (from, to) = (source.wrapping_add(i * K * L::UNIT), target.wrapping_add(i * L::UNIT));
    let reach = (rest - 1) * K + 1;
    // SAFETY: `# Safety` of this function. The masks of the loads end at the last unit, `reach` lanes from
    // unit `i` on, and the mask of the store has only the `rest` units that are left.
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

/// Units of at least this many bytes that are 3 or more units apart are unpacked by plain moves while the
/// target is in a near cache: 34 to 55 GB/s by plain moves, 23 to 33 by masked stores.
pub(super) const PLAIN_UNITS_BYTES: usize = 8;

/// Prefetch distance of the stores, in bytes. Measured with 8-byte units 2 units apart: 30 GB/s with
/// prefetching and 18 without. Of the distances from 256 to 8192 this is the best one or close to it at
/// every stride.
pub(super) const WRITE_AHEAD_BYTES: usize = 4096;

/// Prefetch distance of the loads from a far source, in bytes. Measured with 16 MiB of 8-byte units 2 units
/// apart: 19 GB/s with prefetching and 16 without. Half the distance does the same, a smaller one nothing.
const READ_AHEAD_BYTES: usize = 8192;

const LINE_BYTES: usize = 64;

/// The reverse of [`pack`]. If `is_far`, the target is far from the core, and its lines are prefetched: a
/// masked store waits for its line, while plain stores of whole lines do not.
///
/// # Safety
/// As for [`pack`], with the sides exchanged. Other bytes of the target are not written.
#[inline(always)]
pub(super) unsafe fn unpack<L: MaskedLanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    n: usize,
    is_far: bool,
) {
    let vector = LANES * L::UNIT;
    // A masked store that crosses a line costs several times as much as one that does not. For short rows,
    // looking for the first unit at a line does not pay.
    let is_on_line = |i: &usize| target.wrapping_add(i * K * L::UNIT).addr().is_multiple_of(vector);
    let mut i = if n < 8 * LANES { 0 } else { (0..LANES).find(is_on_line).unwrap_or(0) };
    // SAFETY: `# Safety` of this function: each call gets units below `n`.
    unsafe {
        if i > 0 {
            unpack_part::<L, LANES, K>(source, target, 0, i);
        }
        if is_far {
            // Lines behind the row are not prefetched, because they may belong to another core.
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

/// Unpacks units `i..i + count`, with `count <= LANES`.
///
/// # Safety
/// As for [`unpack`]. These units must exist.
#[inline(always)]
unsafe fn unpack_part<L: MaskedLanes, const LANES: usize, const K: usize>(
    source: *const u8,
    target: *mut u8,
    i: usize,
    count: usize,
) {
    let (lanes, masks) = (&Pattern::<LANES, K>::UNPACK_LANES, Pattern::<LANES, K>::UNPACK_MASKS);
    let (from, to) = (source.wrapping_add(i * L::UNIT), target.wrapping_add(i * K * L::UNIT));
    // SAFETY: `# Safety` of this function. The load reads `count` units, and the masks of the stores have
    // only lanes of units, none of them from `count * K` on.
    unsafe {
        let dense = L::load_masked(from, L::mask(low(count)));
        for j in 0..K {
            let here = masks[j] & low((count * K).saturating_sub(j * LANES));
            let spread = L::permute(L::index(&lanes[j]), dense);
            L::store_masked(to.wrapping_add(j * LANES * L::UNIT), L::mask(here), spread);
        }
    }
}

/// Unpacks units `i..i + LANES`. If `asks`, prefetches the lines of the target.
///
/// # Safety
/// As for [`unpack`]. These units must exist.
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
    // SAFETY: `# Safety` of this function. The load reads `LANES` units, and the masks of the stores have
    // only lanes of units.
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
