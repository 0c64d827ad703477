//! Which bytes of the file the collective buffers of a round cover.

use std::ops::Range;
use std::time::Duration;

use capulet_drivers::Direction;

/// Bytes of a collective buffer without a hint. It is small enough to stay in the cache between copy and
/// write.
pub const COLLECTIVE_BUFFER_BYTES: u64 = 1 << 20;
/// The largest collective buffer that a hint can ask for, in bytes. It lies in shared memory, once for
/// each rank of a node.
pub const COLLECTIVE_BUFFER_BYTES_MAX: u64 = 1 << 30;
/// The largest collective buffer without a hint, in bytes.
const SLOW_NETWORK_BUFFER_BYTES: u64 = 8 << 20;
/// The part of the file that a collective buffer covers begins at a multiple of this many bytes. Exceptions:
/// the parts of stripes ([`Grid::new`]), and smaller buffers, which begin at multiples of their own length.
pub const PAGE_BYTES: u64 = 4096;
/// Reads are marked in units of at least this many bytes.
const READ_UNIT_BYTES: u64 = 512;
/// A read also takes gaps of up to this many bytes. Their bytes go into the collective buffer and never
/// into user memory.
const BRIDGE_BYTES: u64 = 4096;

/// Bytes of a collective buffer without a hint, on nodes of up to `ranks` ranks, if a message between nodes
/// takes `message_time`. The buffers of a node grow with the time of a message, so that the messages of a
/// round take at most about a tenth of the time of the round: 2 message times, at 1 byte in a nanosecond.
pub fn collective_buffer_bytes_for(message_time: Duration, ranks: u64) -> u64 {
    let of_node = 20 * u64::try_from(message_time.as_nanos()).unwrap_or(u64::MAX).min(1 << 32);
    let of_rank = (of_node / ranks.max(1)).clamp(COLLECTIVE_BUFFER_BYTES, SLOW_NETWORK_BUFFER_BYTES);
    of_rank.next_power_of_two()
}

/// The collective buffers of the rounds of one access. They cover parts of the file of equal length, next
/// to each other, from the offset at which the round begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Bytes of a collective buffer.
    pub collective_buffer_bytes: u64,
    /// Rounds begin at multiples of this many bytes.
    pub align_bytes: u64,
    /// Bytes for which one mark of a write stands: a power of two that divides every file offset and run
    /// length of all ranks.
    pub unit_bytes: u64,
}

impl Grid {
    /// A grid with collective buffers of at most `collective_buffer_bytes` and at most `largest_bytes`. Each
    /// one holds whole stripes or an equal part of one stripe, so that a stripe has no more writers than it
    /// needs. Stripes are ignored if they are not whole pages, or cannot be divided into such parts. Every
    /// bit that is set in a file offset or run length of any rank is set in `grain`.
    pub fn new(collective_buffer_bytes: u64, largest_bytes: u64, stripe_bytes: u64, grain: u64) -> Self {
        let collective_buffer_bytes = collective_buffer_bytes.clamp(1, largest_bytes.max(1));
        let collective_buffer_bytes = if collective_buffer_bytes < PAGE_BYTES {
            1 << collective_buffer_bytes.ilog2()
        } else {
            collective_buffer_bytes - collective_buffer_bytes % PAGE_BYTES
        };
        let (collective_buffer_bytes, align_bytes) = striped(collective_buffer_bytes, stripe_bytes)
            .unwrap_or((collective_buffer_bytes, PAGE_BYTES.min(collective_buffer_bytes)));
        // Each collective buffer begins at a whole unit, so a unit lies in one buffer only. Message
        // fragments to other nodes consist of whole units too, and up to a quarter of a buffer may be
        // taken by the description of where they lie. A unit of more than a quarter of the buffer might
        // never fit.
        let unit_bytes = (1_u64
            << (grain | align_bytes | PAGE_BYTES | collective_buffer_bytes).trailing_zeros())
        .min(collective_buffer_bytes)
        .min(1 << (largest_bytes / 4).max(1).ilog2());
        Self { collective_buffer_bytes, align_bytes, unit_bytes }
    }

    /// Where a round begins if `next` is the lowest offset that is still needed.
    pub fn base_of(&self, next: u64) -> u64 {
        next - next % self.align_bytes
    }

    /// The bytes of the file that collective buffer `number` covers in the round at `base`.
    pub fn range(&self, base: u64, number: u64) -> Range<u64> {
        let start = base.saturating_add(self.collective_buffer_bytes.saturating_mul(number));
        start..start.saturating_add(self.collective_buffer_bytes)
    }

    /// Bytes for which one mark of a read stands.
    pub fn read_unit_bytes(&self) -> u64 {
        self.unit_bytes.max(READ_UNIT_BYTES.min(self.collective_buffer_bytes))
    }

    /// The greatest gap that a read also takes, in units of [`Grid::read_unit_bytes`].
    pub fn read_bridge_units(&self) -> u64 {
        BRIDGE_BYTES / self.read_unit_bytes()
    }
}

/// How many numbers of equal parts of a stripe are tried. A limit is needed because a hint can give any
/// stripe length.
const PARTS_TRIED_MAX: usize = 4096;

/// Bytes of a collective buffer of at most `collective_buffer_bytes` that fits the stripes, and the alignment
/// of rounds. `None` if no such length exists.
fn striped(collective_buffer_bytes: u64, stripe_bytes: u64) -> Option<(u64, u64)> {
    if stripe_bytes == 0 {
        None
    } else if collective_buffer_bytes.is_multiple_of(stripe_bytes) {
        Some((collective_buffer_bytes, stripe_bytes))
    } else if !stripe_bytes.is_multiple_of(PAGE_BYTES) || collective_buffer_bytes < PAGE_BYTES {
        None
    } else if stripe_bytes < collective_buffer_bytes {
        Some((collective_buffer_bytes - collective_buffer_bytes % stripe_bytes, stripe_bytes))
    } else {
        // A part is not smaller than a quarter of `collective_buffer_bytes`. Of a stripe that is thousands of
        // collective buffers long, not every number of parts is tried.
        let (parts, stripe_pages) =
            (stripe_bytes.div_ceil(collective_buffer_bytes), stripe_bytes / PAGE_BYTES);
        let mut tried = (parts..=2 * parts).take(PARTS_TRIED_MAX);
        let part_bytes = stripe_bytes / tried.find(|parts| stripe_pages.is_multiple_of(*parts))?;
        Some((part_bytes, part_bytes))
    }
}

/// The place on its node of the rank that is aggregator number `index` of `aggregators`, on a node of
/// `ranks` ranks.
pub fn place_of(index: usize, ranks: usize, aggregators: usize) -> usize {
    index * ranks / aggregators
}

/// The bytes that lie both in the span of one group of nodes and in the span of the nodes that follow. `None`
/// if the second span does not begin and end behind the first one, so that the spans have no order.
pub fn shared_bytes(before: &Range<u64>, after: &Range<u64>) -> Option<u64> {
    if before.is_empty() || after.is_empty() || before.end <= after.start {
        return Some(0);
    }
    (before.start <= after.start && before.end <= after.end).then(|| before.end - after.start)
}

/// Whether each node gathers on its own. `shared` is the sum of [`shared_bytes`] from the first node to the
/// last, `span_bytes` the length of the span of all nodes.
///
/// In a write, nodes that share bytes must exchange, because overlapping bytes have an order. In a read they
/// may read shared bytes twice. A quarter of the span read twice costs less than most of the span sent to
/// other nodes.
pub fn gathers_per_node(direction: Direction, shared: Option<u64>, span_bytes: u64) -> bool {
    match direction {
        Direction::Write => shared == Some(0),
        Direction::Read => shared.is_some_and(|shared| shared <= span_bytes / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn grid(collective_buffer_bytes: u64, stripe_bytes: u64) -> (u64, u64) {
        let Grid { collective_buffer_bytes, align_bytes, .. } =
            Grid::new(collective_buffer_bytes, 1 << 30, stripe_bytes, 8);
        (collective_buffer_bytes, align_bytes)
    }

    #[test]
    fn nodes_that_share_few_bytes_read_them_twice() {
        assert_eq!(shared_bytes(&(0..10), &(10..20)), Some(0));
        assert_eq!(shared_bytes(&(0..12), &(10..20)), Some(2));
        assert_eq!([shared_bytes(&(0..21), &(10..20)), shared_bytes(&(11..15), &(10..20))], [None; 2]);
        assert_eq!([shared_bytes(&(0..0), &(3..9)), shared_bytes(&(3..9), &(0..0))], [Some(0); 2]);
        let gathers =
            |shared| [Direction::Read, Direction::Write].map(|way| gathers_per_node(way, shared, 20));
        assert_eq!([Some(0), Some(5)].map(gathers), [[true, true], [true, false]]);
        assert_eq!([Some(6), None].map(gathers), [[false; 2]; 2]);
    }

    #[test]
    fn buffers_of_a_node_grow_with_the_time_of_a_message() {
        let of = |message_us: u64, ranks: u64| {
            collective_buffer_bytes_for(Duration::from_micros(message_us), ranks) / 1024 / KIB
        };
        assert_eq!([of(0, 2), of(35, 2), of(350, 2), of(350, 4), of(350, 16)], [1, 1, 4, 2, 1]);
        assert_eq!([of(100_000, 1), of(u64::MAX / 1000, 1), of(100_000, 0)], [8; 3]);
    }

    #[test]
    fn collective_buffer_holds_whole_stripes_or_a_part_of_one() {
        for (stripe, buffer, align) in [
            (0, 1024, 4),
            (256, 1024, 256),
            (1024, 1024, 1024),
            (4096, 1024, 1024),
            (96, 960, 96),
            (1536, 768, 768),
            (3 * 1024, 1024, 1024),
        ] {
            assert_eq!(grid(1024 * KIB, stripe * KIB), (buffer * KIB, align * KIB), "{stripe} KiB");
        }
        assert_eq!(grid(1024 * KIB, 5000), (1024 * KIB, 4 * KIB), "the stripe is not whole pages");
        let prime = 4 * KIB * 1009;
        assert_eq!(
            grid(1024 * KIB, prime),
            (1024 * KIB, 4 * KIB),
            "the stripe has no equal parts of that length"
        );
    }

    #[test]
    fn any_stripe_length_is_handled_in_bounded_time() {
        // A stripe of a prime number of pages, the largest prime below 2^50: a search through all numbers
        // of parts would not end.
        assert_eq!(grid(1024 * KIB, 4 * KIB * ((1 << 50) - 27)), (1024 * KIB, 4 * KIB));
        assert_eq!(grid(1024 * KIB, 1 << 63), (1024 * KIB, 1024 * KIB));
        assert_eq!(grid(1024 * KIB, u64::MAX), (1024 * KIB, 4 * KIB), "the stripe is not whole pages");
    }

    #[test]
    fn no_collective_buffer_holds_parts_of_two_stripes() {
        for pages in 1..600 {
            let stripe = 4 * KIB * pages;
            let made = Grid::new(1024 * KIB, 1 << 30, stripe, 8);
            if made.align_bytes == 4 * KIB && pages > 1 {
                continue;
            }
            assert!(
                made.collective_buffer_bytes >= 256 * KIB && made.collective_buffer_bytes <= 1024 * KIB,
                "{pages}: {made:?}"
            );
            for next in [0, 5 * KIB, stripe + 1, 7 * stripe - 1] {
                let base = made.base_of(next);
                for buffer in (0..5).map(|number| made.range(base, number)) {
                    let is_whole = buffer.start % stripe == 0 && buffer.end % stripe == 0;
                    let is_within = buffer.start / stripe == (buffer.end - 1) / stripe;
                    assert!(is_whole || is_within, "{pages} pages: {buffer:?}");
                }
            }
        }
    }
}
