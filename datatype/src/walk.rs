//! Walks a piece in stream order, one row at a time.
//!
//! A walker is a stack of odometers, one for each nested leaf. It returns *spans*: the longest sequences of
//! runs that one loop can process (a strided row, or a slice of an index list), clipped to the requested
//! bytes. Copy kernels and run visitors work on spans, so the cost of the stack is paid per row and not per
//! run. Nothing is allocated unless a type nests deeper than four leaves or four dimensions.

use std::convert::Infallible;
use std::ops::ControlFlow;

use smallvec::SmallVec;

use crate::bitmap::{self, Bitmap};
use crate::lists::{Displacements, RunTable, Runs};
use crate::piece::{Leaf, Piece};

/// Runs that one loop can visit. Offsets are relative to the base address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Span<'a> {
    /// `count` runs of `block` bytes, the first at `offset`, `stride` bytes apart.
    Strided { offset: i64, block: u64, count: u64, stride: i64 },
    /// Runs of `block` bytes at `origin` plus each displacement.
    Index { origin: i64, displacements: Displacements<'a>, block: u64 },
    /// Runs with individual lengths, at `origin` plus each displacement.
    VarIndex { origin: i64, runs: Runs<'a> },
    /// `count` units of `unit` bytes (4 or 8), one for each set bit from bit `first` on. Bit `first` is
    /// set, and `first` is below 64. The unit of bit 0 lies at `origin`.
    Bitmap { origin: i64, unit: u64, words: &'a [u64], first: u64, count: u64 },
}

impl Span<'_> {
    fn run(offset: i64, bytes: u64) -> Self {
        Span::Strided { offset, block: bytes, count: 1, stride: 0 }
    }

    /// Visits the runs as `(offset, bytes)`.
    #[inline]
    pub(crate) fn for_each(self, mut visit: impl FnMut(i64, u64)) {
        let ControlFlow::Continue(()) = self.try_for_each(|offset, bytes| {
            visit(offset, bytes);
            ControlFlow::<Infallible>::Continue(())
        });
    }

    /// Visits the runs as `(offset, bytes)` until `visit` breaks.
    #[inline]
    pub(crate) fn try_for_each<B>(self, mut visit: impl FnMut(i64, u64) -> ControlFlow<B>) -> ControlFlow<B> {
        match self {
            Span::Strided { mut offset, block, count, stride } => {
                for _ in 0..count {
                    visit(offset, block)?;
                    offset = offset.wrapping_add(stride);
                }
                ControlFlow::Continue(())
            }
            Span::Index { origin, displacements: Displacements::Narrow(list), block } => {
                list.iter().try_for_each(|&at| visit(origin + i64::from(at), block))
            }
            Span::Index { origin, displacements: Displacements::Wide(list), block } => {
                list.iter().try_for_each(|&at| visit(origin + at, block))
            }
            Span::VarIndex { origin, runs } => runs.try_for_each(|at, bytes| visit(origin + at, bytes)),
            Span::Bitmap { origin, unit, words, first, count } => {
                let at = |place: u64| origin + (place * unit) as i64;
                bitmap::try_for_each_run(words, first, count, |place, units| visit(at(place), units * unit))
            }
        }
    }
}

/// The state of one nest: the position in its dimensions and in its leaf.
#[derive(Debug)]
struct Frame<'a> {
    piece: &'a Piece,
    /// Offset of the current repetition of the leaf.
    offset: i64,
    /// Position in each dimension, innermost first.
    places: SmallVec<[u64; 4]>,
    /// Position in the list of the leaf, if it has one.
    entry: usize,
}

/// Walks stream bytes `start..start + bytes` of a piece.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    frames: SmallVec<[Frame<'a>; 4]>,
    /// Bytes of the current run that lie before the range.
    skip: u64,
    /// Bytes that the walker has not returned yet.
    left: u64,
}

impl<'a> Walker<'a> {
    /// A walker over stream bytes `start..start + bytes`, which must lie in the stream. O(depth + log n).
    pub(crate) fn new(root: &'a Piece, start: u64, bytes: u64) -> Self {
        let mut walker = Self { frames: SmallVec::new(), skip: 0, left: bytes };
        if bytes > 0 {
            walker.descend(root, 0, start);
        }
        walker
    }

    /// Enters `piece`, whose base is relative to `origin`, at its stream byte `position`.
    fn descend(&mut self, mut piece: &'a Piece, mut origin: i64, mut position: u64) {
        loop {
            let mut offset = origin.wrapping_add(piece.base);
            let mut places = SmallVec::from_elem(0, piece.dims.len());
            if position > 0 {
                for (place, dim) in places.iter_mut().zip(&piece.dims).rev() {
                    *place = position / dim.unit;
                    position %= dim.unit;
                    offset = offset.wrapping_add(dim.stride.wrapping_mul(*place as i64));
                }
            }
            let (entry, inside, body) = locate(piece, position);
            self.frames.push(Frame { piece, offset, places, entry });
            let Some((body, displacement)) = body else {
                self.skip = inside;
                return;
            };
            (piece, origin, position) = (body, offset.wrapping_add(displacement), inside);
        }
    }

    /// The next runs, or `None` at the end of the range.
    #[inline]
    pub(crate) fn next_span(&mut self) -> Option<Span<'a>> {
        if self.left == 0 {
            return None;
        }
        let frame = self.frames.last_mut()?;
        let (span, bytes, row_ends) = match &frame.piece.leaf {
            Leaf::Block(block) => strided_span(frame, *block, self.skip, self.left),
            Leaf::Index(index) => {
                let block = index.body.facts.size;
                index_span(frame, index.displacements.as_slice(), block, self.skip, self.left)
            }
            Leaf::VarIndex(index) => var_index_span(frame, &index.runs, self.skip, self.left),
            Leaf::Bitmap(bitmap) => bitmap_span(frame, bitmap, self.skip, self.left),
            Leaf::Sequence(_) => return None,
        };
        self.skip = 0;
        self.left -= bytes;
        if row_ends && self.left > 0 {
            self.advance();
        }
        Some(span)
    }

    /// Moves past the end of a row: advances the odometers, innermost first.
    fn advance(&mut self) {
        // The row of a strided leaf is its innermost dimension, which the span has covered already.
        let mut from = match self.frames.last() {
            Some(frame) if matches!(frame.piece.leaf, Leaf::Block(_)) => 1,
            _ => 0,
        };
        while let Some(frame) = self.frames.last_mut() {
            if frame.turn(from) {
                return self.reenter();
            }
            self.frames.pop();
            from = 0;
            if let Some(parent) = self.frames.last_mut() {
                parent.entry += 1;
                if parent.entry < entries(parent.piece) {
                    return self.reenter();
                }
                parent.entry = 0;
            }
        }
    }

    /// Enters the current entry of the top frame at its start, if the entry nests.
    fn reenter(&mut self) {
        let Some(frame) = self.frames.last() else { return };
        let piece = frame.piece;
        let below = match &piece.leaf {
            Leaf::Index(index) if index.body.as_block().is_none() => {
                Some((&index.body, frame.offset.wrapping_add(index.displacements.get(frame.entry))))
            }
            Leaf::Sequence(sequence) => Some((&sequence.pieces[frame.entry], frame.offset)),
            _ => None,
        };
        if let Some((body, origin)) = below {
            self.descend(body, origin, 0);
        }
    }
}

impl Frame<'_> {
    /// Advances the dimensions from `from` outwards by one step. Returns false if all of them have ended.
    fn turn(&mut self, from: usize) -> bool {
        for (place, dim) in self.places.iter_mut().zip(&self.piece.dims).skip(from) {
            *place += 1;
            if *place < dim.n {
                self.offset = self.offset.wrapping_add(dim.stride);
                return true;
            }
            *place = 0;
            self.offset = self.offset.wrapping_sub(dim.stride.wrapping_mul((dim.n - 1) as i64));
        }
        false
    }
}

/// Number of entries in the list of a leaf that nests.
fn entries(piece: &Piece) -> usize {
    match &piece.leaf {
        Leaf::Index(index) => index.displacements.len(),
        Leaf::Sequence(sequence) => sequence.pieces.len(),
        Leaf::Block(_) | Leaf::VarIndex(_) | Leaf::Bitmap(_) => 0,
    }
}

/// The entry of the leaf that holds stream byte `position` of one repetition, the position within that
/// entry, and, if the entry nests, the piece to enter with its displacement.
fn locate(piece: &Piece, position: u64) -> (usize, u64, Option<(&Piece, i64)>) {
    match &piece.leaf {
        Leaf::Block(_) => (0, position, None),
        Leaf::Index(index) => {
            let unit = index.body.facts.size;
            let (entry, inside) = if position == 0 { (0, 0) } else { (position / unit, position % unit) };
            let entry = entry as usize;
            let nests = index.body.as_block().is_none();
            (entry, inside, nests.then(|| (&index.body, index.displacements.get(entry))))
        }
        Leaf::VarIndex(index) => {
            let (entry, inside) = if position == 0 { (0, 0) } else { index.runs.locate(position) };
            (entry, inside, None)
        }
        Leaf::Bitmap(bitmap) => ((position / bitmap.unit) as usize, position % bitmap.unit, None),
        Leaf::Sequence(sequence) => {
            let (entry, inside) = if position == 0 { (0, 0) } else { sequence.locate(position) };
            (entry, inside, Some((&sequence.pieces[entry], 0)))
        }
    }
}

/// The rest of a run after its first `skip` bytes, but at most `left` bytes of it: the span, its bytes, and
/// whether the run ends with it.
fn partial(offset: i64, block: u64, skip: u64, left: u64) -> (Span<'static>, u64, bool) {
    let bytes = (block - skip).min(left);
    (Span::run(offset.wrapping_add(skip as i64), bytes), bytes, skip + bytes == block)
}

/// The next span of a row of equal runs, its bytes, and whether the row ends with it. The frame then stands
/// after the span, unless the range ends inside a run: then the frame stays at that run.
#[inline]
fn strided_span<'a>(frame: &mut Frame<'a>, block: u64, skip: u64, left: u64) -> (Span<'a>, u64, bool) {
    let offset = frame.offset;
    let Some(dim) = frame.piece.dims.first() else { return partial(offset, block, skip, left) };
    let place = frame.places[0];
    if skip > 0 || left < block {
        let (span, bytes, run_ends) = partial(offset, block, skip, left);
        let row_ends = run_ends && place + 1 == dim.n;
        if row_ends {
            frame.rewind_row(place);
        } else if run_ends {
            frame.places[0] += 1;
            frame.offset = offset.wrapping_add(dim.stride);
        }
        return (span, bytes, row_ends);
    }
    let whole = dim.n - place;
    let bytes = whole * block;
    if bytes <= left {
        frame.rewind_row(place);
        return (Span::Strided { offset, block, count: whole, stride: dim.stride }, bytes, true);
    }
    let count = left / block;
    frame.places[0] += count;
    frame.offset = offset.wrapping_add(dim.stride.wrapping_mul(count as i64));
    (Span::Strided { offset, block, count, stride: dim.stride }, count * block, false)
}

impl Frame<'_> {
    fn rewind_row(&mut self, place: u64) {
        if place > 0 {
            let stride = self.piece.dims[0].stride;
            self.offset = self.offset.wrapping_sub(stride.wrapping_mul(place as i64));
            self.places[0] = 0;
        }
    }
}

fn index_span<'a>(
    frame: &mut Frame<'a>,
    displacements: Displacements<'a>,
    block: u64,
    skip: u64,
    left: u64,
) -> (Span<'a>, u64, bool) {
    let (origin, entry) = (frame.offset, frame.entry);
    if skip > 0 || left < block {
        let (span, bytes, run_ends) = partial(origin + displacements.get(entry), block, skip, left);
        frame.entry += usize::from(run_ends);
        return (span, bytes, frame.wrap_entry(displacements.len()));
    }
    let rest = displacements.len() - entry;
    let count = if rest as u64 * block <= left { rest } else { (left / block) as usize };
    frame.entry += count;
    let span = Span::Index { origin, displacements: displacements.part(entry, entry + count), block };
    (span, count as u64 * block, frame.wrap_entry(displacements.len()))
}

fn var_index_span<'a>(
    frame: &mut Frame<'a>,
    table: &'a RunTable,
    skip: u64,
    left: u64,
) -> (Span<'a>, u64, bool) {
    let (origin, entry, runs) = (frame.offset, frame.entry, table.as_slice());
    let whole = table.start_of(runs.len());
    if entry == 0 && skip == 0 && whole <= left {
        return (Span::VarIndex { origin, runs }, whole, true);
    }
    let (at, length) = runs.get(entry);
    if skip > 0 || left < length {
        let (span, bytes, run_ends) = partial(origin + at, length, skip, left);
        frame.entry += usize::from(run_ends);
        return (span, bytes, frame.wrap_entry(runs.len()));
    }
    let start = table.start_of(entry);
    let end = entry + table.whole_below(entry, start.saturating_add(left));
    frame.entry = end;
    let span = Span::VarIndex { origin, runs: runs.part(entry, end) };
    (span, table.start_of(end) - start, frame.wrap_entry(runs.len()))
}

fn bitmap_span<'a>(frame: &mut Frame<'a>, bitmap: &'a Bitmap, skip: u64, left: u64) -> (Span<'a>, u64, bool) {
    let (unit, units) = (bitmap.unit, bitmap.units());
    let entry = frame.entry as u64;
    let place = if entry == 0 { 0 } else { bitmap.select(entry) };
    if skip > 0 || left < unit {
        let offset = frame.offset + (place * unit) as i64;
        let (span, bytes, unit_ends) = partial(offset, unit, skip, left);
        frame.entry += usize::from(unit_ends);
        return (span, bytes, frame.wrap_entry(units as usize));
    }
    let count = (units - entry).min(left / unit);
    frame.entry += count as usize;
    let origin = frame.offset + (place / 64 * 64 * unit) as i64;
    let words = &bitmap.words[(place / 64) as usize..];
    let span = Span::Bitmap { origin, unit, words, first: place % 64, count };
    (span, count * unit, frame.wrap_entry(units as usize))
}

impl Frame<'_> {
    /// Returns to the first entry after the last one. The result tells whether it did.
    fn wrap_entry(&mut self, entries: usize) -> bool {
        let ends = self.entry == entries;
        if ends {
            self.entry = 0;
        }
        ends
    }
}
