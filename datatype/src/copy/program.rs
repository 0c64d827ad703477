//! Copy programs: the steps of a copy between two layouts, as a value.
//!
//! A program is compiled once per pair of canonical forms and does not depend on counts: a copy of a
//! range of the stream runs the program from byte `start` to byte `end`. A repetition that an end of the
//! range cuts is split further; the repetitions in between are run whole.

use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;

use super::address::At;
use super::align::{Body, Dims, Pattern, align};
use super::kernel;
use super::nest::NestDim;
use super::permute::{Permute, WINDOW_BYTES};
use super::template::{Move, Template};

/// Rows with fewer blocks are unrolled into moves, which saves the loop. Measured: rows of 8 blocks run
/// faster by the kernels of nests (FLASH blocks 1.2 to 2 times, transposing 8 x 8 doubles 3 times), rows
/// of 4 blocks slower (by a quarter).
const ROW_MIN: u64 = 8;
/// Largest number of moves to which rows are unrolled.
const WRITTEN_MAX: u64 = 64;
/// Number of moves that fit in the inline storage, so that unrolling to so many allocates nothing.
const WRITTEN: usize = 16;
/// A permute program is compiled once a program has moved this many bytes, because only then does it
/// repay its cost.
const PERMUTED_FROM_BYTES: u64 = 128 * 1024;
/// The cost of entering a permute program once per row, in hundredths of a nanosecond.
const ROW_COST: u64 = 500;
/// A copy of this many bytes or more does not stay in a cache of the core, and most of it not in the
/// third level either. Measured with floats from 3 of every 4 places to 2 of every 3: up to 4 MB, 22
/// GB/s without prefetching and 18 with it; at 8 MB, 7 and 16.
const FAR_BYTES: u64 = 4 << 20;

/// Repetitions over a body. The repetitions are the same on both sides.
#[derive(Debug)]
pub(super) struct Program {
    /// Innermost first; never empty. The outermost dimension has no end: it repeats as often as a range
    /// asks for.
    dims: Dims,
    /// Stream bytes of one repetition of each dimension.
    units: SmallVec<[u64; 4]>,
    /// Offset of the first byte of the body on each side.
    source: i64,
    target: i64,
    /// Bytes of the body if the body is a block.
    block: u64,
    /// The body if it is not a block.
    table: Option<Table>,
}

/// A template and how to run it.
#[derive(Debug)]
struct Table {
    template: Template,
    interchanged: u64,
    /// Approximate number of bytes moved so far. Counted only until `permute` is decided.
    moved_bytes: AtomicU64,
    /// The permute program, with the level that it repeats: 1, or 2 if rows are short. `None` if the
    /// template has none.
    permute: OnceLock<Option<Box<(usize, Permute)>>>,
}

/// How one call runs the repetitions of a template.
#[derive(Clone, Copy)]
struct Run<'a> {
    table: &'a Table,
    permute: Option<&'a (usize, Permute)>,
    /// Whether the call copies at least [`FAR_BYTES`] bytes.
    is_far: bool,
}

impl Program {
    /// The program for two patterns that copies byte `phase` of the source stream to byte 0 of the
    /// target stream. `None` if two walkers are as fast. O(description) time and memory, and at most
    /// 4,096 moves.
    pub(super) fn new(source: Pattern<'_>, target: Pattern<'_>, phase: u64) -> Option<Self> {
        let mut dims = Dims::new();
        let body = align(source, target, phase, &mut dims)?;
        let (source, target, block, table) = match written_out(body, &mut dims) {
            Body::Block { bytes, source, target } => (source, target, bytes, None),
            Body::Template(template) => (0, 0, 0, Some(Table::new(template, &dims))),
        };
        let mut units = SmallVec::new();
        let mut unit = table.as_ref().map_or(block, |table| table.template.bytes());
        for dim in &dims {
            units.push(unit);
            unit = unit.wrapping_mul(dim.n);
        }
        Some(Self { dims, units, source, target, block, table })
    }

    /// Copies stream bytes `start..end`, which may be empty. Positions count in the target stream.
    ///
    /// # Safety
    /// These bytes must be readable at their places in the source and writable at their places in the
    /// target, no byte that is read may be among the bytes that are written, and no two bytes of the
    /// range may lie at one place of the target.
    #[inline]
    pub(super) unsafe fn run(&self, at: At, start: u64, end: u64) {
        // SAFETY: `# Safety` of this function. `source` and `target` are the offsets of the first byte
        // of the body, where stream byte 0 lies.
        unsafe { self.range(self.dims.len(), at.by(self.source, self.target), start, end) };
    }

    /// Copies a range of the stream that the innermost `level` dimensions make of the body.
    ///
    /// # Safety
    /// As for [`Program::run`]; `at` must hold the addresses of byte 0 of this stream.
    unsafe fn range(&self, level: usize, at: At, start: u64, end: u64) {
        let Some(inside) = level.checked_sub(1) else {
            // SAFETY: `# Safety` of this function; at level 0 the stream is the body.
            return unsafe { self.part(at, start, end) };
        };
        let (dim, unit) = (self.dims[inside], self.units[inside]);
        let ((mut first, mut torn), (last, rest)) = (split(start, unit), split(end, unit));
        // SAFETY: `# Safety` of this function: the head, the whole repetitions and the tail are disjoint
        // parts of the range, and `at` moves to the repetition in which each of them begins.
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

    /// Copies a range of the body.
    ///
    /// # Safety
    /// As for [`Program::range`], with `at` the addresses of the body.
    unsafe fn part(&self, at: At, start: u64, end: u64) {
        // SAFETY: `# Safety` of this function. The bytes of a block are consecutive on both sides.
        unsafe {
            if let Some(table) = &self.table {
                table.template.part(at, start, end);
            } else {
                let here = at.by(start as i64, start as i64);
                kernel::run(here.source, here.target, end - start);
            }
        }
    }

    /// Copies `n` whole repetitions of dimension `level - 1`.
    ///
    /// # Safety
    /// As for [`Program::range`], for all bytes of these repetitions, with `at` the addresses of the
    /// first one.
    unsafe fn whole(&self, level: usize, at: At, n: u64) {
        if let Some(table) = &self.table {
            let bytes = self.units[level - 1].saturating_mul(n);
            let run =
                Run { table, permute: table.permute(at, &self.dims, bytes), is_far: bytes >= FAR_BYTES };
            // SAFETY: `# Safety` of this function is that of `rows`.
            return unsafe { self.rows(level, at, n, run) };
        }
        if level == 1 {
            // SAFETY: `# Safety` of this function: the row of `n` blocks is the `n` repetitions, and no
            // two of its target bytes lie at one place.
            return unsafe { kernel::row(at.source, at.target, self.block, NestDim { n, ..self.dims[0] }) };
        }
        let mut dims: SmallVec<[NestDim; 4]> = SmallVec::from_slice(&self.dims[..level]);
        dims[level - 1].n = n;
        let dims = if n == 1 { &dims[..level - 1] } else { &dims[..] };
        // SAFETY: `# Safety` of this function: the nest of `dims` is the `n` repetitions, and no two of
        // its target bytes lie at one place.
        unsafe { kernel::nest_at(at.source, at.target, self.block, dims) };
    }

    /// Like [`Program::whole`], for a body that is a template.
    ///
    /// # Safety
    /// As for [`Program::whole`].
    unsafe fn rows(&self, level: usize, mut at: At, mut n: u64, run: Run<'_>) {
        let dim = self.dims[level - 1];
        // SAFETY: `# Safety` of this function: every call gets repetitions among the `n` that the caller
        // vouches for, and `at` and `n` advance past the repetitions that are done, so none is done
        // twice.
        unsafe {
            if let Some((_, permute)) = run.permute.filter(|(its, _)| *its == level) {
                let before = permute.periods_before(at.target, n);
                if before > 0 {
                    self.rows(level, at, before, Run { permute: None, ..run });
                    (n, at) = (n - before, at.times(dim, before));
                }
                let done = if run.is_far { permute.run_far(at, n) } else { permute.run(at, n) };
                (n, at) = (n - done, at.times(dim, done));
            }
            if level == 1 {
                if n > 0 {
                    run.table.template.periods(at, n, dim, run.table.interchanged);
                }
                return;
            }
            for _ in 0..n {
                self.rows(level - 1, at, self.dims[level - 2].n, run);
                at = at.by(dim.source, dim.target);
            }
        }
    }
}

impl Table {
    fn new(template: Template, dims: &[NestDim]) -> Self {
        let interchanged = template.interchanged(dims[0]);
        Self { template, interchanged, moved_bytes: AtomicU64::new(0), permute: OnceLock::new() }
    }

    /// The permute program and the level that it repeats, once compiling it pays. Before that, adds
    /// `bytes`, the number of bytes about to be moved, to the count. Concurrent threads may lose counts
    /// of each other, which only delays compiling.
    fn permute(&self, at: At, dims: &[NestDim], bytes: u64) -> Option<&(usize, Permute)> {
        if let Some(known) = self.permute.get() {
            return known.as_deref();
        }
        let moved = self.moved_bytes.load(Relaxed).saturating_add(bytes);
        self.moved_bytes.store(moved, Relaxed);
        if moved < PERMUTED_FROM_BYTES {
            return None;
        }
        self.permute.get_or_init(|| self.permuted(at, dims).map(Box::new)).as_deref()
    }

    /// The cheapest permute program: that of the template, or that of a whole short row of it, which is
    /// entered once for many repetitions.
    fn permuted(&self, at: At, dims: &[NestDim]) -> Option<(usize, Permute)> {
        let moves = self.template.moves();
        let keeps_lines = |outside: &[NestDim]| outside.iter().all(|dim| dim.target % WINDOW_BYTES == 0);
        let single = Permute::new(moves, dims[0], keeps_lines(&dims[1..]), at);
        if let [row, outside, ..] = dims
            && row.n.saturating_mul(moves.len() as u64) <= WRITTEN_MAX
        {
            let mut whole = SmallVec::from_slice(moves);
            repeat(&mut whole, *row);
            let rows = Permute::new(&whole, *outside, keeps_lines(&dims[2..]), at);
            let single_cost = single.as_ref().map_or(u64::MAX, |(cost, _)| cost * row.n + ROW_COST);
            if let Some((cost, permute)) = rows
                && cost < single_cost
            {
                return Some((2, permute));
            }
        }
        single.map(|(_, permute)| (1, permute))
    }
}

/// Splits a position into whole units and the rest. Positions up to the end of the first unit need no
/// division.
#[inline]
fn split(position: u64, unit: u64) -> (u64, u64) {
    match position.cmp(&unit) {
        Ordering::Less => (0, position),
        Ordering::Equal => (1, 0),
        Ordering::Greater => (position / unit, position % unit),
    }
}

/// Extends the moves of one repetition to the moves of all repetitions of `dim`.
fn repeat(moves: &mut SmallVec<[Move; WRITTEN]>, dim: NestDim) {
    let one = moves.len();
    for i in 1..dim.n as i64 {
        let (source, target) = (dim.source.wrapping_mul(i), dim.target.wrapping_mul(i));
        for of in 0..one {
            moves.push(moves[of].by(source, target));
        }
    }
}

/// Turns short rows of blocks into a template. The dimensions outside of the template stay in `dims`.
fn written_out(body: Body, dims: &mut Dims) -> Body {
    let Body::Block { bytes, source, target } = body else { return body };
    let (mut inside, mut count) = (0, 1);
    while inside + 1 < dims.len() && dims[inside].n * count <= WRITTEN_MAX {
        count *= dims[inside].n;
        inside += 1;
    }
    if dims[0].n >= ROW_MIN || inside == 0 {
        return body;
    }
    let mut moves: SmallVec<[Move; WRITTEN]> = SmallVec::new();
    moves.push(Move { start: 0, source, target, bytes });
    for dim in &dims[..inside] {
        repeat(&mut moves, *dim);
    }
    for outside in inside..dims.len() {
        dims[outside - inside] = dims[outside];
    }
    dims.truncate(dims.len() - inside);
    Body::Template(Template::of(&moves))
}
