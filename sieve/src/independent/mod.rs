//! One rank's access, carried out by that rank alone.
//!
//! Three ways, chosen by what they are estimated to cost ([`choose`]):
//! * [list I/O](list): each run of the file goes straight between the file and user memory. Nothing is copied.
//! * [packed]: user memory of many small runs is gathered in a window that stays in the cache, so that a run of the
//!   file is one piece; or scattered from there.
//! * [a sieve window](window): a read of many small runs that lie near each other reads the span window by window and copies
//!   the runs out. Writes never do: the bytes between the runs would be written back.

pub mod list;
pub mod packed;
pub mod window;

use capulet_atomic::Footprint;
use capulet_drivers::Direction;

use crate::access::Access;
use crate::{Target, Transferred};

/// What a system call costs that moves no byte, in picoseconds: measured with `pread` of 8 bytes of a file in memory.
const CALL_PS: u64 = 350_000;
/// What one more piece of memory costs in a vectored call, in picoseconds.
const PIECE_PS: u64 = 30_000;
/// What moving a byte to or from the file costs, in picoseconds: 10 GB/s.
const MOVE_PS: u64 = 100;
/// What copying a byte to or from a window costs that lies in the second-level cache, in picoseconds: 20 GB/s.
const COPY_PS: u64 = 50;

/// Bytes of a window: with what it is copied from or to, half of a second-level cache.
const WINDOW_BYTES: u64 = 256 * 1024;

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
/// with f + m pieces and moves b bytes; packed, f calls with f pieces, and copies b; a window takes few calls, moves s bytes
/// and copies b. Pure.
pub fn choose(access: &Access, direction: Direction) -> Way {
    let (bytes, span) = (access.bytes(), access.span());
    let (file_runs, memory_runs) = (access.run_count(), access.memory_run_count());
    let cost = |count: u64, each: u64| u128::from(count) * u128::from(each);
    let runs = cost(file_runs, CALL_PS + PIECE_PS) + cost(bytes, MOVE_PS);
    let copy = cost(bytes, COPY_PS);
    let (list, packed) = (runs + cost(memory_runs, PIECE_PS), runs + copy);
    let window = cost(span.end - span.start, MOVE_PS) + copy;
    if direction == Direction::Read && access.is_monotone() && file_runs > 3 && window < list.min(packed) {
        Way::Window
    } else if packed < list {
        Way::Packed
    } else {
        Way::List
    }
}

/// Carries `access` out on this rank alone. Blocks for the storage; makes no MPI call.
///
/// `bytes` of the outcome counts the bytes from the start of the access that were moved: short without an error where a
/// read meets the end of the file.
pub fn run(target: &Target, access: &Access, direction: Direction) -> Transferred {
    if access.bytes() == 0 {
        return Transferred::default();
    }
    let footprint = Footprint { span: access.span(), writes: direction == Direction::Write };
    let _guard = match target.isolation.enter(&footprint) {
        Ok(guard) => guard,
        Err(error) => return Transferred { bytes: 0, error: Some(error.into()) },
    };
    match choose(access, direction) {
        Way::List => list::run(target, access, direction),
        Way::Packed => packed::run(target, access, direction),
        Way::Window => window::read(target, access),
    }
}
