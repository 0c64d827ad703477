//! Stores through a mapping of the file, where stores cost less than system calls. Only the requested bytes
//! are changed, so bytes that other writers put between them stay.
//!
//! Stores cost less in two cases:
//! * *Many small pieces that lie near each other.* A piece costs a copy instead of a call.
//! * *Several writers of one machine to a file in memory* (tmpfs). A writing call locks the file while it
//!   copies, so processes write one after the other. Stores of several processes run at the same time.
//!   32 MiB into existing pages, 2 cores: 2 or 4 processes take 11.9 ms by calls and 8.6 ms by stores, one
//!   process takes 12.1 ms and 15 ms. Calls allocate new pages faster than stores.
//!
//! # A full storage
//! A store to a page for which the storage has no space ends the process by a signal (`SIGBUS`). So no store
//! is made before every page of the batch has space, and this space must stay reserved:
//! * *The file system keeps reserved space* (`FilesystemKind::takes_stores`).
//!   Btrfs, ZFS, F2FS and XFS with reflink copy on write: an overwrite takes a new block in spite of a
//!   reservation, so a full disk raises the signal at a page that was written before. On these file systems
//!   all pieces are written by calls.
//! * *The first batch of a mapping reserves* the space of its range (`fallocate(2)`). A file system without
//!   reservation (ext2) returns an error, and from then on the file is written by calls.
//! * *Every batch makes all its pages writable first* (`MADV_POPULATE_WRITE`, Linux 5.14; on older kernels
//!   the call fails and the pieces are written by calls). The kernel then asks the file system for the
//!   blocks of the page (`page_mkwrite`): where the file has a hole, ext4 takes or reserves a block,
//!   tmpfs takes a page. The call fails where a store would raise the signal. So a kept mapping needs no
//!   new reservation, also over a hole. Space reserved in this way becomes blocks at writeback. Writeback
//!   write-protects the page, and the next store to it finds its blocks.
//! * *In memory* the pages may be known to exist (`mincore(2)`). Then they are only mapped.
//!
//! If a step fails, the pieces are written by calls, which report the reason.
//!
//! # A storage that stops
//! Writeback write-protects a page at any time, also between the steps of a batch. The next store asks the
//! file system again. ext4 permits a store to a page with blocks also after an error or a shutdown, and the
//! next call reports the error. XFS refuses, and the signal ended a process with four writers in 15 of 30
//! shutdowns. So on XFS all pieces are written by calls.
//!
//! # Other processes
//! Another process may truncate the file and fill it again. Truncated pages leave the mapping. Each batch
//! asks for the length and makes its pages writable, so no earlier state of the file matters. One case
//! remains: a truncation or a punched hole in the microseconds between the two steps of one batch. This is a
//! conflict of accesses, with or without mappings. But with a mapping the process ends by a signal.

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

/// On a disk file system, fewer pieces are written by calls.
const PIECES_MIN: usize = 64;
/// On a disk file system, pieces that are further apart on average are written by calls, because a call costs
/// about as much as a page of a mapping.
const PERIOD_BYTES_MAX: u64 = 2048;
/// Mappings begin and end at multiples of this number, which is a multiple of every base page size of Linux.
/// The kernel maps a large folio at once only if the whole folio lies in the mapping. Otherwise it visits the
/// whole folio again for each page. For 128 KiB in folios of 2 MiB this took 480 us; aligned it takes 21 us.
const ALIGN_BYTES: u64 = 2 << 20;
/// The least length of a mapping, so that it also serves the batches that follow. It is a small part of an
/// address space of 2^47 bytes.
const REACH_BYTES: u64 = 32 << 20;
/// Existing pages of a file in memory are mapped in steps of this many bytes as the stores reach them, so
/// that newly mapped pages are still in the cache.
const CHUNK_BYTES: usize = 256 << 10;

/// The time of a writing call on a file in memory, in ns: per call, and per page of 4 KiB that it writes. No
/// other process can write during this time. All times here are for data in the processor's caches. Other
/// data takes 400 to 500 ns more per page, both by calls and by stores.
const CALL_NS: u64 = 300;
const CALL_PAGE_NS: u64 = 850;
/// The time of stores, in ns: per mapping, per page of its span, and per page that is stored. Pages that are
/// mapped and not stored are cheap, because the kernel maps 16 pages at once.
///
/// Measured time of stores relative to calls, on 2 cores:
///
/// | each process writes | 2 processes | 4 processes |
/// |---|---|---|
/// | every fourth page | 0.8 to 1 | 0.6 |
/// | blocks of 64 KiB | 0.9 to 1.9 | 0.4 to 0.7 |
/// | blocks of 128 KiB | 0.7 to 1.2 | 0.3 to 0.8 |
/// | blocks of 256 KiB and more | 0.8 to 1.2 | 0.3 to 0.75 |
///
/// With more processes than cores, a process that is suspended inside a call keeps the others waiting.
const MAPPING_NS: u64 = 25_000;
const MAPPED_PAGE_NS: u64 = 300;
const STORED_PAGE_NS: u64 = 600;
/// The largest number of pages in the span per stored page or per piece, whichever count is larger. Batches
/// above this ratio are written by calls, for any number of writers, because such ratios were not measured.
const SPARSE_MAX: u64 = 8;

/// The cache lines of a piece are prefetched this many pieces before it is stored. Stores wait for each
/// other, and the data of a collective buffer is in the caches of other cores. Relative time with the
/// prefetch: 0.89 (4 ranks write every other 64 bytes of 32 MiB of existing pages).
const AHEAD_PIECES: usize = 8;

/// The plan of a batch that is stored through a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The file range from the first to the last byte of the batch.
    pub(super) range: Range<u64>,
    /// Whether stores are also better if pages must be allocated. If false, they are better only if all pages
    /// exist.
    makes_pages: bool,
    in_memory: bool,
}

/// The reason why a batch is not stored through a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmapped {
    /// Calls are better for this batch.
    NotThis,
    /// No batch of this file can be stored.
    Never,
}

/// The plan of a batch, or `None` if calls are better. `writers_in_memory` is the number of processes
/// that can make each other wait on a file in memory, and 0 for any other file.
pub(super) fn plan(batch: &Batch<'_>, writers_in_memory: u64) -> Option<Plan> {
    let transfers = batch.transfers();
    let may_be_few = writers_in_memory > 1;
    if batch.direction() != Direction::Write || !may_be_few && transfers.len() < PIECES_MIN {
        return None;
    }
    // A transfer without bytes does nothing and must not extend the file.
    let mut filled = transfers.iter().filter(|transfer| transfer.memory.bytes() > 0).peekable();
    let first = filled.peek()?.offset;
    let (mut end, mut pieces) = (first, 0_u64);
    for transfer in filled {
        // The offsets must ascend: the result counts a prefix, and the range is taken from the first and the
        // last transfer.
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

/// A mapped part of a file.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    /// The length in bytes, which may extend beyond the end of the file.
    reach_bytes: usize,
    /// The file offset of `start`.
    offset: u64,
}

// SAFETY: mmap(2): a mapping belongs to the process, not to a thread. `Mapping` is the only owner of its
// pages: `Mapping::new` creates them, and every access and the unmapping go through the one value.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `range` and some bytes behind it. The file is open for reading and writing. Counts two calls: the
    /// mapping and its unmapping later.
    pub(super) fn new(fd: BorrowedFd<'_>, range: &Range<u64>, calls: &AtomicU64) -> Result<Self, Unmapped> {
        let offset = range.start - range.start % ALIGN_BYTES;
        let end = range.end.max(offset.saturating_add(REACH_BYTES)).checked_next_multiple_of(ALIGN_BYTES);
        let end = end.filter(|end| i64::try_from(*end).is_ok()).ok_or(Unmapped::NotThis)?;
        let reach_bytes = usize::try_from(end - offset).map_err(|_| Unmapped::NotThis)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let file = fd.as_raw_fd();
        calls.fetch_add(2, Relaxed);
        // SAFETY: mmap(2): with a null address and without `MAP_FIXED` the kernel chooses an unused range, so
        // no existing mapping changes. The descriptor is borrowed, hence open.
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
        // SAFETY: munmap(2): `new` mapped these pages, and `self` owns them, so no other code uses them.
        // `ManuallyDrop` keeps `Drop` from unmapping them again. An interrupted call has unmapped nothing.
        uninterrupted(|| Errno::result(unsafe { libc::munmap(start, mapping.reach_bytes) })).map(|_| ())
    }

    fn covers(&self, range: &Range<u64>) -> bool {
        self.offset <= range.start && range.end - self.offset <= self.reach_bytes as u64
    }

    /// The range of a batch in the mapping, with no page ready yet.
    ///
    /// # Panics
    /// If the mapping does not cover the range: a bug.
    fn range(&self, range: &Range<u64>) -> MappedRange<'_> {
        assert!(self.covers(range), "the range reaches beyond the mapping");
        let lead = (range.start - self.offset) as usize;
        let end = (range.end - self.offset) as usize;
        MappedRange { mapping: self, ready: lead - lead % page_bytes(), end, pages_exist: false }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: munmap(2): `new` mapped these pages. They are unmapped once, because `unmap` prevents this
        // drop.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.reach_bytes) };
    }
}

/// The mapping of a file, kept for later batches of the same bytes or of the bytes that follow.
///
/// No mapping is kept where a page has several blocks. There the part of the last page behind the end of the
/// file has no block. On some kernels this part gets no block while the page stays mapped, so stores to this
/// part would be lost (ext4 with blocks of 1 KiB, before Linux 6.13).
#[derive(Debug)]
pub(super) struct KeptMapping {
    mapping: Mutex<Option<Mapping>>,
    has_whole_pages: bool,
}

/// The result of a batch that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    /// Whether the file system may not have noticed the change. It notices when a page is mapped for writing.
    pub(super) is_unseen: bool,
}

impl KeptMapping {
    /// No mapping yet, for a file on a file system with blocks of `block_bytes`.
    pub(super) fn new(block_bytes: u64) -> Self {
        Self { mapping: Mutex::default(), has_whole_pages: block_bytes >= page_bytes() as u64 }
    }

    /// Ends the mapping, if there is one.
    pub(super) fn end(&mut self) -> Result<(), Errno> {
        let kept = self.mapping.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or(Ok(()), Mapping::unmap)
    }

    /// Stores a batch after its pages have got space. Extends a shorter file to the end of the range. Counts
    /// its calls.
    ///
    /// # Errors
    /// [`Unmapped`]. After `Never` a part of the batch may be stored, and the mapping is dropped.
    pub(super) fn store(
        &self,
        io: &dyn SystemIo,
        fd: BorrowedFd<'_>,
        (plan, batch): (&Plan, &Batch<'_>),
        calls: &AtomicU64,
    ) -> Result<Stored, Unmapped> {
        let Plan { range, makes_pages, in_memory } = plan;
        // If another thread holds the mutex, it uses the kept mapping. This thread makes its own mapping.
        let mut kept = self.mapping.try_lock().ok();
        let old = kept.as_mut().and_then(|kept| kept.take()).filter(|old| old.covers(range));
        let is_old = old.is_some();
        let reaches = (*in_memory || is_old) && reaches(fd, range.end, calls);
        let may_keep =
            |mapping: &Mapping| self.has_whole_pages && mapping.reach_bytes as u64 <= 2 * REACH_BYTES;
        let mut keep = |mapping: Option<Mapping>| kept.as_mut().map(|kept| **kept = mapping.filter(may_keep));
        if !(*makes_pages || *in_memory && reaches) {
            keep(old);
            return Err(Unmapped::NotThis);
        }
        let mapping = match old {
            Some(old) => old,
            None => io.map(fd, range, calls)?,
        };
        let mut mapped = mapping.range(range);
        mapped.pages_exist = *in_memory && reaches && mapped.is_resident(calls);
        if !mapped.pages_exist {
            if !makes_pages {
                keep(Some(mapping));
                return Err(Unmapped::NotThis);
            }
            // `make_ready` reserves the pages of a kept mapping, all of them before the first store.
            let has_space = || reserve(io, fd, range.start as i64..range.end as i64, calls).is_ok();
            if !(is_old && reaches || has_space()) || !mapped.make_ready(mapped.end, calls) {
                return Err(Unmapped::Never);
            }
        }
        let bytes = mapped.store(batch, calls).ok_or(Unmapped::Never)?;
        keep(Some(mapping));
        Ok(Stored { bytes, is_unseen: *in_memory || is_old })
    }
}

/// Whether the file has at least `end` bytes.
fn reaches(fd: BorrowedFd<'_>, end: u64, calls: &AtomicU64) -> bool {
    calls.fetch_add(1, Relaxed);
    nix::sys::stat::fstat(fd).is_ok_and(|status| status.st_size as u64 >= end)
}

/// The range of a batch in a mapping. Positions are counted from the start of the mapping.
struct MappedRange<'a> {
    mapping: &'a Mapping,
    /// The end of the resident and writable pages, which begin at the first page of the batch.
    ready: usize,
    /// The end of the batch.
    end: usize,
    /// Whether all pages exist in memory and stay there.
    pages_exist: bool,
}

impl MappedRange<'_> {
    /// The address of a position in the batch or in its first page.
    fn address(&self, position: usize) -> *mut u8 {
        debug_assert!(position <= self.mapping.reach_bytes);
        // SAFETY: contract of `ptr::add`: the callers pass positions up to `end`, and `Mapping::range`
        // asserts that `end` lies within the mapping.
        unsafe { self.mapping.start.as_ptr().add(position) }
    }

    /// Whether all pages of the range exist, so that none must be allocated.
    fn is_resident(&self, calls: &AtomicU64) -> bool {
        const PAGES: usize = 1024;
        let mut pages = [0_u8; PAGES];
        // A new file has no pages, so the first question is about one page only.
        let (mut at, mut asked) = (self.ready, 1);
        while at < self.end {
            let bytes = (self.end - at).min(asked * page_bytes());
            // SAFETY: mincore(2): the range begins at a page and lies within the mapping. The kernel
            // writes one byte for each page of `bytes`, which are at most `PAGES`, the length of `pages`.
            let status =
                unsafe { libc::mincore(self.address(at).cast::<c_void>(), bytes, pages.as_mut_ptr()) };
            calls.fetch_add(1, Relaxed);
            let residency = &pages[..bytes.div_ceil(page_bytes())];
            if status != 0 || residency.iter().any(|page| page & 1 == 0) {
                return false;
            }
            at += bytes;
            asked = (asked * 32).min(PAGES);
        }
        true
    }

    /// Makes the pages up to `end` resident and writable. Returns false where a store would raise a signal.
    fn make_ready(&mut self, end: usize, calls: &AtomicU64) -> bool {
        // `MADV_POPULATE_READ` maps 16 existing pages at once. On a file system in memory this maps them for
        // writing too, because the file system need not notice writes. To allocate pages, it is slower than
        // `MADV_POPULATE_WRITE`.
        let advice = if self.pages_exist { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE };
        calls.fetch_add(1, Relaxed);
        // SAFETY: madvise(2): the range begins at a page and lies within the mapping. Both advices change no
        // byte.
        let status =
            unsafe { libc::madvise(self.address(self.ready).cast::<c_void>(), end - self.ready, advice) };
        if status == 0 {
            self.ready = end;
        }
        status == 0
    }

    /// Prefetches the first cache line of a piece, both of its source and of its target.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn prefetch(&self, piece: &Transfer<'_>) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // A piece without bytes may have any offset, so the difference may wrap.
            let position = piece.offset.wrapping_sub(self.mapping.offset) as usize;
            let (source, target) =
                (piece.memory.address(), self.mapping.start.as_ptr().wrapping_add(position));
            // SAFETY: contract of `_mm_prefetch`: a hint, valid for any address, which reads and writes no
            // memory. `prefetchw` for the target was not faster.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(source.cast_const().cast());
                _mm_prefetch::<_MM_HINT_T0>(target.cast_const().cast());
            }
        }
    }

    /// Stores the pieces of a batch, and returns the number of bytes. `None` if a page cannot be made
    /// ready; a part of the batch may be stored then.
    fn store(&mut self, batch: &Batch<'_>, calls: &AtomicU64) -> Option<u64> {
        for (index, transfer) in batch.transfers().iter().enumerate() {
            if let Some(later) = batch.transfers().get(index + AHEAD_PIECES) {
                self.prefetch(later);
            }
            if transfer.memory.bytes() == 0 {
                continue;
            }
            let position = (transfer.offset - self.mapping.offset) as usize;
            let bytes = transfer.memory.bytes();
            assert!(
                position <= self.end && bytes <= self.end - position,
                "the piece reaches beyond the range of the batch"
            );
            let mut done = 0;
            while done < bytes {
                if position + done >= self.ready {
                    let end = (position + done + 1).next_multiple_of(CHUNK_BYTES).min(self.end);
                    if !self.make_ready(end, calls) {
                        return None;
                    }
                }
                let part = (bytes - done).min(self.ready - position - done);
                // The assertion keeps the position within the mapping, which no Rust object occupies. `ptr::copy`
                // permits overlap, which occurs if the user's memory is a mapping of the same file bytes.
                // SAFETY: contract of `ptr::copy`. `# Safety` of `Segment::from_raw`, or the borrowed
                // reference: the segment of a batch is valid for reads while the batch lives.
                unsafe {
                    ptr::copy(transfer.memory.address().add(done), self.address(position + done), part);
                };
                done += part;
            }
        }
        Some(batch.bytes())
    }
}

/// The size of a page of this machine.
pub(super) fn page_bytes() -> usize {
    // SAFETY: sysconf(3) takes a number and returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
