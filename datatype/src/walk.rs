//! Walking a piece in stream order, a row at a time.
//!
//! A walker is a stack of odometers, one per leaf that nests. What it hands out are *spans*: the longest stretches that one
//! loop can execute (a strided row, or a slice of an index list), clipped to the bytes asked for. Copy kernels and run
//! visitors work on spans, so the cost of the stack is paid per row and not per run. Nothing is allocated unless a type
//! nests deeper than four leaves or four dimensions.

use smallvec::SmallVec;

use crate::piece::{Leaf, Piece};

/// Runs that one loop can visit. Offsets are relative to the base address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Span<'a> {
    /// `count` runs of `block` bytes, the first at `offset`, `stride` bytes apart.
    Strided { offset: i64, block: u64, count: u64, stride: i64 },
    /// Runs of `block` bytes at `origin` plus each displacement.
    Index { origin: i64, displacements: &'a [i64], block: u64 },
    /// Runs of their own lengths at `origin` plus each displacement.
    VarIndex { origin: i64, displacements: &'a [i64], lengths: &'a [u64] },
}

impl Span<'_> {
    fn run(offset: i64, bytes: u64) -> Self {
        Span::Strided { offset, block: bytes, count: 1, stride: 0 }
    }

    /// Visits the runs as `(offset, bytes)`.
    pub(crate) fn for_each(self, mut visit: impl FnMut(i64, u64)) {
        match self {
            Span::Strided { mut offset, block, count, stride } => {
                for _ in 0..count {
                    visit(offset, block);
                    offset = offset.wrapping_add(stride);
                }
            }
            Span::Index { origin, displacements, block } => {
                for displacement in displacements {
                    visit(origin + displacement, block);
                }
            }
            Span::VarIndex { origin, displacements, lengths } => {
                for (displacement, &bytes) in displacements.iter().zip(lengths) {
                    visit(origin + displacement, bytes);
                }
            }
        }
    }
}

/// The state of one nest: where its dimensions and its leaf stand.
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

/// Runs of a list with own lengths that are handed out at once: who wants few of them should not pay for all.
const LISTED_AT_ONCE: usize = 128;

/// Walks stream bytes `start..start + bytes` of a piece.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    frames: SmallVec<[Frame<'a>; 4]>,
    /// Bytes of the current run that lie before the range.
    skip: u64,
    /// Bytes still to hand out.
    left: u64,
}

impl<'a> Walker<'a> {
    /// A walker over `start..start + bytes`, which must lie in the stream. O(depth + log n).
    pub(crate) fn new(root: &'a Piece, start: u64, bytes: u64) -> Self {
        let mut walker = Self { frames: SmallVec::new(), skip: 0, left: bytes };
        if bytes > 0 {
            walker.descend(root, 0, start);
        }
        walker
    }

    /// Enters `piece`, whose base is relative to `origin`, at stream byte `position` of it.
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
                index_span(frame, &index.displacements, block, self.skip, self.left)
            }
            Leaf::VarIndex(index) => {
                var_index_span(frame, &index.displacements, &index.lengths, self.skip, self.left)
            }
            Leaf::Sequence(_) => return None,
        };
        self.skip = 0;
        self.left -= bytes;
        if row_ends && self.left > 0 {
            self.advance();
        }
        Some(span)
    }

    /// Goes on behind the end of a row: turns the odometers, innermost first.
    fn advance(&mut self) {
        // The row of a strided leaf is its innermost dimension, which is done already.
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

    /// Enters the current entry of the top frame from its start, if there is something to enter.
    fn reenter(&mut self) {
        let Some(frame) = self.frames.last() else { return };
        let piece = frame.piece;
        let below = match &piece.leaf {
            Leaf::Index(index) if index.body.as_block().is_none() => {
                Some((&index.body, frame.offset.wrapping_add(index.displacements[frame.entry])))
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
    /// One step of the dimensions from `from` outwards; false if all of them have ended.
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

/// Number of places in the list of a leaf that nests.
fn entries(piece: &Piece) -> usize {
    match &piece.leaf {
        Leaf::Index(index) => index.displacements.len(),
        Leaf::Sequence(sequence) => sequence.pieces.len(),
        Leaf::Block(_) | Leaf::VarIndex(_) => 0,
    }
}

/// The entry of the leaf that holds stream byte `position` of one repetition, the position inside of that entry, and the
/// piece to enter there with its displacement.
fn locate(piece: &Piece, position: u64) -> (usize, u64, Option<(&Piece, i64)>) {
    match &piece.leaf {
        Leaf::Block(_) => (0, position, None),
        Leaf::Index(index) => {
            let unit = index.body.facts.size;
            let (entry, inside) = if position == 0 { (0, 0) } else { (position / unit, position % unit) };
            let entry = entry as usize;
            let nests = index.body.as_block().is_none();
            (entry, inside, nests.then(|| (&index.body, index.displacements[entry])))
        }
        Leaf::VarIndex(index) => {
            let (entry, inside) = if position == 0 { (0, 0) } else { index.locate(position) };
            (entry, inside, None)
        }
        Leaf::Sequence(sequence) => {
            let (entry, inside) = if position == 0 { (0, 0) } else { sequence.locate(position) };
            (entry, inside, Some((&sequence.pieces[entry], 0)))
        }
    }
}

/// The rest of a run of which `skip` bytes are done.
fn partial(offset: i64, block: u64, skip: u64, left: u64) -> (Span<'static>, u64, bool) {
    let bytes = (block - skip).min(left);
    (Span::run(offset.wrapping_add(skip as i64), bytes), bytes, skip + bytes == block)
}

/// What follows in a row of equal runs, its bytes, and whether the row ends with it. The frame stands behind it then; only
/// a range that ends inside of a run leaves the frame at that run.
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
    displacements: &'a [i64],
    block: u64,
    skip: u64,
    left: u64,
) -> (Span<'a>, u64, bool) {
    let (origin, entry) = (frame.offset, frame.entry);
    if skip > 0 || left < block {
        let (span, bytes, run_ends) = partial(origin + displacements[entry], block, skip, left);
        frame.entry += usize::from(run_ends);
        return (span, bytes, frame.wrap_entry(displacements.len()));
    }
    let count = ((displacements.len() - entry) as u64).min(left / block) as usize;
    let displacements_here = &displacements[entry..entry + count];
    frame.entry += count;
    let span = Span::Index { origin, displacements: displacements_here, block };
    (span, count as u64 * block, frame.wrap_entry(displacements.len()))
}

fn var_index_span<'a>(
    frame: &mut Frame<'a>,
    displacements: &'a [i64],
    lengths: &'a [u64],
    skip: u64,
    left: u64,
) -> (Span<'a>, u64, bool) {
    let (origin, entry) = (frame.offset, frame.entry);
    if skip > 0 || left < lengths[entry] {
        let (span, bytes, run_ends) = partial(origin + displacements[entry], lengths[entry], skip, left);
        frame.entry += usize::from(run_ends);
        return (span, bytes, frame.wrap_entry(lengths.len()));
    }
    let (mut end, mut bytes) = (entry, 0);
    for &length in lengths[entry..].iter().take(LISTED_AT_ONCE) {
        if length > left - bytes {
            break;
        }
        bytes += length;
        end += 1;
    }
    frame.entry = end;
    let span =
        Span::VarIndex { origin, displacements: &displacements[entry..end], lengths: &lengths[entry..end] };
    (span, bytes, frame.wrap_entry(lengths.len()))
}

impl Frame<'_> {
    /// Goes back to the first entry behind the last one; whether it did.
    fn wrap_entry(&mut self, entries: usize) -> bool {
        let ends = self.entry == entries;
        if ends {
            self.entry = 0;
        }
        ends
    }
}
