//! What has no small program: walkers that move what one loop can, a row or a slice of a list at a time.

use super::kernel::{self, Bits, Listed, Progression, source_at, target_at};
use super::program::At;
use super::side::{Front, Side};
use crate::lists::Displacements;
use crate::piece::Piece;
use crate::walk::{Span, Walker};

/// Copies stream bytes `start..start + bytes` of a piece to consecutive bytes.
///
/// # Safety
/// The bytes must be readable from the source of `at`, as many must be writable at its target, and the two be apart.
#[inline(never)]
pub(super) unsafe fn gather(at: At, root: &Piece, start: u64, bytes: u64) {
    let (At { source, target }, mut walker) = (at, Walker::new(root, start, bytes));
    let mut offset = 0;
    while let Some(span) = walker.next_span() {
        // SAFETY: each span is a part of the walker's bytes, and `offset` counts the bytes before it.
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
/// As [`gather`], with the sides exchanged, and no two bytes of the range may lie at one place of the target: see
/// [`in_order`] for those.
#[inline(never)]
pub(super) unsafe fn scatter(at: At, root: &Piece, start: u64, bytes: u64) {
    let (At { source, target }, mut walker) = (at, Walker::new(root, start, bytes));
    let mut offset = 0;
    while let Some(span) = walker.next_span() {
        // SAFETY: as in `gather`, with the sides exchanged.
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

/// Copies between two sides of several runs each: as many equal blocks at once as both have at hand.
///
/// # Safety
/// The bytes of `from` must be readable, those of `to` writable, the two be apart, and no two bytes of `to` may lie at one
/// place.
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
        // SAFETY: the first `count` blocks of each side are bytes of that side.
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

/// As [`exchange`], strictly in the order of the stream: of bytes of the target that lie at one place, the last one stays.
///
/// # Safety
/// As [`exchange`], but that bytes of `to` may lie at one place.
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
        // SAFETY: the next bytes of each side follow each other there.
        unsafe { kernel::run(source_at(source, from.offset()), target_at(target, to.offset()), bytes) };
        from.take(read, bytes, 1);
        to.take(write, bytes, 1);
    }
}
