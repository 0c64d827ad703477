//! One rank's access, carried out by that rank alone.
//!
//! Three ways, chosen by what they are estimated to cost ([`choose`]):
//! * [list I/O](list): each run of the file goes straight between the file and user memory. Nothing is copied.
//! * [packed]: user memory of many small runs is gathered in a window that stays in the cache, so that a run of the
//!   file is one piece; or scattered from there. Runs whose bytes alternate in memory go together, a chunk of each at a time.
//! * [a sieve window](window): a read of many small runs that lie near each other reads the span window by window and copies
//!   the runs out. A write reads it, copies the runs in and writes it back, but only where the user promises that nobody else writes
//!   there ([`Holes`]).

mod bands;
pub mod list;
pub mod packed;
pub mod window;

use capulet_atomic::{Guard, Isolation, Request, Waiting};
use capulet_drivers::{Batch, Direction, DriverFile, Transfer};
use capulet_plan::Heat;
pub use capulet_plan::Way;
use capulet_plan::way::{BATCH_TRANSFERS, BATCH_TRANSFERS_MAX, WINDOW_BYTES};

use crate::access::Access;
use crate::counters::Counters;
use crate::footprint::footprint;
use crate::{Holes, Target, Transferred};

/// Bytes of the file that a batch of more than the least may span: the driver stores dense pieces through a mapping, whose pages shall
/// be in the cache still when the pieces are stored.
const BATCH_SPAN_BYTES: u64 = 128 * 1024;

/// Whether a batch shall take no more transfers. They are in the order of the access.
fn is_full(transfers: &[Transfer<'_>]) -> bool {
    let (Some(first), Some(last)) = (transfers.first(), transfers.last()) else { return false };
    transfers.len() >= BATCH_TRANSFERS
        && (transfers.len() >= BATCH_TRANSFERS_MAX || last.offset.abs_diff(first.offset) >= BATCH_SPAN_BYTES)
}

/// The way that costs least ([`capulet_plan::way::choose`]). Pure.
pub fn choose(access: &Access, direction: Direction, heat: Heat, holes: Holes) -> Way {
    capulet_plan::way::choose(access.side(), access.memory_run_count(), direction, heat, holes)
}

/// The same of this file. The storage is asked whether a read would wait only where that decides, and about the first byte: asking
/// may start what the system reads ahead.
fn way(target: &Target, access: &Access, direction: Direction) -> Way {
    let [hot, cold] = [Heat::Hot, Heat::Cold].map(|heat| choose(access, direction, heat, target.holes));
    let waits = || target.file.would_wait(access.offset_of(0)) == Some(true);
    if hot != cold && waits() { cold } else { hot }
}

/// Carries `access` out on this rank alone. Blocks for the storage; makes no MPI call.
///
/// `bytes` of the outcome counts the bytes from the start of the access that were moved: short without an error where a
/// read meets the end of the file.
pub fn run(target: &Target, access: &Access, direction: Direction) -> Transferred {
    if access.bytes() == 0 {
        return Transferred::default();
    }
    match target.enter(|| footprint(access.side(), direction)) {
        Ok(_guard) => move_bytes(target, access, direction),
        Err(error) => Transferred::failed(error),
    }
}

/// As [`run`], for an access of one run of the file and one of memory, which is one transfer: what it works on is borrowed, for to count
/// who has it takes a good part of the time of a small one.
pub fn run_one(
    file: &dyn DriverFile,
    isolation: Option<&dyn Isolation>,
    counters: &Counters,
    mut transfer: Transfer<'_>,
    direction: Direction,
) -> Transferred {
    let bytes = transfer.offset..transfer.offset + transfer.memory.bytes() as u64;
    let request = || Request::contiguous(bytes, direction == Direction::Read);
    match isolation.map_or_else(|| Ok(Guard::empty()), |isolation| isolation.enter(&request())) {
        Ok(_guard) => list::run_one(file, counters, Batch::of_one(direction, &mut transfer)),
        Err(error) => Transferred::failed(error),
    }
}

/// What an access in atomic mode waits with until it may begin, if it is polled.
#[derive(Debug)]
pub struct Entry {
    request: Request,
    waiting: Waiting,
}

impl Entry {
    /// It begins to wait.
    pub fn new(access: &Access, direction: Direction) -> Self {
        Self { request: footprint(access.side(), direction), waiting: Waiting::new() }
    }
}

/// As [`run`], but `None`, and nothing is done, where another access has to be waited for in atomic mode. For operations that are
/// polled.
pub fn try_run(
    target: &Target,
    access: &Access,
    direction: Direction,
    entry: &mut Entry,
) -> Option<Transferred> {
    let Some(isolation) = target.isolation.as_ref().filter(|_| access.bytes() > 0) else {
        return Some(run(target, access, direction));
    };
    match isolation.try_enter(&entry.request, &mut entry.waiting) {
        Ok(None) => None,
        Ok(Some(_guard)) => Some(move_bytes(target, access, direction)),
        Err(error) => Some(Transferred::failed(error)),
    }
}

fn move_bytes(target: &Target, access: &Access, direction: Direction) -> Transferred {
    if let Some(piece) = list::only_piece(access) {
        let mut transfer = piece.transfer(access);
        let batch = Batch::of_one(direction, &mut transfer);
        return list::run_one(target.file.as_ref(), &target.counters, batch);
    }
    match way(target, access, direction) {
        Way::List => list::run(target, access, direction),
        Way::Packed => packed::run(target, access, direction),
        Way::Window if direction == Direction::Read => window::read(target, access),
        // The runs alone then, those that were written once more.
        Way::Window => window::write(target, access)
            .unwrap_or_else(|window::Refused| list::run(target, access, direction)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transfers of one byte at each multiple of `stride_bytes`.
    fn transfers(count: usize, stride_bytes: u64) -> Vec<Transfer<'static>> {
        (0..count as u64).map(|i| Transfer::from_memory(i * stride_bytes, &[0])).collect()
    }

    #[test]
    fn a_batch_takes_more_than_a_call_only_of_dense_pieces() {
        assert!(!is_full(&[]));
        assert!(!is_full(&transfers(BATCH_TRANSFERS - 1, 1 << 20)));
        assert!(is_full(&transfers(BATCH_TRANSFERS, 1 << 20)));
        assert!(!is_full(&transfers(BATCH_TRANSFERS, 32)));
        let spanning = (BATCH_SPAN_BYTES / 32) as usize + 1;
        assert!(!is_full(&transfers(spanning - 1, 32)) && is_full(&transfers(spanning, 32)));
        assert!(
            !is_full(&transfers(BATCH_TRANSFERS_MAX - 1, 1)) && is_full(&transfers(BATCH_TRANSFERS_MAX, 1))
        );
    }
}
