//! Whether two bytes of a piece lie at the same place.

use std::collections::HashSet;
use std::sync::Arc;

use crate::layout::Layout;
use crate::piece::{Dim, Leaf, Piece};
use crate::walk::Walker;

/// Pieces of at most this many runs are compared run by run.
const LISTED_RUNS: u64 = 65_536;

/// Exact for monotone pieces and for pieces of few runs. Conservative (`true`) for other pieces whose parts
/// interleave.
pub(crate) fn overlaps(piece: &Piece) -> bool {
    if piece.facts.blocks <= LISTED_RUNS && !piece.facts.monotone {
        return runs_overlap(piece);
    }
    overlaps_inside(piece, &mut HashSet::new())
}

/// Instances of at most this many runs are compared run by run.
const COMPARED_RUNS: u64 = 4096;

/// Whether two bytes of `root`, which is some instances of `layout`, may lie at the same place. The answer
/// is conservative and quick: where parts interleave, each run of the leaf is compared together with all
/// its repetitions.
pub(crate) fn meets_itself(layout: &Layout, root: &Piece) -> bool {
    if root.facts.monotone {
        return false;
    }
    if !dims_overlap(root) {
        return layout.has_overlap();
    }
    let leaf = Piece { base: 0, dims: smallvec::SmallVec::new(), ..root.clone() };
    let runs = root.facts.blocks.div_ceil(root.dims.iter().fold(1, |n, dim| n * dim.n));
    if runs <= COMPARED_RUNS && !rows_overlap(root, leaf) {
        return false;
    }
    root.facts.blocks > COMPARED_RUNS || runs_overlap(root)
}

/// Whether the rows that result from repeating the runs of a leaf may overlap: a row with itself, or rows
/// with each other.
fn rows_overlap(root: &Piece, mut leaf: Piece) -> bool {
    leaf.facts.size = root.leaf_bytes();
    let (mut hulls, mut longest) = (Vec::new(), 0);
    let (mut below, mut above) = (0, 0);
    for dim in &root.dims {
        let reach = dim.stride.wrapping_mul(dim.n as i64 - 1);
        below += reach.min(0);
        above += reach.max(0);
    }
    let mut walker = Walker::new(&leaf, 0, leaf.facts.size);
    while let Some(span) = walker.next_span() {
        span.for_each(|offset, bytes| {
            hulls.push((offset + below, offset + bytes as i64 + above));
            longest = longest.max(bytes);
        });
    }
    let mut row = Piece::block(0, longest);
    row.facts.low = below;
    row.facts.high = longest as i64 + above;
    row.dims.clone_from(&root.dims);
    any_overlap(hulls) || dims_overlap(&row)
}

/// `apart` holds the addresses of leaves without overlap. Leaves are shared, and each leaf is examined
/// once.
fn overlaps_inside(piece: &Piece, apart: &mut HashSet<usize>) -> bool {
    if piece.facts.monotone {
        return false;
    }
    leaf_overlaps(&piece.leaf, apart) || dims_overlap(piece)
}

fn runs_overlap(piece: &Piece) -> bool {
    let mut runs = Vec::with_capacity(piece.facts.blocks as usize);
    let mut walker = Walker::new(piece, 0, piece.facts.size);
    while let Some(span) = walker.next_span() {
        span.for_each(|offset, bytes| runs.push((offset, offset + bytes as i64)));
    }
    any_overlap(runs)
}

fn any_overlap(mut hulls: Vec<(i64, i64)>) -> bool {
    hulls.sort_unstable();
    hulls.windows(2).any(|pair| pair[0].1 > pair[1].0)
}

fn leaf_overlaps(leaf: &Leaf, apart: &mut HashSet<usize>) -> bool {
    let address = match leaf {
        // The units of a bitmap rise, so they do not overlap.
        Leaf::Block(_) | Leaf::Bitmap(_) => return false,
        Leaf::Index(index) => Arc::as_ptr(index).addr(),
        Leaf::VarIndex(index) => Arc::as_ptr(index).addr(),
        Leaf::Sequence(sequence) => Arc::as_ptr(sequence).addr(),
    };
    if apart.contains(&address) {
        return false;
    }
    let overlap = match leaf {
        Leaf::Block(_) | Leaf::Bitmap(_) => false,
        Leaf::Index(index) => {
            let (low, high) = (index.body.facts.low, index.body.facts.high);
            let hulls = index.displacements.as_slice().iter().map(|at| (at + low, at + high)).collect();
            overlaps_inside(&index.body, apart) || any_overlap(hulls)
        }
        Leaf::VarIndex(index) => {
            let runs = index.runs.as_slice().iter();
            any_overlap(runs.map(|(at, bytes)| (at, at + bytes as i64)).collect())
        }
        Leaf::Sequence(sequence) => {
            let hull = |piece: &Piece| (piece.base + piece.facts.low, piece.base + piece.facts.high);
            sequence.pieces.iter().any(|piece| overlaps_inside(piece, apart))
                || any_overlap(sequence.pieces.iter().map(hull).collect())
        }
    };
    if !overlap {
        apart.insert(address);
    }
    overlap
}

/// Whether runs of `bytes` bytes in two dimensions overlap; `None` if both dimensions are too long to
/// decide. Exact: for each distance in the shorter dimension, the nearest distance in the longer dimension
/// is examined.
fn two_dims_meet(one: &Dim, other: &Dim, bytes: u64) -> Option<bool> {
    let (short, long) = if one.n < other.n { (one, other) } else { (other, one) };
    if short.n > LISTED_RUNS {
        return None;
    }
    let (stride, last) = (i128::from(long.stride), i128::from(long.n) - 1);
    let near = |distance: i128| distance.unsigned_abs() < u128::from(bytes);
    if near(stride) {
        return Some(true);
    }
    // `stride` is not 0 here, because a stride of 0 would have been near.
    let meets = |steps: u64| {
        let distance = i128::from(steps) * i128::from(short.stride);
        let below = distance.div_euclid(stride);
        [below, below + 1].into_iter().any(|steps| near(distance - steps.clamp(-last, last) * stride))
    };
    Some((1..short.n).any(meets))
}

/// Whether repetitions may overlap. They do not if each stride spans everything that the smaller strides
/// reach.
fn dims_overlap(piece: &Piece) -> bool {
    if let (Leaf::Block(bytes), [one, other]) = (&piece.leaf, &piece.dims[..])
        && let Some(meet) = two_dims_meet(one, other, *bytes)
    {
        return meet;
    }
    let reach = |dim: &Dim| u128::from(dim.stride.unsigned_abs()) * u128::from(dim.n - 1);
    let hull = piece.facts.high.abs_diff(piece.facts.low);
    let mut span = u128::from(hull) - piece.dims.iter().map(reach).sum::<u128>();
    let mut dims: smallvec::SmallVec<[&crate::piece::Dim; 4]> = piece.dims.iter().collect();
    dims.sort_unstable_by_key(|dim| dim.stride.unsigned_abs());
    dims.into_iter().any(|dim| {
        let meets = u128::from(dim.stride.unsigned_abs()) < span;
        span += reach(dim);
        meets
    })
}
