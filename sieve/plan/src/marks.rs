//! The map of marked units of a collective buffer: one bit for each unit. Many ranks set bits at the same
//! time; one rank reads and clears them.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use capulet_datatype::{BlockIndexed, Contig, Flow, Indexed, LeafVisitor, Vector, visit};

use crate::side::FileSide;

/// Sets bits of a shared map. Marks of the same word are collected, so that 64 units cost one atomic
/// operation.
#[derive(Debug)]
pub struct Marker<'a> {
    words: &'a [AtomicU64],
    index: usize,
    mask: u64,
    overlap: bool,
}

impl<'a> Marker<'a> {
    /// A marker on `words`. All marks are in the map when the marker is dropped.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self { words, index: 0, mask: 0, overlap: false }
    }

    /// Writes the remaining marks to the map. True if the map had one of the marked bits before. If two
    /// ranks mark one unit, exactly one of them gets true.
    pub fn finish(mut self) -> bool {
        self.flush();
        self.overlap
    }

    /// Marks the units of `units`.
    ///
    /// # Panics
    /// If the map has fewer units.
    #[inline]
    pub fn mark(&mut self, units: Range<u64>) {
        let mut unit = units.start;
        while unit < units.end {
            let low = unit % 64;
            let high = (units.end - (unit - low)).min(64);
            self.add((unit / 64) as usize, (u64::MAX >> (64 - (high - low))) << low);
            unit += high - low;
        }
    }

    /// Marks `count > 0` runs of `len` units, `stride >= len > 0` units apart, the first one at `first`.
    /// If runs lie near each other, a word of the map is marked at a time.
    ///
    /// # Panics
    /// If the map has fewer units.
    pub fn mark_row(&mut self, first: u64, count: u64, len: u64, stride: u64) {
        if stride > 64 {
            return (0..count).for_each(|run| self.mark(first + run * stride..first + run * stride + len));
        }
        let end = first + (count - 1) * stride + len;
        let run = if len == 64 { u64::MAX } else { (1 << len) - 1 };
        // `row` holds two words of the pattern of runs. Each further word of the map is 64 bits of `row`,
        // from the word's place within the period (`phase`) on.
        let row = (0..128).step_by(stride as usize).fold(0_u128, |row, at| row | u128::from(run) << at);
        let mut word = first / 64;
        self.add(word as usize, ((row as u64) << (first % 64)) & below(end, word));
        let mut phase = (64 - first % 64) % stride;
        while (word + 1) * 64 < end {
            word += 1;
            self.add(word as usize, ((row >> phase) as u64) & below(end, word));
            phase = (phase + 64) % stride;
        }
    }

    /// Adds marks to a word.
    #[inline]
    fn add(&mut self, index: usize, mask: u64) {
        if index != self.index {
            self.flush();
            self.index = index;
        }
        self.mask |= mask;
    }

    fn flush(&mut self) {
        if self.mask != 0 {
            let before = self.words[self.index].fetch_or(self.mask, Ordering::Relaxed);
            self.overlap |= before & self.mask != 0;
            self.mask = 0;
        }
    }
}

/// The bits of word `word` that belong to units below `end`.
fn below(end: u64, word: u64) -> u64 {
    let bits = end - word * 64;
    if bits < 64 { (1 << bits) - 1 } else { u64::MAX }
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Clears the map and calls `found` with each run of marked units, in order. Runs with gaps of at most
/// `bridge` units are joined.
pub fn take_runs(words: &[AtomicU64], bridge: u64, found: impl FnMut(Range<u64>)) {
    runs(words, bridge, |word| word.store(0, Ordering::Relaxed), found);
}

/// Calls `found` like [`take_runs`] with `bridge` 0, and leaves the map as it is.
pub fn each_run(words: &[AtomicU64], found: impl FnMut(Range<u64>)) {
    runs(words, 0, |_| (), found);
}

fn runs(
    words: &[AtomicU64],
    bridge: u64,
    mut seen: impl FnMut(&AtomicU64),
    mut found: impl FnMut(Range<u64>),
) {
    let mut open: Option<Range<u64>> = None;
    for (index, word) in words.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        if bits == 0 {
            continue;
        }
        seen(word);
        let base = index as u64 * 64;
        while bits != 0 {
            let low = u64::from(bits.trailing_zeros());
            let len = u64::from((bits >> low).trailing_ones());
            let run = base + low..base + low + len;
            bits &= if low + len == 64 { 0 } else { u64::MAX << (low + len) };
            open = Some(match open.take() {
                Some(last) if run.start - last.end <= bridge => last.start..run.end,
                Some(last) => {
                    found(last);
                    run
                }
                None => run,
            });
        }
    }
    if let Some(last) = open {
        found(last);
    }
}

/// Marks the units of a collective buffer that hold bytes of `part`. The buffer covers the file from the
/// offset `buffer_start` on. `part` counts from the start of the access and lies in the buffer.
/// `unit_bytes` is a power of two. True if one of the units was marked before.
pub fn mark_side(
    side: &FileSide,
    words: &[AtomicU64],
    buffer_start: u64,
    part: &Range<u64>,
    unit_bytes: u64,
) -> bool {
    let stream = side.file_start() + part.start..side.file_start() + part.end;
    let origin = side.displacement_bytes() - buffer_start as i64;
    let mut leaf_marker = LeafMarker { marker: Marker::new(words), origin, unit_bytes };
    let visited = visit(side.file(), stream, &mut leaf_marker);
    debug_assert!(visited.is_ok(), "the part lies in the view");
    leaf_marker.marker.finish()
}

/// A visitor that marks the leaves of a layout. Each leaf begins at or after `-origin`.
struct LeafMarker<'a> {
    marker: Marker<'a>,
    /// An offset of the view plus `origin` is the place in the collective buffer, in bytes.
    origin: i64,
    /// A power of two.
    unit_bytes: u64,
}

impl LeafMarker<'_> {
    #[inline]
    fn mark(&mut self, offset: i64, bytes: u64) {
        let start = (self.origin + offset) as u64;
        let shift = self.unit_bytes.trailing_zeros();
        self.marker.mark(start >> shift..((start + bytes - 1) >> shift) + 1);
    }
}

impl LeafVisitor for LeafMarker<'_> {
    type Break = Infallible;

    fn contig(&mut self, leaf: Contig) -> Flow<Infallible> {
        self.mark(leaf.offset, leaf.bytes);
        Flow::Continue
    }

    fn vector(&mut self, leaf: Vector) -> Flow<Infallible> {
        let (stride, block) = (leaf.stride_bytes as u64, leaf.block_bytes);
        let unit = self.unit_bytes;
        let start = (self.origin + leaf.offset) as u64;
        if leaf.stride_bytes > 0 && stride < block + unit && stride >= block {
            // The gaps are shorter than a unit, so every unit holds a byte of the leaf.
            self.mark(leaf.offset, (leaf.count - 1) * stride + block);
        } else if leaf.stride_bytes > 0 && stride >= block && (start | stride | block).is_multiple_of(unit) {
            self.marker.mark_row(start / unit, leaf.count, block / unit, stride / unit);
        } else {
            leaf.runs().for_each(|run| self.mark(run.offset, run.bytes));
        }
        Flow::Continue
    }

    fn block_indexed(&mut self, leaf: BlockIndexed<'_>) -> Flow<Infallible> {
        leaf.displacements.iter().for_each(|at| self.mark(leaf.origin + at, leaf.block_bytes));
        Flow::Continue
    }

    fn indexed(&mut self, leaf: Indexed<'_>) -> Flow<Infallible> {
        leaf.displacements
            .iter()
            .zip(leaf.lengths)
            .for_each(|(at, bytes)| self.mark(leaf.origin + at, *bytes));
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(units: usize) -> Vec<AtomicU64> {
        (0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        #[test]
        fn taken_runs_are_the_marked_units(
            ranges in prop::collection::vec((0u64..500, 0u64..140), 0..12),
            bridge in 0u64..5,
        ) {
            let words = map(640);
            let mut expected = vec![false; 640];
            for (start, len) in &ranges {
                Marker::new(&words).mark(*start..start + len);
                expected[*start as usize..(start + len) as usize].fill(true);
            }
            let mut seen = vec![false; 640];
            let mut last_end = None;
            take_runs(&words, bridge, |run| {
                assert!(expected[run.start as usize] && expected[run.end as usize - 1]);
                if let Some(end) = last_end {
                    assert!(run.start - end > bridge);
                }
                last_end = Some(run.end);
                seen[run.start as usize..run.end as usize].fill(true);
            });
            for unit in 0..640 {
                prop_assert!(!expected[unit] || seen[unit]);
                prop_assert!(bridge > 0 || expected[unit] == seen[unit]);
            }
            prop_assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }

        #[test]
        fn marking_a_row_equals_marking_its_runs(
            first in 0u64..200,
            count in 1u64..30,
            len in 1u64..70,
            gap in 0u64..70,
        ) {
            let (row, runs) = (map(8192), map(8192));
            let stride = len + gap;
            let mut marker = Marker::new(&row);
            marker.mark_row(first, count, len, stride);
            prop_assert!(!marker.finish());
            let mut marker = Marker::new(&runs);
            (0..count).for_each(|run| marker.mark(first + run * stride..first + run * stride + len));
            drop(marker);
            for (row, runs) in row.iter().zip(&runs) {
                prop_assert_eq!(row.load(Ordering::Relaxed), runs.load(Ordering::Relaxed));
            }
            let mut again = Marker::new(&row);
            again.mark(first + (count - 1) * stride..first + (count - 1) * stride + len);
            prop_assert!(again.finish());
        }

        #[test]
        fn one_marker_marks_many_runs(starts in prop::collection::btree_set(0u64..300, 0..40)) {
            let words = map(640);
            let mut marker = Marker::new(&words);
            for start in &starts {
                marker.mark(start * 2..start * 2 + 1);
            }
            drop(marker);
            let mut found = Vec::new();
            take_runs(&words, 0, |run| found.push(run.start / 2));
            prop_assert_eq!(found, starts.into_iter().collect::<Vec<_>>());
        }
    }
}
