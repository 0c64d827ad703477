//! Alignment: turns the two sides of a copy into one nest of common repetitions over a body that is as small
//! as possible.
//!
//! The outermost repetition of a side has no end here, because a copy never leaves its range. So one program
//! serves all counts.

use std::mem;

use smallvec::SmallVec;

use super::listing::Listing;
use super::nest::NestDim;
use super::template::{MOVES_MAX, Template};
use crate::piece::{Dim, Leaf, Piece, gcd};

/// The number of repetitions of a dimension without end: as many as a range asks for.
const UNBOUNDED: u64 = u64::MAX;
/// Largest number of moves in a template between a list and consecutive bytes. A walker copies such a list
/// as fast as a template does, so only short lists that repeat gain from a template.
const LISTED_MOVES_MAX: u64 = 64;

pub(super) type Dims = SmallVec<[NestDim; 4]>;

/// The body that the common repetitions repeat.
#[derive(Debug)]
pub(super) enum Body {
    /// A run, with the offset of the first one on each side.
    Block {
        bytes: u64,
        source: i64,
        target: i64,
    },
    Template(Template),
}

/// What a side repeats without end: a piece, or instances of a piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern<'a> {
    pub(super) piece: &'a Piece,
    /// The distance of two instances, in bytes. `None` if there is only one instance.
    pub(super) extent: Option<i64>,
}

/// One side: repetitions of a unit, innermost first. There is at least one repetition, and the last one has
/// no end.
struct Side<'a> {
    root: &'a Piece,
    reps: SmallVec<[Dim; 4]>,
    /// Whether the side is a single run, of any length.
    is_dense: bool,
}

/// Repetitions of a side, innermost first: an optional computed repetition, inside of a part of the side's
/// own ones.
type Reps<'a> = (Option<Dim>, &'a [Dim]);

impl<'a> Side<'a> {
    /// An empty side, to be filled by [`Side::set`]. Filling it in place avoids a move, which would take as
    /// long as filling.
    fn unset(root: &'a Piece) -> Self {
        Self { root, reps: SmallVec::new(), is_dense: false }
    }

    fn set(&mut self, Pattern { piece: root, extent }: Pattern<'a>) {
        let reps = &mut self.reps;
        for dim in &root.dims {
            reps.push(*dim);
        }
        let block = root.as_block().and_then(|bytes| i64::try_from(bytes).ok());
        self.is_dense = block.is_some() && (extent.is_none() || extent == block);
        let unit = root.facts.size;
        match (reps.last_mut(), extent) {
            (Some(outermost), None) => outermost.n = UNBOUNDED,
            (Some(outermost), Some(extent)) if outermost.is_gone_on_with(extent) => outermost.n = UNBOUNDED,
            (_, Some(extent)) if !self.is_dense => reps.push(Dim { n: UNBOUNDED, stride: extent, unit }),
            // A single instance. The stride does not matter, because there is no second instance.
            _ => reps.push(Dim { n: UNBOUNDED, stride: 0, unit }),
        }
    }

    /// Stream bytes of the leaf.
    fn leaf_bytes(&self) -> u64 {
        self.reps[0].unit
    }

    /// The repetitions of a side of consecutive bytes. Such a side can be divided into units of any size.
    fn dense_reps(unit: u64) -> Reps<'static> {
        (Some(Dim { n: UNBOUNDED, stride: unit as i64, unit }), &[])
    }

    /// The repetitions around blocks of `granule` bytes. The leaf must be a block whose length is a multiple
    /// of `granule`.
    fn reps_of(&self, granule: u64) -> Reps<'_> {
        if self.is_dense {
            return Self::dense_reps(granule);
        }
        let inside = self.leaf_bytes() / granule;
        let own = (inside > 1).then_some(Dim { n: inside, stride: granule as i64, unit: granule });
        (own, &self.reps)
    }

    /// The repetitions from `level` on, around a unit of `unit` bytes. `None` if the end of a row cuts the
    /// unit.
    fn reps_above(&self, level: usize, unit: u64) -> Option<Reps<'_>> {
        if self.is_dense {
            return Some(Self::dense_reps(unit));
        }
        let mut rep = self.reps[level];
        let rest = &self.reps[level + 1..];
        if rep.unit == unit {
            return Some((Some(rep), rest));
        }
        let inside = unit / rep.unit;
        if rep.n != UNBOUNDED {
            if !rep.n.is_multiple_of(inside) {
                return None;
            }
            rep.n /= inside;
        }
        rep.stride = rep.stride.wrapping_mul(inside as i64);
        rep.unit = unit;
        Some(((rep.n != 1).then_some(rep), rest))
    }

    /// An upper bound of the number of runs in one unit of `level`.
    fn runs_at(&self, level: usize) -> u64 {
        if self.is_dense {
            return 0;
        }
        let outside = self.root.dims.iter().skip(level);
        match outside.fold(1_u64, |product, dim| product.saturating_mul(dim.n)) {
            1 => self.root.facts.blocks,
            outside => self.root.facts.blocks.div_ceil(outside),
        }
    }

    /// The first `bytes` bytes as a piece, rounded up to whole units of `level`.
    fn cut(&self, level: usize, bytes: u64) -> Piece {
        if self.is_dense {
            return Piece::block(self.root.base, bytes);
        }
        let mut piece = self.root.clone();
        let rep = self.reps[level];
        let n = bytes.div_ceil(rep.unit);
        piece.dims.truncate(level);
        if n > 1 {
            piece.dims.push(Dim { n, ..rep });
        }
        piece.facts.size = rep.unit.saturating_mul(n);
        piece
    }

    /// Makes `list` the endless list of the runs of units of `level`. Returns `false` if listing them needs
    /// a walker.
    fn list<'s>(&'s self, level: usize, list: &mut Listing<'s>) -> bool {
        if self.is_dense {
            *list = Listing::consecutive(self.root.base);
            return true;
        }
        list.set(self.root, &self.reps[..=level])
    }
}

/// Aligns both sides so that byte `phase` of the source stream is copied to byte 0 of the target stream.
/// Puts the common repetitions in `dims` and returns the body that they repeat. `None` if the body would be
/// so long that two walkers are as fast. O(description) time, and O(moves) for a template.
pub(super) fn align(source: Pattern<'_>, target: Pattern<'_>, phase: u64, dims: &mut Dims) -> Option<Body> {
    let (mut from, mut to) = (Side::unset(source.piece), Side::unset(target.piece));
    from.set(source);
    to.set(target);
    if phase == 0
        && let Some(block) = align_blocks(&from, &to, dims)
    {
        return Some(block);
    }
    let Fit { source_level, target_level, unit } = best_fit(&from, &to, phase, dims)?;
    let (mut read, mut write) = (Listing::consecutive(0), Listing::consecutive(0));
    if phase == 0 && from.list(source_level, &mut read) && to.list(target_level, &mut write) {
        return Template::merged(&mut read, &mut write, unit).map(Body::Template);
    }
    let (from, to) = (from.cut(source_level, phase + unit), to.cut(target_level, unit));
    Template::new((&from, phase), &to, unit).map(Body::Template)
}

/// The alignment if both leaves are blocks. The body is a block of the greatest length that divides both
/// leaves.
fn align_blocks(from: &Side<'_>, to: &Side<'_>, dims: &mut Dims) -> Option<Body> {
    let is_block = |side: &Side<'_>| matches!(side.root.leaf, Leaf::Block(_));
    if !is_block(from) || !is_block(to) {
        return None;
    }
    let bytes = match (from.is_dense, to.is_dense) {
        (_, true) => from.leaf_bytes(),
        (true, false) => to.leaf_bytes(),
        (false, false) => gcd(from.leaf_bytes(), to.leaf_bytes()),
    };
    let is_one = common(from.reps_of(bytes), to.reps_of(bytes), dims);
    is_one.then_some(Body::Block { bytes, source: from.root.base, target: to.root.base })
}

/// A candidate for a template: a level on each side at which the repetitions match.
struct Fit {
    source_level: usize,
    target_level: usize,
    /// Stream bytes of the template.
    unit: u64,
}

/// The shortest template around which both sides have the same repetitions. Puts these repetitions in
/// `dims`.
fn best_fit(from: &Side<'_>, to: &Side<'_>, phase: u64, dims: &mut Dims) -> Option<Fit> {
    let levels = |side: &Side<'_>| if side.is_dense { 1 } else { side.reps.len() };
    // With a phase, a template begins inside of a source unit. Only the outermost repetition, which has no
    // end, continues without a break from there.
    let first = if phase > 0 { levels(from) - 1 } else { 0 };
    let mut best: Option<Fit> = None;
    let mut found = Dims::new();
    for source_level in first..levels(from) {
        for target_level in 0..levels(to) {
            let is_no_better = |best: &Fit| best.unit <= least_unit(from, to, (source_level, target_level));
            if best.as_ref().is_some_and(is_no_better) {
                continue;
            }
            let Some(unit) = common_unit(from, to, (source_level, target_level)) else { continue };
            if best.as_ref().is_some_and(|best| best.unit <= unit) {
                continue;
            }
            let reps = (from.reps_above(source_level, unit), to.reps_above(target_level, unit));
            let (Some(source_reps), Some(target_reps)) = reps else { continue };
            let fit = Fit { source_level, target_level, unit };
            // The first repetitions found are written straight to `dims`, where they usually stay.
            if best.is_none() {
                best = common(source_reps, target_reps, dims).then_some(fit);
            } else if common(source_reps, target_reps, &mut found) {
                best = Some(fit);
                mem::swap(dims, &mut found);
            }
        }
    }
    best
}

/// A lower bound of the least common multiple of the units of two levels, computed without a division.
fn least_unit(from: &Side<'_>, to: &Side<'_>, levels: (usize, usize)) -> u64 {
    let own = |side: &Side<'_>, level: usize| if side.is_dense { 0 } else { side.reps[level].unit };
    own(from, levels.0).max(own(to, levels.1))
}

/// The least common multiple of the units of two levels. `None` if a template of this length would have too
/// many moves.
fn common_unit(from: &Side<'_>, to: &Side<'_>, levels: (usize, usize)) -> Option<u64> {
    let (a, b) = (from.reps[levels.0].unit, to.reps[levels.1].unit);
    let unit = match (from.is_dense, to.is_dense) {
        (_, true) => a,
        (true, false) => b,
        (false, false) if a == b => a,
        (false, false) => (a / gcd(a, b)).checked_mul(b)?,
    };
    let runs = |side: &Side<'_>, level: usize, own: u64| {
        let inside = if own >= unit { 1 } else { unit / own };
        side.runs_at(level).checked_mul(inside)
    };
    let moves = runs(from, levels.0, a)?.checked_add(runs(to, levels.1, b)?)?;
    let max = if from.is_dense || to.is_dense { LISTED_MOVES_MAX } else { MOVES_MAX as u64 };
    (moves <= max && i64::try_from(unit).is_ok()).then_some(unit)
}

/// Whether two sides with the same unit have the same repetitions. Puts them in `dims`. Counts that differ
/// are split until both sides have the same counts.
fn common(source: Reps<'_>, target: Reps<'_>, dims: &mut Dims) -> bool {
    let mut sources = source.0.into_iter().chain(source.1.iter().copied());
    let mut targets = target.0.into_iter().chain(target.1.iter().copied());
    dims.clear();
    let (Some(mut from), Some(mut to)) = (sources.next(), targets.next()) else { return false };
    loop {
        let n = match (from.n, to.n) {
            (UNBOUNDED, n) | (n, UNBOUNDED) => n,
            (a, b) if a == b => a,
            (a, b) => gcd(a, b),
        };
        if n == 1 {
            return false;
        }
        push(dims, NestDim { n, source: from.stride, target: to.stride });
        if n == UNBOUNDED {
            return true;
        }
        for (side, rest) in [(&mut from, &mut sources), (&mut to, &mut targets)] {
            if side.n == n {
                let Some(next) = rest.next() else { return false };
                *side = next;
            } else {
                side.stride = side.stride.wrapping_mul(n as i64);
                side.n = if side.n == UNBOUNDED { UNBOUNDED } else { side.n / n };
            }
        }
    }
}

/// Adds an outer repetition. If it continues the last repetition at the same distance, it lengthens that one
/// instead.
fn push(dims: &mut Dims, next: NestDim) {
    if let Some(last) = dims.last_mut() {
        let goes_on = |inside: i64, outside: i64| inside.checked_mul(last.n as i64) == Some(outside);
        if goes_on(last.source, next.source) && goes_on(last.target, next.target) {
            last.n = if next.n == UNBOUNDED { UNBOUNDED } else { last.n * next.n };
            return;
        }
    }
    dims.push(next);
}
