//! The fallback without a program: walkers copy as much as one loop can, a row or a slice of a list per
//! kernel call.

use super::address::{At, source_at, target_at};
use super::kernel::{self, Bits, Listed, Progression};
use super::side::{Front, Side};
use crate::lists::Displacements;
use crate::piece::Piece;
use crate::walk::{Span, Walker};

/// Copies stream bytes `start..start + bytes` of a piece to consecutive bytes.
///
/// # Safety
/// The bytes must be readable at their offsets from the source of `at`, `bytes` bytes must be writable
/// at its target, and the two must not overlap.
#[inline(never)]
pub(super) unsafe fn gather(at: At, root: &Piece, start: u64, bytes: u64) {
    let (At { source, target }, mut walker) = (at, Walker::new(root, start, bytes));
    let mut offset = 0;
    while let Some(span) = walker.next_span() {
        // SAFETY: `# Safety` of this function: each span is a part of the range, so its runs are
        // readable. `offset` is the total length of the spans before, so the consecutive target bytes
        // lie within `bytes` and are written once.
        unsafe {
            match span {
                Span::Strided { offset: first, block, count, stride } => {
                    let (from, to) =
                        (Progression { offset: first, stride }, Progression { offset, stride: block as i64 });
                    kernel::blocks((source, from), (target, to), block, count as usize);
                    offset += (block * count) as i64;
                }
                Span::Index { origin, displacements, block } => {
                    let to = (target, Progression { offset, stride: block as i64 });
                    match displacements {
                        Displacements::Narrow(list) => {
                            let from = Listed { origin, displacements: list };
                            kernel::blocks((source, from), to, block, list.len());
                        }
                        Displacements::Wide(list) => {
                            let from = Listed { origin, displacements: list };
                            kernel::blocks((source, from), to, block, list.len());
                        }
                    }
                    offset += block as i64 * displacements.len() as i64;
                }
                Span::Bitmap { origin, unit, words, first, count } => {
                    let bits = Bits { origin, unit, words, first, count };
                    kernel::gather_bits((source, bits), target_at(target, offset));
                    offset += (unit * count) as i64;
                }
                Span::VarIndex { origin, runs } => {
                    let (from, to) = (source_at(source, origin), target_at(target, offset));
                    offset += kernel::gather_runs(from, to, runs) as i64;
                }
            }
        }
    }
}

/// The reverse of [`gather`].
///
/// # Safety
/// As for [`gather`], with the sides exchanged. No two bytes of the range may lie at one place of the
/// target; [`in_order`] handles such ranges.
#[inline(never)]
pub(super) unsafe fn scatter(at: At, root: &Piece, start: u64, bytes: u64) {
    let (At { source, target }, mut walker) = (at, Walker::new(root, start, bytes));
    let mut offset = 0;
    while let Some(span) = walker.next_span() {
        // SAFETY: `# Safety` of this function: each span is a part of the range, so its runs are
        // writable and do not overlap. `offset` is the total length of the spans before, so the
        // consecutive source bytes lie within `bytes`.
        unsafe {
            match span {
                Span::Strided { offset: first, block, count, stride } => {
                    let (from, to) =
                        (Progression { offset, stride: block as i64 }, Progression { offset: first, stride });
                    kernel::blocks((source, from), (target, to), block, count as usize);
                    offset += (block * count) as i64;
                }
                Span::Index { origin, displacements, block } => {
                    let from = (source, Progression { offset, stride: block as i64 });
                    match displacements {
                        Displacements::Narrow(list) => {
                            let to = Listed { origin, displacements: list };
                            kernel::blocks(from, (target, to), block, list.len());
                        }
                        Displacements::Wide(list) => {
                            let to = Listed { origin, displacements: list };
                            kernel::blocks(from, (target, to), block, list.len());
                        }
                    }
                    offset += block as i64 * displacements.len() as i64;
                }
                Span::Bitmap { origin, unit, words, first, count } => {
                    let bits = Bits { origin, unit, words, first, count };
                    kernel::scatter_bits(source_at(source, offset), (target, bits));
                    offset += (unit * count) as i64;
                }
                Span::VarIndex { origin, runs } => {
                    let (from, to) = (source_at(source, offset), target_at(target, origin));
                    offset += kernel::scatter_runs(from, to, runs) as i64;
                }
            }
        }
    }
}

/// Copies between two sides of which each has several runs. Each kernel call copies as many equal blocks
/// as the current spans of both sides have.
///
/// # Safety
/// The bytes of `from` must be readable, the bytes of `to` writable, the two must not overlap, and no
/// two bytes of `to` may lie at one place.
pub(super) unsafe fn exchange(
    (source, mut from): (*const u8, Side<'_>),
    (target, mut to): (*mut u8, Side<'_>),
) {
    loop {
        let (read, write) = (from.run_bytes(), to.run_bytes());
        if read == 0 || write == 0 {
            return;
        }
        let bytes = read.min(write);
        let count = from.blocks_of(read, bytes).min(to.blocks_of(write, bytes));
        let n = count as usize;
        // SAFETY: `# Safety` of this function: `blocks_of` of both sides is at least `count`, so the
        // first `count` blocks of each front are bytes of that side.
        unsafe {
            match (from.front(read, bytes), to.front(write, bytes)) {
                (Front::Progression(s), Front::Progression(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Progression(s), Front::Listed(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Progression(s), Front::Narrow(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Listed(s), Front::Progression(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Narrow(s), Front::Progression(t)) => {
                    kernel::blocks((source, s), (target, t), bytes, n);
                }
                (Front::Listed(s), Front::Listed(t)) => kernel::blocks((source, s), (target, t), bytes, n),
                (Front::Listed(s), Front::Narrow(t)) => kernel::blocks((source, s), (target, t), bytes, n),
                (Front::Narrow(s), Front::Listed(t)) => kernel::blocks((source, s), (target, t), bytes, n),
                (Front::Narrow(s), Front::Narrow(t)) => kernel::blocks((source, s), (target, t), bytes, n),
            }
        }
        from.take(read, bytes, count);
        to.take(write, bytes, count);
    }
}

/// Like [`exchange`], but strictly in stream order: if several bytes of the target lie at one place, the
/// last one remains.
///
/// # Safety
/// As for [`exchange`], but several bytes of `to` may lie at one place.
pub(super) unsafe fn in_order(
    (source, mut from): (*const u8, Side<'_>),
    (target, mut to): (*mut u8, Side<'_>),
) {
    loop {
        let (read, write) = (from.run_bytes(), to.run_bytes());
        if read == 0 || write == 0 {
            return;
        }
        let bytes = read.min(write);
        // SAFETY: `# Safety` of this function: `bytes` is at most the rest of the current run of each
        // side, so the next `bytes` bytes of each side are consecutive.
        unsafe { kernel::run(source_at(source, from.offset()), target_at(target, to.offset()), bytes) };
        from.take(read, bytes, 1);
        to.take(write, bytes, 1);
    }
}
