//! Copy programs: what a copy between two layouts does, as a value.
//!
//! A program is made once per pair of canonical forms and knows no counts: a range of the stream is one program run from
//! byte `start` to byte `end`. The repetitions that the ends of a range tear are entered, those between run whole.

use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;

use super::align::{Body, Dims, Pattern, align};
use super::kernel::{self, source_at, target_at};
use super::nest::NestDim;
use super::permute::{Permute, WINDOW_BYTES};
use super::template::{Move, Template};

/// Rows that are shorter are written out as moves, so that no loop is paid for them. Rows of 8 run faster by the kernels of nests
/// (FLASH blocks 1.2 to 2 times, transposing 8 x 8 doubles 3 times), rows of 4 slower (by a quarter).
const ROW_MIN: u64 = 8;
/// Moves that rows are written out to.
const WRITTEN_MAX: u64 = 64;
/// As many moves are written out without allocating.
const WRITTEN: usize = 16;
/// A program is worth a permute program when it has moved so many bytes.
const PERMUTED_FROM_BYTES: u64 = 128 * 1024;
/// What it costs to enter a permute program for a row, in hundredths of a nanosecond.
const ROW_COST: u64 = 500;
/// What is at least as long does not stay in a cache of the core, nor most of it in the third level: floats from 3 of 4 to 2 of
/// 3 took 22 GB/s without asking ahead and 18 with it up to 4 MB, and 7 and 16 at 8 MB.
const FAR_BYTES: u64 = 4 << 20;

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
    dims: Dims,
    /// Stream bytes of one repetition of each dimension.
    units: SmallVec<[u64; 4]>,
    /// Offset of the first byte of the body on each side.
    source: i64,
    target: i64,
    /// Bytes of a body that is a block.
    block: u64,
    /// A body that is not.
    table: Option<Table>,
}

/// A template and how it is run.
#[derive(Debug)]
struct Table {
    template: Template,
    interchanged: u64,
    /// Bytes moved so far, about: until there is an answer to whether it can be permuted.
    moved_bytes: AtomicU64,
    /// With the level that it repeats: 1, or 2 where rows are short.
    permute: OnceLock<Option<Box<(usize, Permute)>>>,
}

/// How the repetitions of a template are run by one call.
#[derive(Clone, Copy)]
struct Run<'a> {
    table: &'a Table,
    permute: Option<&'a (usize, Permute)>,
    /// Whether the copy is long.
    is_far: bool,
}

impl Program {
    /// The program of two patterns, where stream byte 0 of the target meets byte `phase` of the source; `None` where two
    /// walkers do as well. O(description) time and memory, and at most 4,096 moves.
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
        let ((mut first, mut torn), (last, rest)) = (split(start, unit), split(end, unit));
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
            if let Some(table) = &self.table {
                table.template.part(at, start, end);
            } else {
                let here = at.by(start as i64, start as i64);
                kernel::run(here.source, here.target, end - start);
            }
        }
    }

    /// Copies `n` repetitions of dimension `level - 1`, whole.
    ///
    /// # Safety
    /// As [`Program::range`].
    unsafe fn whole(&self, level: usize, at: At, n: u64) {
        if let Some(table) = &self.table {
            let bytes = self.units[level - 1].saturating_mul(n);
            let run =
                Run { table, permute: table.permute(at, &self.dims, bytes), is_far: bytes >= FAR_BYTES };
            // SAFETY: the caller's promise.
            return unsafe { self.rows(level, at, n, run) };
        }
        if level == 1 {
            // SAFETY: the caller's promise.
            return unsafe { kernel::row(at.source, at.target, self.block, NestDim { n, ..self.dims[0] }) };
        }
        let mut dims: SmallVec<[NestDim; 4]> = SmallVec::from_slice(&self.dims[..level]);
        dims[level - 1].n = n;
        let dims = if n == 1 { &dims[..level - 1] } else { &dims[..] };
        // SAFETY: the caller's promise.
        unsafe { kernel::nest_at(at.source, at.target, self.block, dims) };
    }

    /// As [`Program::whole`], of a template.
    ///
    /// # Safety
    /// As [`Program::range`].
    unsafe fn rows(&self, level: usize, mut at: At, mut n: u64, run: Run<'_>) {
        let dim = self.dims[level - 1];
        // SAFETY: repetitions of those that the caller promises; what is done is left behind.
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

    /// The permute program and the level that it repeats, once it pays: counts `bytes` that are about to be moved towards
    /// it; threads may lose counts of each other.
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

    /// The cheapest permute program of the template, or of short rows of it at once, so that none is entered by itself.
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

/// A position as a whole number of units and the bytes behind them: at the ends of the first unit without a division.
#[inline]
fn split(position: u64, unit: u64) -> (u64, u64) {
    match position.cmp(&unit) {
        Ordering::Less => (0, position),
        Ordering::Equal => (1, 0),
        Ordering::Greater => (position / unit, position % unit),
    }
}

/// Makes moves those of all repetitions.
fn repeat(moves: &mut SmallVec<[Move; WRITTEN]>, dim: NestDim) {
    let one = moves.len();
    for i in 1..dim.n as i64 {
        let (source, target) = (dim.source.wrapping_mul(i), dim.target.wrapping_mul(i));
        for of in 0..one {
            moves.push(moves[of].by(source, target));
        }
    }
}

/// Short rows of blocks as a template, whose repetitions are left in `dims`.
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
