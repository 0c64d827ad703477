//! The memory of a shared window: one allocation of MPI's, cut into a control page, data and a map per rank.
//!
//! ```text
//! part of a rank:  | control page | data: `bytes` | map: one bit per byte of data |
//! ```
//! Memory: N (4 KiB + B + B / 8) for N ranks with B bytes each, rounded up to pages, made resident at once: a window that
//! does not fit in the machine's shared memory is an error here, not a signal later.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use std::{io, ptr};

use crate::agree::ReduceOp;
use crate::collective;
use crate::control::{Control, Departure};
use crate::error::{Result, check};
use crate::message::Wire;
use crate::pool::Pools;
use crate::words::WordMemory;
use crate::{cgroup, consts, ffi};

const PAGE_BYTES: usize = 4096;
/// How long the end of a window waits for the other ranks of the node.
const PATIENCE: Duration = Duration::from_secs(3);

/// The parts of one rank, as this process sees them.
#[derive(Debug, Clone, Copy)]
struct Part {
    control: *const Control,
    data: *mut u8,
    map: *const AtomicU64,
}

/// A shared window.
#[derive(Debug)]
pub(crate) struct Memory {
    win: ffi::MPI_Win,
    place: usize,
    bytes: usize,
    parts: Vec<Part>,
}

// SAFETY: the pointers lead into a mapping that lives until `release`, which consumes the value; control and map are
// reached as atomics only, and data as raw pointers whose use the caller must justify. The window handle is a name.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// The bytes of one rank's part, and where its pieces start.
#[derive(Debug, Clone, Copy)]
struct Plan {
    bytes: usize,
    part_bytes: usize,
}

impl Plan {
    /// `None` if the size cannot be addressed.
    fn of(bytes: usize, ranks: usize) -> Option<Self> {
        // Powers of two: a window that grows step by step leaves behind at most as much as it has.
        let bytes = bytes.max(PAGE_BYTES).checked_next_power_of_two()?;
        let map_bytes = (bytes / 8).next_multiple_of(PAGE_BYTES);
        let part_bytes = bytes.checked_add(map_bytes)?.checked_add(PAGE_BYTES)?;
        // One page more per rank, because MPI does not promise to align.
        let total = part_bytes.checked_add(PAGE_BYTES)?.checked_mul(ranks)?;
        (isize::try_from(total).is_ok()).then_some(Plan { bytes, part_bytes })
    }

    fn allocated_bytes(self) -> usize {
        self.part_bytes + PAGE_BYTES
    }
}

impl Memory {
    /// Makes a window on a node. Collective over the node. `None` if memory is short on any rank.
    pub(crate) fn allocate(comm: ffi::MPI_Comm, wire: Wire<'_>, bytes: usize) -> Result<Option<Memory>> {
        let ranks = wire.size as usize;
        let plan = Plan::of(bytes, ranks).filter(|plan| fits(plan.allocated_bytes().saturating_mul(ranks)));
        // Not every MPI survives it if the allocation fails on one rank only, so that is ruled out beforehand.
        let [true] = agree(wire, [plan.is_some()])? else { return Ok(None) };
        let Some(plan) = plan else { return Ok(None) };
        let made = Self::make(comm, wire, plan);
        if let Err(error) = &made {
            tracing::warn!(%error, bytes = plan.bytes, "no shared window");
        }
        let ready = made.as_ref().is_ok_and(Self::populate);
        let [all_made, all_ready] = agree(wire, [made.is_ok(), ready])?;
        match made {
            Ok(memory) if all_ready => Ok(Some(memory)),
            Ok(memory) if all_made => {
                memory.free_window();
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn make(comm: ffi::MPI_Comm, wire: Wire<'_>, plan: Plan) -> Result<Memory> {
        let mut win = consts::win_null();
        let mut base: *mut c_void = ptr::null_mut();
        // SAFETY: every rank of the node calls this with the same size; writes the base address and a handle
        // (MPI-4.0 section 12.2.3).
        let status = unsafe {
            ffi::MPI_Win_allocate_shared(
                plan.allocated_bytes() as ffi::MPI_Aint,
                1,
                consts::info_null(),
                comm,
                (&raw mut base).cast::<c_void>(),
                &raw mut win,
            )
        };
        check("MPI_Win_allocate_shared", status)?;
        // SAFETY: the window is ours; the handler is predefined.
        let status = unsafe { ffi::MPI_Win_set_errhandler(win, consts::errors_return()) };
        check("MPI_Win_set_errhandler", status)?;
        // SAFETY: the window is ours and no epoch is open. The epoch stays open until the window is freed, so that loads
        // and stores are always inside one.
        check("MPI_Win_lock_all", unsafe { ffi::MPI_Win_lock_all(consts::mode_nocheck(), win) })?;
        let parts = (0..wire.size).map(|rank| part_of(win, rank, plan)).collect::<Result<Vec<_>>>()?;
        let memory = Memory { win, place: wire.rank as usize, bytes: plan.bytes, parts };
        Ok(memory)
    }

    /// Makes this rank's part resident and zero. False if the machine has no memory for it.
    fn populate(&self) -> bool {
        if !is_unified(self.win) {
            return false;
        }
        let part = self.parts[self.place];
        let part_bytes = PAGE_BYTES + self.bytes + (self.bytes / 8).next_multiple_of(PAGE_BYTES);
        let start = part.control.cast_mut().cast::<c_void>();
        // SAFETY: the range is page-aligned, lies in this rank's part of a mapping that we own, and nobody uses it yet.
        // The call touches each page without changing it, and fails where a store would raise a signal (madvise(2)).
        let status = unsafe { libc::madvise(start, part_bytes, libc::MADV_POPULATE_WRITE) };
        // EINVAL: a kernel before 5.14, which cannot tell.
        if status != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            return false;
        }
        // SAFETY: as above, and now resident. Zero is a valid control page and an empty map. The agreement that follows
        // orders this before any use by another rank.
        unsafe {
            ptr::write_bytes(start.cast::<u8>(), 0, PAGE_BYTES);
            ptr::write_bytes(part.map.cast_mut().cast::<u8>(), 0, self.bytes / 8);
        }
        true
    }

    /// Data bytes of a window that has so many words.
    pub(crate) fn bytes_for_words(count: usize) -> usize {
        count * u64::BITS as usize
    }

    /// Data bytes per rank.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn ranks(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn place(&self) -> usize {
        self.place
    }

    pub(crate) fn data(&self, rank: usize) -> *mut u8 {
        self.parts[rank].data
    }

    pub(crate) fn map(&self, rank: usize) -> &[AtomicU64] {
        // SAFETY: the map has one bit per data byte, that is bytes / 64 words (bytes is a power of two of at least a
        // page); it lies page-aligned in a mapping that outlives `self`, and is reached as atomics only.
        unsafe { std::slice::from_raw_parts(self.parts[rank].map, self.bytes / 64) }
    }

    pub(crate) fn control(&self, rank: usize) -> &Control {
        // SAFETY: page-aligned, zeroed before the window was handed out, in a mapping that outlives `self`; all fields
        // are atomics.
        unsafe { &*self.parts[rank].control }
    }

    /// The page on which the ranks of the node meet.
    pub(crate) fn leader(&self) -> &Control {
        self.control(0)
    }

    /// Gives the memory of data and maps back to the machine. Only after all ranks have departed.
    fn discard(&self) {
        for part in &self.parts {
            let bytes = self.bytes + (self.bytes / 8).next_multiple_of(PAGE_BYTES);
            // SAFETY: the range is page-aligned and lies in our mapping, and no rank uses it any more. Where the
            // mapping cannot be punched, nothing happens (madvise(2)).
            unsafe { libc::madvise(part.data.cast::<c_void>(), bytes, libc::MADV_REMOVE) };
        }
    }

    /// Frees the window. Collective over the node; the others must be known to come.
    fn free_window(mut self) {
        // SAFETY: the window is ours, its epoch is open since it was made, and `self` is consumed: no pointer into the
        // mapping is left.
        let status = unsafe {
            ffi::MPI_Win_unlock_all(self.win);
            ffi::MPI_Win_free(&raw mut self.win)
        };
        if let Err(error) = check("MPI_Win_free", status) {
            tracing::warn!(%error, "a shared window is leaked");
        }
    }
}

/// The words of its map, for windows that are made for their words.
impl WordMemory for Memory {
    fn words(&self, rank: usize) -> &[AtomicU64] {
        self.map(rank)
    }
}

/// Those of windows that are made for their words.
pub(crate) static POOLS: Pools<Memory> = Pools::new();

/// In `MPI_Finalize`: frees them.
pub(crate) fn close() {
    POOLS.take_all().into_iter().for_each(|memory| Lot::new(memory).free());
}

/// A window that its group has let go of.
#[derive(Debug)]
pub(crate) struct Lot {
    memory: Arc<Memory>,
    departed: bool,
}

impl Lot {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Lot { memory, departed: false }
    }

    /// Tells the other ranks that this one is done with it, and gives the memory back when all are. Does not wait.
    pub(crate) fn depart(&mut self) {
        if self.departed || Arc::strong_count(&self.memory) > 1 {
            return;
        }
        self.departed = true;
        if self.memory.leader().depart(self.memory.ranks() as u32) {
            self.memory.discard();
        }
    }

    /// Frees the window as soon as all ranks of the node are here too. If they do not come for a long time, or someone
    /// still holds the window, it is leaked on all ranks.
    pub(crate) fn free(mut self) {
        self.depart();
        if !self.departed {
            self.memory.leader().abandon();
        }
        let ranks = self.memory.ranks() as u32;
        let outcome = self.memory.leader().await_departures(ranks, PATIENCE, crate::progress);
        match Arc::try_unwrap(self.memory) {
            Ok(memory) if outcome == Departure::Complete => memory.free_window(),
            _ => tracing::warn!("a shared window is leaked: not all ranks of the node let go of it"),
        }
    }
}

/// Whether every rank of the node says yes, per question.
fn agree<const N: usize>(wire: Wire<'_>, answers: [bool; N]) -> Result<[bool; N]> {
    let mut lanes = answers.map(u64::from);
    collective::allreduce(wire, &mut lanes, &[ReduceOp::Min; N])?;
    Ok(lanes.map(|lane| lane != 0))
}

/// Whether there is room for so many bytes of shared memory more, as far as can be told: in the file system that holds
/// it, and in the control groups of this process, whose limit ends a process where the file system would say no.
fn fits(bytes: usize) -> bool {
    let rooms = [free_bytes(c"/dev/shm"), cgroup::room_bytes()];
    rooms.into_iter().flatten().all(|room| room >= bytes as u64)
}

/// What a file system has left, bytes. `None` if it cannot be told.
fn free_bytes(path: &CStr) -> Option<u64> {
    let mut facts = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is a C string; the structure is written if the call succeeds.
    let status = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) };
    if status != 0 {
        return None;
    }
    // SAFETY: the call succeeded.
    let facts = unsafe { facts.assume_init() };
    Some(facts.f_bavail.saturating_mul(facts.f_frsize))
}

fn is_unified(win: ffi::MPI_Win) -> bool {
    let mut model: *mut c_int = ptr::null_mut();
    let mut found: c_int = 0;
    let target = (&raw mut model).cast::<c_void>();
    // SAFETY: the key is predefined; MPI stores a pointer to an int that it owns, and a flag (MPI-4.0 section 12.2.6).
    let status = unsafe { ffi::MPI_Win_get_attr(win, consts::window_model_key(), target, &raw mut found) };
    if status != 0 || found == 0 || model.is_null() {
        return false;
    }
    // SAFETY: found and not null: it points to MPI's int.
    unsafe { *model == consts::window_unified() }
}

fn part_of(win: ffi::MPI_Win, rank: u32, plan: Plan) -> Result<Part> {
    let mut size: ffi::MPI_Aint = 0;
    let mut unit: c_int = 0;
    let mut base: *mut c_void = ptr::null_mut();
    let target = (&raw mut base).cast::<c_void>();
    // SAFETY: the window is a shared one and the rank is in it; writes a size, a unit and an address.
    let status =
        unsafe { ffi::MPI_Win_shared_query(win, rank as c_int, &raw mut size, &raw mut unit, target) };
    check("MPI_Win_shared_query", status)?;
    let base = base.cast::<u8>();
    // Processes map the window at different addresses, but at the same place within a page: all find the same start.
    let control = base.wrapping_add(base.align_offset(PAGE_BYTES));
    let data = control.wrapping_add(PAGE_BYTES);
    let map = data.wrapping_add(plan.bytes);
    Ok(Part { control: control.cast(), data, map: map.cast() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_page_fits_in_its_page() {
        assert!(size_of::<Control>() <= PAGE_BYTES);
    }

    #[test]
    fn plans_hold_what_was_asked_for_and_reject_what_cannot_be() {
        let plan = Plan::of(100_000, 4).expect("small");
        assert_eq!(plan.bytes, 131_072);
        assert_eq!(plan.part_bytes, 131_072 + 16_384 + 4096);
        assert_eq!(Plan::of(0, 1).map(|plan| plan.bytes), Some(PAGE_BYTES));
        assert!(Plan::of(usize::MAX, 1).is_none());
        assert!(Plan::of(1 << 62, 3).is_none());
    }

    #[test]
    fn a_machine_has_room_for_a_page_but_not_for_everything() {
        assert!(fits(PAGE_BYTES));
        assert!(!fits(usize::MAX));
    }
}
