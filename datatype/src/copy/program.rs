//! Copy programs: what a copy between two layouts does, as a value.
//!
//! A program is made once per pair of canonical forms and knows no counts: a range of the stream is one program run from
//! byte `start` to byte `end`. The repetitions that the ends of a range tear are entered, those between run whole.

use smallvec::SmallVec;

use super::align::{Aligned, AlignedBody, align};
use super::kernel::{self, source_at, target_at};
use super::nest::NestDim;
use super::template::Template;
use crate::piece::Piece;

/// A place on each side.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) source: *const u8,
    pub(super) target: *mut u8,
}

impl At {
    /// The places so many bytes further.
    #[inline]
    pub(super) fn by(self, source: i64, target: i64) -> Self {
        Self { source: source_at(self.source, source), target: target_at(self.target, target) }
    }

    /// The places `n` repetitions further.
    #[inline]
    pub(super) fn times(self, dim: NestDim, n: u64) -> Self {
        self.by(dim.source.wrapping_mul(n as i64), dim.target.wrapping_mul(n as i64))
    }
}

/// Repetitions over a body, the same on both sides.
#[derive(Debug)]
pub(super) struct Program {
    /// Innermost first; never empty, and the outermost is as long as a range asks for.
    dims: SmallVec<[NestDim; 4]>,
    /// Stream bytes of one repetition of each dimension.
    units: SmallVec<[u64; 4]>,
    /// Offset of the first byte of the body on each side.
    source: i64,
    target: i64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Block(u64),
    Template { template: Template, interchanged: u64 },
}

impl Program {
    /// The program of two pieces, where stream byte 0 of the target meets byte `phase` of the source; `None` where two
    /// walkers do as well. O(description) time and memory, and at most 4,096 moves.
    pub(super) fn new(source: &Piece, target: &Piece, phase: u64) -> Option<Self> {
        let Aligned { dims, body } = align(source, target, phase)?;
        let innermost = *dims.first()?;
        let (source, target, body, bytes) = match body {
            AlignedBody::Block { bytes, source, target } => (source, target, Body::Block(bytes), bytes),
            AlignedBody::Template(template) => {
                let (bytes, interchanged) = (template.bytes(), template.interchanged(innermost));
                (0, 0, Body::Template { template, interchanged }, bytes)
            }
        };
        let mut units = SmallVec::with_capacity(dims.len());
        let mut unit = bytes;
        for dim in &dims {
            units.push(unit);
            unit = unit.wrapping_mul(dim.n);
        }
        Some(Self { dims, units, source, target, body })
    }

    /// Copies stream bytes `start..end`, which may be empty.
    ///
    /// # Safety
    /// These bytes must be readable at their places in the source and writable at those in the target, no byte that is read
    /// may be among those that are written, and no two of them may lie at one place of the target.
    #[inline]
    pub(super) unsafe fn run(&self, at: At, start: u64, end: u64) {
        // SAFETY: the caller's promise; the offsets are those of the first byte.
        unsafe { self.range(self.dims.len(), at.by(self.source, self.target), start, end) };
    }

    /// Copies a range of what is inside of the innermost `level` dimensions.
    ///
    /// # Safety
    /// As [`Program::run`], with `at` the place of the first byte of all that.
    unsafe fn range(&self, level: usize, at: At, start: u64, end: u64) {
        let Some(inside) = level.checked_sub(1) else {
            // SAFETY: the caller's promise.
            return unsafe { self.part(at, start, end) };
        };
        let (dim, unit) = (self.dims[inside], self.units[inside]);
        let (mut first, mut torn) = if start < unit { (0, start) } else { (start / unit, start % unit) };
        let (last, rest) = if end < unit { (0, end) } else { (end / unit, end % unit) };
        // SAFETY: every part lies in the range; they are told apart by the repetition that they are in.
        unsafe {
            if torn > 0 {
                let stop = if first == last { rest } else { unit };
                if torn < stop {
                    self.range(inside, at.times(dim, first), torn, stop);
                }
                first += 1;
                torn = 0;
            }
            if first < last {
                self.whole(level, at.times(dim, first), last - first);
            }
            if rest > torn && first <= last {
                self.range(inside, at.times(dim, last), 0, rest);
            }
        }
    }

    /// A range of the body.
    ///
    /// # Safety
    /// As [`Program::range`].
    unsafe fn part(&self, at: At, start: u64, end: u64) {
        // SAFETY: the caller's promise; the bytes of a block follow each other on both sides.
        unsafe {
            match &self.body {
                Body::Block(_) => {
                    let here = at.by(start as i64, start as i64);
                    kernel::run(here.source, here.target, end - start);
                }
                Body::Template { template, .. } => template.part(at, start, end),
            }
        }
    }

    /// Copies `n` repetitions of dimension `level - 1`, whole.
    ///
    /// # Safety
    /// As [`Program::range`].
    unsafe fn whole(&self, level: usize, at: At, n: u64) {
        match &self.body {
            Body::Block(bytes) => {
                let mut dims: SmallVec<[NestDim; 4]> = SmallVec::from_slice(&self.dims[..level]);
                dims[level - 1].n = n;
                let dims = if n == 1 { &dims[..level - 1] } else { &dims[..] };
                // SAFETY: the caller's promise.
                unsafe { kernel::nest_at(at.source, at.target, *bytes, dims) };
            }
            // SAFETY: the caller's promise.
            Body::Template { template, interchanged } => unsafe {
                self.rows(level, at, n, (template, *interchanged));
            },
        }
    }

    /// As [`Program::whole`], of a template.
    ///
    /// # Safety
    /// As [`Program::range`].
    unsafe fn rows(&self, level: usize, mut at: At, n: u64, (template, interchanged): (&Template, u64)) {
        let dim = self.dims[level - 1];
        if level == 1 {
            // SAFETY: the caller's promise.
            return unsafe { template.periods(at, n, dim, interchanged) };
        }
        for _ in 0..n {
            // SAFETY: one of the repetitions that the caller promises.
            unsafe { self.rows(level - 1, at, self.dims[level - 2].n, (template, interchanged)) };
            at = at.by(dim.source, dim.target);
        }
    }
}
