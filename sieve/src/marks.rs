//! A map of marked units in a window: one bit for each unit, set by many ranks at once, read and cleared by one.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sets bits of a shared map. Neighbouring marks are gathered, so that 64 units cost one atomic operation.
#[derive(Debug)]
pub struct Marker<'a> {
    words: &'a [AtomicU64],
    index: usize,
    mask: u64,
    overlap: bool,
}

impl<'a> Marker<'a> {
    /// A marker on `words`. What it marks is complete when it is dropped.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self { words, index: 0, mask: 0, overlap: false }
    }

    /// Completes what was marked. True if some of it had been marked before, by whomever: of two ranks that mark one unit,
    /// exactly one learns of it.
    pub fn finish(mut self) -> bool {
        self.flush();
        self.overlap
    }

    /// Marks the units of `units`.
    ///
    /// # Panics
    /// If the map has fewer units.
    pub fn mark(&mut self, units: Range<u64>) {
        let mut unit = units.start;
        while unit < units.end {
            let index = (unit / 64) as usize;
            let low = unit % 64;
            let high = (units.end - (unit - low)).min(64);
            let mask = (u64::MAX >> (64 - (high - low))) << low;
            if index != self.index {
                self.flush();
                self.index = index;
            }
            self.mask |= mask;
            unit += high - low;
        }
    }

    fn flush(&mut self) {
        if self.mask != 0 {
            let before = self.words[self.index].fetch_or(self.mask, Ordering::Relaxed);
            self.overlap |= before & self.mask != 0;
            self.mask = 0;
        }
    }
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Clears the map and calls `found` with each run of marked units, in order. Runs closer than `bridge` units are one.
pub fn take_runs(words: &[AtomicU64], bridge: u64, mut found: impl FnMut(Range<u64>)) {
    let mut open: Option<Range<u64>> = None;
    for (index, word) in words.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        if bits == 0 {
            continue;
        }
        word.store(0, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(units: usize) -> Vec<AtomicU64> {
        (0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        #[test]
        fn runs_are_what_was_marked(ranges in prop::collection::vec((0u64..500, 0u64..140), 0..12), bridge in 0u64..5) {
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
        fn one_marker_for_many_runs(starts in prop::collection::btree_set(0u64..300, 0..40)) {
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
