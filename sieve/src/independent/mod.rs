//! Carries out the access of one rank, without the other ranks.
//!
//! There are three ways, chosen by estimated cost ([`choose`]):
//! * [list I/O](list): each run of the file goes straight between the file and user memory. No byte is
//!   copied.
//! * [packed]: many small runs of user memory are gathered in a buffer that stays in the cache, or
//!   scattered from it, so that a run of the file is one piece. Runs whose bytes alternate in memory are
//!   moved together, a chunk of each at a time.
//! * [a sieve buffer](sieve_buffer): a read of many small runs that lie near each other reads the whole
//!   span through the sieve buffer, part by part, and copies the runs out. A write reads each part,
//!   copies the runs in and writes the part back, but only if the user promises that no other operation
//!   writes to the holes ([`Holes`]).

mod bands;
pub mod list;
pub mod packed;
pub mod sieve_buffer;

use capulet_atomic::{Guard, Isolation, Request, Waiting};
use capulet_drivers::{Batch, Direction, DriverFile, Transfer};
use capulet_plan::CacheState;
pub use capulet_plan::Way;
use capulet_plan::way::{BATCH_TRANSFERS, BATCH_TRANSFERS_MAX, SIEVE_BUFFER_BYTES};

use crate::access::Access;
use crate::counters::Counters;
use crate::footprint::footprint;
use crate::{Holes, Target, Transferred};

/// Greatest span in the file of a batch of more than [`BATCH_TRANSFERS`] transfers, in bytes. The driver
/// stores dense pieces through a mapping, and the mapped pages should still be in the cache when the
/// pieces are stored.
const BATCH_SPAN_BYTES: u64 = 128 * 1024;

/// Whether a batch should take no more transfers. The transfers are in the order of the access.
fn is_full(transfers: &[Transfer<'_>]) -> bool {
    let (Some(first), Some(last)) = (transfers.first(), transfers.last()) else { return false };
    transfers.len() >= BATCH_TRANSFERS
        && (transfers.len() >= BATCH_TRANSFERS_MAX || last.offset.abs_diff(first.offset) >= BATCH_SPAN_BYTES)
}

/// Chooses the way with the lowest estimated cost ([`capulet_plan::way::choose`]). Pure.
pub fn choose(access: &Access, direction: Direction, cache_state: CacheState, holes: Holes) -> Way {
    capulet_plan::way::choose(access.side(), access.memory_run_count(), direction, cache_state, holes)
}

/// Chooses the way for this file. The driver is asked whether a read would wait only if the answer
/// decides, and only about the first byte, because the question may make the system read ahead.
fn way_of(target: &Target, access: &Access, direction: Direction) -> Way {
    let sieve = match direction {
        Direction::Read => target.sieves.read,
        Direction::Write => target.sieves.write,
    };
    let (side, memory_runs, holes) = (access.side(), access.memory_run_count(), target.holes);
    let [hot, cold] = [CacheState::Cached, CacheState::Uncached]
        .map(|state| capulet_plan::way::choose_with(side, memory_runs, direction, state, holes, sieve));
    let waits = || target.file.would_wait(access.offset_of(0)) == Some(true);
    if hot != cold && waits() { cold } else { hot }
}

/// Carries out `access` on this rank alone. Blocks for the storage; makes no MPI call.
///
/// `bytes` of the outcome counts the bytes from the start of the access that were moved. The count is
/// short without an error if a read meets the end of the file.
pub fn run(target: &Target, access: &Access, direction: Direction) -> Transferred {
    if access.bytes() == 0 {
        return Transferred::default();
    }
    match target.enter(|| footprint(access.side(), direction)) {
        Ok(_guard) => publish(target.isolation.as_deref(), direction, move_bytes(target, access, direction)),
        Err(error) => Transferred::failed(error),
    }
}

/// Publishes what a write has written, while the access still holds its bytes. Returns the outcome of the
/// access.
fn publish(isolation: Option<&dyn Isolation>, direction: Direction, done: Transferred) -> Transferred {
    let Some(isolation) = isolation.filter(|_| direction == Direction::Write) else { return done };
    match isolation.publish() {
        Ok(()) => done,
        // The bytes may be lost, so none count as written.
        Err(error) => Transferred { error: done.error.or(Some(error.into())), ..Transferred::default() },
    }
}

/// Carries out an access of one run of the file and one run of memory, which is one transfer. Behaves
/// like [`run`], but borrows its arguments, because reference counts take a good part of the time of a
/// small access.
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
        Ok(_guard) => {
            let done = list::run_one(file, counters, Batch::of_one(direction, &mut transfer));
            publish(isolation, direction, done)
        }
        Err(error) => Transferred::failed(error),
    }
}

/// The state of a polled access in atomic mode that waits until it may begin.
#[derive(Debug)]
pub struct LockEntry {
    request: Request,
    waiting: Waiting,
}

impl LockEntry {
    /// An access that begins to wait.
    pub fn new(access: &Access, direction: Direction) -> Self {
        Self { request: footprint(access.side(), direction), waiting: Waiting::new() }
    }
}

/// Carries out `access` like [`run`], but returns `None` and does nothing if it must wait for another
/// access in atomic mode. For operations that are polled.
pub fn try_run(
    target: &Target,
    access: &Access,
    direction: Direction,
    entry: &mut LockEntry,
) -> Option<Transferred> {
    let Some(isolation) = target.isolation.as_ref().filter(|_| access.bytes() > 0) else {
        return Some(run(target, access, direction));
    };
    match isolation.try_enter(&entry.request, &mut entry.waiting) {
        Ok(None) => None,
        Ok(Some(_guard)) => {
            Some(publish(target.isolation.as_deref(), direction, move_bytes(target, access, direction)))
        }
        Err(error) => Some(Transferred::failed(error)),
    }
}

fn move_bytes(target: &Target, access: &Access, direction: Direction) -> Transferred {
    if let Some(piece) = list::only_piece(access) {
        let mut transfer = piece.transfer(access);
        let batch = Batch::of_one(direction, &mut transfer);
        return list::run_one(target.file.as_ref(), &target.counters, batch);
    }
    match way_of(target, access, direction) {
        Way::List => list::run(target, access, direction),
        Way::Packed => packed::run(target, access, direction),
        Way::SieveBuffer if direction == Direction::Read => sieve_buffer::read(target, access),
        // The sieve buffer could not be used. List I/O writes all runs, also those that are already
        // written.
        Way::SieveBuffer => sieve_buffer::write(target, access)
            .unwrap_or_else(|sieve_buffer::Refused| list::run(target, access, direction)),
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
    fn only_dense_pieces_exceed_the_batch_limit_of_one_call() {
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
