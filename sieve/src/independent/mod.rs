//! One rank's access, carried out by that rank alone.
//!
//! Two ways, chosen by what they are estimated to cost ([`choose`]):
//! * [list I/O](list): each run of the file goes straight between the file and user memory. Nothing is copied.
//! * [a sieve window](window): a read of many small runs that lie near each other reads the span window by window and copies
//!   the runs out. Writes never do: the bytes between the runs would be written back.

pub mod list;
pub mod window;

use capulet_atomic::Footprint;
use capulet_drivers::Direction;

use crate::access::Access;
use crate::{Target, Transferred};

/// What a system call costs that reads no byte, in picoseconds: measured with `pread` of 8 bytes of a file in memory.
const CALL_PS: u64 = 350_000;
/// What reading a byte costs, in picoseconds: 10 GB/s.
const READ_PS: u64 = 100;
/// What copying a byte out of a window costs that lies in the second-level cache, in picoseconds: 20 GB/s.
const COPY_PS: u64 = 50;

/// How one rank's access is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Piece by piece.
    List,
    /// Through a window.
    Window,
}

/// The way that costs less. With r runs of b bytes in a span of s bytes: piece by piece takes r calls and reads b bytes,
/// a window takes few calls, reads s bytes and copies b. Pure.
pub fn choose(access: &Access, direction: Direction) -> Way {
    let (bytes, span) = (access.bytes(), access.span());
    let runs = access.run_count();
    if direction == Direction::Write || !access.is_monotone() || runs < 4 {
        return Way::List;
    }
    let cost = |count: u64, each: u64| u128::from(count) * u128::from(each);
    let list = cost(runs, CALL_PS) + cost(bytes, READ_PS);
    let window = cost(span.end - span.start, READ_PS) + cost(bytes, COPY_PS);
    if window < list { Way::Window } else { Way::List }
}

/// Carries `access` out on this rank alone. Blocks for the storage; makes no MPI call.
///
/// `bytes` of the outcome counts the bytes from the start of the access that were moved: short without an error where a
/// read meets the end of the file.
pub fn run(target: Target<'_>, access: &Access, direction: Direction) -> Transferred {
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
        Way::Window => window::read(target, access),
    }
}
