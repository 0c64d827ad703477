//! Blocks at listed places.
//!
//! Gather instructions were measured and are not used: for 8-byte units in L2 they reached 23 GB/s and plain
//! moves 28, for 4-byte units 12 and 16. Masked moves of runs of different lengths gained nothing over two
//! moves that overlap either.

use super::super::address::{source_at, target_at};
use super::fixed::{Exact, Mover, with_mover};
use super::places::Places;
use crate::lists::{Displacements, Runs};

/// Longest run, in bytes, that [`short`] copies without a call.
pub(super) const SHORT_MAX_BYTES: u64 = 512;
const SHORT_MAX: usize = SHORT_MAX_BYTES as usize;

/// Runs `$body` for each of `$runs`, with `$usual` bound to the mover of the length that most runs have. If
/// a list of blocks has a few blocks that touch, nearly all of its runs have one length. This length is
/// guessed from the first runs; then a run costs one well-predicted branch. No run has the length 0, which
/// stands for no guess. There is one loop per kind of list and length: a closure shared by several loops is
/// not inlined, and its call costs as much as a short run.
macro_rules! for_each_run {
    ($runs:expr, ($displacement:ident, $bytes:ident), $usual:ident => $body:expr) => {{
        macro_rules! each {
            ($slice:expr, $mover:expr) => {{
                let $usual = $mover;
                for ($displacement, bytes) in $slice.iter() {
                    let $bytes = bytes as usize;
                    $body
                }
            }};
        }
        macro_rules! by_usual {
            ($slice:expr) => {
                match $slice.iter().take(4).map(|(_, bytes)| bytes).min() {
                    Some(4) => each!($slice, Exact::<4>),
                    Some(8) => each!($slice, Exact::<8>),
                    Some(12) => each!($slice, Exact::<12>),
                    Some(16) => each!($slice, Exact::<16>),
                    Some(24) => each!($slice, Exact::<24>),
                    _ => each!($slice, Exact::<0>),
                }
            };
        }
        match $runs {
            Runs::Narrow(slice) => by_usual!(slice),
            Runs::Wide(slice) => by_usual!(slice),
        }
    }};
}

/// Copies blocks from listed places to consecutive bytes.
///
/// # Safety
/// Every block must be readable at its displacement from `source`, as many bytes must be writable at
/// `target`, and the two must not overlap.
#[inline(always)]
pub(super) unsafe fn gather<M: Mover>(mover: M, source: *const u8, target: *mut u8, list: Displacements<'_>) {
    let mut to = target;
    let mut next = |displacement: i64| {
        // SAFETY: `# Safety` of this function, for one block of the list; `to` is the end of the blocks
        // before.
        unsafe { mover.copy(source_at(source, displacement), to) };
        to = to.wrapping_add(mover.bytes());
    };
    match list {
        Displacements::Narrow(list) => list.iter().for_each(|displacement| next((*displacement).into())),
        Displacements::Wide(list) => list.iter().for_each(|displacement| next(*displacement)),
    }
}

/// The reverse of [`gather`], in the order of the list.
///
/// # Safety
/// As for [`gather`], with the sides exchanged.
#[inline(always)]
pub(super) unsafe fn scatter<M: Mover>(
    mover: M,
    source: *const u8,
    target: *mut u8,
    list: Displacements<'_>,
) {
    let mut from = source;
    let mut next = |displacement: i64| {
        // SAFETY: `# Safety` of this function, for one block of the list; `from` is the end of the blocks
        // before.
        unsafe { mover.copy(from, target_at(target, displacement)) };
        from = from.wrapping_add(mover.bytes());
    };
    match list {
        Displacements::Narrow(list) => list.iter().for_each(|displacement| next((*displacement).into())),
        Displacements::Wide(list) => list.iter().for_each(|displacement| next(*displacement)),
    }
}

/// Copies runs from listed places to consecutive bytes. Returns the number of bytes.
///
/// # Safety
/// Every run must be readable at its displacement from `source`, as many bytes must be writable at `target`,
/// and the two must not overlap.
#[inline(always)]
pub(super) unsafe fn gather_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    let mut to = target;
    for_each_run!(runs, (displacement, bytes), usual => {
        // SAFETY: `# Safety` of this function, for one run of the list; `to` is the end of the runs before.
        unsafe { mostly(usual, source_at(source, displacement), to, bytes) };
        to = to.wrapping_add(bytes);
    });
    (to.addr() - target.addr()) as u64
}

/// The reverse of [`gather_runs`], in the order of the list.
///
/// # Safety
/// As for [`gather_runs`], with the sides exchanged.
#[inline(always)]
pub(super) unsafe fn scatter_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    let mut from = source;
    for_each_run!(runs, (displacement, bytes), usual => {
        // SAFETY: `# Safety` of this function, for one run of the list; `from` is the end of the runs
        // before.
        unsafe { mostly(usual, from, target_at(target, displacement), bytes) };
        from = from.wrapping_add(bytes);
    });
    (from.addr() - source.addr()) as u64
}

/// Copies one run. The fast case is a run of as many bytes as `mover` copies.
///
/// # Safety
/// As for [`short`].
#[inline(always)]
unsafe fn mostly<M: Mover>(mover: M, source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: `# Safety` of this function. `mover` is used only if it copies `bytes` bytes.
    unsafe { if bytes == mover.bytes() { mover.copy(source, target) } else { short(source, target, bytes) } }
}

/// Copies one run by plain moves, without a call up to 512 bytes.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, and the two must not overlap.
#[inline(always)]
pub(super) unsafe fn short(source: *const u8, target: *mut u8, bytes: usize) {
    use super::fixed::{Library, Many, Pair};
    // SAFETY: `# Safety` of this function. Each mover copies `bytes` bytes, which is in the range of sizes
    // that it is made for.
    unsafe {
        match bytes {
            0 => {}
            1 => Exact::<1>.copy(source, target),
            2..4 => Pair::<2>(bytes).copy(source, target),
            4..8 => Pair::<4>(bytes).copy(source, target),
            8..16 => Pair::<8>(bytes).copy(source, target),
            16..32 => Pair::<16>(bytes).copy(source, target),
            32..64 => Pair::<32>(bytes).copy(source, target),
            64..=SHORT_MAX => Many::<64>(bytes).copy(source, target),
            _ => Library(bytes).copy(source, target),
        }
    }
}

/// Copies blocks from places to places of any kinds, in their order.
///
/// # Safety
/// For every `i < count`, `bytes` bytes must be readable at place `i` of the source and writable at place
/// `i` of the target, and the two must not overlap.
pub(super) unsafe fn exchange<S: Places, T: Places>(
    (source, from): (*const u8, S),
    (target, to): (*mut u8, T),
    bytes: u64,
    count: usize,
) {
    // SAFETY: `# Safety` of this function, for every block `i < count`. The mover copies `bytes` bytes.
    unsafe {
        with_mover!(bytes, mover => {
            for i in 0..count {
                mover.copy(source_at(source, from.at(i)), target_at(target, to.at(i)));
            }
        });
    }
}
