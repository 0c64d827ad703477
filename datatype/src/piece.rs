//! The pieces that layouts are made of: strided nests over a leaf, with the facts that every algorithm asks for.
//!
//! Every piece is *normal*: its `base` is the offset of its first byte in stream order, and everything inside is relative
//! to that byte. So the shape of a piece is independent of its place, all numbers in it are distances between bytes (and
//! fit in `i64`, as constructors check that true extents do), and equal shapes are found by comparing fingerprints.

use std::mem::size_of_val;
use std::sync::Arc;

use smallvec::SmallVec;

/// `n > 1` repetitions of what is inside, `stride` bytes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) n: u64,
    pub(crate) stride: i64,
    /// Stream bytes of one repetition.
    pub(crate) unit: u64,
}

/// What lies inside of the innermost dimension.
#[derive(Debug, Clone)]
pub(crate) enum Leaf {
    /// One run of that many bytes.
    Block(u64),
    /// Equal bodies at listed displacements.
    Index(Arc<Index>),
    /// Runs of their own lengths at listed displacements.
    VarIndex(Arc<VarIndex>),
    /// Differing pieces, one after the other.
    Sequence(Arc<Sequence>),
}

/// Equal bodies at listed displacements; the first displacement is 0, as is the base of the body.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) displacements: Box<[i64]>,
    pub(crate) body: Piece,
    /// Seams between neighboring bodies at which the runs touch.
    pub(crate) touches: u64,
    shape: u128,
}

/// Runs of their own lengths; the first displacement is 0 and neighbors do not touch.
#[derive(Debug)]
pub(crate) struct VarIndex {
    pub(crate) displacements: Box<[i64]>,
    pub(crate) lengths: Box<[u64]>,
    /// Stream position of every `PREFIX_STEP`-th run.
    prefix: Box<[u64]>,
    shape: u128,
}

/// Differing pieces; the base of the first is 0.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) pieces: Box<[Piece]>,
    /// Stream position of each piece.
    pub(crate) starts: Box<[u64]>,
    shape: u128,
}

const PREFIX_STEP: usize = 32;

/// What is known about a piece; offsets are relative to its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Stream bytes.
    pub(crate) size: u64,
    /// Lowest byte.
    pub(crate) low: i64,
    /// End of the highest byte.
    pub(crate) high: i64,
    /// End of the last byte in stream order.
    pub(crate) end: i64,
    /// Maximal runs: neighbors in the stream that touch in memory count as one.
    pub(crate) blocks: u64,
    /// Greatest common divisor of all distances between runs and of all their lengths.
    pub(crate) granule: u64,
    /// Whether each run begins at or behind the end of the one before.
    pub(crate) monotone: bool,
}

/// A strided nest over a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// Offset of the first byte in stream order.
    pub(crate) base: i64,
    /// Innermost first.
    pub(crate) dims: SmallVec<[Dim; 2]>,
    pub(crate) leaf: Leaf,
    pub(crate) facts: Facts,
}

pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// One step of the fingerprint of shapes: two lanes of multiply and rotate.
pub(crate) fn mix(state: u128, value: u64) -> u128 {
    let (mut high, mut low) = ((state >> 64) as u64, state as u64);
    low = (low ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    low ^= low >> 29;
    high = (high.rotate_left(23) ^ value.wrapping_mul(0xd6e8_feb8_6659_fd93))
        .wrapping_mul(0xff51_afd7_ed55_8ccd);
    high ^= high >> 32;
    (u128::from(high.wrapping_add(low.rotate_left(17))) << 64) | u128::from(low.wrapping_add(high >> 7))
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

    /// The facts of this and then `next`, whose first byte lies at `at`.
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

    /// `body` at each of at least two displacements. The base of the body moves into the displacements.
    pub(crate) fn index(mut displacements: Vec<i64>, mut body: Self) -> Self {
        let first = displacements[0];
        let base = first + body.base;
        body.base = 0;
        let mut facts = body.facts;
        let mut touches = 0;
        let mut shape = mix(body.shape(), 0x1d);
        let mut previous = 0;
        for displacement in &mut displacements {
            *displacement -= first;
            shape = mix(shape, *displacement as u64);
        }
        for &displacement in &displacements[1..] {
            touches += u64::from(previous + body.facts.end == displacement);
            facts = facts.then(&body.facts, displacement);
            previous = displacement;
        }
        let index = Index { displacements: displacements.into(), body, touches, shape };
        Self { base, dims: SmallVec::new(), leaf: Leaf::Index(Arc::new(index)), facts }
    }

    /// At least two runs, none empty, of which no neighbors touch.
    pub(crate) fn var_index(mut displacements: Vec<i64>, lengths: Vec<u64>) -> Self {
        let base = displacements[0];
        let mut facts = Facts::block(lengths[0]);
        let mut prefix = Vec::with_capacity(lengths.len().div_ceil(PREFIX_STEP));
        let (mut shape, mut position) = (0x7a, 0);
        for (i, (displacement, &length)) in displacements.iter_mut().zip(&lengths).enumerate() {
            *displacement -= base;
            if i % PREFIX_STEP == 0 {
                prefix.push(position);
            }
            if i > 0 {
                facts = facts.then(&Facts::block(length), *displacement);
            }
            position += length;
            shape = mix(mix(shape, *displacement as u64), length);
        }
        let (displacements, lengths) = (displacements.into(), lengths.into());
        let leaf = VarIndex { displacements, lengths, prefix: prefix.into(), shape };
        Self { base, dims: SmallVec::new(), leaf: Leaf::VarIndex(Arc::new(leaf)), facts }
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
            Leaf::Sequence(sequence) => sequence.shape,
        }
    }

    /// The fingerprint of everything but the base.
    pub(crate) fn shape(&self) -> u128 {
        self.dims.iter().fold(self.leaf_shape(), |shape, dim| mix(mix(shape, dim.n), dim.stride as u64))
    }

    /// Whether both pieces are the same but for their place.
    pub(crate) fn same_shape(&self, other: &Self) -> bool {
        self.facts == other.facts && self.dims == other.dims && self.shape() == other.shape()
    }

    /// Stream bytes of the leaf alone.
    pub(crate) fn leaf_bytes(&self) -> u64 {
        self.dims.first().map_or(self.facts.size, |dim| dim.unit)
    }

    /// The length of the run, if the piece is one.
    pub(crate) fn as_block(&self) -> Option<u64> {
        match self.leaf {
            Leaf::Block(bytes) if self.dims.is_empty() => Some(bytes),
            _ => None,
        }
    }

    /// The greatest common divisor of the offsets of all runs and of their lengths.
    pub(crate) fn granule(&self) -> u64 {
        gcd(self.facts.granule, self.base.unsigned_abs())
    }
}

impl VarIndex {
    /// The run that holds stream byte `position`, and the position inside of that run. O(log n).
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        let step = self.prefix.partition_point(|&start| start <= position) - 1;
        let (mut entry, mut left) = (step * PREFIX_STEP, position - self.prefix[step]);
        while left >= self.lengths[entry] {
            left -= self.lengths[entry];
            entry += 1;
        }
        (entry, left)
    }

    /// Memory of the lists, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(self)
            + size_of_val(&*self.displacements)
            + size_of_val(&*self.lengths)
            + size_of_val(&*self.prefix)
    }

    /// Stream position of a run. O(1).
    pub(crate) fn start_of(&self, entry: usize) -> u64 {
        let step = entry / PREFIX_STEP;
        self.prefix[step] + self.lengths[step * PREFIX_STEP..entry].iter().sum::<u64>()
    }
}

impl Sequence {
    /// The piece that holds stream byte `position`, and the position inside of that piece. O(log n).
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        let entry = self.starts.partition_point(|&start| start <= position) - 1;
        (entry, position - self.starts[entry])
    }
}
