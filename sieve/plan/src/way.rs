//! How one rank alone carries its access out: what each way is estimated to cost.

use capulet_drivers::Direction;

use crate::side::FileSide;

/// What a system call costs that moves no byte, in picoseconds: measured with `pread` of 8 bytes of a file in memory.
const CALL_PS: u64 = 350_000;
/// What one more piece of memory costs in a vectored call, in picoseconds.
const PIECE_PS: u64 = 30_000;
/// What moving a byte to or from the file costs, in picoseconds: 10 GB/s.
const MOVE_PS: u64 = 100;
/// What copying a byte from a window costs that lies in the second-level cache, in picoseconds: 20 GB/s.
const COPY_OUT_PS: u64 = 50;
/// What copying a byte to such a window costs, in picoseconds: little, for the kernel then finds it in the cache, which a copy of its
/// own out of many pieces of memory would not. With rows of 1 KiB the packed way was measured 1.4 times as fast, a contiguous file both ways.
const COPY_IN_PS: u64 = 10;

/// Bytes of a window of one rank: with what it is copied from or to, half of a second-level cache.
pub const WINDOW_BYTES: u64 = 256 * 1024;
/// Runs of the file of so many bytes, two chunks of a page each, may be moved by chunks of several runs together.
pub const BAND_RUN_MIN_BYTES: u64 = 8192;
/// Transfers in one batch, but for dense pieces of one rank: what a vectored call takes.
pub const BATCH_TRANSFERS: usize = 1024;
/// Transfers in one batch of dense pieces of one rank.
pub const BATCH_TRANSFERS_MAX: usize = 8 * BATCH_TRANSFERS;

/// How one rank's access is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Piece by piece.
    List,
    /// Run of the file by run of the file, gathered from or scattered to memory.
    Packed,
    /// Window by window, of the whole span.
    Window,
}

/// The way that costs least. With b bytes in f runs of the file, in a span of s bytes, and m runs of memory: list I/O takes f calls
/// with at most f + m - 1 pieces and moves b bytes; packed, f calls with f pieces, and copies b; a window takes few calls, moves s bytes
/// and copies b. Pure.
pub fn choose(side: &FileSide, memory_runs: u64, direction: Direction) -> Way {
    let (bytes, span) = (side.bytes(), side.span());
    let file_runs = side.run_count();
    let cost = |count: u64, each: u64| u128::from(count) * u128::from(each);
    let runs = cost(file_runs, CALL_PS + PIECE_PS) + cost(bytes, MOVE_PS);
    let copy = match direction {
        Direction::Read => cost(bytes, COPY_OUT_PS),
        Direction::Write => cost(bytes, COPY_IN_PS),
    };
    let (list, packed) = (runs + cost(memory_runs.saturating_sub(1), PIECE_PS), runs + copy);
    let window = cost(span.end - span.start, MOVE_PS) + copy;
    if direction == Direction::Read && side.is_monotone() && file_runs > 3 && window < list.min(packed) {
        Way::Window
    } else if packed < list {
        Way::Packed
    } else {
        Way::List
    }
}
