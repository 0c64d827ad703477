//! Blocks at listed places.
//!
//! Gather instructions were measured and are not used: 8-byte units in L2 took 23 GB/s by them and 28 by plain moves, 4-byte
//! units 12 and 16. Nor did masked moves of runs of different lengths gain on two moves that overlap.

use super::fixed::{Mover, with_mover};
use super::{Places, source_at, target_at};
use crate::lists::{Displacements, Runs};

/// Longest run, in bytes, that [`short`] copies without a call.
pub(super) const SHORT_MAX_BYTES: u64 = 512;
const SHORT_MAX: usize = SHORT_MAX_BYTES as usize;

/// Blocks at listed places, to consecutive bytes.
///
/// # Safety
/// Every block must be readable at its displacement from `source`, and as many be writable at `target`, apart from each
/// other.
#[inline(always)]
pub(super) unsafe fn gather<M: Mover>(mover: M, source: *const u8, target: *mut u8, list: Displacements<'_>) {
    let mut to = target;
    let mut next = |displacement: i64| {
        // SAFETY: this block of both sides.
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
/// As [`gather`], with the sides exchanged.
#[inline(always)]
pub(super) unsafe fn scatter<M: Mover>(
    mover: M,
    source: *const u8,
    target: *mut u8,
    list: Displacements<'_>,
) {
    let mut from = source;
    let mut next = |displacement: i64| {
        // SAFETY: this block of both sides.
        unsafe { mover.copy(from, target_at(target, displacement)) };
        from = from.wrapping_add(mover.bytes());
    };
    match list {
        Displacements::Narrow(list) => list.iter().for_each(|displacement| next((*displacement).into())),
        Displacements::Wide(list) => list.iter().for_each(|displacement| next(*displacement)),
    }
}

/// Runs at listed places, to consecutive bytes. Returns how many.
///
/// # Safety
/// Every run must be readable at its displacement from `source`, and as many bytes be writable at `target`, apart from each
/// other.
#[inline(always)]
pub(super) unsafe fn gather_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    let mut to = target;
    let mut next = |(displacement, bytes): (i64, u64)| {
        // SAFETY: this run of both sides.
        unsafe { short(source_at(source, displacement), to, bytes as usize) };
        to = to.wrapping_add(bytes as usize);
    };
    match runs {
        Runs::Narrow(runs) => runs.iter().for_each(&mut next),
        Runs::Wide(runs) => runs.iter().for_each(&mut next),
    }
    (to.addr() - target.addr()) as u64
}

/// The reverse of [`gather_runs`], in the order of the list.
///
/// # Safety
/// As [`gather_runs`], with the sides exchanged.
#[inline(always)]
pub(super) unsafe fn scatter_runs(source: *const u8, target: *mut u8, runs: Runs<'_>) -> u64 {
    let mut from = source;
    let mut next = |(displacement, bytes): (i64, u64)| {
        // SAFETY: this run of both sides.
        unsafe { short(from, target_at(target, displacement), bytes as usize) };
        from = from.wrapping_add(bytes as usize);
    };
    match runs {
        Runs::Narrow(runs) => runs.iter().for_each(&mut next),
        Runs::Wide(runs) => runs.iter().for_each(&mut next),
    }
    (from.addr() - source.addr()) as u64
}

/// Copies one run by plain moves, without a call up to 512 bytes.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
#[inline(always)]
pub(super) unsafe fn short(source: *const u8, target: *mut u8, bytes: usize) {
    use super::fixed::{Exact, Library, Many, Pair};
    // SAFETY: each mover copies `bytes` bytes, within the sizes that it is made for.
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

/// Blocks from places to places of any kinds, in their order.
///
/// # Safety
/// For every `i < count`, `bytes` bytes must be readable at place `i` of the source and writable at place `i` of the target,
/// apart from each other.
pub(super) unsafe fn exchange<S: Places, T: Places>(
    (source, from): (*const u8, S),
    (target, to): (*mut u8, T),
    bytes: u64,
    count: usize,
) {
    // SAFETY: block `i` of both sides, for every `i` below the count.
    unsafe {
        with_mover!(bytes, mover => {
            for i in 0..count {
                mover.copy(source_at(source, from.at(i)), target_at(target, to.at(i)));
            }
        });
    }
}
