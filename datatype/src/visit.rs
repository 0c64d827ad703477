//! Leaf functions over any part of a stream: the toolkit of `MPITypes` (section 3.2 of its paper) for Rust.
//!
//! A [`Segment`] walks the canonical form of a type and calls one function of a [`LeafVisitor`] for each
//! *leaf*: a run, a row of equal runs, equal runs at listed places, or runs with listed places and lengths.
//! As in the paper, a visitor that implements only the first of the four functions works on every type. The
//! other three exist for speed.
//!
//! Each leaf holds whole basic elements of one kind, and names this kind. A leaf therefore ends where the
//! kind of the elements changes. An element that the range cuts is reported as bytes. Leaves come in stream
//! order, and their bytes together are exactly the range. Neighboring leaves may touch in memory; a
//! [`crate::Cursor`] returns maximal runs. Long lists come in parts.
//!
//! Cost: O(depth + log n) to start, then one call for each leaf. Each change of the kind of elements costs
//! O(depth + log n) again. Nothing is allocated.

use std::ops::{ControlFlow, Range};

use crate::elements::Elements;
use crate::error::Result;
use crate::named::{Prim, PrimKind};
use crate::piece::Piece;
use crate::signature::Signature;
use crate::tiled::Tiled;
use crate::tree::Datatype;
use crate::walk::{Span, Walker};

/// The result of a leaf function. It stands for `blocks_p` and the result of the paper's leaf functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow<B> {
    /// The leaf is done, and the walk continues.
    Continue,
    /// The walk stops. The position of the segment is then the end of the bytes that are done, and a later
    /// call can continue there.
    Stop {
        /// Bytes of this leaf that are done, in stream order. A number beyond the leaf counts as the whole
        /// leaf.
        bytes: u64,
        /// The value for the caller of the segment.
        because: B,
    },
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contig {
    /// Offset of the first byte, in bytes from the base address.
    pub offset: i64,
    /// Length in bytes: whole elements, at least one.
    pub bytes: u64,
    /// The kind of all elements.
    pub element: Prim,
}

/// Equal runs at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    /// Offset of the first byte of the first run, in bytes from the base address.
    pub offset: i64,
    /// Number of runs, at least 2.
    pub count: u64,
    /// Length of each run in bytes: whole elements.
    pub block_bytes: u64,
    /// Distance from run to run in bytes. It may be negative, zero, or less than the length of a run.
    pub stride_bytes: i64,
    /// The kind of all elements.
    pub element: Prim,
}

/// Equal runs at listed places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIndexed<'a> {
    /// The origin of the displacements, in bytes from the base address.
    pub origin: i64,
    /// Offset of the first byte of each run, in bytes from the origin. Not empty.
    pub displacements: &'a [i64],
    /// Length of each run in bytes: whole elements.
    pub block_bytes: u64,
    /// The kind of all elements.
    pub element: Prim,
}

/// Runs with individual lengths, at listed places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexed<'a> {
    /// The origin of the displacements, in bytes from the base address.
    pub origin: i64,
    /// Offset of the first byte of each run, in bytes from the origin. Not empty.
    pub displacements: &'a [i64],
    /// Length of each run in bytes: whole elements. As many entries as displacements.
    pub lengths: &'a [u64],
    /// The kind of all elements.
    pub element: Prim,
}

impl Vector {
    /// The runs one by one, in stream order.
    pub fn runs(&self) -> impl Iterator<Item = Contig> {
        let Self { offset, count, block_bytes: bytes, stride_bytes, element } = *self;
        let at = move |i: u64| offset.wrapping_add(stride_bytes.wrapping_mul(i as i64));
        (0..count).map(move |i| Contig { offset: at(i), bytes, element })
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.count * self.block_bytes
    }
}

impl<'a> BlockIndexed<'a> {
    /// The runs one by one, in stream order.
    pub fn runs(&self) -> impl Iterator<Item = Contig> + use<'a> {
        let Self { origin, displacements, block_bytes: bytes, element } = *self;
        displacements.iter().map(move |at| Contig { offset: origin.wrapping_add(*at), bytes, element })
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.displacements.len() as u64 * self.block_bytes
    }
}

impl<'a> Indexed<'a> {
    /// The runs one by one, in stream order.
    pub fn runs(&self) -> impl Iterator<Item = Contig> + use<'a> {
        let Self { origin, displacements, lengths, element } = *self;
        let places = displacements.iter().map(move |at| origin.wrapping_add(*at));
        places.zip(lengths).map(move |(offset, &bytes)| Contig { offset, bytes, element })
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> u64 {
        self.lengths.iter().sum()
    }
}

/// Leaf functions. Only [`LeafVisitor::contig`] must be implemented: by default, the other functions call
/// it once for each run.
pub trait LeafVisitor {
    /// The value that a leaf function returns when it stops the walk.
    type Break;

    /// One run.
    fn contig(&mut self, leaf: Contig) -> Flow<Self::Break>;

    /// Equal runs at equal distances.
    fn vector(&mut self, leaf: Vector) -> Flow<Self::Break> {
        run_by_run(self, leaf.runs())
    }

    /// Equal runs at listed places.
    fn block_indexed(&mut self, leaf: BlockIndexed<'_>) -> Flow<Self::Break> {
        run_by_run(self, leaf.runs())
    }

    /// Runs with individual lengths, at listed places.
    fn indexed(&mut self, leaf: Indexed<'_>) -> Flow<Self::Break> {
        run_by_run(self, leaf.runs())
    }
}

/// Passes a leaf to [`LeafVisitor::contig`], one run at a time.
fn run_by_run<V: LeafVisitor + ?Sized>(
    visitor: &mut V,
    runs: impl Iterator<Item = Contig>,
) -> Flow<V::Break> {
    let mut done = 0;
    for run in runs {
        if let Flow::Stop { bytes, because } = visitor.contig(run) {
            return Flow::Stop { bytes: done + bytes.min(run.bytes), because };
        }
        done += run.bytes;
    }
    Flow::Continue
}

/// `count` elements of a type with a position in their stream: the *segment* of `MPITypes`.
///
/// ```
/// use std::ops::ControlFlow;
/// use capulet_datatype::{Contig, Datatype, Flow, LeafVisitor, Named, Segment};
/// /// Records the offsets of runs, at most three of them.
/// struct Places(Vec<i64>);
/// impl LeafVisitor for Places {
///     type Break = ();
///     fn contig(&mut self, leaf: Contig) -> Flow<()> {
///         if self.0.len() == 3 {
///             return Flow::Stop { bytes: 0, because: () };
///         }
///         self.0.push(leaf.offset);
///         Flow::Continue
///     }
/// }
/// let double = Datatype::named(Named::Double);
/// let column = Datatype::vector(5, 1, 10, &double)?;
/// let mut segment = Segment::new(&column, 1)?;
/// let mut places = Places(Vec::new());
/// assert_eq!(segment.manipulate(0..40, &mut places)?, ControlFlow::Break(()));
/// assert_eq!((&places.0[..], segment.position()), (&[0, 80, 160][..], 24));
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Segment {
    tiled: Tiled,
    signature: Signature,
    position: u64,
}

impl Segment {
    /// Makes a segment at the start of its stream: `MPIT_Segment_init`.
    ///
    /// # Errors
    /// [`crate::TypeError::Overflow`], as [`Tiled::new`].
    pub fn new(datatype: &Datatype, count: u64) -> Result<Self> {
        let tiled = Tiled::new(datatype.layout().clone(), count)?;
        let signature = datatype.signature().repeated(count);
        Ok(Self { tiled, signature, position: 0 })
    }

    /// Makes a segment of uninterpreted bytes, at the start of its stream.
    pub fn of_bytes(tiled: Tiled) -> Self {
        let signature = Signature::of(BYTE).repeated(tiled.size());
        Self { tiled, signature, position: 0 }
    }

    /// The tiled layout that the segment walks.
    pub fn tiled(&self) -> &Tiled {
        &self.tiled
    }

    /// The stream position, in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Visits the leaves of stream bytes `range`, which may begin at any byte: `MPIT_Segment_manipulate`.
    /// Afterwards the position is the end of the range. If a leaf function stopped the walk, the position
    /// is the end of the bytes that the function reported as done, and the result holds the value that the
    /// function returned.
    ///
    /// # Errors
    /// [`crate::TypeError::BadRange`]. In this case nothing is visited, and the position does not change.
    pub fn manipulate<V: LeafVisitor + ?Sized>(
        &mut self,
        range: Range<u64>,
        visitor: &mut V,
    ) -> Result<ControlFlow<V::Break>> {
        self.tiled.check_range(&range)?;
        self.position = range.start;
        let Some(root) = self.tiled.root().filter(|_| !range.is_empty()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut drive = Drive { root, position: range.start, visitor };
        let flow = drive.range(&self.signature, range.end);
        self.position = drive.position;
        Ok(flow)
    }
}

/// Visits the leaves of stream bytes `range` of a tiled layout, as uninterpreted bytes. A [`Segment`] also
/// keeps the position of a visitor that stops, and knows the elements.
///
/// # Errors
/// [`crate::TypeError::BadRange`]. In this case nothing is visited.
pub fn visit<V: LeafVisitor + ?Sized>(
    tiled: &Tiled,
    range: Range<u64>,
    visitor: &mut V,
) -> Result<ControlFlow<V::Break>> {
    Segment::of_bytes(tiled.clone()).manipulate(range, visitor)
}

const BYTE: Prim = Prim::new(PrimKind::Byte, 1);

/// Listed runs come in parts of at most this many runs, because layouts keep their lists in a more compact
/// form.
const LISTED_AT_ONCE: usize = 128;

fn has_whole_runs(span: Span<'_>, unit: u64) -> bool {
    let torn = span.try_for_each(|_, bytes| match bytes % unit {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    torn.is_continue()
}

/// A visit in progress.
struct Drive<'a, V: ?Sized> {
    root: &'a Piece,
    /// Stream position after the bytes that are done.
    position: u64,
    visitor: &'a mut V,
}

impl<V: LeafVisitor + ?Sized> Drive<'_, V> {
    /// Visits the bytes from the position to `end`: each run of elements separately, and cut elements
    /// separately from whole ones.
    fn range(&mut self, signature: &Signature, end: u64) -> ControlFlow<V::Break> {
        for run in Elements::new(signature, self.position) {
            let element_bytes = u64::from(run.prim.bytes);
            let run_end = end.min(self.position + run.bytes);
            let whole_from =
                if run.torn > 0 { end.min(self.position + element_bytes - run.torn) } else { self.position };
            let whole_end = run_end - (run_end - whole_from) % element_bytes;
            self.elements(BYTE, whole_from)?;
            self.elements(run.prim, whole_end)?;
            self.elements(BYTE, run_end)?;
            if run_end == end {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits whole elements of one kind, from the position to `end`.
    fn elements(&mut self, element: Prim, end: u64) -> ControlFlow<V::Break> {
        if self.position == end {
            return ControlFlow::Continue(());
        }
        let unit = u64::from(element.bytes);
        let mut walker = Walker::new(self.root, self.position, end - self.position);
        // The canonical form knows only bytes, so it may cut an element in two. The parts touch, and this
        // loop joins them.
        let mut open = Contig { offset: 0, bytes: 0, element };
        while let Some(span) = walker.next_span() {
            let whole = match span {
                Span::Strided { block, .. } | Span::Index { block, .. } => block % unit == 0,
                Span::VarIndex { .. } | Span::Bitmap { .. } => unit == 1 || has_whole_runs(span, unit),
            };
            if whole && open.bytes.is_multiple_of(unit) {
                self.run(std::mem::replace(&mut open, Contig { offset: 0, bytes: 0, element }))?;
                self.leaf(span, element)?;
                continue;
            }
            let mut flow = ControlFlow::Continue(());
            span.for_each(|offset, bytes| {
                if flow.is_break() {
                    return;
                }
                if open.bytes.is_multiple_of(unit) {
                    flow = self.run(open);
                    open = Contig { offset, bytes: 0, element };
                }
                open.bytes += bytes;
            });
            flow?;
        }
        self.run(open)
    }

    /// Visits one run, unless it is empty.
    fn run(&mut self, leaf: Contig) -> ControlFlow<V::Break> {
        if leaf.bytes == 0 {
            return ControlFlow::Continue(());
        }
        let flow = self.visitor.contig(leaf);
        self.done(flow, leaf.bytes)
    }

    fn leaf(&mut self, span: Span<'_>, element: Prim) -> ControlFlow<V::Break> {
        let (flow, bytes) = match span {
            Span::Strided { offset, block: bytes, count: 1, .. } => {
                return self.run(Contig { offset, bytes, element });
            }
            Span::Strided { offset, block: block_bytes, count, stride: stride_bytes } => {
                let leaf = Vector { offset, count, block_bytes, stride_bytes, element };
                (self.visitor.vector(leaf), leaf.bytes())
            }
            Span::Index { origin, .. } | Span::VarIndex { origin, .. } | Span::Bitmap { origin, .. } => {
                return self.listed(span, origin, element);
            }
        };
        self.done(flow, bytes)
    }

    /// Visits listed runs, one part of the list at a time.
    fn listed(&mut self, span: Span<'_>, origin: i64, element: Prim) -> ControlFlow<V::Break> {
        let (mut displacements, mut lengths, mut n) = ([0; LISTED_AT_ONCE], [0; LISTED_AT_ONCE], 0);
        let equal = matches!(span, Span::Index { .. });
        span.try_for_each(|offset, bytes| {
            (displacements[n], lengths[n]) = (offset.wrapping_sub(origin), bytes);
            n += 1;
            if n < LISTED_AT_ONCE {
                return ControlFlow::Continue(());
            }
            n = 0;
            self.part(origin, &displacements, &lengths, equal, element)
        })?;
        if n == 0 {
            return ControlFlow::Continue(());
        }
        self.part(origin, &displacements[..n], &lengths[..n], equal, element)
    }

    fn part(
        &mut self,
        origin: i64,
        displacements: &[i64],
        lengths: &[u64],
        equal: bool,
        element: Prim,
    ) -> ControlFlow<V::Break> {
        let (flow, bytes) = if equal {
            let leaf = BlockIndexed { origin, displacements, block_bytes: lengths[0], element };
            (self.visitor.block_indexed(leaf), leaf.bytes())
        } else {
            let leaf = Indexed { origin, displacements, lengths, element };
            (self.visitor.indexed(leaf), leaf.bytes())
        };
        self.done(flow, bytes)
    }

    /// Moves the position past the done bytes of a leaf of `leaf_bytes` bytes.
    fn done(&mut self, flow: Flow<V::Break>, leaf_bytes: u64) -> ControlFlow<V::Break> {
        match flow {
            Flow::Continue => {
                self.position += leaf_bytes;
                ControlFlow::Continue(())
            }
            Flow::Stop { bytes, because } => {
                self.position += bytes.min(leaf_bytes);
                ControlFlow::Break(because)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Contig, Drive, Flow, LeafVisitor};
    use crate::named::{Prim, PrimKind};
    use crate::piece::Piece;

    struct Runs(Vec<(i64, u64)>);

    impl LeafVisitor for Runs {
        type Break = ();

        fn contig(&mut self, leaf: Contig) -> Flow<()> {
            self.0.push((leaf.offset, leaf.bytes));
            Flow::Continue
        }
    }

    #[test]
    fn elements_cut_by_the_canonical_form_are_joined() {
        let places = [0, 4, 100, 104, 108, 112, 8, 12];
        let root = Piece::index::<i64>(places.to_vec(), Piece::block(0, 4));
        let element = Prim::new(PrimKind::Float, 8);
        let mut visitor = Runs(Vec::new());
        let mut drive = Drive { root: &root, position: 8, visitor: &mut visitor };
        assert!(drive.elements(element, 32).is_continue());
        assert_eq!(drive.position, 32);
        assert_eq!(visitor.0, [(100, 8), (108, 8), (8, 8)]);
    }
}
