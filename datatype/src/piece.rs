//! The pieces that layouts are made of: strided nests over a leaf, with the facts that every algorithm
//! needs.
//!
//! Every piece is *normal*: its `base` is the offset of its first byte in stream order, and everything
//! inside is relative to that byte. The shape of a piece is therefore independent of its place, and all
//! numbers in a shape are distances between bytes. These distances fit in `i64`, because the constructors
//! check that true extents do. Fingerprints make it cheap to find equal shapes.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::bitmap::{Bitmap, bitmap_bytes};
use crate::facts::{common_part, list_facts, list_shape, table_facts, table_shape};
use crate::lists::{DisplacementList, Place, RunSlice, RunTable, Start, Table};

/// `n > 1` repetitions of the inner part, `stride` bytes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) n: u64,
    pub(crate) stride: i64,
    /// Stream bytes of one repetition.
    pub(crate) unit: u64,
}

/// The part inside the innermost dimension.
#[derive(Debug, Clone)]
pub(crate) enum Leaf {
    /// One run of this many bytes.
    Block(u64),
    /// Equal bodies at listed displacements.
    Index(Arc<Index>),
    /// Runs at listed displacements, with individual lengths.
    VarIndex(Arc<VarIndex>),
    /// Dense equal units in rising order, with one bit for each place.
    Bitmap(Arc<Bitmap>),
    /// Different pieces, one after the other.
    Sequence(Arc<Sequence>),
}

/// Equal bodies at listed displacements. The first displacement and the base of the body are 0. Bodies that
/// are runs touch their neighbors only where a list of runs was cut into equal parts.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) displacements: DisplacementList,
    pub(crate) body: Piece,
    pub(crate) touches: Touches,
    shape: u128,
}

/// The seams between consecutive bodies of a list at which the runs touch.
#[derive(Debug)]
pub(crate) struct Touches {
    /// Number of touching seams before every `TOUCHES_STEP`-th seam. Empty if no seam touches.
    before: Box<[u64]>,
}

const TOUCHES_STEP: usize = 256;

impl Touches {
    /// The touching seams of bodies that end `end` bytes after their displacements. `count` is the number
    /// of touching seams.
    fn new<P: Place>(displacements: &[P], end: i64, count: u64) -> Self {
        if count == 0 {
            return Self { before: Box::default() };
        }
        let (mut sum, mut before) = (0, Vec::with_capacity(displacements.len() / TOUCHES_STEP + 1));
        for (seam, pair) in displacements.windows(2).enumerate() {
            if seam.is_multiple_of(TOUCHES_STEP) {
                before.push(sum);
            }
            sum += u64::from(pair[0].wide() + end == pair[1].wide());
        }
        if (displacements.len() - 1).is_multiple_of(TOUCHES_STEP) {
            before.push(sum);
        }
        Self { before: before.into() }
    }

    /// Whether any seam touches.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.before.is_empty()
    }

    /// Heap memory, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.before)
    }
}

impl Index {
    /// Whether the runs touch at the seam after `entry`, which must not be the last entry.
    #[inline]
    pub(crate) fn touches_behind(&self, entry: usize) -> bool {
        let at = |entry: usize| self.displacements.get(entry);
        self.touches.any() && at(entry) + self.body.facts.end == at(entry + 1)
    }

    /// Number of touching seams among the first `seams` seams. O(1).
    pub(crate) fn touches_in(&self, seams: usize) -> u64 {
        let Some(before) = self.touches.before.get(seams / TOUCHES_STEP) else { return 0 };
        let from = seams / TOUCHES_STEP * TOUCHES_STEP;
        before + (from..seams).filter(|&entry| self.touches_behind(entry)).count() as u64
    }
}

/// Runs with individual lengths. The first displacement is 0, and neighbors do not touch.
#[derive(Debug)]
pub(crate) struct VarIndex {
    pub(crate) runs: RunTable,
    shape: u128,
}

/// Different pieces, one after the other. The base of the first piece is 0.
pub(crate) struct Sequence {
    pub(crate) pieces: Box<[Piece]>,
    /// Stream position of each piece.
    pub(crate) starts: Box<[u64]>,
    shape: u128,
}

/// Prints only some pieces of some levels, because parts are shared: a layout that is printed in full can
/// be exponentially longer than its description. The number of levels that remain is passed on as the
/// precision, which no number here uses.
impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = f.precision().unwrap_or(3);
        write!(f, "Sequence of {} pieces, shape {:#x}", self.pieces.len(), self.shape)?;
        let shown = if levels == 0 { 0 } else { 8 };
        self.pieces.iter().take(shown).try_for_each(|piece| write!(f, ", {piece:.*?}", levels - 1))
    }
}

/// The known facts of a piece. Offsets are relative to the first byte of the piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Stream bytes.
    pub(crate) size: u64,
    /// Offset of the lowest byte.
    pub(crate) low: i64,
    /// Offset of the end of the highest byte.
    pub(crate) high: i64,
    /// Offset of the end of the last byte in stream order.
    pub(crate) end: i64,
    /// Number of maximal runs: neighbors in the stream that touch in memory count as one run.
    pub(crate) blocks: u64,
    /// Greatest common divisor of all distances between runs and of all their lengths.
    pub(crate) granule: u64,
    /// Whether each run begins at or after the end of the run before it.
    pub(crate) monotone: bool,
}

/// A strided nest over a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// Offset of the first byte in stream order.
    pub(crate) base: i64,
    /// The dimensions, innermost first.
    pub(crate) dims: SmallVec<[Dim; 2]>,
    pub(crate) leaf: Leaf,
    pub(crate) facts: Facts,
}

fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

impl Dim {
    /// Whether an outer repetition at distance `stride` continues this dimension, so that the two form one
    /// dimension.
    pub(crate) fn is_gone_on_with(&self, stride: i64) -> bool {
        i128::from(self.n) * i128::from(self.stride) == i128::from(stride)
    }
}

pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    // Most sizes are powers of two, and divisions are slow.
    if a.is_power_of_two() {
        return 1 << a.trailing_zeros().min(b.trailing_zeros());
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// One step of the fingerprint of shapes: two lanes of multiplication and rotation.
pub(crate) fn mix(state: u128, value: u64) -> u128 {
    let (mut high, mut low) = ((state >> 64) as u64, state as u64);
    low = (low ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    low ^= low >> 29;
    high = (high.rotate_left(23) ^ value.wrapping_mul(0xd6e8_feb8_6659_fd93))
        .wrapping_mul(0xff51_afd7_ed55_8ccd);
    high ^= high >> 32;
    (u128::from(high.wrapping_add(low.rotate_left(17))) << 64) | u128::from(low.wrapping_add(high >> 7))
}

/// Lists of fewer runs do not become bitmaps.
const BITMAP_RUNS_MIN: u64 = 64;
/// Lists with more units per run do not become bitmaps, because long runs are faster to copy as runs.
const BITMAP_UNITS_PER_RUN_MAX: u64 = 4;
/// At least one of this many places must hold a unit.
const BITMAP_SPARSE_MAX: u64 = 4;

/// The unit of the bitmap that replaces a list of runs which takes `list_bytes` bytes of memory; `None` if
/// the list is better.
fn bitmap_unit(facts: &Facts, list_bytes: usize) -> Option<u64> {
    if !facts.monotone || facts.blocks < BITMAP_RUNS_MIN {
        return None;
    }
    let unit = [8, 4].into_iter().find(|&unit| facts.granule.is_multiple_of(unit))?;
    let (places, units) = (facts.high as u64 / unit, facts.size / unit);
    let dense = u32::try_from(places).is_ok() && units >= places.div_ceil(BITMAP_SPARSE_MAX);
    let short = units <= facts.blocks * BITMAP_UNITS_PER_RUN_MAX;
    (dense && short && bitmap_bytes(places) < list_bytes as u64).then_some(unit)
}

impl Facts {
    fn block(bytes: u64) -> Self {
        let end = bytes as i64;
        Self { size: bytes, low: 0, high: end, end, blocks: 1, granule: bytes, monotone: true }
    }

    /// The facts of `n > 1` repetitions, `stride` bytes apart.
    pub(crate) fn repeated(&self, n: u64, stride: i64) -> Self {
        let reach = stride.wrapping_mul((n - 1) as i64);
        let touches = if self.end == stride { n - 1 } else { 0 };
        Self {
            size: self.size * n,
            low: self.low + reach.min(0),
            high: self.high + reach.max(0),
            end: self.end + reach,
            blocks: self.blocks * n - touches,
            granule: gcd(self.granule, stride.unsigned_abs()),
            monotone: self.monotone && stride >= self.end,
        }
    }

    /// The facts of this piece followed by `next`, whose first byte lies at `at`.
    pub(crate) fn then(&self, next: &Self, at: i64) -> Self {
        Self {
            size: self.size + next.size,
            low: self.low.min(at + next.low),
            high: self.high.max(at + next.high),
            end: at + next.end,
            blocks: self.blocks + next.blocks - u64::from(self.end == at),
            granule: gcd(gcd(self.granule, next.granule), at.unsigned_abs()),
            monotone: self.monotone && next.monotone && self.end <= at,
        }
    }
}

impl Piece {
    /// One run.
    pub(crate) fn block(base: i64, bytes: u64) -> Self {
        Self { base, dims: SmallVec::new(), leaf: Leaf::Block(bytes), facts: Facts::block(bytes) }
    }

    /// `body` at each of at least two displacements. The first displacement and the base of the body are 0.
    pub(crate) fn index<P: Place>(displacements: Vec<P>, body: Self) -> Self {
        let (facts, touches) = list_facts(&displacements, &body.facts);
        let list_bytes = size_of_val(&*displacements);
        if let (Some(bytes), Some(unit)) = (body.as_block(), bitmap_unit(&facts, list_bytes)) {
            let runs = displacements.iter().map(|at| (at.wide(), bytes));
            return Self::bitmap(Bitmap::new(unit, facts.high, runs), facts);
        }
        Self::listed(displacements, body, (facts, touches))
    }

    /// As [`Piece::index`], with known facts and a known number of touching seams. The result is always a
    /// list, never a bitmap.
    fn listed<P: Place>(displacements: Vec<P>, body: Self, (facts, touches): (Facts, u64)) -> Self {
        let touches = Touches::new(&displacements, body.facts.end, touches);
        let shape = list_shape(&displacements, body.shape());
        let index = Index { displacements: P::boxed(displacements), body, touches, shape };
        Self { base: 0, dims: SmallVec::new(), leaf: Leaf::Index(Arc::new(index)), facts }
    }

    /// At least two nonempty runs, of which no neighbors touch. The first displacement is 0. `starts` holds
    /// the stream position of each run, and as last entry the length of the stream.
    pub(crate) fn var_index<S: Start>(displacements: Vec<S::Place>, starts: Vec<S>) -> Self {
        let facts = table_facts(&displacements, &starts);
        if let Some(unit) = bitmap_unit(&facts, size_of_val(&*displacements) + size_of_val(&*starts)) {
            let runs = RunSlice { displacements: &displacements, starts: &starts };
            return Self::bitmap(Bitmap::new(unit, facts.high, runs.iter()), facts);
        }
        if let Some(part) = common_part(&starts) {
            let cut = RunSlice::<S> { displacements: &displacements, starts: &starts }.cut(part);
            let body = Self::block(0, part);
            let known = list_facts(&cut, &body.facts);
            return Self::listed(cut, body, known);
        }
        let shape = table_shape(&displacements, &starts);
        let leaf = VarIndex { runs: S::boxed(Table::new(displacements, starts)), shape };
        Self { base: 0, dims: SmallVec::new(), leaf: Leaf::VarIndex(Arc::new(leaf)), facts }
    }

    fn bitmap(bitmap: Bitmap, facts: Facts) -> Self {
        Self { base: 0, dims: SmallVec::new(), leaf: Leaf::Bitmap(Arc::new(bitmap)), facts }
    }

    /// At least two pieces, one after the other.
    pub(crate) fn sequence(mut pieces: Vec<Self>) -> Self {
        let base = pieces[0].base;
        let mut starts = Vec::with_capacity(pieces.len());
        let mut facts = pieces[0].facts;
        let (mut shape, mut position) = (0x5e, 0);
        for (i, piece) in pieces.iter_mut().enumerate() {
            piece.base -= base;
            starts.push(position);
            position += piece.facts.size;
            if i > 0 {
                facts = facts.then(&piece.facts, piece.base);
            }
            let inner = piece.shape();
            shape = mix(mix(mix(shape, piece.base as u64), inner as u64), (inner >> 64) as u64);
        }
        let leaf = Sequence { pieces: pieces.into(), starts: starts.into(), shape };
        Self { base, dims: SmallVec::new(), leaf: Leaf::Sequence(Arc::new(leaf)), facts }
    }

    /// The fingerprint of the leaf alone.
    pub(crate) fn leaf_shape(&self) -> u128 {
        match &self.leaf {
            Leaf::Block(bytes) => mix(0xb1, *bytes),
            Leaf::Index(index) => index.shape,
            Leaf::VarIndex(index) => index.shape,
            Leaf::Bitmap(bitmap) => bitmap.shape(),
            Leaf::Sequence(sequence) => sequence.shape,
        }
    }

    /// The fingerprint of the piece without its base.
    pub(crate) fn shape(&self) -> u128 {
        self.dims.iter().fold(self.leaf_shape(), |shape, dim| mix(mix(shape, dim.n), dim.stride as u64))
    }

    /// Whether both pieces are equal except for their place. The answer is exact: fingerprints only reject
    /// different pieces quickly.
    pub(crate) fn same_shape(&self, other: &Self) -> bool {
        self.is_like(other, &mut HashSet::new())
    }

    /// As [`Piece::same_shape`]. `known` holds the pairs of shared parts that were compared before. Such a
    /// pair is not compared again, so that the time is linear however often a part occurs.
    fn is_like(&self, other: &Self, known: &mut HashSet<(usize, usize)>) -> bool {
        if self.facts != other.facts || self.dims != other.dims {
            return false;
        }
        let mut is_new = |left: usize, right: usize| left != right && known.insert((left, right));
        match (&self.leaf, &other.leaf) {
            (Leaf::Block(left), Leaf::Block(right)) => left == right,
            (Leaf::Index(left), Leaf::Index(right)) => {
                !is_new(address(left), address(right))
                    || (left.shape == right.shape
                        && left.displacements == right.displacements
                        && left.body.is_like(&right.body, known))
            }
            (Leaf::VarIndex(left), Leaf::VarIndex(right)) => {
                Arc::ptr_eq(left, right) || (left.shape == right.shape && left.runs == right.runs)
            }
            (Leaf::Bitmap(left), Leaf::Bitmap(right)) => Arc::ptr_eq(left, right) || left == right,
            (Leaf::Sequence(left), Leaf::Sequence(right)) => {
                let mut pairs = left.pieces.iter().zip(&right.pieces);
                !is_new(address(left), address(right))
                    || (left.shape == right.shape
                        && left.pieces.len() == right.pieces.len()
                        && pairs.all(|(left, right)| left.base == right.base && left.is_like(right, known)))
            }
            _ => false,
        }
    }

    /// Stream bytes of the leaf alone.
    pub(crate) fn leaf_bytes(&self) -> u64 {
        self.dims.first().map_or(self.facts.size, |dim| dim.unit)
    }

    /// The length of the run in bytes, if the piece is a single run.
    pub(crate) fn as_block(&self) -> Option<u64> {
        match self.leaf {
            Leaf::Block(bytes) if self.dims.is_empty() => Some(bytes),
            _ => None,
        }
    }

    /// The greatest common divisor of the offsets and the lengths of all runs.
    pub(crate) fn granule(&self) -> u64 {
        gcd(self.facts.granule, self.base.unsigned_abs())
    }
}

impl Sequence {
    /// The piece that holds stream byte `position`, and the position within that piece. O(log n).
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        let entry = self.starts.partition_point(|&start| start <= position) - 1;
        (entry, position - self.starts[entry])
    }
}
