//! How one rank carries out its own access, chosen by the estimated cost of each way.

use std::ops::Range;

use capulet_drivers::Direction;

use crate::side::FileSide;

/// Cost of a system call that moves no byte, in picoseconds. Measured with `pread` of 8 bytes of a file
/// in memory.
const CALL_PS: u64 = 350_000;
/// Cost of one more piece of memory in a vectored call, in picoseconds.
const PIECE_PS: u64 = 30_000;
/// Cost of moving a byte to or from the file, in picoseconds: 10 GB/s.
const MOVE_PS: u64 = 100;
/// Cost of copying a byte out of a sieve buffer that lies in the second-level cache, in picoseconds: 20
/// GB/s.
const COPY_OUT_PS: u64 = 50;
/// Cost of copying a byte into such a buffer, in picoseconds. It is low, because the kernel then finds
/// the byte in the cache; a copy by the kernel out of many pieces of memory would not. With rows of 1 KiB
/// and a contiguous file, the packed way was measured 1.4 times as fast as list I/O.
const COPY_IN_PS: u64 = 10;

/// Costs of a read that waits for the storage, in picoseconds: of a byte that follows the bytes read
/// before it, and of a run apart from them, if many such runs are requested at once. A virtual disk has 1
/// GB/s and 20 us. The second constant is higher, because the bytes between the runs of one rank are
/// often runs of other ranks that opened the file together: 4 ranks that read 4 KiB of each 32 KiB take
/// 1.8 times as long without sieve buffers.
const COLD_BYTE_PS: u64 = 1000;
const COLD_RUN_PS: u64 = 40_000_000;
/// The system reads ahead over runs that are closer to each other than this many bytes.
const COLD_APART_BYTES: u64 = 8192;

/// Bytes of the sieve buffer of a rank. Together with the memory that it is copied from or to, it takes
/// half of a second-level cache.
pub const SIEVE_BUFFER_BYTES: u64 = 256 * 1024;
/// Runs of the file of at least this many bytes, two chunks of a page each, may be moved in bands: a
/// chunk of several runs at a time.
pub const BAND_RUN_MIN_BYTES: u64 = 8192;
/// Transfers in one batch: the greatest number that one vectored call takes. Dense pieces of one rank may
/// have more.
pub const BATCH_TRANSFERS: usize = 1024;
/// Transfers in one batch of dense pieces of one rank.
pub const BATCH_TRANSFERS_MAX: usize = 8 * BATCH_TRANSFERS;

/// The cache state of the bytes that a read wants: whether the read waits for the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheState {
    /// The read does not wait: the bytes are in memory, or in a cache of this machine.
    #[default]
    Cached,
    /// The read waits for the storage.
    Uncached,
}

/// Treatment of the holes of a write: the bytes between its runs, which no rank asked to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Holes {
    /// The holes are not touched.
    #[default]
    Untouched,
    /// The user promises that no other operation writes to the holes during the write, so they may be
    /// read and written back.
    Rewritten,
}

/// How the access of one rank is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// List I/O: each piece goes straight between the file and user memory.
    List,
    /// Run of the file by run of the file. The bytes of a run are gathered from user memory in a buffer,
    /// or scattered from it.
    Packed,
    /// Through a sieve buffer that passes over the whole span.
    SieveBuffer,
}

/// Whether one rank sieves: moves more bytes than the access has, by fewer calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SieveMode {
    /// Wherever it can.
    Always,
    /// Never.
    Never,
    /// Where it is estimated to cost less.
    #[default]
    Automatic,
}

/// How one rank sieves, for one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sieve {
    /// Whether the rank sieves.
    pub mode: SieveMode,
    /// Bytes of the sieve buffer, at least 1.
    pub buffer_bytes: u64,
}

impl Default for Sieve {
    fn default() -> Self {
        Self { mode: SieveMode::Automatic, buffer_bytes: SIEVE_BUFFER_BYTES }
    }
}

/// Chooses the way with the lowest estimated cost. Pure. The access has b bytes in f runs of the file, in
/// a span of s bytes, and m runs of memory:
///
/// * list I/O takes f calls with at most f + m - 1 pieces, and moves b bytes;
/// * packed takes f calls with f pieces, moves b bytes and copies b bytes;
/// * a sieve buffer of v bytes takes s / v calls, moves s bytes and copies b bytes. A write needs the
///   promise of the user ([`Holes::Rewritten`]), takes twice the calls and moves s bytes twice.
///
/// A cold read also waits: for s bytes with a sieve buffer, else for b bytes and f runs. Runs that lie
/// near each other count as fewer runs.
pub fn choose(
    side: &FileSide,
    memory_runs: u64,
    direction: Direction,
    cache_state: CacheState,
    holes: Holes,
) -> Way {
    choose_with(side, memory_runs, direction, cache_state, holes, Sieve::default())
}

/// As [`choose`], with a sieve buffer of another size, or none, or always one. Pure.
pub fn choose_with(
    side: &FileSide,
    memory_runs: u64,
    direction: Direction,
    cache_state: CacheState,
    holes: Holes,
    sieve: Sieve,
) -> Way {
    let (bytes, span) = (side.bytes(), side.span());
    let span_bytes = span.end - span.start;
    let file_runs = side.run_count();
    let cost = |count: u64, each: u64| u128::from(count) * u128::from(each);
    let (copy, waits) = match direction {
        Direction::Read => (cost(bytes, COPY_OUT_PS), cache_state == CacheState::Uncached),
        Direction::Write => (cost(bytes, COPY_IN_PS), false),
    };
    let wait = |bytes: u64, apart: u64| {
        if waits { cost(bytes, COLD_BYTE_PS) + cost(apart, COLD_RUN_PS) } else { 0 }
    };
    let runs = cost(file_runs, CALL_PS + PIECE_PS)
        + cost(bytes, MOVE_PS)
        + wait(bytes, file_runs.min(span_bytes / COLD_APART_BYTES));
    let (list, packed) = (runs + cost(memory_runs.saturating_sub(1), PIECE_PS), runs + copy);
    let (passes, may_sieve) = match direction {
        Direction::Read => (1, true),
        Direction::Write => (2, holes == Holes::Rewritten),
    };
    let sieved = cost(span_bytes, passes * MOVE_PS)
        + cost(span_bytes.div_ceil(sieve.buffer_bytes.max(1)), passes * CALL_PS)
        + copy
        + wait(span_bytes, 0);
    let sieves = match sieve.mode {
        SieveMode::Always => file_runs > 1,
        SieveMode::Never => false,
        SieveMode::Automatic => file_runs > 3 && sieved < list.min(packed),
    };
    if may_sieve && side.is_monotone() && sieves {
        Way::SieveBuffer
    } else if packed < list {
        Way::Packed
    } else {
        Way::List
    }
}

/// Returns the span of the runs that `each` visits in rising order, if it is cheaper to fill the holes:
/// to read them and to write the whole span by one call, instead of writing run by run. Pure.
pub fn span_to_fill(each: impl FnOnce(&mut dyn FnMut(Range<u64>))) -> Option<Range<u64>> {
    let (mut runs, mut bytes, mut span) = (0, 0, 0..0);
    each(&mut |run| {
        runs += 1;
        bytes += run.end - run.start;
        span = if runs == 1 { run } else { span.start..run.end };
    });
    is_filling_cheaper(runs, bytes, span.end - span.start).then_some(span)
}

fn is_filling_cheaper(runs: u64, bytes: u64, span_bytes: u64) -> bool {
    let cost = |count: u64, each: u64| u128::from(count) * u128::from(each);
    let by_run = cost(runs, CALL_PS + PIECE_PS) + cost(bytes, MOVE_PS);
    let filled = cost(2, CALL_PS + PIECE_PS) + cost(span_bytes, 2 * MOVE_PS);
    runs > 1 && filled < by_run
}

/// Plans the reads of the holes of a span. Each read takes a part of at most [`SIEVE_BUFFER_BYTES`]. A
/// part begins at the first hole that the part before does not hold.
#[derive(Debug)]
pub struct HoleReads {
    at: u64,
    span_end: u64,
    held: Range<u64>,
}

impl HoleReads {
    /// Starts with a span whose first byte belongs to a run.
    pub fn new(span: &Range<u64>) -> Self {
        Self { at: span.start, span_end: span.end, held: 0..0 }
    }

    /// Takes the next run of the span. Calls `visit` for each hole before the run, cut so that it lies
    /// within one part, with the part and whether the part must be read now.
    pub fn before(&mut self, run: &Range<u64>, mut visit: impl FnMut(Range<u64>, &Range<u64>, bool)) {
        while self.at < run.start {
            let is_new = self.at >= self.held.end;
            if is_new {
                self.held = self.at..self.span_end.min(self.at + SIEVE_BUFFER_BYTES);
            }
            let hole = self.at..run.start.min(self.held.end);
            self.at = hole.end;
            visit(hole, &self.held, is_new);
        }
        self.at = run.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capulet_datatype::{Datatype, Named, Tiled};

    /// A thousand runs of `bytes` bytes, one in each period of `period_bytes`.
    fn way(bytes: u64, period_bytes: i64, direction: Direction, cache_state: CacheState) -> Way {
        way_among(bytes, period_bytes, direction, cache_state, Holes::Untouched)
    }

    fn way_among(
        bytes: u64,
        period_bytes: i64,
        direction: Direction,
        cache_state: CacheState,
        holes: Holes,
    ) -> Way {
        let count = 1000;
        let runs = Datatype::hvector(count, bytes, period_bytes, &Datatype::named(Named::Byte)).unwrap();
        let tiled = Tiled::new(runs.layout().clone(), 1).unwrap();
        let side = FileSide::of_view(0, &tiled, 0, count * bytes).unwrap();
        choose(&side, 1, direction, cache_state, holes)
    }

    #[test]
    fn hints_decide_whether_a_sieve_buffer_is_taken() {
        let count = 1000;
        let way = |bytes: u64, period_bytes: i64, direction: Direction, holes: Holes, sieve: Sieve| {
            let runs = Datatype::hvector(count, bytes, period_bytes, &Datatype::named(Named::Byte)).unwrap();
            let tiled = Tiled::new(runs.layout().clone(), 1).unwrap();
            let side = FileSide::of_view(0, &tiled, 0, count * bytes).unwrap();
            choose_with(&side, 1, direction, CacheState::Cached, holes, sieve)
        };
        let read = |bytes, period, sieve| way(bytes, period, Direction::Read, Holes::Untouched, sieve);
        let mode = |mode| Sieve { mode, ..Sieve::default() };
        assert_eq!(read(64, 128, mode(SieveMode::Never)), Way::List);
        assert_eq!(read(4096, 65536, mode(SieveMode::Always)), Way::SieveBuffer);
        let small = Sieve { buffer_bytes: 64, ..Sieve::default() };
        assert_eq!((read(64, 128, Sieve::default()), read(64, 128, small)), (Way::SieveBuffer, Way::List));
        let write = |holes, mode| way(64, 128, Direction::Write, holes, Sieve { mode, ..Sieve::default() });
        assert_eq!(write(Holes::Untouched, SieveMode::Always), Way::List, "without a promise");
        assert_eq!(write(Holes::Rewritten, SieveMode::Automatic), Way::SieveBuffer);
        assert_eq!(write(Holes::Rewritten, SieveMode::Never), Way::List);
    }

    #[test]
    fn cold_reads_use_the_sieve_buffer_for_larger_and_sparser_runs_than_hot_reads() {
        let both = |bytes, period| {
            [CacheState::Cached, CacheState::Uncached]
                .map(|cache_state| way(bytes, period, Direction::Read, cache_state))
        };
        assert_eq!(both(64, 128), [Way::SieveBuffer; 2]);
        assert_eq!(both(64, 1024), [Way::SieveBuffer; 2]);
        assert_eq!(both(512, 8192), [Way::List, Way::SieveBuffer]);
        assert_eq!(both(4096, 8192), [Way::List, Way::SieveBuffer]);
        assert_eq!(both(4096, 16384), [Way::List, Way::SieveBuffer]);
        assert_eq!(both(4096, 65536), [Way::List; 2]);
        assert_eq!(both(512, 32768), [Way::List, Way::SieveBuffer]);
        assert_eq!(both(16384, 65536), [Way::List; 2]);
        for cache_state in [CacheState::Cached, CacheState::Uncached] {
            assert_eq!(way(64, 128, Direction::Write, cache_state), Way::List);
        }
    }

    #[test]
    fn holes_are_rewritten_only_with_a_promise_and_if_cheaper() {
        let write =
            |bytes, period| way_among(bytes, period, Direction::Write, CacheState::Cached, Holes::Rewritten);
        assert_eq!(
            (write(64, 128), write(64, 1024), write(64, 4096)),
            (Way::SieveBuffer, Way::SieveBuffer, Way::List)
        );
        assert!(is_filling_cheaper(100, 6400, 12_800) && !is_filling_cheaper(100, 6400, 409_600));
        assert!(
            !is_filling_cheaper(1, 64, 64) && !is_filling_cheaper(2, 64, 128),
            "both ways take two calls"
        );
    }

    #[test]
    fn holes_are_read_in_parts() {
        let runs = [10..20, 30..40, 40..50, SIEVE_BUFFER_BYTES + 40..SIEVE_BUFFER_BYTES + 41];
        let mut reads = HoleReads::new(&(10..SIEVE_BUFFER_BYTES + 41));
        let (mut holes, mut parts) = (Vec::new(), Vec::new());
        for run in &runs {
            reads.before(run, |hole, held, is_new| {
                assert!(held.start <= hole.start && hole.end <= held.end);
                holes.push(hole);
                parts.extend(is_new.then(|| held.clone()));
            });
        }
        assert_eq!(
            holes,
            [20..30, 50..SIEVE_BUFFER_BYTES + 20, SIEVE_BUFFER_BYTES + 20..SIEVE_BUFFER_BYTES + 40]
        );
        assert_eq!(parts, [20..SIEVE_BUFFER_BYTES + 20, SIEVE_BUFFER_BYTES + 20..SIEVE_BUFFER_BYTES + 41]);
    }
}
