//! The canonical layout of a type.

use std::collections::HashSet;
use std::mem::{size_of, size_of_val};
use std::sync::{Arc, OnceLock};

use crate::bounds::Bounds;
use crate::copy::Kept;
use crate::overlap::overlaps;
use crate::piece::{Leaf, Piece};

/// A run of consecutive bytes, in memory or in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// First byte, in bytes from the base address.
    pub offset: i64,
    /// Length in bytes.
    pub len: u64,
}

impl Run {
    /// End of the last byte, in bytes from the base address.
    pub fn end(&self) -> i64 {
        self.offset + self.len as i64
    }
}

/// The canonical, order-preserving form of a type: the places of its bytes, in the order of the type map.
///
/// A layout is symbolic: its memory follows the description of the type, never the number of its runs. Two
/// layouts are equal if they have the same bounds and were rewritten to the same form. Types of up to 32
/// runs with the same runs always have the same form.
///
/// ```
/// use capulet_datatype::{Datatype, Named};
/// let float = Datatype::named(Named::Float);
/// let huge = Datatype::vector(100_000_000, 1, 2, &float)?;
/// assert_eq!(huge.layout().block_count(), 100_000_000);
/// assert!(huge.layout().is_monotone() && huge.layout().heap_bytes() < 1024);
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug)]
pub struct Layout {
    root: Option<Piece>,
    bounds: Bounds,
    overlap: OnceLock<bool>,
    kept: Kept,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        let same_bytes = match (&self.root, &other.root) {
            (Some(left), Some(right)) => left.base == right.base && left.same_shape(right),
            (None, None) => true,
            _ => false,
        };
        same_bytes && self.bounds == other.bounds
    }
}

impl Eq for Layout {}

impl Layout {
    /// The layout with the settled piece `root`; `None` if there is no data.
    pub(crate) fn new(root: Option<Piece>, bounds: Bounds) -> Self {
        Self { root, bounds, overlap: OnceLock::new(), kept: Kept::default() }
    }

    pub(crate) fn root(&self) -> Option<&Piece> {
        self.root.as_ref()
    }

    /// The data that the copy functions keep with the layout.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Numbers that are the same for equal layouts and differ for different ones. Bounds do not enter.
    pub(crate) fn fingerprint(&self) -> [u64; 4] {
        let Some(root) = &self.root else { return [0; 4] };
        let shape = root.shape();
        [root.base as u64, root.facts.size, shape as u64, (shape >> 64) as u64]
    }

    /// Bytes of data in one instance.
    pub fn size(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.facts.size)
    }

    /// The distance between two consecutive instances, in bytes. It may be negative.
    pub fn extent(&self) -> i64 {
        self.bounds.extent()
    }

    /// Lower bound, in bytes.
    pub fn lb(&self) -> i64 {
        self.bounds.lb
    }

    /// Offset of the lowest byte of data, in bytes; 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.bounds.true_lb
    }

    /// Offset of the end of the highest byte of data, in bytes; 0 without data.
    pub fn true_ub(&self) -> i64 {
        self.bounds.true_ub
    }

    /// Whether one instance is a single run as long as the extent, so that any number of instances is a
    /// single run.
    pub fn is_dense(&self) -> bool {
        let block = self.root.as_ref().and_then(Piece::as_block);
        block.is_some_and(|bytes| i64::try_from(bytes) == Ok(self.extent()))
    }

    /// Whether each byte of an instance lies after all bytes that precede it in the stream: offsets rise,
    /// and no bytes overlap. Exact; O(1).
    pub fn is_monotone(&self) -> bool {
        self.root.as_ref().is_none_or(|root| root.facts.monotone)
    }

    /// Whether two bytes of one instance may lie at the same place. The answer is exact for monotone
    /// layouts (`false`), for one strided dimension, for two dimensions of which one has at most 65,536
    /// steps, for index lists of runs, and for up to 65,536 runs. Of other layouts, those whose parts
    /// interleave are reported as overlapping: three and more dimensions, or lists of bodies with holes,
    /// where the hulls meet although the bytes do not. Computed at the first call, and kept.
    pub fn has_overlap(&self) -> bool {
        *self.overlap.get_or_init(|| self.root.as_ref().is_some_and(overlaps))
    }

    /// The exact number of maximal runs of one instance: neighbors in the stream that touch in memory count
    /// as one run. O(1).
    pub fn block_count(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.facts.blocks)
    }

    /// Memory that the layout holds, in bytes. The layout itself and the parts that it shares with other
    /// layouts count too.
    ///
    /// A layout takes at most some hundred bytes (1,280 where nodes nest), and for each listed run:
    /// * 4 bytes if all runs have one length and lie within 2 GiB, else 8. If nearly all runs have one
    ///   length, this holds for each part of a run.
    /// * if the runs have different lengths, 8 bytes where they lie within 2 GiB and hold no more than 2
    ///   GiB of data, else 16; besides, a directory of 4 bytes for every 64 runs or more.
    ///
    /// Dense lists take at most one and a half bits for each place. Strided parts and parts that recur take
    /// nothing.
    ///
    /// Apart from nodes and directory, a list is therefore never larger than its arguments at 8 bytes each.
    /// Where the runs lie within 2 GiB, it is not larger than the arguments at 4 bytes each either (the
    /// `int`s of an MPI program). An `int` counts elements, so runs may lie further apart; then the list
    /// takes twice the memory of the `int`s.
    pub fn heap_bytes(&self) -> usize {
        let mut seen = HashSet::new();
        size_of::<Self>() + self.root.as_ref().map_or(0, |root| heap_bytes(root, &mut seen))
    }
}

/// Heap memory of a piece, in bytes. Shared parts count once.
fn heap_bytes(piece: &Piece, seen: &mut HashSet<usize>) -> usize {
    let dims = if piece.dims.spilled() { size_of_val(piece.dims.as_slice()) } else { 0 };
    let mut first = |address: usize| seen.insert(address);
    dims + match &piece.leaf {
        Leaf::Index(index) if first(Arc::as_ptr(index).addr()) => {
            let list = index.displacements.heap_bytes() + index.touches.heap_bytes();
            size_of_val(&**index) + list + heap_bytes(&index.body, seen)
        }
        Leaf::VarIndex(index) if first(Arc::as_ptr(index).addr()) => {
            size_of_val(&**index) + index.runs.heap_bytes()
        }
        Leaf::Bitmap(bitmap) if first(Arc::as_ptr(bitmap).addr()) => {
            size_of_val(&**bitmap) + bitmap.heap_bytes()
        }
        Leaf::Sequence(sequence) if first(Arc::as_ptr(sequence).addr()) => {
            let own =
                size_of_val(&**sequence) + size_of_val(&*sequence.pieces) + size_of_val(&*sequence.starts);
            own + sequence.pieces.iter().map(|piece| heap_bytes(piece, seen)).sum::<usize>()
        }
        // A run, or a part that was counted before.
        _ => 0,
    }
}
