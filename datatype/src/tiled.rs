//! A layout laid end to end: the form of a file view and of a buffer of `count` elements.

use std::sync::Arc;

use crate::canon::instances;
use crate::error::{Result, TypeError, overflow};
use crate::layout::Layout;
use crate::locate::{bytes_below, offset_of};
use crate::piece::{Leaf, Piece};

/// `count` instances of a layout, where instance `i` lies at `i` extents. The *stream* is the data of all
/// instances, in order.
///
/// A clone is cheap. The repetition is part of the canonical form: any number of instances of a dense
/// layout is one run.
///
/// ```
/// use capulet_datatype::{Datatype, Named, Tiled};
/// let int = Datatype::named(Named::Int);
/// let every_fourth = Datatype::resized(0, 16, &int)?;
/// let view = Tiled::forever(every_fourth.layout().clone());
/// assert_eq!(view.offset_of(4 * 1_000_000_000), 16_000_000_000);
/// assert_eq!(view.bytes_below(33), 9);
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tiled {
    layout: Arc<Layout>,
    count: u64,
    root: Option<Piece>,
}

impl Tiled {
    /// `count` instances.
    ///
    /// # Errors
    /// [`TypeError::Overflow`] if the bytes, or an offset, do not fit in `i64`.
    #[inline]
    pub fn new(layout: Arc<Layout>, count: u64) -> Result<Self> {
        if let Some(piece) = layout.root()
            && count > 0
        {
            check(piece, count, layout.extent())?;
        }
        Ok(Self::of(layout, count))
    }

    /// As [`Tiled::new`], for a count that is known to fit.
    #[inline]
    fn of(layout: Arc<Layout>, count: u64) -> Self {
        let mut tiled = Self { layout, count, root: None };
        if let Some(piece) = tiled.layout.root()
            && count > 0
        {
            instances(piece, count, tiled.layout.extent(), &mut tiled.root);
        }
        tiled
    }

    /// As many whole instances as end at or below the offset `end`, in bytes from the base; possibly 0.
    /// More than one instance fits only if the extent is positive.
    pub fn until(layout: Arc<Layout>, end: i64) -> Self {
        let count = layout.root().map_or(0, |piece| count_until(piece, layout.extent(), end));
        Self::of(layout, count)
    }

    /// As many instances as fit in the range of offsets. A file view tiles its file this way.
    pub fn forever(layout: Arc<Layout>) -> Self {
        Self::until(layout, i64::MAX)
    }

    /// The layout of one instance.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The number of instances.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn root(&self) -> Option<&Piece> {
        self.root.as_ref()
    }

    /// Bytes of data in all instances: the length of the stream. At most `i64::MAX`.
    pub fn size(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.facts.size)
    }

    /// Offset of the lowest byte of data, in bytes; 0 without data.
    pub fn true_lb(&self) -> i64 {
        self.root.as_ref().map_or(0, |root| root.base + root.facts.low)
    }

    /// Offset of the end of the highest byte of data, in bytes; 0 without data.
    pub fn true_ub(&self) -> i64 {
        self.root.as_ref().map_or(0, |root| root.base + root.facts.high)
    }

    /// Whether all instances together are a single run, or have no data.
    pub fn is_dense(&self) -> bool {
        self.root.as_ref().is_none_or(|root| root.as_block().is_some())
    }

    /// Whether each byte lies after all bytes that precede it in the stream, over all instances. Exact;
    /// O(1).
    pub fn is_monotone(&self) -> bool {
        self.root.as_ref().is_none_or(|root| root.facts.monotone)
    }

    /// The exact number of maximal runs of the whole stream. O(1).
    pub fn runs(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.facts.blocks)
    }

    /// A number that divides the offset and the length of every maximal run; 0 without data. O(1).
    pub fn granule(&self) -> u64 {
        self.root.as_ref().map_or(0, Piece::granule)
    }

    /// The offset of stream byte `stream`. For a position at or beyond the end of the stream, the end of
    /// its last byte. O(depth + log n).
    pub fn offset_of(&self, stream: u64) -> i64 {
        let Some(root) = &self.root else { return 0 };
        if stream >= root.facts.size { root.base + root.facts.end } else { offset_of(root, stream) }
    }

    /// The number of stream bytes at offsets below `offset`, which is the stream position of the first byte
    /// at or after `offset`. O(depth + log n). Only for monotone layouts: in other layouts, the bytes below
    /// an offset are not the bytes before a stream position, and the result is 0.
    pub fn bytes_below(&self, offset: i64) -> u64 {
        match &self.root {
            Some(root) if root.facts.monotone => bytes_below(root, offset.saturating_sub(root.base)),
            _ => 0,
        }
    }

    /// The number of maximal runs in the stream bytes of `range`. O(depth + log n).
    ///
    /// # Errors
    /// [`TypeError::BadRange`].
    pub fn block_count(&self, range: std::ops::Range<u64>) -> Result<u64> {
        self.check_range(&range)?;
        let Some(root) = &self.root else { return Ok(0) };
        if range.is_empty() {
            return Ok(0);
        }
        Ok(1 + breaks_below(root, range.end) - breaks_below(root, range.start + 1))
    }

    /// Returns [`TypeError::BadRange`] if the range is reversed or leaves the stream.
    pub(crate) fn check_range(&self, range: &std::ops::Range<u64>) -> Result<()> {
        if range.start > range.end || range.end > self.size() {
            return Err(TypeError::BadRange { start: range.start, end: range.end, size: self.size() });
        }
        Ok(())
    }
}

/// Checks that the hull and the size of `count` instances fit in `i64`, so that all offsets are plain sums.
fn check(piece: &Piece, count: u64, extent: i64) -> Result<()> {
    let size = u128::from(piece.facts.size) * u128::from(count);
    let reach = i128::from(extent) * i128::from(count - 1);
    let low = i128::from(piece.base) + i128::from(piece.facts.low) + reach.min(0);
    let high = i128::from(piece.base) + i128::from(piece.facts.high) + reach.max(0);
    let max = i128::from(i64::MAX);
    if size > max as u128 {
        return overflow("the size of all elements");
    }
    if low < i128::from(i64::MIN) || high > max || high - low > max || reach.abs() > max {
        return overflow("the offset of the last element");
    }
    Ok(())
}

/// The largest count that [`check`] accepts and whose instances end at or below `end`.
fn count_until(piece: &Piece, extent: i64, end: i64) -> u64 {
    let room = i128::from(end) - i128::from(piece.base) - i128::from(piece.facts.high);
    if room < 0 {
        return 0;
    }
    if extent <= 0 {
        return 1;
    }
    let hull = i128::from(piece.facts.high) - i128::from(piece.facts.low);
    let room = room.min(i128::from(i64::MAX) - hull);
    let by_place = room / i128::from(extent) + 1;
    let by_size = i128::from(i64::MAX) / i128::from(piece.facts.size);
    // The result is not negative, and at most `i64::MAX` by the second term.
    by_place.min(by_size) as u64
}

/// The number of stream bytes at positions `1..position` of the piece that do not directly follow their
/// predecessor in memory.
fn breaks_below(piece: &Piece, mut position: u64) -> u64 {
    let (mut breaks, mut facts_blocks) = (0, piece.facts.blocks);
    let mut end = piece.facts.end;
    for dim in piece.dims.iter().rev() {
        // Removes the outermost repetition, to get the facts of its body.
        end -= dim.stride * (dim.n as i64 - 1);
        let touches = end == dim.stride;
        let inside = if touches { facts_blocks.div_ceil(dim.n) } else { facts_blocks / dim.n };
        facts_blocks = inside;
        let place = position / dim.unit;
        position %= dim.unit;
        let seams = if position > 0 { place } else { place.saturating_sub(1) };
        breaks += place * (inside - 1) + if touches { 0 } else { seams };
    }
    breaks + leaf_breaks_below(&piece.leaf, position)
}

fn leaf_breaks_below(leaf: &Leaf, position: u64) -> u64 {
    if position == 0 {
        return 0;
    }
    match leaf {
        Leaf::Block(_) => 0,
        Leaf::Index(index) => {
            let body = &index.body;
            let (entry, inside) = ((position / body.facts.size) as usize, position % body.facts.size);
            let seams = if inside > 0 { entry } else { entry - 1 };
            entry as u64 * (body.facts.blocks - 1) + seams as u64 - index.touches_in(seams)
                + breaks_below(body, inside)
        }
        Leaf::VarIndex(index) => {
            let (entry, _) = index.runs.locate(position - 1);
            entry as u64
        }
        Leaf::Bitmap(bitmap) => bitmap.runs_through(bitmap.select((position - 1) / bitmap.unit)) - 1,
        Leaf::Sequence(sequence) => {
            let (entry, inside) = sequence.locate(position - 1);
            let whole = &sequence.pieces[..=entry];
            let seams =
                whole.windows(2).filter(|pair| pair[0].base + pair[0].facts.end != pair[1].base).count();
            let inner: u64 = whole[..entry].iter().map(|piece| piece.facts.blocks - 1).sum();
            inner + seams as u64 + breaks_below(&whole[entry], inside + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tiled;
    use crate::error::Result;
    use crate::named::Named;
    use crate::tree::Datatype;

    #[test]
    fn count_becomes_the_outermost_dimension() -> Result<()> {
        let f = Datatype::named(Named::Float);
        let types = [
            f.clone(),
            Datatype::resized(0, 12, &f)?,
            Datatype::resized(0, 1600, &Datatype::vector(200, 1, 2, &f)?)?,
            Datatype::vector(200, 2, -3, &f)?,
            Datatype::resized(0, 4, &Datatype::vector(50, 1, 100, &f)?)?,
            Datatype::resized(0, 4000, &Datatype::indexed(&[1, 2, 3, 1], &[0, 7, 11, 500], &f)?)?,
        ];
        for datatype in types {
            for count in [1, 2, 1000] {
                let tiled = Tiled::new(datatype.layout().clone(), count)?;
                let all = Datatype::contiguous(count, &datatype)?;
                // A layout rewrites small pieces as lists of runs, a tiled layout does not.
                let (Some(left), Some(right)) = (tiled.root(), all.layout().root()) else {
                    panic!("the type has no data")
                };
                if left.facts.blocks > 32 {
                    assert!(
                        left.base == right.base && left.same_shape(right),
                        "{count} instances of {datatype:?}"
                    );
                }
            }
        }
        Ok(())
    }
}
