//! Makes a piece from runs: one pass joins runs that touch, then the rules for lists apply.

use crate::canon::{list_of, repeat, shift};
use crate::lists::{Place, Start, fits_narrow};
use crate::period::period;
use crate::piece::Piece;

/// A short list of runs under construction. Empty runs are dropped, and runs that touch in order are
/// joined.
#[derive(Default)]
pub(crate) struct RunList {
    offsets: Vec<i64>,
    lengths: Vec<u64>,
}

impl RunList {
    pub(crate) fn push(&mut self, offset: i64, length: u64) {
        if length > 0 {
            self.offsets.push(offset);
            self.lengths.push(length);
        }
    }

    pub(crate) fn into_piece(self) -> Option<Piece> {
        let runs = || self.offsets.iter().copied().zip(self.lengths.iter().copied());
        let low = runs().map(|(offset, _)| offset).min()?;
        let high = runs().map(|(offset, length)| offset.wrapping_add(length as i64)).max()?;
        let hull = high.wrapping_sub(low) as u64;
        piece_of_runs(hull, self.lengths.iter().sum(), self.offsets.len(), runs())
    }
}

/// The piece of at most `room` runs `(offset, bytes)` that lie within `hull_bytes` bytes and have `size`
/// bytes in all. Empty runs are dropped, and runs that touch in order are joined.
pub(crate) fn piece_of_runs(
    hull_bytes: u64,
    size: u64,
    room: usize,
    runs: impl Iterator<Item = (i64, u64)>,
) -> Option<Piece> {
    if fits_narrow(hull_bytes, size) { collect::<u32>(room, runs) } else { collect::<u64>(room, runs) }
}

/// The piece of one run of `bytes > 0` bytes at each place. The runs lie within `hull_bytes` bytes and have
/// `size` bytes in all. Runs that touch in order are joined.
pub(crate) fn piece_of_equal_runs(
    hull_bytes: u64,
    size: u64,
    bytes: u64,
    places: impl ExactSizeIterator<Item = i64> + Clone,
) -> Option<Piece> {
    let base = places.clone().next()?;
    let apart = places.clone().map(|place| place.wrapping_sub(base));
    let piece = if fits_narrow(hull_bytes, size) {
        equal_list::<i32>(bytes, apart)
    } else {
        equal_list::<i64>(bytes, apart)
    };
    match piece {
        Some(piece) => Some(shift(piece, base)),
        None => piece_of_runs(hull_bytes, size, places.len(), places.map(|place| (place, bytes))),
    }
}

/// A list of equal runs; `None` if runs touch.
fn equal_list<P: Place>(bytes: u64, places: impl Iterator<Item = i64>) -> Option<Piece> {
    let list: Vec<P> = places.map(P::narrowed).collect();
    // The loop has no early exit, so that it is vectorized.
    let touches =
        list.windows(2).fold(false, |found, pair| found | (pair[1].wide() - pair[0].wide() == bytes as i64));
    if touches { None } else { list_of(list, Piece::block(0, bytes)) }
}

fn collect<S: Start>(room: usize, mut runs: impl Iterator<Item = (i64, u64)>) -> Option<Piece> {
    let (base, first) = runs.find(|run| run.1 > 0)?;
    let mut displacements = vec![S::Place::narrowed(0); room];
    let mut starts = vec![S::narrowed(0); room + 1];
    let (mut n, mut total, mut end) = (1, first, base.wrapping_add(first as i64));
    for (offset, length) in runs {
        // The entry is written in any case, and kept only if it begins a run: no branch depends on the
        // data.
        displacements[n] = S::Place::narrowed(offset.wrapping_sub(base));
        starts[n] = S::narrowed(total);
        n += usize::from(length > 0 && offset != end);
        total += length;
        end = if length > 0 { offset.wrapping_add(length as i64) } else { end };
    }
    starts[n] = S::narrowed(total);
    displacements.truncate(n);
    starts.truncate(n + 1);
    let piece = if n == 1 {
        Piece::block(0, total)
    } else if starts.windows(2).all(|pair| pair[1].wide() - pair[0].wide() == total / n as u64) {
        drop(starts);
        list_of(displacements, Piece::block(0, total / n as u64))?
    } else {
        table(displacements, starts)?
    };
    Some(shift(piece, base))
}

/// The piece of runs with individual lengths.
fn table<S: Start>(displacements: Vec<S::Place>, starts: Vec<S>) -> Option<Piece> {
    let n = displacements.len();
    let at = |entry: usize| displacements[entry].wide();
    let start = |entry: usize| starts[entry].wide();
    let found = period(n, |entry| (at(entry + 1) - at(entry), start(entry + 1) - start(entry)));
    let Some(period) = found else { return Some(Piece::var_index(displacements, starts)) };
    let (stride, bytes) = (at(period), start(period));
    let repeats = (0..n - period).all(|entry| at(entry + period) - at(entry) == stride)
        && (0..=n - period).all(|entry| start(entry + period) - start(entry) == bytes);
    if !repeats {
        return Some(Piece::var_index(displacements, starts));
    }
    let part = |from: usize, to: usize| {
        let runs = (from..to).map(|entry| (at(entry) - at(from), start(entry + 1) - start(entry)));
        Some(shift(collect::<S>(to - from, runs)?, at(from)))
    };
    let whole = n / period * period;
    let head = repeat(part(0, period)?, (n / period) as u64, stride)?;
    Some(if whole == n { head } else { Piece::sequence(vec![head, part(whole, n)?]) })
}
