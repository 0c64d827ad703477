//! The two sides of a copy brought to one nest: common repetitions over a body that is as small as can be.
//!
//! The outermost repetition of a side has no end here, as a copy never leaves its range: so one program serves all counts.

use smallvec::{SmallVec, smallvec};

use super::nest::NestDim;
use super::template::{MOVES_MAX, Template};
use crate::piece::{Dim, Leaf, Piece, gcd};

/// As many repetitions as a range asks for.
const UNBOUNDED: u64 = u64::MAX;
/// A list against consecutive bytes is walked as fast as a template runs; only short ones, repeated, gain.
const LISTED_MOVES_MAX: u64 = 64;

type Dims = SmallVec<[NestDim; 4]>;
type Reps = SmallVec<[Dim; 4]>;

/// Common repetitions over a body.
#[derive(Debug)]
pub(super) struct Aligned {
    pub(super) dims: Dims,
    pub(super) body: AlignedBody,
}

#[derive(Debug)]
pub(super) enum AlignedBody {
    /// A run, and where the first one lies on each side.
    Block {
        bytes: u64,
        source: i64,
        target: i64,
    },
    Template(Template),
}

/// One side: repetitions of a unit, innermost first. Never without one; the last is unbounded.
struct Side<'a> {
    root: &'a Piece,
    reps: Reps,
    /// A single run, however long.
    is_dense: bool,
}

impl<'a> Side<'a> {
    fn new(root: &'a Piece) -> Self {
        let mut reps: Reps = root.dims.iter().copied().collect();
        match reps.last_mut() {
            Some(outermost) => outermost.n = UNBOUNDED,
            // A single instance: there is no second one to place.
            None => reps.push(Dim { n: UNBOUNDED, stride: 0, unit: root.facts.size }),
        }
        Self { root, reps, is_dense: root.as_block().is_some() }
    }

    /// Stream bytes of the leaf.
    fn leaf_bytes(&self) -> u64 {
        self.reps[0].unit
    }

    /// The repetitions of a side of consecutive bytes, which suits any unit.
    fn dense_reps(unit: u64) -> Reps {
        smallvec![Dim { n: UNBOUNDED, stride: unit as i64, unit }]
    }

    /// The repetitions around blocks of `granule` bytes, into which the leaf, a block, falls.
    fn reps_of(&self, granule: u64) -> Reps {
        if self.is_dense {
            return Self::dense_reps(granule);
        }
        let mut reps = self.reps.clone();
        let inside = self.leaf_bytes() / granule;
        if inside > 1 {
            reps.insert(0, Dim { n: inside, stride: granule as i64, unit: granule });
        }
        reps
    }

    /// The repetitions from `level` on, around a unit of `unit` bytes; `None` if the unit is cut by the end of a row.
    fn reps_above(&self, level: usize, unit: u64) -> Option<Reps> {
        if self.is_dense {
            return Some(Self::dense_reps(unit));
        }
        let mut reps: Reps = self.reps[level..].iter().copied().collect();
        let rep = &mut reps[0];
        let inside = unit / rep.unit;
        if rep.n != UNBOUNDED {
            if !rep.n.is_multiple_of(inside) {
                return None;
            }
            rep.n /= inside;
        }
        rep.stride = rep.stride.wrapping_mul(inside as i64);
        rep.unit = unit;
        if rep.n == 1 {
            reps.remove(0);
        }
        Some(reps)
    }

    /// At most so many runs in one unit of `level`.
    fn runs_at(&self, level: usize) -> u64 {
        if self.is_dense {
            return 0;
        }
        let outside =
            self.root.dims.iter().skip(level).fold(1_u64, |product, dim| product.saturating_mul(dim.n));
        self.root.facts.blocks.div_ceil(outside)
    }

    /// The first `bytes` bytes behind `phase` as a piece: whole units of `level`.
    fn cut(&self, level: usize, bytes: u64) -> Piece {
        let mut piece = self.root.clone();
        if self.is_dense {
            return Piece::block(piece.base, bytes);
        }
        let rep = self.reps[level];
        let n = bytes.div_ceil(rep.unit);
        piece.dims.truncate(level);
        if n > 1 {
            piece.dims.push(Dim { n, ..rep });
        }
        piece.facts.size = rep.unit.saturating_mul(n);
        piece
    }
}

/// Both sides as one nest, where stream byte 0 of the target meets byte `phase` of the source; `None` where the body would
/// be long, so that two walkers do as well. O(description), and O(moves) for a template.
pub(super) fn align(source: &Piece, target: &Piece, phase: u64) -> Option<Aligned> {
    let (from, to) = (Side::new(source), Side::new(target));
    if phase == 0
        && let Some(aligned) = align_blocks(&from, &to)
    {
        return Some(aligned);
    }
    let fit = best_fit(&from, &to, phase)?;
    let (from, to) = (from.cut(fit.source_level, phase + fit.unit), to.cut(fit.target_level, fit.unit));
    let template = Template::new((&from, phase), &to, fit.unit)?;
    Some(Aligned { dims: fit.dims, body: AlignedBody::Template(template) })
}

/// Where both leaves are blocks: blocks of the greatest length that divides both.
fn align_blocks(from: &Side<'_>, to: &Side<'_>) -> Option<Aligned> {
    let is_block = |side: &Side<'_>| matches!(side.root.leaf, Leaf::Block(_));
    if !is_block(from) || !is_block(to) {
        return None;
    }
    let bytes = match (from.is_dense, to.is_dense) {
        (_, true) => from.leaf_bytes(),
        (true, false) => to.leaf_bytes(),
        (false, false) => gcd(from.leaf_bytes(), to.leaf_bytes()),
    };
    let dims = common(&from.reps_of(bytes), &to.reps_of(bytes))?;
    let body = AlignedBody::Block { bytes, source: from.root.base, target: to.root.base };
    Some(Aligned { dims, body })
}

/// A template that could be.
struct Fit {
    source_level: usize,
    target_level: usize,
    /// Stream bytes of the template.
    unit: u64,
    dims: Dims,
}

/// The shortest template around which the repetitions of both sides are the same.
fn best_fit(from: &Side<'_>, to: &Side<'_>, phase: u64) -> Option<Fit> {
    let levels = |side: &Side<'_>| if side.is_dense { 1 } else { side.reps.len() };
    // Behind a phase, only the unbounded repetition is one that has no seam.
    let first = if phase > 0 { levels(from) - 1 } else { 0 };
    let mut best: Option<Fit> = None;
    for source_level in first..levels(from) {
        for target_level in 0..levels(to) {
            let Some(unit) = common_unit(from, to, (source_level, target_level)) else { continue };
            if best.as_ref().is_some_and(|best| best.unit <= unit) {
                continue;
            }
            let reps = (from.reps_above(source_level, unit), to.reps_above(target_level, unit));
            let (Some(source_reps), Some(target_reps)) = reps else { continue };
            if let Some(dims) = common(&source_reps, &target_reps) {
                best = Some(Fit { source_level, target_level, unit, dims });
            }
        }
    }
    best
}

/// The least common multiple of the units of two levels, if it is of few moves.
fn common_unit(from: &Side<'_>, to: &Side<'_>, levels: (usize, usize)) -> Option<u64> {
    let (a, b) = (from.reps[levels.0].unit, to.reps[levels.1].unit);
    let unit = match (from.is_dense, to.is_dense) {
        (_, true) => a,
        (true, false) => b,
        (false, false) => (a / gcd(a, b)).checked_mul(b)?,
    };
    let runs =
        |side: &Side<'_>, level: usize, own: u64| side.runs_at(level).checked_mul(unit / own.min(unit));
    let moves = runs(from, levels.0, a)?.checked_add(runs(to, levels.1, b)?)?;
    let max = if from.is_dense || to.is_dense { LISTED_MOVES_MAX } else { MOVES_MAX as u64 };
    (moves <= max && i64::try_from(unit).is_ok()).then_some(unit)
}

/// The repetitions that two sides with one unit share: counts are split until both have the same.
fn common(source: &[Dim], target: &[Dim]) -> Option<Dims> {
    let (mut sources, mut targets) = (source.iter().copied(), target.iter().copied());
    let (mut from, mut to) = (sources.next()?, targets.next()?);
    let mut dims = Dims::new();
    loop {
        let n = match (from.n, to.n) {
            (UNBOUNDED, n) | (n, UNBOUNDED) => n,
            (a, b) => gcd(a, b),
        };
        if n == 1 {
            return None;
        }
        push(&mut dims, NestDim { n, source: from.stride, target: to.stride });
        if n == UNBOUNDED {
            return Some(dims);
        }
        for (side, rest) in [(&mut from, &mut sources), (&mut to, &mut targets)] {
            if side.n == n {
                *side = rest.next()?;
            } else {
                side.stride = side.stride.wrapping_mul(n as i64);
                side.n = if side.n == UNBOUNDED { UNBOUNDED } else { side.n / n };
            }
        }
    }
}

/// Adds an outer repetition; one that goes on where the one inside ends makes that longer.
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
