//! Many small pieces that lie near each other are stored through a mapping of the file: a piece costs a copy then, and not a
//! system call. Only the asked bytes are touched, and what others write between them stays.
//!
//! Pages of a mapping that the storage has no room for are a signal when they are touched. So the space is reserved first
//! (`fallocate(2)`), and the pages are made writable by a call that fails where a store would raise the signal
//! (`MADV_POPULATE_WRITE`, Linux 5.14). If either fails the pieces are written by calls, which then tell the reason. What is left is a
//! file that another process cuts short at that moment: such a race is a fault of the program, with or without mappings.

use crate::{Batch, Direction};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use nix::fcntl::FallocateFlags;

/// Fewer pieces are written by calls.
const PIECES_MIN: usize = 64;
/// Pieces that are further apart on average are written by calls: one costs about as much as a page of a mapping.
const PERIOD_BYTES_MAX: u64 = 2048;
/// Multiples of every page size that Linux has.
const PAGE_BYTES: u64 = 64 << 10;

/// The bytes of the file that a batch is to be stored through, or none if calls are better.
pub(super) fn range_of(batch: &Batch<'_>) -> Option<Range<u64>> {
    let transfers = batch.transfers();
    if batch.direction() != Direction::Write || transfers.len() < PIECES_MIN {
        return None;
    }
    let (mut end, mut pieces) = (0, 0_u64);
    for transfer in transfers {
        // In rising order, as the results count from the start and the range is that of the first and the last.
        if transfer.offset < end {
            return None;
        }
        pieces += u64::from(transfer.offset > end || pieces == 0);
        end = transfer.offset.checked_add(transfer.memory.bytes() as u64)?;
    }
    let first = transfers.first()?.offset;
    let is_dense = pieces >= PIECES_MIN as u64 && (end - first) / pieces <= PERIOD_BYTES_MAX;
    (is_dense && i64::try_from(end).is_ok()).then_some(first..end)
}

/// A part of a file in memory, resident and writable.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// The file offset of `start`.
    offset: u64,
}

impl Mapping {
    /// Reserves and maps bytes of a file that is open for reading and writing; extends the file to the end of the range if it is
    /// shorter. `None` if that cannot be; then nothing was stored.
    pub(super) fn new(fd: BorrowedFd<'_>, range: &Range<u64>) -> Option<Self> {
        let reserved = range.end - range.start;
        nix::fcntl::fallocate(fd, FallocateFlags::empty(), range.start as i64, reserved as i64).ok()?;
        let offset = range.start - range.start % PAGE_BYTES;
        let bytes = usize::try_from(range.end - offset).ok()?;
        // SAFETY: a new mapping at an address of the system's choice, of a descriptor that is borrowed, hence open.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as i64,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let mapping = Self { start: NonNull::new(start.cast())?, bytes, offset };
        mapping.populate(range).then_some(mapping)
    }

    /// Makes the pages of the range resident and writable. False where a store would raise a signal.
    fn populate(&self, range: &Range<u64>) -> bool {
        // SAFETY: sysconf(3) only answers.
        let page =
            usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE_BYTES as usize);
        let lead = (range.start - self.offset) as usize;
        let first = lead - lead % page;
        // SAFETY: within the mapping, from the start of a page on; the call changes no byte (madvise(2)).
        let status = unsafe {
            libc::madvise(
                self.start.as_ptr().add(first).cast::<c_void>(),
                self.bytes - first,
                libc::MADV_POPULATE_WRITE,
            )
        };
        status == 0
    }

    /// Stores the pieces of a batch, and returns their bytes.
    pub(super) fn store(&self, batch: &Batch<'_>) -> u64 {
        for transfer in batch.transfers() {
            let place = (transfer.offset - self.offset) as usize;
            let bytes = transfer.memory.bytes();
            assert!(place <= self.bytes && bytes <= self.bytes - place, "a piece beyond the mapping");
            // SAFETY: the place lies in the mapping by the assertion, and the mapping is nobody's Rust object; the segment is
            // one of a batch that writes, valid for reads while the batch lives. Where the user's memory is a mapping of the same
            // bytes of the file the copy is to itself, as `ptr::copy` allows.
            unsafe { ptr::copy(transfer.memory.address(), self.start.as_ptr().add(place), bytes) };
        }
        batch.bytes()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
