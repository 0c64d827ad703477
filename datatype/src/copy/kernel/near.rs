//! Short blocks at a distance of a few units of 4 bytes, by registers: the units of several blocks are brought together, or
//! spread and stored under a mask, by one permutation. Which unit goes where recurs after a few registers, so that what a row
//! needs is made when it begins.

// As in `strided`: an iterator adaptor that is not inlined would run without the instructions.
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
/// Units of a block; longer ones gain nothing. Out of the second level of caches, 8 bytes of 12 took 58 GB/s packed and 43 unpacked
/// by registers and 30 by plain moves, 12 of 24 took 57, 36 and 28, 20 of 32 took 53, 56 and 40, 28 of 40 took 46, 45 and 48.
const BLOCK: RangeInclusive<usize> = 2..=5;
/// Registers that the units of a packed one come from, at most.
const WINDOWS_MAX: usize = 4;

/// Blocks of so many units, so many units apart.
#[derive(Clone, Copy)]
struct Row {
    block: usize,
    stride: usize,
}

impl Row {
    fn of(block_bytes: usize, stride_bytes: i64, n: usize) -> Option<Self> {
        let (block, stride) = (block_bytes / UNIT, usize::try_from(stride_bytes).ok()? / UNIT);
        let is_of_units = block_bytes.is_multiple_of(UNIT) && stride_bytes % UNIT as i64 == 0;
        // Of fewer than 16 blocks the first register may be more than all.
        (is_of_units && BLOCK.contains(&block) && block < stride && n >= 16).then_some(Self { block, stride })
    }

    /// Units of blocks before so many lanes of a row.
    fn below(self, lanes: usize) -> usize {
        lanes / self.stride * self.block + (lanes % self.stride).min(self.block)
    }

    /// The lane of a unit of the blocks.
    fn lane(self, unit: usize) -> usize {
        unit / self.block * self.stride + unit % self.block
    }

    /// Plain stores of a block.
    fn stores(self) -> usize {
        if self.block.is_power_of_two() { 1 } else { 2 }
    }
}

/// What one register of a pattern needs.
#[derive(Clone, Copy)]
struct Step {
    index: <L as Lanes>::Index,
    /// Lanes of the register that come from each window, or are stored.
    masks: [u32; WINDOWS_MAX],
}

impl Step {
    /// Lanes from those that are given, from lane `at` on, which lie in windows of as many lanes.
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
        // SAFETY: the caller's promise.
        Self { index: unsafe { L::index(&index) }, masks }
    }
}

/// Runs `$body` with the constant `$name` that `$period` is; gives 0 for others than those that there are.
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

/// Packs the first blocks of a row, as many as whole registers hold, and returns how many; 0 where plain moves are better.
///
/// # Safety
/// `n` blocks of `block_bytes` must be readable from `source` on, `stride_bytes` apart, and writable one after the other at
/// `target`; the processor must have the instructions of AVX-512.
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
    // SAFETY: the caller's promise.
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

/// As [`pack`], with a pattern of `P` registers, each of which comes from `W` windows.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn pack_by<const P: usize, const W: usize>(
    source: *const u8,
    target: *mut u8,
    row: Row,
    n: usize,
) -> usize {
    let first = |register: usize| row.lane(LANES * register);
    let mut advance = [0; P];
    // SAFETY: the caller's promise.
    let mut steps = [unsafe { Step::new(0, || None) }; P];
    for register in 0..P {
        let (mut inside, mut lane) = (LANES * register % row.block, 0);
        let from = || {
            let here = lane;
            let is_last = inside + 1 == row.block;
            (inside, lane) = if is_last { (0, lane + row.stride - inside) } else { (inside + 1, lane + 1) };
            Some(here)
        };
        // SAFETY: the caller's promise.
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
            // SAFETY: the windows begin with a unit of a block and end before the end of the last one; less than a block
            // apart lie only bytes of the source. All units of the register come from them, so that the target has them.
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

/// The reverse of [`pack`]. Where the target `is_far` from the core, its lines are asked for ahead.
///
/// # Safety
/// As [`pack`], with the sides exchanged.
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
    // A store under a mask costs as much as three plain ones.
    if LANES * row.stores() <= 3 * row.stride || row.stride > LANES / 2 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { with_period!(period, P in [1, 3, 5, 7] => unpack_by::<P>(source, target, row, n, is_far)) }
}

/// As [`unpack`], with a pattern of `P` registers.
///
/// # Safety
/// As [`unpack`].
#[inline(always)]
unsafe fn unpack_by<const P: usize>(
    source: *const u8,
    target: *mut u8,
    row: Row,
    n: usize,
    is_far: bool,
) -> usize {
    // The register from lane `begin` of the row on, or `before` lanes earlier without these.
    let step = |begin: usize, before: usize| {
        let (mut inside, mut unit) = (begin % row.stride, 0);
        let from = || {
            let here = (inside < row.block).then_some(unit);
            unit += usize::from(here.is_some());
            inside = if inside + 1 == row.stride { 0 } else { inside + 1 };
            here
        };
        // SAFETY: the caller's promise.
        unsafe { Step::new(before, from) }
    };
    let move_one = |step: &Step, to: *mut u8, unit: usize| {
        let from = source.wrapping_add(unit * UNIT);
        // SAFETY: a whole register of units is there from this one on; those that the lanes of the mask take are among them,
        // so that the target has the lanes.
        unsafe { L::store_masked(to, L::mask(step.masks[0]), L::permute(step.index, L::load(from))) };
    };
    // The first register begins at a line, if any can; `n` is large enough for it.
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
    // The last register of a turn takes a whole register of units too.
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
