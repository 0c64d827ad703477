//! Templates: one period of both sides as a short list of moves, and the loops that run this list.

use smallvec::SmallVec;

use super::address::At;
use super::kernel;
use super::listing::Listing;
use super::nest::NestDim;
use super::side::Side;
use crate::piece::{Piece, gcd};

/// Templates with more moves are not built.
pub(super) const MOVES_MAX: usize = 4096;
/// Number of moves that fit in the inline storage, so that listing so many allocates nothing.
const LISTED: usize = 16;
/// Bounds of the number of instances that one pass copies move by move (loops interchanged): at least enough
/// for a vector loop.
const INTERCHANGED_MIN: u64 = 16;
const INTERCHANGED_MAX: u64 = 256;
/// Largest number of bytes that these instances may span on both sides together: a part of the first-level
/// cache.
const INTERCHANGED_BYTES: u64 = 16 * 1024;
/// Number of periods that one pass over a table of equal moves copies.
const TOGETHER: u64 = 4;
/// Moves of different lengths are cut to equal ones only if the equal length is at least this many bytes.
const GRANULE_MIN: u64 = 4;
/// Cutting moves to equal length may multiply their number by at most this factor.
const CUT_MAX: u64 = 3;

/// One run of bytes that is copied from an offset of the source to an offset of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    /// Stream position in the period.
    pub(super) start: u64,
    pub(super) source: i64,
    pub(super) target: i64,
    pub(super) bytes: u64,
}

/// The moves of one period, in stream order.
#[derive(Debug)]
pub(super) struct Template {
    moves: Vec<Move>,
    /// In stream order.
    /// The length of each move if all are equally long, else 0.
    equal_bytes: u64,
}

impl Template {
    /// The moves that copy `bytes` stream bytes from position `start` of the source to position 0 of the
    /// target. `None` if there are more than [`MOVES_MAX`] moves.
    pub(super) fn new((source, start): (&Piece, u64), target: &Piece, bytes: u64) -> Option<Self> {
        let mut from = Side::new(source, start, bytes);
        let mut to = Side::new(target, 0, bytes);
        let mut moves: Vec<Move> = Vec::with_capacity(16);
        loop {
            let (read, write) = (from.run_bytes(), to.run_bytes());
            if read == 0 || write == 0 {
                return Some(Self::of(&moves));
            }
            let bytes = read.min(write);
            let next = Move { start: 0, source: from.offset(), target: to.offset(), bytes };
            from.take(read, bytes, 1);
            to.take(write, bytes, 1);
            let room = moves.len() < MOVES_MAX;
            match moves.last_mut() {
                Some(last) if last.goes_on(&next) => last.bytes += bytes,
                _ if room => moves.push(next),
                _ => return None,
            }
        }
    }

    /// Like [`Template::new`], from two lists of runs.
    pub(super) fn merged(from: &mut Listing<'_>, to: &mut Listing<'_>, bytes: u64) -> Option<Self> {
        let mut moves: SmallVec<[Move; LISTED]> = SmallVec::new();
        let mut left = bytes;
        while left > 0 {
            let ((source, read), (target, write)) = (from.run(), to.run());
            let bytes = read.min(write).min(left);
            let next = Move { start: 0, source, target, bytes };
            let room = moves.len() < MOVES_MAX;
            match moves.last_mut() {
                Some(last) if last.goes_on(&next) => last.bytes += bytes,
                _ if room => moves.push(next),
                _ => return None,
            }
            from.take(bytes);
            to.take(bytes);
            left -= bytes;
        }
        Some(Self::of(&moves))
    }

    /// The template of moves that are consecutive in the stream.
    pub(super) fn of(moves: &[Move]) -> Self {
        let mut end = 0;
        let mut at = |next: Move| {
            let start = end;
            end += next.bytes;
            Move { start, ..next }
        };
        let (granule, count) = cut(moves);
        if count == moves.len() as u64 {
            let equal_bytes = if moves.iter().all(|next| next.bytes == granule) { granule } else { 0 };
            return Self { moves: moves.iter().map(|next| at(*next)).collect(), equal_bytes };
        }
        let mut parts = Vec::with_capacity(count as usize);
        for next in moves {
            for start in (0..next.bytes).step_by(granule as usize) {
                parts.push(at(next.part(start, granule)));
            }
        }
        Self { moves: parts, equal_bytes: granule }
    }

    pub(super) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Stream bytes of one period.
    pub(super) fn bytes(&self) -> u64 {
        self.moves.last().map_or(0, |last| last.start + last.bytes)
    }

    /// The number of instances that [`Template::periods`] copies together, move by move. 0 if this does not
    /// pay. It pays if one move of many instances is a row of consecutive bytes on one side, and if the
    /// bytes that the instances span stay in the first-level cache.
    pub(super) fn interchanged(&self, dim: NestDim) -> u64 {
        let reach = dim.source.unsigned_abs().saturating_add(dim.target.unsigned_abs()).max(1);
        let instances = (INTERCHANGED_BYTES / reach).min(INTERCHANGED_MAX);
        let is_row = |stride: i64| self.equal_bytes > 0 && u64::try_from(stride) == Ok(self.equal_bytes);
        let pays = is_row(dim.source) || is_row(dim.target);
        if pays && self.moves.len() > 1 && instances >= INTERCHANGED_MIN { instances } else { 0 }
    }

    /// Copies stream bytes `start..end` of one period.
    ///
    /// # Safety
    /// These bytes must be readable at their places in the source and writable at their places in the
    /// target, and the two must not overlap.
    pub(super) unsafe fn part(&self, at: At, start: u64, end: u64) {
        let first = if start == 0 { 0 } else { self.moves.partition_point(|next| next.start <= start) - 1 };
        for next in &self.moves[first..] {
            let begin = next.start;
            if begin >= end {
                return;
            }
            let (low, high) = (start.max(begin) - begin, (end - begin).min(next.bytes));
            let here = at.by(next.source, next.target).by(low as i64, low as i64);
            // SAFETY: `# Safety` of this function: `low..high` is the part of this move that lies in
            // `start..end`.
            unsafe { kernel::run(here.source, here.target, high - low) };
        }
    }

    /// Copies `n` periods at the distance of `dim`. The count in `dim` is ignored.
    ///
    /// # Safety
    /// As for [`Template::part`], for all bytes of all periods. No two of these bytes may lie at one place
    /// of the target.
    pub(super) unsafe fn periods(&self, at: At, n: u64, dim: NestDim, interchanged: u64) {
        // SAFETY: `# Safety` of this function; `table::<N>` is called only if all moves have `N` bytes.
        unsafe {
            if interchanged > 0 && n >= INTERCHANGED_MIN {
                return self.interchange(at, n, dim, interchanged);
            }
            match self.equal_bytes {
                4 => self.table::<4>(at, n, dim),
                8 => self.table::<8>(at, n, dim),
                12 => self.table::<12>(at, n, dim),
                16 => self.table::<16>(at, n, dim),
                24 => self.table::<24>(at, n, dim),
                32 => self.table::<32>(at, n, dim),
                64 => self.table::<64>(at, n, dim),
                _ => self.mixed(at, n, dim),
            }
        }
    }

    /// # Safety
    /// As for [`Template::periods`]. All moves must have `N` bytes.
    unsafe fn table<const N: usize>(&self, mut at: At, n: u64, dim: NestDim) {
        // Loading the offsets of a move once for several periods saves loads from the table.
        for _ in 0..n / TOGETHER {
            let periods = [0, 1, 2, 3].map(|i| at.times(dim, i));
            for &Move { source, target, .. } in &self.moves {
                for at in periods {
                    let here = at.by(source, target);
                    // SAFETY: `# Safety` of `periods`: `here` is one move of `N` bytes of one of these
                    // periods.
                    unsafe { here.source.copy_to_nonoverlapping(here.target, N) };
                }
            }
            at = at.times(dim, TOGETHER);
        }
        for _ in 0..n % TOGETHER {
            for next in &self.moves {
                let here = at.by(next.source, next.target);
                // SAFETY: `# Safety` of `periods`: `here` is one move of `N` bytes of this period.
                unsafe { here.source.copy_to_nonoverlapping(here.target, N) };
            }
            at = at.by(dim.source, dim.target);
        }
    }

    /// # Safety
    /// As for [`Template::periods`].
    unsafe fn mixed(&self, mut at: At, n: u64, dim: NestDim) {
        for _ in 0..n {
            for next in &self.moves {
                let here = at.by(next.source, next.target);
                // SAFETY: `# Safety` of `periods`: `here` is one move of this period.
                unsafe { kernel::run(here.source, here.target, next.bytes) };
            }
            at = at.by(dim.source, dim.target);
        }
    }

    /// # Safety
    /// As for [`Template::periods`].
    unsafe fn interchange(&self, mut at: At, n: u64, dim: NestDim, together: u64) {
        let mut left = n;
        while left > 0 {
            let row = NestDim { n: left.min(together), ..dim };
            for next in &self.moves {
                let here = at.by(next.source, next.target);
                // SAFETY: `# Safety` of `periods`: the row is this move in each of the next `row.n` periods,
                // `row.n <= left`, and no two of its target bytes lie at one place.
                unsafe { kernel::row(here.source, here.target, next.bytes, row) };
            }
            left -= row.n;
            at = at.times(dim, row.n);
        }
    }
}

impl Move {
    /// Whether `next` begins at the end of this move on both sides.
    fn goes_on(&self, next: &Self) -> bool {
        let bytes = self.bytes as i64;
        self.source.wrapping_add(bytes) == next.source && self.target.wrapping_add(bytes) == next.target
    }

    /// This move, moved by the given number of bytes on each side.
    pub(super) fn by(&self, source: i64, target: i64) -> Self {
        let (source, target) = (self.source.wrapping_add(source), self.target.wrapping_add(target));
        Self { source, target, ..*self }
    }

    fn part(&self, start: u64, bytes: u64) -> Self {
        let at = start as i64;
        Self { bytes, ..self.by(at, at) }
    }
}

/// The length to which moves of different lengths are cut, if that gives not many more moves, all equally
/// long; and the number of moves after cutting. If the moves are not cut, this number is that of the given
/// moves.
fn cut(moves: &[Move]) -> (u64, u64) {
    let (count, first) = (moves.len() as u64, moves.first().map_or(0, |first| first.bytes));
    if moves.iter().all(|next| next.bytes == first) {
        return (first, count);
    }
    let granule = moves.iter().fold(0, |granule, next| gcd(granule, next.bytes));
    let bytes: u64 = moves.iter().map(|next| next.bytes).sum();
    if granule < GRANULE_MIN || bytes / granule > CUT_MAX * count {
        return (0, count);
    }
    (granule, bytes / granule)
}
