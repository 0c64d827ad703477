//! The only form of a data access: a list of pairs of file offset and memory, all in one direction.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// The direction of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the file into memory.
    Read,
    /// From memory into the file.
    Write,
}

/// A piece of memory that a transfer fills or empties. Other processes may see the memory, so no reference
/// to its bytes is ever formed. A driver passes the address to the system, or calls
/// [`copy_in`](Self::copy_in) and [`copy_out`](Self::copy_out).
///
/// A segment is neither `Clone` nor `Sync`: only one thread at a time uses the memory.
pub struct Segment<'a> {
    address: *mut u8,
    bytes: usize,
    writable: bool,
    raw: bool,
    borrowed: PhantomData<&'a mut [u8]>,
}

// SAFETY: a segment is the only holder of its memory while it lives: it borrows a reference, or `# Safety` of
// `from_raw` excludes other accesses from any thread. It is neither `Clone` nor `Sync`. So moving the
// segment to another thread moves every access to the memory there.
unsafe impl Send for Segment<'_> {}

impl<'a> Segment<'a> {
    /// Memory of any origin, for example memory shared between processes, or a user's buffer known by its
    /// address.
    ///
    /// # Safety
    /// The following holds from now until the batch that contains the segment has completed: its
    /// [`BatchResult`](crate::BatchResult) was taken, or the batch was dropped without being submitted. It
    /// holds even if the [`Completion`](crate::Completion) is leaked.
    /// * `bytes` bytes from `address` lie within one allocation. They are valid for reads from any thread,
    ///   and for writes too if the batch reads from the file.
    /// * Nothing else writes these bytes. If the batch reads from the file, nothing else reads them either.
    ///
    /// If `bytes` is zero, `address` may have any value.
    pub const unsafe fn from_raw(address: *mut u8, bytes: usize) -> Self {
        Self { address, bytes, writable: true, raw: true, borrowed: PhantomData }
    }

    /// Memory for a batch that reads or writes.
    pub const fn from_mut(memory: &'a mut [u8]) -> Self {
        Self {
            address: memory.as_mut_ptr(),
            bytes: memory.len(),
            writable: true,
            raw: false,
            borrowed: PhantomData,
        }
    }

    /// Memory for a batch that writes. A batch that reads refuses it.
    pub const fn from_ref(memory: &'a [u8]) -> Self {
        Self {
            address: memory.as_ptr().cast_mut(),
            bytes: memory.len(),
            writable: false,
            raw: false,
            borrowed: PhantomData,
        }
    }

    /// The address of the first byte. [`Batch::may_outlive_call`] says until when a driver may use it.
    pub const fn address(&self) -> *mut u8 {
        self.address
    }

    /// The length in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `source` into the segment. The first byte goes to byte `start` of the segment.
    ///
    /// # Panics
    /// If the bytes do not fit, or if the segment was made by [`from_ref`](Self::from_ref). Both are bugs of
    /// the caller.
    pub fn copy_in(&self, start: usize, source: &[u8]) {
        assert!(self.writable, "a segment made by `from_ref` cannot be read into");
        assert!(
            start <= self.bytes && source.len() <= self.bytes - start,
            "the copy reaches beyond the segment"
        );
        if source.is_empty() {
            return;
        }
        // SAFETY: contract of `ptr::copy_nonoverlapping`. Target: the segment borrows a unique reference
        // (`from_mut`), or `# Safety` of `from_raw` makes the memory valid for writes in a batch that reads,
        // which is where drivers call this function. The assertion keeps `start + source.len()` within the
        // segment. Source: a shared reference. No overlap: the segment is the only holder of its memory.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.address.add(start), source.len()) };
    }

    /// Fills `target` with the bytes of the segment that begin at its byte `start`.
    ///
    /// # Panics
    /// If the segment has fewer bytes: a bug of the caller.
    pub fn copy_out(&self, start: usize, target: &mut [u8]) {
        assert!(
            start <= self.bytes && target.len() <= self.bytes - start,
            "the copy reaches beyond the segment"
        );
        if target.is_empty() {
            return;
        }
        // SAFETY: contract of `ptr::copy_nonoverlapping`. Source: the segment borrows a reference, or
        // `# Safety` of `from_raw` makes the memory valid for reads. The assertion keeps
        // `start + target.len()` within the segment. No overlap: `target` is a unique reference.
        unsafe { std::ptr::copy_nonoverlapping(self.address.add(start), target.as_mut_ptr(), target.len()) };
    }

    /// Bytes `range` of this segment. The segment stays borrowed while the part lives.
    fn part(&self, range: Range<usize>) -> Segment<'_> {
        assert!(range.start <= range.end && range.end <= self.bytes, "the part reaches beyond the segment");
        let address = self.address.wrapping_add(range.start);
        Segment { address, bytes: range.end - range.start, ..*self }
    }
}

impl fmt::Debug for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("address", &self.address)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// One contiguous range of the file and its memory.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// The file offset of the first byte.
    pub offset: u64,
    /// The memory that the bytes go to or come from.
    pub memory: Segment<'a>,
}

impl<'a> Transfer<'a> {
    /// Reads the bytes at `offset` into `memory`.
    pub const fn into_memory(offset: u64, memory: &'a mut [u8]) -> Self {
        Self { offset, memory: Segment::from_mut(memory) }
    }

    /// Writes the bytes of `memory` at `offset`.
    pub const fn from_memory(offset: u64, memory: &'a [u8]) -> Self {
        Self { offset, memory: Segment::from_ref(memory) }
    }
}

enum List<'a> {
    Owned(Vec<Transfer<'a>>),
    Lent(&'a [Transfer<'a>]),
}

/// A list of transfers in one direction, submitted in one call. The offsets may have any order; storages are
/// fastest with ascending offsets.
pub struct Batch<'a> {
    direction: Direction,
    list: List<'a>,
    bytes: u64,
    raw: bool,
}

// SAFETY: an owned list is `Send` because `Segment` is `Send`. A lent list is borrowed through a unique
// reference to its owner (`Batch::lend`, `Batch::of_one`). So while this batch lives, its thread is the only
// one that can use the segments.
unsafe impl Send for Batch<'_> {}

impl<'a> Batch<'a> {
    /// A batch that reads the file into memory.
    ///
    /// # Panics
    /// If a segment was made by [`Segment::from_ref`]: a bug of the caller.
    pub fn read(transfers: Vec<Transfer<'a>>) -> Self {
        Self::of(Direction::Read, transfers)
    }

    /// A batch that writes memory to the file.
    pub fn write(transfers: Vec<Transfer<'a>>) -> Self {
        Self::of(Direction::Write, transfers)
    }

    /// An empty batch with capacity for `transfers` transfers.
    pub fn with_capacity(direction: Direction, transfers: usize) -> Self {
        Self::of(direction, Vec::with_capacity(transfers))
    }

    fn of(direction: Direction, transfers: Vec<Transfer<'a>>) -> Self {
        let mut batch = Self { direction, list: List::Owned(Vec::new()), bytes: 0, raw: true };
        for transfer in &transfers {
            batch.admit(transfer);
        }
        batch.list = List::Owned(transfers);
        batch
    }

    #[inline]
    fn admit(&mut self, transfer: &Transfer<'a>) {
        let memory = &transfer.memory;
        assert!(
            memory.writable || self.direction == Direction::Write,
            "a batch that reads got a segment made by `from_ref`"
        );
        // The sum saturates only if segments overlap, because no memory has 2^64 bytes.
        self.bytes = self.bytes.saturating_add(memory.bytes as u64);
        self.raw &= memory.raw;
    }

    /// Adds a transfer at the end.
    ///
    /// # Panics
    /// If the batch reads and the segment was made by [`Segment::from_ref`], or if the batch was made by
    /// [`lend`](Self::lend). Both are bugs of the caller.
    #[inline]
    pub fn push(&mut self, transfer: Transfer<'a>) {
        self.admit(&transfer);
        match &mut self.list {
            List::Owned(transfers) => transfers.push(transfer),
            List::Lent(_) => panic!("a lent batch cannot grow"),
        }
    }

    /// A batch of one borrowed transfer. Allocates nothing.
    ///
    /// # Panics
    /// If the batch reads and the segment was made by [`Segment::from_ref`]: a bug of the caller.
    pub fn of_one(direction: Direction, transfer: &'a mut Transfer<'_>) -> Self {
        let mut batch = Self::of(direction, Vec::new());
        batch.admit(transfer);
        batch.list = List::Lent(std::slice::from_ref(transfer));
        batch
    }

    /// Removes all transfers and keeps the capacity.
    pub fn clear(&mut self) {
        match &mut self.list {
            List::Owned(transfers) => transfers.clear(),
            List::Lent(transfers) => *transfers = &[],
        }
        (self.bytes, self.raw) = (0, true);
    }

    /// Borrows the transfers as a second batch to submit. Afterwards this batch can be cleared and filled
    /// again, without a new allocation.
    pub fn lend(&mut self) -> Batch<'_> {
        Batch {
            direction: self.direction,
            list: List::Lent(self.transfers()),
            bytes: self.bytes,
            raw: self.raw,
        }
    }

    /// Bytes `range` of the batch as a separate batch. Byte 0 is the first byte of the first transfer, and
    /// the transfers keep their order.
    ///
    /// # Panics
    /// If the range reaches beyond the batch: a bug of the caller.
    pub fn part(&mut self, range: Range<u64>) -> Batch<'_> {
        assert!(range.start <= range.end && range.end <= self.bytes, "the part reaches beyond the batch");
        let mut part = Batch::with_capacity(self.direction, 0);
        let mut start = 0;
        for transfer in self.transfers() {
            let end = start + transfer.memory.bytes as u64;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                let memory = transfer.memory.part((from - start) as usize..(to - start) as usize);
                part.push(Transfer { offset: transfer.offset.saturating_add(from - start), memory });
            }
            start = end;
        }
        part
    }

    /// The direction of all transfers.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The transfers, in order.
    pub fn transfers(&self) -> &[Transfer<'a>] {
        match &self.list {
            List::Owned(transfers) => transfers,
            List::Lent(transfers) => transfers,
        }
    }

    /// The sum of the lengths of the transfers, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a driver may use the memory after [`submit`](crate::DriverFile::submit) has returned a pending
    /// completion. True if every segment came from [`Segment::from_raw`]. If false, the memory is borrowed
    /// for the call only, and the driver must not use it after the return.
    pub const fn may_outlive_call(&self) -> bool {
        self.raw
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("direction", &self.direction)
            .field("transfers", &self.transfers().len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &[u8] = b"0123456789";

    fn extents(batch: &Batch<'_>) -> Vec<(u64, usize)> {
        batch.transfers().iter().map(|transfer| (transfer.offset, transfer.memory.bytes())).collect()
    }

    fn sample() -> Batch<'static> {
        let piece = |offset, range: Range<usize>| Transfer::from_memory(offset, &DATA[range]);
        Batch::write(vec![piece(100, 0..4), piece(7, 4..4), piece(50, 4..5), piece(0, 5..10)])
    }

    #[test]
    fn parts_cut_transfers_and_keep_their_order() {
        let mut batch = sample();
        for (range, expected) in [
            (0..10, vec![(100, 4), (50, 1), (0, 5)]),
            (1..3, vec![(101, 2)]),
            (3..7, vec![(103, 1), (50, 1), (0, 2)]),
            (9..10, vec![(4, 1)]),
            (4..4, vec![]),
        ] {
            let part = batch.part(range.clone());
            assert_eq!((extents(&part), part.bytes()), (expected, range.end - range.start), "{range:?}");
            let mut bytes = Vec::new();
            for transfer in part.transfers() {
                let mut piece = vec![0; transfer.memory.bytes()];
                transfer.memory.copy_out(0, &mut piece);
                bytes.extend(piece);
            }
            assert_eq!(bytes, DATA[range.start as usize..range.end as usize]);
        }
    }

    #[test]
    fn lent_batch_equals_its_lender_which_can_be_refilled() {
        let mut batch = sample();
        let lent = batch.lend();
        assert_eq!(
            (extents(&lent), lent.bytes(), lent.direction()),
            (extents(&sample()), 10, Direction::Write)
        );
        batch.push(Transfer::from_memory(1, DATA));
        assert_eq!((batch.bytes(), batch.transfers().len()), (20, 5));
        batch.clear();
        assert_eq!((batch.bytes(), batch.transfers().len()), (0, 0));
    }

    #[test]
    fn only_raw_memory_may_outlive_the_call() {
        // SAFETY: nothing is asked of a segment of no bytes.
        let raw = || Transfer { offset: 0, memory: unsafe { Segment::from_raw(std::ptr::null_mut(), 0) } };
        let mut batch = Batch::write(vec![raw(), raw()]);
        assert!(batch.may_outlive_call() && batch.part(0..0).may_outlive_call());
        batch.push(Transfer::from_memory(0, DATA));
        assert!(!batch.may_outlive_call() && !batch.lend().may_outlive_call());
    }

    #[test]
    fn batch_that_reads_refuses_shared_memory() {
        let read = || Batch::read(vec![Transfer::from_memory(0, DATA)]);
        assert!(std::panic::catch_unwind(read).is_err());
        let push = || Batch::with_capacity(Direction::Read, 1).push(Transfer::from_memory(0, DATA));
        assert!(std::panic::catch_unwind(push).is_err());
        assert!(std::panic::catch_unwind(|| Segment::from_ref(DATA).copy_in(0, b"x")).is_err());
    }

    #[test]
    fn copies_stay_within_the_segment() {
        let mut memory = *b"....";
        let segment = Segment::from_mut(&mut memory[1..3]);
        segment.copy_in(1, b"x");
        let mut out = [0; 2];
        segment.copy_out(0, &mut out);
        assert_eq!(&out, b".x");
        for start in [1, 3, usize::MAX] {
            let beyond = std::panic::AssertUnwindSafe(|| segment.copy_in(start, b"yz"));
            assert!(std::panic::catch_unwind(beyond).is_err());
        }
        assert_eq!(&memory, b"..x.");
    }
}
