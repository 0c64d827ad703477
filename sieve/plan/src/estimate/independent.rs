//! The estimate for a rank that acts independently.

use super::count::Count;
use super::setup::RankPart;
use super::values::IndependentSteps;
use crate::way::{self, BAND_RUN_MIN_BYTES, BATCH_TRANSFERS, BATCH_TRANSFERS_MAX, SIEVE_BUFFER_BYTES};
use crate::{CacheState, Direction, FileSide, Holes, Way};

/// How many sieve buffers of one rank are visited one by one. Beyond this number, the estimate has only
/// bounds.
const BUFFERS_MAX: u64 = 100_000;

pub(super) fn estimate(
    part: &RankPart,
    direction: Direction,
    cache_state: CacheState,
    holes: Holes,
) -> IndependentSteps {
    let side = &part.side;
    let way = way::choose(side, part.memory_runs, direction, cache_state, holes);
    if side.bytes() == 0 {
        let nothing = Count::exactly(0);
        return IndependentSteps { way, pieces: nothing, batches: nothing, copied_bytes: 0, buffer_bytes: 0 };
    }
    let (pieces, batches) = match way {
        Way::List => listed(side.run_count(), part.memory_runs),
        Way::Packed if may_have_bands(side) => {
            let (pieces, batches) = packed(side);
            with_bands(side, pieces, batches)
        }
        Way::Packed => packed(side),
        Way::SieveBuffer if direction == Direction::Read => sieved(side),
        Way::SieveBuffer => read_and_written(sieved(side)),
    };
    let is_copied = way != Way::List;
    IndependentSteps {
        way,
        pieces,
        batches,
        copied_bytes: if is_copied { side.bytes() } else { 0 },
        buffer_bytes: if is_copied { SIEVE_BUFFER_BYTES } else { 0 },
    }
}

/// Dense pieces may take fewer batches.
fn in_batches(pieces: Count) -> Count {
    let least = pieces.least.div_ceil(BATCH_TRANSFERS_MAX as u64);
    Count { least, most: pieces.most.div_ceil(BATCH_TRANSFERS as u64) }
}

/// Every piece ends where a run of the file or a run of memory ends.
fn listed(file_runs: u64, memory_runs: u64) -> (Count, Count) {
    let (file_runs, memory_runs) = (file_runs.max(1), memory_runs.max(1));
    let pieces = Count { least: file_runs.max(memory_runs), most: file_runs.saturating_add(memory_runs - 1) };
    (pieces, in_batches(pieces))
}

/// The runs of each buffer's worth of bytes.
fn packed(side: &FileSide) -> (Count, Count) {
    let buffers = side.bytes().div_ceil(SIEVE_BUFFER_BYTES);
    if buffers > BUFFERS_MAX {
        let runs = side.run_count();
        let pieces = Count { least: runs, most: runs.saturating_add(buffers - 1) };
        return (pieces, Count { least: buffers, most: buffers.saturating_add(in_batches(pieces).most) });
    }
    let (mut pieces, mut batches) = (0, Count::exactly(0));
    for buffer in 0..buffers {
        let start = buffer * SIEVE_BUFFER_BYTES;
        let runs = side.run_count_of(start..side.bytes().min(start + SIEVE_BUFFER_BYTES));
        let more = in_batches(Count::exactly(runs));
        pieces += runs;
        batches = Count { least: batches.least + more.least, most: batches.most + more.most };
    }
    (Count::exactly(pieces), batches)
}

/// Whether the access may have bands: two runs that are long enough to be moved by chunks of both, if
/// their bytes alternate in memory.
fn may_have_bands(side: &FileSide) -> bool {
    const STEP_BYTES: u64 = BAND_RUN_MIN_BYTES / 2;
    if !side.is_monotone() || side.run_count() < 2 {
        return false;
    }
    if side.bytes() > BUFFERS_MAX * STEP_BYTES {
        return true;
    }
    // A run of two steps contains two places that are one step apart.
    let places = (0..side.bytes() / STEP_BYTES).map(|step| side.offset_of(step * STEP_BYTES));
    let is_long = |(at, next): (u64, u64)| next - at == STEP_BYTES;
    places.clone().zip(places.skip(1)).any(is_long)
}

/// The estimate does not know the layout of memory. Either each run is moved by itself, or a page or more
/// of each of several runs at a time, besides the pieces that begin or end a run.
fn with_bands(side: &FileSide, pieces: Count, batches: Count) -> (Count, Count) {
    let chunks =
        side.bytes().div_ceil(BAND_RUN_MIN_BYTES / 2).saturating_add(side.run_count().saturating_mul(2));
    let least = side.bytes().div_ceil(SIEVE_BUFFER_BYTES).min(batches.least);
    (
        Count { least: side.run_count().min(pieces.least), most: pieces.most.saturating_add(chunks) },
        Count { least, most: batches.most.saturating_add(chunks) },
    )
}

/// A part of the span without holes is not read before it is written.
fn read_and_written((pieces, batches): (Count, Count)) -> (Count, Count) {
    let twice = |count: Count| Count { least: count.least, most: count.most.saturating_mul(2) };
    (twice(pieces), twice(batches))
}

/// Each part begins with the first requested byte that the part before did not hold.
fn sieved(side: &FileSide) -> (Count, Count) {
    let (mut count, mut at) = (0, 0);
    while at < side.bytes() && count < BUFFERS_MAX {
        at = side.bytes_below(side.offset_of(at).saturating_add(SIEVE_BUFFER_BYTES));
        count += 1;
    }
    let rest = if at < side.bytes() { side.span().end - side.offset_of(at) } else { 0 };
    let count = Count { least: count, most: count + rest.div_ceil(SIEVE_BUFFER_BYTES) };
    (count, count)
}
