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
pub use capulet_plan::Way;
use capulet_plan::way::WINDOW_BYTES;

use crate::access::Access;
use crate::{Target, Transferred};

/// The way that costs least ([`capulet_plan::way::choose`]). Pure.
pub fn choose(access: &Access, direction: Direction) -> Way {
    capulet_plan::way::choose(access.side(), access.memory_run_count(), direction)
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
