//! One side of a copy: the current span, how much of its first run is done, and the walker that yields
//! the next span.

use super::kernel::{Listed, Progression};
use crate::bitmap;
use crate::lists::Displacements;
use crate::piece::Piece;
use crate::walk::{Span, Walker};

/// The places of the next equal blocks of a side.
#[derive(Debug, Clone, Copy)]
pub(super) enum Front<'a> {
    Progression(Progression),
    Listed(Listed<'a>),
    Narrow(Listed<'a, i32>),
}

#[derive(Debug)]
pub(super) struct Side<'a> {
    walker: Walker<'a>,
    span: Span<'a>,
    /// Number of bytes of the first run of the span that are already copied.
    done: u64,
}

const NOTHING: Span<'static> = Span::Strided { offset: 0, block: 0, count: 0, stride: 0 };

impl<'a> Side<'a> {
    pub(super) fn new(root: &'a Piece, start: u64, bytes: u64) -> Self {
        Self { walker: Walker::new(root, start, bytes), span: NOTHING, done: 0 }
    }

    /// Bytes left in the current run. Takes the next span from the walker if the current one is used up;
    /// 0 at the end.
    #[inline]
    pub(super) fn run_bytes(&mut self) -> u64 {
        loop {
            match self.span {
                Span::Strided { block, count, .. } if count > 0 => return block - self.done,
                Span::Index { displacements, block, .. } if displacements.len() > 0 => {
                    return block - self.done;
                }
                Span::VarIndex { runs, .. } if !runs.is_empty() => return runs.get(0).1 - self.done,
                Span::Bitmap { unit, words, first, count, .. } if count > 0 => {
                    return unit * bitmap::run_at(words, first).min(count) - self.done;
                }
                _ => match self.walker.next_span() {
                    Some(span) => self.span = span,
                    None => return 0,
                },
            }
        }
    }

    /// The offset of the next byte. The side must not be at its end.
    #[inline]
    pub(super) fn offset(&self) -> i64 {
        let first = match self.span {
            Span::Strided { offset, .. } => offset,
            Span::Index { origin, displacements, .. } => origin.wrapping_add(displacements.get(0)),
            Span::VarIndex { origin, runs } => origin.wrapping_add(runs.get(0).0),
            Span::Bitmap { origin, unit, first, .. } => origin.wrapping_add((first * unit) as i64),
        };
        first.wrapping_add(self.done as i64)
    }

    /// The number of blocks of `bytes` bytes that one call can take. `bytes` must be at most
    /// `run_bytes`, the rest of the current run.
    #[inline]
    pub(super) fn blocks_of(&self, run_bytes: u64, bytes: u64) -> u64 {
        match self.span {
            _ if run_bytes > bytes => run_bytes / bytes,
            _ if self.done > 0 => 1,
            Span::Strided { count, .. } => count,
            Span::Index { displacements, .. } => displacements.len() as u64,
            Span::VarIndex { .. } | Span::Bitmap { .. } => 1,
        }
    }

    /// The places of the blocks that [`Side::blocks_of`] counts.
    #[inline]
    pub(super) fn front(&self, run_bytes: u64, bytes: u64) -> Front<'a> {
        let whole = run_bytes == bytes && self.done == 0;
        match self.span {
            Span::Strided { offset, stride, .. } if whole => {
                Front::Progression(Progression { offset, stride })
            }
            Span::Index { origin, displacements: Displacements::Wide(displacements), .. } if whole => {
                Front::Listed(Listed { origin, displacements })
            }
            Span::Index { origin, displacements: Displacements::Narrow(displacements), .. } if whole => {
                Front::Narrow(Listed { origin, displacements })
            }
            _ => Front::Progression(Progression { offset: self.offset(), stride: bytes as i64 }),
        }
    }

    /// Marks `count` blocks of `bytes` bytes, at most as many as [`Side::blocks_of`] returns, as copied.
    #[inline]
    pub(super) fn take(&mut self, run_bytes: u64, bytes: u64, count: u64) {
        if run_bytes > bytes || self.done > 0 {
            self.done += bytes * count;
            if bytes * count < run_bytes {
                return;
            }
            self.done = 0;
            self.leave_runs(1);
        } else {
            self.leave_runs(count);
        }
    }

    fn leave_runs(&mut self, runs: u64) {
        match &mut self.span {
            Span::Strided { offset, count, stride, .. } => {
                *offset = offset.wrapping_add(stride.wrapping_mul(runs as i64));
                *count -= runs;
            }
            Span::Index { displacements, .. } => {
                *displacements = displacements.part(runs as usize, displacements.len());
            }
            Span::VarIndex { runs: list, .. } => *list = list.part(runs as usize, list.len()),
            Span::Bitmap { words, first, count, .. } => {
                for _ in 0..runs {
                    let units = bitmap::run_at(words, *first).min(*count);
                    *count -= units;
                    if *count > 0 {
                        *first = bitmap::next_unit(words, *first + units);
                    }
                }
            }
        }
    }
}
