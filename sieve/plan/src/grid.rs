//! How the windows of a round lie in the file.

use std::ops::Range;

/// Bytes of a window without a hint: small enough to stay in cache between copy and write.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// The largest window that a hint can ask for. It lies in shared memory, once for each rank of a node.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// Windows begin at multiples of this many bytes of the file, or of a stripe.
pub const PAGE_BYTES: u64 = 4096;
/// Reads are asked for in units of at least this many bytes.
const READ_UNIT_BYTES: u64 = 512;
/// Gaps of up to this many bytes are read through, into the window and never into user memory.
const BRIDGE_BYTES: u64 = 4096;

/// The windows of the rounds of one access: equal, next to each other, from where the round begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Bytes of a window.
    pub window_bytes: u64,
    /// Rounds begin at multiples of it.
    pub align_bytes: u64,
    /// Bytes that one mark stands for in a write: a power of two that divides whatever a rank has.
    pub unit_bytes: u64,
}

impl Grid {
    /// Windows of at most `window_bytes` and `largest_bytes`, that hold whole stripes or are equal parts of one, so that a stripe has no
    /// more writers than it needs; of stripes that are no whole pages, or fall into no such parts, they know nothing. `grain` has every
    /// bit that any rank's file offsets or run lengths have.
    pub fn new(window_bytes: u64, largest_bytes: u64, stripe_bytes: u64, grain: u64) -> Self {
        let window_bytes = window_bytes.clamp(1, largest_bytes.max(1));
        let window_bytes = if window_bytes < PAGE_BYTES {
            1 << window_bytes.ilog2()
        } else {
            window_bytes - window_bytes % PAGE_BYTES
        };
        let (window_bytes, align_bytes) =
            striped(window_bytes, stripe_bytes).unwrap_or((window_bytes, PAGE_BYTES.min(window_bytes)));
        // Windows begin at whole units, so that a unit is in one window. What ranks send to other nodes is made of whole units too, and
        // of a buffer a quarter may tell where they lie: with units of more than that nothing might fit.
        let unit_bytes = (1_u64 << (grain | align_bytes | PAGE_BYTES | window_bytes).trailing_zeros())
            .min(window_bytes)
            .min(1 << (largest_bytes / 4).max(1).ilog2());
        Self { window_bytes, align_bytes, unit_bytes }
    }

    /// Where the round begins whose first byte that is needed is `next`.
    pub fn base_of(&self, next: u64) -> u64 {
        next - next % self.align_bytes
    }

    /// The bytes of the file that window `number` of the round at `base` is for.
    pub fn window(&self, base: u64, number: u64) -> Range<u64> {
        let start = base.saturating_add(self.window_bytes.saturating_mul(number));
        start..start.saturating_add(self.window_bytes)
    }

    /// Bytes that one mark stands for in a read.
    pub fn read_unit_bytes(&self) -> u64 {
        self.unit_bytes.max(READ_UNIT_BYTES.min(self.window_bytes))
    }

    /// Gaps of up to so many units are read through.
    pub fn read_bridge_units(&self) -> u64 {
        BRIDGE_BYTES / self.read_unit_bytes()
    }
}

/// Numbers of equal parts of a stripe that are tried: a hint may say that stripes are as long as it likes.
const PARTS_TRIED_MAX: usize = 4096;

/// The bytes of a window of at most so many, for such stripes, and what rounds begin at multiples of; `None` if there is none.
fn striped(window_bytes: u64, stripe_bytes: u64) -> Option<(u64, u64)> {
    if stripe_bytes == 0 {
        None
    } else if window_bytes.is_multiple_of(stripe_bytes) {
        Some((window_bytes, stripe_bytes))
    } else if !stripe_bytes.is_multiple_of(PAGE_BYTES) || window_bytes < PAGE_BYTES {
        None
    } else if stripe_bytes < window_bytes {
        Some((window_bytes - window_bytes % stripe_bytes, stripe_bytes))
    } else {
        // Not less than a quarter of what there may be; of a stripe of thousands of windows not every number of parts is tried.
        let (parts, stripe_pages) = (stripe_bytes.div_ceil(window_bytes), stripe_bytes / PAGE_BYTES);
        let mut tried = (parts..=2 * parts).take(PARTS_TRIED_MAX);
        let part_bytes = stripe_bytes / tried.find(|parts| stripe_pages.is_multiple_of(*parts))?;
        Some((part_bytes, part_bytes))
    }
}

/// The place of the rank, of `ranks` of a node, that is number `index` of its `aggregators`.
pub fn place_of(index: usize, ranks: usize, aggregators: usize) -> usize {
    index * ranks / aggregators
}

/// Whether the bytes of one part of the nodes lie before all of those of the nodes after it; so too where one has none. If it
/// holds from the first node to the last, the nodes have nothing to exchange.
pub fn are_in_order(before: &Range<u64>, after: &Range<u64>) -> bool {
    before.is_empty() || after.is_empty() || before.end <= after.start
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn grid(window_bytes: u64, stripe_bytes: u64) -> (u64, u64) {
        let Grid { window_bytes, align_bytes, .. } = Grid::new(window_bytes, 1 << 30, stripe_bytes, 8);
        (window_bytes, align_bytes)
    }

    #[test]
    fn windows_are_whole_stripes_or_parts_of_one() {
        for (stripe, window, align) in [
            (0, 1024, 4),
            (256, 1024, 256),
            (1024, 1024, 1024),
            (4096, 1024, 1024),
            (96, 960, 96),
            (1536, 768, 768),
            (3 * 1024, 1024, 1024),
        ] {
            assert_eq!(grid(1024 * KIB, stripe * KIB), (window * KIB, align * KIB), "{stripe} KiB");
        }
        assert_eq!(grid(1024 * KIB, 5000), (1024 * KIB, 4 * KIB), "no whole pages");
        let prime = 4 * KIB * 1009;
        assert_eq!(grid(1024 * KIB, prime), (1024 * KIB, 4 * KIB), "no parts");
    }

    #[test]
    fn stripes_of_any_length_are_answered_at_once() {
        // Pages that are a prime number, the largest below 2^50: no search through all numbers of parts would end.
        assert_eq!(grid(1024 * KIB, 4 * KIB * ((1 << 50) - 27)), (1024 * KIB, 4 * KIB));
        assert_eq!(grid(1024 * KIB, 1 << 63), (1024 * KIB, 1024 * KIB));
        assert_eq!(grid(1024 * KIB, u64::MAX), (1024 * KIB, 4 * KIB), "no whole pages");
    }

    #[test]
    fn no_window_has_parts_of_two_stripes_but_whole_ones() {
        for pages in 1..600 {
            let stripe = 4 * KIB * pages;
            let made = Grid::new(1024 * KIB, 1 << 30, stripe, 8);
            if made.align_bytes == 4 * KIB && pages > 1 {
                continue;
            }
            assert!(made.window_bytes >= 256 * KIB && made.window_bytes <= 1024 * KIB, "{pages}: {made:?}");
            for next in [0, 5 * KIB, stripe + 1, 7 * stripe - 1] {
                let base = made.base_of(next);
                for window in (0..5).map(|number| made.window(base, number)) {
                    let is_whole = window.start % stripe == 0 && window.end % stripe == 0;
                    let is_within = window.start / stripe == (window.end - 1) / stripe;
                    assert!(is_whole || is_within, "{pages} pages: {window:?}");
                }
            }
        }
    }
}
