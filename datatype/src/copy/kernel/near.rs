//! Short blocks at a distance of a few units of 4 bytes, by registers. When packing, one permutation brings
//! the units of several blocks together. When unpacking, one permutation spreads them, and a masked store
//! writes them. The pattern of units and lanes recurs after a few registers, so all that a row needs is
//! computed when the row begins.
//!
//! A *lane* is a position of 4 bytes in the row. A *source vector* (`window` in the names of the code) is
//! what one load takes.

// As in `strided`: an iterator adaptor that is not inlined would be compiled without the instructions.
#![allow(clippy::needless_range_loop)]

use std::ops::RangeInclusive;

use super::avx512::Lanes4 as L;
use super::strided::{Lanes, MaskedLanes, WRITE_AHEAD_BYTES};
use super::x86;
use crate::piece::gcd;

/// Bytes of a unit.
const UNIT: usize = L::UNIT;
/// Units of a register.
const LANES: usize = 16;
/// Lengths of blocks in units; longer blocks gain nothing. Measured from the second-level cache, in GB/s
/// packed by registers, unpacked by registers, and by plain moves: 8 of every 12 bytes 58, 43 and 30; 12 of
/// 24 bytes 57, 36 and 28; 20 of 32 bytes 53, 56 and 40; 28 of 40 bytes 46, 45 and 48.
const BLOCK: RangeInclusive<usize> = 2..=5;
/// Largest number of source vectors from which the units of one packed register come.
const WINDOWS_MAX: usize = 4;

/// A row of blocks: the length and the distance of the blocks, in units.
#[derive(Clone, Copy)]
struct Row {
    block: usize,
    stride: usize,
}

impl Row {
    fn of(block_bytes: usize, stride_bytes: i64, n: usize) -> Option<Self> {
        let (block, stride) = (block_bytes / UNIT, usize::try_from(stride_bytes).ok()? / UNIT);
        let is_of_units = block_bytes.is_multiple_of(UNIT) && stride_bytes % UNIT as i64 == 0;
        // With fewer than 16 blocks, a row may have fewer units than the first register takes.
        (is_of_units && BLOCK.contains(&block) && block < stride && n >= 16).then_some(Self { block, stride })
    }

    /// The number of units of blocks in the first `lanes` lanes of a row.
    fn below(self, lanes: usize) -> usize {
        lanes / self.stride * self.block + (lanes % self.stride).min(self.block)
    }

    /// The lane of a unit, counted over all blocks.
    fn lane(self, unit: usize) -> usize {
        unit / self.block * self.stride + unit % self.block
    }

    /// The number of plain stores per block.
    fn stores(self) -> usize {
        if self.block.is_power_of_two() { 1 } else { 2 }
    }
}

/// The constants of one register of a pattern.
#[derive(Clone, Copy)]
struct Step {
    index: <L as Lanes>::Index,
    /// When packing: the lanes of the register that come from each source vector. When unpacking: in the
    /// first mask, the lanes that are stored.
    masks: [u32; WINDOWS_MAX],
}

impl Step {
    /// A step whose lanes from `at` on come from the lanes that `from` returns, one call per lane. These are
    /// counted from the first source vector on; `None` leaves the lane unused.
    ///
    /// # Safety
    /// The processor must have the instructions.
    #[inline(always)]
    unsafe fn new(at: usize, mut from: impl FnMut() -> Option<usize>) -> Self {
        let (mut index, mut masks) = ([0; 16], [0; WINDOWS_MAX]);
        for lane in at..LANES {
            if let Some(from) = from() {
                index[lane] = (from % LANES) as u8;
                masks[from / LANES] |= 1 << lane;
            }
        }
        // SAFETY: `# Safety` of this function: the processor has the instructions.
        Self { index: unsafe { L::index(&index) }, masks }
    }
}

/// Runs `$body` with a constant `$name` that equals `$period`. Gives 0 if `$period` is none of the listed
/// values.
macro_rules! with_period {
    ($period:expr, $name:ident in [$($n:literal),*] => $body:expr) => {
        match $period {
            $($n => {
                const $name: usize = $n;
                $body
            })*
            _ => 0,
        }
    };
}

/// Packs the first blocks of a row, as many as fill whole registers. Returns their number; 0 if plain moves
/// are better.
///
/// # Safety
/// `n` blocks of `block_bytes` must be readable from `source` on, `stride_bytes` apart, `n` consecutive
/// blocks writable at `target`, and the two must not overlap. The processor must have the instructions of
/// AVX-512.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn pack(
    (source, stride_bytes): (*const u8, i64),
    target: *mut u8,
    block_bytes: usize,
    n: usize,
) -> usize {
    let Some(row) = Row::of(block_bytes, stride_bytes, n) else { return 0 };
    let period = row.block / gcd(row.block as u64, LANES as u64) as usize;
    let first = |register: usize| row.lane(LANES * register);
    let reach = |register: usize| row.lane(LANES * (register + 1) - 1) + 1 - first(register);
    let windows = (0..period).map(reach).max().unwrap_or(0).div_ceil(LANES);
    if windows >= LANES * row.stores() / row.block {
        return 0;
    }
    // SAFETY: `# Safety` of this function is that of `pack_by`; `W` is at least the number of source vectors
    // that any register needs.
    unsafe {
        match windows {
            ..=2 => with_period!(period, P in [1, 3, 5] => pack_by::<P, 2>(source, target, row, n)),
            3..=WINDOWS_MAX => {
                with_period!(period, P in [1, 3, 5] => pack_by::<P, WINDOWS_MAX>(source, target, row, n))
            }
            _ => 0,
        }
    }
}

/// Like [`pack`], with a pattern of `P` registers, each of which comes from `W` source vectors.
///
/// # Safety
/// As for [`pack`]. The units of each register must lie in `W` source vectors.
#[inline(always)]
unsafe fn pack_by<const P: usize, const W: usize>(
    source: *const u8,
    target: *mut u8,
    row: Row,
    n: usize,
) -> usize {
    let first = |register: usize| row.lane(LANES * register);
    let mut advance = [0; P];
    // SAFETY: `# Safety` of this function: the processor has the instructions.
    let mut steps = [unsafe { Step::new(0, || None) }; P];
    for register in 0..P {
        let (mut inside, mut lane) = (LANES * register % row.block, 0);
        let from = || {
            let here = lane;
            let is_last = inside + 1 == row.block;
            (inside, lane) = if is_last { (0, lane + row.stride - inside) } else { (inside + 1, lane + 1) };
            Some(here)
        };
        // SAFETY: `# Safety` of this function: the processor has the instructions.
        steps[register] = unsafe { Step::new(0, from) };
        advance[register] = first(register);
    }
    let (lanes, span) = (first(P), first(P - 1) + W * LANES);
    let end = (n - 1) * row.stride + row.block;
    let (mut lane, mut done) = (0, 0);
    while lane + span <= end {
        let (from, to) = (source.wrapping_add(lane * UNIT), target.wrapping_add(done * UNIT));
        for register in 0..P {
            let (step, from) = (&steps[register], from.wrapping_add(advance[register] * UNIT));
            // SAFETY: `# Safety` of this function. The source vectors begin with a unit of a block and end
            // before the end of the last block. The gaps in between are shorter than `W` vectors, so every
            // page that is read holds a byte of a block. All units of the register lie in these vectors, so
            // they are units of the row, and the target has room for them.
            unsafe {
                let mut dense = L::permute(step.index, L::load(from));
                for window in 1..W {
                    let loaded = L::load(from.wrapping_add(window * LANES * UNIT));
                    dense = L::merge(dense, L::mask(step.masks[window]), step.index, loaded);
                }
                L::store(to.wrapping_add(register * LANES * UNIT), dense);
            }
        }
        lane += lanes;
        done += P * LANES;
    }
    done / row.block
}

/// The reverse of [`pack`]. If `is_far`, the target is far from the core, and its lines are prefetched.
///
/// # Safety
/// As for [`pack`], with the sides exchanged. Other bytes of the target are not written.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn unpack(
    source: *const u8,
    (target, stride_bytes): (*mut u8, i64),
    block_bytes: usize,
    n: usize,
    is_far: bool,
) -> usize {
    let Some(row) = Row::of(block_bytes, stride_bytes, n) else { return 0 };
    let period = row.stride / gcd(row.stride as u64, LANES as u64) as usize;
    // A masked store costs as much as three plain ones.
    if LANES * row.stores() <= 3 * row.stride || row.stride > LANES / 2 {
        return 0;
    }
    // SAFETY: `# Safety` of this function is that of `unpack_by`.
    unsafe { with_period!(period, P in [1, 3, 5, 7] => unpack_by::<P>(source, target, row, n, is_far)) }
}

/// Like [`unpack`], with a pattern of `P` registers.
///
/// # Safety
/// As for [`unpack`].
#[inline(always)]
unsafe fn unpack_by<const P: usize>(
    source: *const u8,
    target: *mut u8,
    row: Row,
    n: usize,
    is_far: bool,
) -> usize {
    // The step of the register that begins `before` lanes before lane `begin` of the row. These `before`
    // lanes stay unused.
    let step = |begin: usize, before: usize| {
        let (mut inside, mut unit) = (begin % row.stride, 0);
        let from = || {
            let here = (inside < row.block).then_some(unit);
            unit += usize::from(here.is_some());
            inside = if inside + 1 == row.stride { 0 } else { inside + 1 };
            here
        };
        // SAFETY: `# Safety` of this function: the processor has the instructions.
        unsafe { Step::new(before, from) }
    };
    let move_one = |step: &Step, to: *mut u8, unit: usize| {
        let from = source.wrapping_add(unit * UNIT);
        // SAFETY: `# Safety` of this function: a whole register of units is readable from `unit` on. The
        // lanes of the mask take only units among these, so the lanes exist in the target and are writable.
        unsafe { L::store_masked(to, L::mask(step.masks[0]), L::permute(step.index, L::load(from))) };
    };
    // The first register begins at a cache line unless units lie across lines; its lanes before the target
    // stay unused. `n` is large enough to fill the rest of it.
    let place = target.addr() % (LANES * UNIT);
    let missing = if place.is_multiple_of(UNIT) { place / UNIT } else { 0 };
    let head = LANES - missing;
    let first = step(0, missing);
    move_one(&first, target.wrapping_sub(missing * UNIT), 0);
    let (mut steps, mut before) = ([first; P], [0; P]);
    for register in 0..P {
        steps[register] = step(head + register * LANES, 0);
        before[register] = row.below(head + register * LANES) - row.below(head);
    }
    let (lanes, units) = (P * LANES, row.below(head + P * LANES) - row.below(head));
    let (mut lane, mut unit) = (head, row.below(head));
    // The last register of a pattern also loads a whole register of units.
    let last = before[P - 1] + LANES;
    let ahead = row.below(WRITE_AHEAD_BYTES / UNIT) + units;
    let end = n * row.block;
    while unit + last <= end {
        let asks = is_far && unit + ahead <= end;
        for register in 0..P {
            let here = lane + register * LANES;
            if asks {
                x86::ask_to_write(target.wrapping_add(here * UNIT + WRITE_AHEAD_BYTES));
            }
            move_one(&steps[register], target.wrapping_add(here * UNIT), unit + before[register]);
        }
        (lane, unit) = (lane + lanes, unit + units);
    }
    unit / row.block
}
