//! Stores through a mapping of the file, where that takes less than system calls: only the asked bytes are touched, and what others
//! write between them stays.
//!
//! *Many small pieces that lie near each other*: a piece costs a copy then, and not a call.
//!
//! *Writers of one machine in memory* (tmpfs): a call that writes holds the file for as long as it copies, so that
//! processes write one after the other; stores of several processes go on at once. 32 MiB into a file that is there, 2 cores:
//! 11.9 ms by calls of 2 or 4 processes and 8.6 by stores, of one process 12.1 and 15. Pages that are to be made are
//! made faster by calls.
//!
//! # A full storage
//! A store to a page that the storage has no room for ends the process by a signal (`SIGBUS`). So no store
//! is made before every page of the batch has room, and that room must stay:
//! * *The file system keeps the room* (`FilesystemKind::keeps_reserved_room`).
//!   Btrfs, ZFS, F2FS and XFS with reflink copy on write: an overwrite takes a new block, whatever was
//!   reserved, so a filled disk raises the signal at a page that was written before. There all pieces are
//!   written by calls.
//! * *The first batch of a mapping reserves* the room of its range (`fallocate(2)`). A file system without
//!   reservation (ext2) says so, and the file is written by calls from then on.
//! * *Every batch makes its pages writable first*, all of them (`MADV_POPULATE_WRITE`, Linux 5.14; before,
//!   the call fails and the pieces are written by calls). The kernel asks the file system for the page's
//!   blocks then (`page_mkwrite`): where the file has a hole, ext4 and XFS take or reserve a block, tmpfs
//!   takes a page. The call fails where a store would raise the signal. So a mapping that was kept needs no
//!   new reservation, also over a hole. Room that is reserved in this way becomes blocks at writeback. The
//!   page is write-protected then, and the next store to it finds its blocks.
//! * *In memory* the pages may be known to be there (`mincore(2)`), and then they are only mapped.
//!
//! If a step fails, the pieces are written by calls, which tell the reason.
//!
//! Another process may cut the file and fill it again. Pages that are cut off leave the mapping, and the
//! next batch asks for the length and makes its pages writable like any other, so what was true of the file
//! before does not matter. What is left is a cut, or a hole punched, in the microseconds between the two
//! steps of one batch, and a file system that is shut down after an error of its device at that moment. The
//! first is a conflict of accesses, with or without mappings; but here both end the process by a signal.

use super::io::{SystemIo, reserve, uninterrupted};
use crate::{Batch, Direction, Transfer};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;

/// On a disk's file system fewer pieces are written by calls.
const PIECES_MIN: usize = 64;
/// There, pieces that are further apart on average are written by calls: one costs about as much as a page of a mapping.
const PERIOD_BYTES_MAX: u64 = 2048;
/// Mappings begin and end at multiples of this, which is one of every page size that Linux has: what the kernel holds of a file as one large
/// folio it maps at once only if all of it lies in the mapping, and else looks at all of it again for each page. Of 128 KiB in folios
/// of 2 MiB that took 480 us, and takes 21.
const ALIGN_BYTES: u64 = 2 << 20;
/// A mapping goes on so far, for the batches that follow; of an address space of 2^47 bytes that is little.
const REACH_BYTES: u64 = 32 << 20;
/// Pages in memory are mapped as the stores come to them, so many bytes at a time: new ones are still in the cache then.
const CHUNK_BYTES: usize = 256 << 10;

/// What a call takes of a file in memory, and each page of 4 KiB that it writes, ns: nobody else writes meanwhile. Of data that is in the
/// processor's caches, as all of these; what is not takes 400 to 500 a page more, whichever way it is stored.
const CALL_NS: u64 = 300;
const CALL_PAGE_NS: u64 = 850;
/// What a mapping takes, each page of its span, and each page that is stored, ns. Pages that are mapped and not stored are cheap, for the
/// kernel maps 16 at once: of a file whose every fourth page each of 2 processes stores it takes them 0.8 to 1 times what calls take, and
/// 4 processes on 2 cores 0.6, for who is suspended within a call keeps the others waiting. Blocks of 64 KiB, the same (2 processes; 4): 0.9 to 1.9;
/// 0.4 to 0.7; of 128 KiB 0.7 to 1.2; 0.3 to 0.8; of 256 KiB and more 0.8 to 1.2; 0.3 to 0.75.
const MAPPING_NS: u64 = 25_000;
const MAPPED_PAGE_NS: u64 = 300;
const STORED_PAGE_NS: u64 = 600;
/// Spans of more pages for each that is stored, or each piece, are left to calls, however many would wait: nobody measured so many.
const SPARSE_MAX: u64 = 8;

/// As many pieces before one is stored its lines are sent for: stores wait for each other, and what a window holds is in other cores'
/// caches. 32 MiB of which every other 64 bytes are written by 4 ranks, in a file that is there: 0.89 of the time.
const AHEAD_PIECES: usize = 8;

/// How a batch is stored through a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The bytes of the file that it lies in.
    pub(super) range: Range<u64>,
    /// Whether it is worth the while also where pages must be made for it; if not, only where all of them are there.
    makes_pages: bool,
    in_memory: bool,
}

/// Why a batch cannot be stored through a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmapped {
    /// Calls are better for this one.
    NotThis,
    /// None of this file can.
    Never,
}

/// How a batch is stored, or none if calls are better. `writers_in_memory`: of a file system that keeps nothing but pages, how many
/// processes can hold each other up; 0 for any other.
pub(super) fn plan(batch: &Batch<'_>, writers_in_memory: u64) -> Option<Plan> {
    let transfers = batch.transfers();
    let may_be_few = writers_in_memory > 1;
    if batch.direction() != Direction::Write || !may_be_few && transfers.len() < PIECES_MIN {
        return None;
    }
    // What has no bytes does nothing, and must not extend the file.
    let mut filled = transfers.iter().filter(|transfer| transfer.memory.bytes() > 0).peekable();
    let first = filled.peek()?.offset;
    let (mut end, mut pieces) = (first, 0_u64);
    for transfer in filled {
        // In rising order, as the results count from the start and the range is that of the first and the last.
        if transfer.offset < end {
            return None;
        }
        pieces += u64::from(transfer.offset > end || pieces == 0);
        end = transfer.offset.checked_add(transfer.memory.bytes() as u64)?;
    }
    i64::try_from(end).ok()?;
    let makes_pages = pieces >= PIECES_MIN as u64 && (end - first) / pieces <= PERIOD_BYTES_MAX;
    let pages = |bytes: u64| bytes.div_ceil(4096);
    let (stored, spanned) = (pages(batch.bytes()), pages(end - first));
    let by_calls = writers_in_memory * (pieces * CALL_NS + stored * CALL_PAGE_NS);
    let is_better = may_be_few
        && spanned <= SPARSE_MAX * stored.max(pieces)
        && by_calls > MAPPING_NS + spanned * MAPPED_PAGE_NS + stored * STORED_PAGE_NS;
    (makes_pages || is_better).then_some(Plan {
        range: first..end,
        makes_pages,
        in_memory: writers_in_memory > 0,
    })
}

/// A part of a file in memory.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    /// Its length, which may go on behind the end of the file.
    reach_bytes: usize,
    /// The file offset of `start`.
    offset: u64,
}

// SAFETY: pages of the process, bound to no thread; what reaches them does so through the only `Mapping` of them.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps bytes of a file that is open for reading and writing, and what follows them. Counts its calls, with that of its end.
    pub(super) fn new(fd: BorrowedFd<'_>, range: &Range<u64>, calls: &AtomicU64) -> Result<Self, Unmapped> {
        let offset = range.start - range.start % ALIGN_BYTES;
        let end = range.end.max(offset.saturating_add(REACH_BYTES)).checked_next_multiple_of(ALIGN_BYTES);
        let end = end.filter(|end| i64::try_from(*end).is_ok()).ok_or(Unmapped::NotThis)?;
        let reach_bytes = usize::try_from(end - offset).map_err(|_| Unmapped::NotThis)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let file = fd.as_raw_fd();
        calls.fetch_add(2, Relaxed);
        // SAFETY: a new mapping at an address of the system's choice, of a descriptor that is borrowed, hence open.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), reach_bytes, access, libc::MAP_SHARED, file, offset as i64)
        };
        if start == libc::MAP_FAILED {
            return Err(Unmapped::Never);
        }
        let start = NonNull::new(start.cast()).ok_or(Unmapped::Never)?;
        Ok(Self { start, reach_bytes, offset })
    }

    /// Ends the mapping.
    fn unmap(self) -> Result<(), Errno> {
        let mapping = ManuallyDrop::new(self);
        let start = mapping.start.as_ptr().cast::<c_void>();
        // SAFETY: these pages were mapped in `new`. `ManuallyDrop` keeps `Drop` from unmapping them again,
        // and a call that is interrupted has unmapped nothing.
        uninterrupted(|| Errno::result(unsafe { libc::munmap(start, mapping.reach_bytes) })).map(|_| ())
    }

    fn covers(&self, range: &Range<u64>) -> bool {
        self.offset <= range.start && range.end - self.offset <= self.reach_bytes as u64
    }

    /// The place of bytes that it covers; nothing of it is ready.
    fn place(&self, range: &Range<u64>) -> Place<'_> {
        assert!(self.covers(range), "bytes beyond the mapping");
        let lead = (range.start - self.offset) as usize;
        let end = (range.end - self.offset) as usize;
        Place { mapping: self, ready: lead - lead % page_bytes(), end, is_there: false }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.reach_bytes) };
    }
}

/// The mapping of a file, kept for the batches to come: of the same bytes or of those that follow.
///
/// Not where a page has several blocks: what lies behind the end of the file in its last page is no block of it, and on some kernels
/// does not become one while the page stays mapped, so that stores to it would be lost (ext4 with blocks of 1 KiB, before Linux 6.13).
#[derive(Debug)]
pub(super) struct Kept {
    mapping: Mutex<Option<Mapping>>,
    is_whole: bool,
}

/// A batch that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    /// Whether the file system may not have noticed: it does when a page is mapped for writing.
    pub(super) is_unseen: bool,
}

impl Kept {
    /// None yet, of a file on a file system with blocks of so many bytes.
    pub(super) fn new(block_bytes: u64) -> Self {
        Self { mapping: Mutex::default(), is_whole: block_bytes >= page_bytes() as u64 }
    }

    /// Ends the mapping, if there is one.
    pub(super) fn end(&mut self) -> Result<(), Errno> {
        let kept = self.mapping.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or(Ok(()), Mapping::unmap)
    }

    /// Stores a batch in bytes for which there is room; extends the file to the end of the range if it is shorter. Counts its calls.
    ///
    /// # Errors
    /// [`Unmapped`]; after `Never` some of it may be stored, and the mapping is gone.
    pub(super) fn store(
        &self,
        io: &dyn SystemIo,
        fd: BorrowedFd<'_>,
        (plan, batch): (&Plan, &Batch<'_>),
        calls: &AtomicU64,
    ) -> Result<Stored, Unmapped> {
        let Plan { range, makes_pages, in_memory } = plan;
        // Another thread that is at it has it; this one goes without.
        let mut kept = self.mapping.try_lock().ok();
        let old = kept.as_mut().and_then(|kept| kept.take()).filter(|old| old.covers(range));
        let is_old = old.is_some();
        let reaches = (*in_memory || is_old) && reaches(fd, range.end, calls);
        let may_keep = |mapping: &Mapping| self.is_whole && mapping.reach_bytes as u64 <= 2 * REACH_BYTES;
        let mut keep = |mapping: Option<Mapping>| kept.as_mut().map(|kept| **kept = mapping.filter(may_keep));
        if !(*makes_pages || *in_memory && reaches) {
            keep(old);
            return Err(Unmapped::NotThis);
        }
        let mapping = match old {
            Some(old) => old,
            None => io.map(fd, range, calls)?,
        };
        let mut place = mapping.place(range);
        place.is_there = *in_memory && reaches && place.is_resident(calls);
        if !place.is_there {
            if !makes_pages {
                keep(Some(mapping));
                return Err(Unmapped::NotThis);
            }
            // Pages of a mapping that was kept are reserved as they are made ready, all of them before the first store.
            let has_room = || reserve(io, fd, range.start as i64..range.end as i64, calls).is_ok();
            if !(is_old && reaches || has_room()) || !place.make_ready(place.end, calls) {
                return Err(Unmapped::Never);
            }
        }
        let bytes = place.store(batch, calls).ok_or(Unmapped::Never)?;
        keep(Some(mapping));
        Ok(Stored { bytes, is_unseen: *in_memory || is_old })
    }
}

/// Whether the file is so long.
fn reaches(fd: BorrowedFd<'_>, end: u64, calls: &AtomicU64) -> bool {
    calls.fetch_add(1, Relaxed);
    nix::sys::stat::fstat(fd).is_ok_and(|status| status.st_size as u64 >= end)
}

/// The bytes of a batch in a mapping.
struct Place<'a> {
    mapping: &'a Mapping,
    /// What is resident and writable begins where the batch does and ends here, from the start of the mapping.
    ready: usize,
    /// Where the batch ends, from the start of the mapping.
    end: usize,
    /// Whether all pages are in memory and stay there.
    is_there: bool,
}

impl Place<'_> {
    /// The address of a byte of the batch or of its first page, from the start of the mapping.
    fn at(&self, place: usize) -> *mut u8 {
        debug_assert!(place <= self.mapping.reach_bytes);
        // SAFETY: within the mapping: up to `end`, which `Mapping::place` checks.
        unsafe { self.mapping.start.as_ptr().add(place) }
    }

    /// Whether all pages of the range are there: none need be made.
    fn is_resident(&self, calls: &AtomicU64) -> bool {
        const PAGES: usize = 1024;
        let mut pages = [0_u8; PAGES];
        // New files have none of them: the first one tells.
        let (mut at, mut asked) = (self.ready, 1);
        while at < self.end {
            let bytes = (self.end - at).min(asked * page_bytes());
            // SAFETY: within the mapping, from the start of a page on; writes a byte for each page of `bytes` (mincore(2)).
            let status = unsafe { libc::mincore(self.at(at).cast::<c_void>(), bytes, pages.as_mut_ptr()) };
            calls.fetch_add(1, Relaxed);
            let told = &pages[..bytes.div_ceil(page_bytes())];
            if status != 0 || told.iter().any(|page| page & 1 == 0) {
                return false;
            }
            at += bytes;
            asked = (asked * 32).min(PAGES);
        }
        true
    }

    /// Makes the pages up to `end` resident and writable. False where a store would raise a signal.
    fn make_ready(&mut self, end: usize, calls: &AtomicU64) -> bool {
        // A page that is there is mapped for reading with 15 others at once; in memory it is then mapped for writing too, for nobody
        // need be told of that. To make pages so is slower than for writing.
        let advice = if self.is_there { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE };
        calls.fetch_add(1, Relaxed);
        // SAFETY: within the mapping, from the start of a page on; the call changes no byte (madvise(2)).
        let status = unsafe { libc::madvise(self.at(self.ready).cast::<c_void>(), end - self.ready, advice) };
        if status == 0 {
            self.ready = end;
        }
        status == 0
    }

    /// Sends for the first lines of a piece on both sides.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn ask(&self, piece: &Transfer<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // Wherever a piece without bytes may lie.
            let place = piece.offset.wrapping_sub(self.mapping.offset) as usize;
            let (source, target) = (piece.memory.address(), self.mapping.start.as_ptr().wrapping_add(place));
            // SAFETY: hints, which read and write nothing, whatever the address. To ask for the target to be written
            // (`prefetchw`) gained nothing over this.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(source.cast_const().cast());
                _mm_prefetch::<_MM_HINT_T0>(target.cast_const().cast());
            }
        }
    }

    /// Stores the pieces of a batch, and returns their bytes. `None` if there is no room for one of them; some may be stored then.
    fn store(&mut self, batch: &Batch<'_>, calls: &AtomicU64) -> Option<u64> {
        for (index, transfer) in batch.transfers().iter().enumerate() {
            if let Some(later) = batch.transfers().get(index + AHEAD_PIECES) {
                self.ask(later);
            }
            if transfer.memory.bytes() == 0 {
                continue;
            }
            let place = (transfer.offset - self.mapping.offset) as usize;
            let bytes = transfer.memory.bytes();
            assert!(place <= self.end && bytes <= self.end - place, "a piece beyond the mapping");
            let mut done = 0;
            while done < bytes {
                if place + done >= self.ready {
                    let end = (place + done + 1).next_multiple_of(CHUNK_BYTES).min(self.end);
                    if !self.make_ready(end, calls) {
                        return None;
                    }
                }
                let part = (bytes - done).min(self.ready - place - done);
                // SAFETY: the place lies in the mapping by the assertion, and the mapping is nobody's Rust object; the segment is
                // one of a batch that writes, valid for reads while the batch lives. Where the user's memory is a mapping of the same
                // bytes of the file the copy is to itself, as `ptr::copy` allows.
                unsafe { ptr::copy(transfer.memory.address().add(done), self.at(place + done), part) };
                done += part;
            }
        }
        Some(batch.bytes())
    }
}

fn page_bytes() -> usize {
    // SAFETY: sysconf(3) only answers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
