//! Order-preserving rewriting into the canonical form.
//!
//! | rule | from | to |
//! |---|---|---|
//! | once | one repetition | its body |
//! | dense | a run repeated at its own length | a longer run |
//! | merge | repetition of a repetition at `n * stride` | one repetition |
//! | join | runs that touch, in type-map order | a longer run |
//! | progress | a list with equal differences | a repetition |
//! | grid | a list of equal progressions, whose starts are rewritten as a list in turn | nested repetitions |
//! | equal | neighboring pieces of one shape | a list of one body, rewritten further |
//! | extend | a repetition followed by more of the same | a longer repetition |
//! | period | a list whose distances and lengths recur after at most 64 entries | a repetition, and a rest |
//! | part | short runs, nearly all of one length and a few of a multiple of it | a list of equal parts |
//! | bitmap | a dense rising list of units of 4 or 8 bytes | one bit per place |
//! | small | any piece of at most `SMALL_BLOCKS` runs | the list of its runs, rewritten |
//!
//! The order of the type map never changes. All rules together take time linear in the description, and
//! their result is at most a constant factor larger than the description. The rule *small* makes the form
//! of small types unique. It applies to every part of a larger piece too, so that a canonical form which is
//! described by constructors and rewritten again is unchanged.
//!
//! Cursors and run counts report maximal runs. Lists store maximal runs, except after the rules *bitmap*
//! and *part*: these forms copy faster and take less memory, and they know where neighbors touch. Lists of
//! runs of really different lengths are not cut into units of their greatest common divisor.

use smallvec::SmallVec;

use crate::lists::Place;
use crate::period::period;
use crate::piece::{Dim, Leaf, Piece};
use crate::runs::RunList;
use crate::walk::Walker;

/// A piece of at most this many runs becomes the list of its runs, rewritten.
pub(crate) const SMALL_BLOCKS: u64 = 32;
/// Inside a sequence, a piece of at most this many runs joins the list of its neighbors.
const LISTED_BLOCKS: u64 = 8;

/// The piece moved by `by` bytes.
pub(crate) fn shift(mut piece: Piece, by: i64) -> Piece {
    // Displacements come from arguments and need not fit on their own, but the place of a byte does.
    piece.base = piece.base.wrapping_add(by);
    piece
}

/// The piece repeated `n` times, `stride` bytes apart; `None` if `n` is 0.
pub(crate) fn repeat(mut piece: Piece, n: u64, stride: i64) -> Option<Piece> {
    if n < 2 {
        return (n == 1).then_some(piece);
    }
    if touches_at(&piece, stride) {
        return Some(Piece::block(piece.base, piece.facts.size * n));
    }
    if !piece.dims.last().is_some_and(|dim| dim.is_gone_on_with(stride)) {
        piece = settle(piece);
    }
    let unit = piece.facts.size;
    piece.facts = piece.facts.repeated(n, stride);
    lengthen(&mut piece.dims, Dim { n, stride, unit });
    Some(piece)
}

/// As [`repeat`], for `n` of at least 1, of a borrowed piece. The result is written to its final place,
/// because moving it would take as long as making it.
pub(crate) fn instances(piece: &Piece, n: u64, stride: i64, result: &mut Option<Piece>) {
    let Piece { base, facts, .. } = *piece;
    if n > 1 && touches_at(piece, stride) {
        *result = Some(Piece::block(base, facts.size * n));
        return;
    }
    let repeated = if n == 1 { facts } else { facts.repeated(n, stride) };
    let made =
        result.insert(Piece { base, dims: SmallVec::new(), leaf: piece.leaf.clone(), facts: repeated });
    for dim in &piece.dims {
        made.dims.push(*dim);
    }
    if n > 1 {
        lengthen(&mut made.dims, Dim { n, stride, unit: facts.size });
    }
}

/// Whether the piece is a single run that repetitions at distance `stride` make longer.
fn touches_at(piece: &Piece, stride: i64) -> bool {
    piece.as_block().is_some_and(|bytes| i64::try_from(bytes) == Ok(stride))
}

/// Adds an outer repetition. If it continues where the outermost dimension ends, that dimension becomes
/// longer instead.
#[inline]
fn lengthen(dims: &mut SmallVec<[Dim; 2]>, next: Dim) {
    match dims.last_mut() {
        Some(dim) if dim.is_gone_on_with(next.stride) => dim.n *= next.n,
        _ => dims.push(next),
    }
}

/// `body` at each displacement. If the body is a run, neighbors must not touch.
pub(crate) fn list(displacements: &[i64], mut body: Piece) -> Option<Piece> {
    // Only a sum of displacement and base is the place of a byte. The differences between such sums fit in
    // an `i64`.
    let base = displacements.first()?.wrapping_add(body.base);
    let from = displacements[0];
    body.base = 0;
    let places = displacements.iter().map(|displacement| displacement.wrapping_sub(from));
    let piece = if places.clone().all(|place| i32::try_from(place).is_ok()) {
        list_of::<i32>(places.map(|place| place as i32).collect(), body)
    } else {
        list_of::<i64>(places.collect(), body)
    };
    Some(shift(piece?, base))
}

/// As [`list`]. The first displacement and the base of the body must be 0.
pub(crate) fn list_of<P: Place>(mut displacements: Vec<P>, mut body: Piece) -> Option<Piece> {
    while displacements.len() > 1 {
        let stride = displacements[1].wide();
        let progresses = |row: &[P]| row.windows(2).all(|pair| pair[1].wide() - pair[0].wide() == stride);
        let row = 1 + displacements.windows(2).take_while(|pair| progresses(pair)).count();
        if !displacements.len().is_multiple_of(row) || !displacements.chunks_exact(row).all(progresses) {
            return periodic(displacements, body);
        }
        body = repeat(body, row as u64, stride)?;
        displacements = displacements.into_iter().step_by(row).collect();
    }
    Some(body)
}

/// A list that is not a grid: a repetition if the list has a period, else an index list.
fn periodic<P: Place>(displacements: Vec<P>, body: Piece) -> Option<Piece> {
    let body = settle(body);
    let n = displacements.len();
    let at = |entry: usize| displacements[entry].wide();
    let Some(period) = period(n, |entry| at(entry + 1) - at(entry)) else {
        return Some(Piece::index(displacements, body));
    };
    let stride = at(period);
    if !(0..n - period).all(|entry| at(entry + period) - at(entry) == stride) {
        return Some(Piece::index(displacements, body));
    }
    let part = |from: usize, to: usize| {
        let places = (from..to).map(|entry| P::narrowed(at(entry) - at(from))).collect();
        Some(shift(list_of::<P>(places, body.clone())?, at(from)))
    };
    let whole = n / period * period;
    let head = repeat(part(0, period)?, (n / period) as u64, stride)?;
    Some(if whole == n { head } else { Piece::sequence(vec![head, part(whole, n)?]) })
}

/// Adds the runs of a piece to a list.
fn spell(piece: &Piece, runs: &mut RunList) {
    let mut walker = Walker::new(piece, 0, piece.facts.size);
    while let Some(span) = walker.next_span() {
        span.for_each(|offset, length| runs.push(offset, length));
    }
}

/// The unique form of a piece of at most [`SMALL_BLOCKS`] runs. Other pieces are returned unchanged.
///
/// The walk meets at most twice as many raw runs as there are joined runs: repeating a body of `b > 1`
/// joined runs does not increase the ratio of raw runs to joined runs less one, and bodies of one run are
/// settled already.
pub(crate) fn settle(piece: Piece) -> Piece {
    let settled = match &piece.leaf {
        Leaf::Block(_) => piece.facts.blocks == piece.facts.size / piece.leaf_bytes(),
        Leaf::Index(index) => piece.dims.is_empty() && index.body.as_block().is_some(),
        Leaf::VarIndex(_) | Leaf::Bitmap(_) => piece.dims.is_empty(),
        Leaf::Sequence(_) => false,
    };
    if settled || piece.facts.blocks > SMALL_BLOCKS {
        return piece;
    }
    let mut runs = RunList::default();
    spell(&piece, &mut runs);
    runs.into_piece().unwrap_or(piece)
}

/// The piece that consists of `pieces`, one after the other.
pub(crate) fn sequence(pieces: Vec<Piece>) -> Option<Piece> {
    let blocks = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.facts.blocks));
    if pieces.len() < 2 {
        return pieces.into_iter().next();
    }
    let one_shape = pieces.windows(2).all(|pair| pair[0].same_shape(&pair[1]));
    if one_shape && blocks > SMALL_BLOCKS && pieces[0].as_block().is_none() {
        return equal(&pieces);
    }
    let mut joined: Vec<Piece> = Vec::new();
    let mut runs = RunList::default();
    for piece in flattened(pieces) {
        if blocks <= SMALL_BLOCKS || piece.facts.blocks <= LISTED_BLOCKS {
            spell(&piece, &mut runs);
        } else {
            append(&mut joined, std::mem::take(&mut runs).into_piece());
            append(&mut joined, Some(piece));
        }
    }
    append(&mut joined, runs.into_piece());
    // A settled piece may continue its predecessor although the unsettled piece did not.
    let mut settled = Vec::with_capacity(joined.len());
    for piece in joined {
        append(&mut settled, Some(settle(piece)));
    }
    let grouped: Vec<Piece> = settled.chunk_by(Piece::same_shape).filter_map(equal).map(settle).collect();
    recurring(grouped)
}

/// A sequence of pieces in which no neighbors have one shape: a repetition if it has a period.
fn recurring(mut pieces: Vec<Piece>) -> Option<Piece> {
    let n = pieces.len();
    if n < 2 {
        return pieces.pop();
    }
    let gap = |from: usize, to: usize| pieces[to].base.wrapping_sub(pieces[from].base);
    let Some(period) = period(n, |entry| (gap(entry, entry + 1), pieces[entry].shape())) else {
        return Some(Piece::sequence(pieces));
    };
    let stride = gap(0, period);
    let again = |entry: usize| {
        gap(entry, entry + period) == stride && pieces[entry].same_shape(&pieces[entry + period])
    };
    if !(0..n - period).all(again) {
        return Some(Piece::sequence(pieces));
    }
    let rest = pieces.split_off(n / period * period);
    pieces.truncate(period);
    let mut all = vec![repeat(Piece::sequence(pieces), (n / period) as u64, stride)?];
    all.extend(rest);
    if all.len() < 2 { all.pop() } else { Some(Piece::sequence(all)) }
}

/// Neighbors of one shape, as a list of that shape.
fn equal(pieces: &[Piece]) -> Option<Piece> {
    let mut body = pieces.first()?.clone();
    body.base = 0;
    list(&pieces.iter().map(|piece| piece.base).collect::<Vec<_>>(), body)
}

/// Removes one level of nesting where that does not make the description longer.
fn flattened(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut flat = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match &piece.leaf {
            Leaf::Sequence(inner) if piece.dims.is_empty() && inner.pieces.len() as u64 <= LISTED_BLOCKS => {
                flat.extend(inner.pieces.iter().map(|part| shift(part.clone(), piece.base)));
            }
            _ => flat.push(piece),
        }
    }
    flat
}

fn append(joined: &mut Vec<Piece>, next: Option<Piece>) {
    let Some(next) = next else { return };
    if !joined.last_mut().is_some_and(|last| extend(last, &next)) {
        joined.push(next);
    }
}

/// Extends `last` by `next` if `next` continues the outermost repetition of `last`. Returns whether it did.
fn extend(last: &mut Piece, next: &Piece) -> bool {
    let Some((&Dim { n, stride, .. }, inner)) = last.dims.split_last() else { return false };
    let more = match next.dims.len().checked_sub(inner.len()) {
        Some(0) => 1,
        Some(1) if next.dims[inner.len()].stride == stride => next.dims[inner.len()].n,
        _ => return false,
    };
    let at = i128::from(n) * i128::from(stride);
    let goes_on = i128::from(last.base) + at == i128::from(next.base);
    if !goes_on || next.dims[..inner.len()] != *inner || last.leaf_shape() != next.leaf_shape() {
        return false;
    }
    last.facts = last.facts.then(&next.facts, at as i64);
    let outermost = inner.len();
    last.dims[outermost].n += more;
    true
}
