//! The bytes of one file in memory.

use super::range_locks::RangeLocks;
use crate::Segment;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The unit of allocation, in bytes.
pub const PAGE_BYTES: u64 = 4096;
const PAGE: usize = PAGE_BYTES as usize;

/// The space of a namespace, counted in pages.
#[derive(Debug)]
pub(super) struct Space {
    capacity_pages: u64,
    used_pages: AtomicU64,
}

impl Space {
    pub(super) fn unlimited() -> Self {
        Self { capacity_pages: u64::MAX, used_pages: AtomicU64::new(0) }
    }

    pub(super) fn limited(capacity_bytes: u64) -> Self {
        Self { capacity_pages: capacity_bytes / PAGE_BYTES, used_pages: AtomicU64::new(0) }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_pages.load(Relaxed).saturating_mul(PAGE_BYTES)
    }

    /// Takes `pages` pages, or takes none and returns false.
    fn take(&self, pages: u64) -> bool {
        let grown = |used: u64| used.checked_add(pages).filter(|used| *used <= self.capacity_pages);
        self.used_pages.fetch_update(Relaxed, Relaxed, grown).is_ok()
    }

    fn release(&self, pages: u64) {
        let before = self.used_pages.fetch_sub(pages, Relaxed);
        assert!(before >= pages, "more pages are returned than were taken");
    }
}

#[derive(Debug, Default)]
struct Content {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// Pages below this one are counted in [`Space`], whether they are allocated or not.
    reserved_pages: u64,
    len: u64,
}

impl Content {
    /// The number of pages at or above `page` that are counted in [`Space`].
    fn counted_from(&self, page: u64) -> u64 {
        let unreserved = self.pages.range(page.max(self.reserved_pages)..).count() as u64;
        self.reserved_pages.saturating_sub(page) + unreserved
    }
}

/// One file: its bytes and its locks. Returns its space when the name and the last handle are gone.
#[derive(Debug)]
pub(super) struct Node {
    content: RwLock<Content>,
    space: Arc<Space>,
    pub(super) locks: RangeLocks,
}

impl Node {
    pub(super) fn new(space: Arc<Space>) -> Self {
        Self { content: RwLock::default(), space, locks: RangeLocks::default() }
    }

    // No code that holds the lock panics between two dependent changes, so the content behind a poisoned lock
    // is valid.
    fn content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn content_mut(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> u64 {
        self.content().len
    }

    /// Reads from `offset` on into `memory`. Returns the number of bytes read, which is short at the end of
    /// the file.
    pub(super) fn read(&self, offset: u64, memory: &Segment<'_>) -> usize {
        const HOLE: [u8; PAGE] = [0; PAGE];
        let content = self.content();
        let bytes = (memory.bytes() as u64).min(content.len.saturating_sub(offset)) as usize;
        for piece in pieces(offset, bytes) {
            let page = content.pages.get(&piece.page).map_or(&HOLE, |page| page);
            memory.copy_in(piece.memory_start, &page[piece.page_start..piece.page_start + piece.bytes]);
        }
        bytes
    }

    /// Writes `memory` from `offset` on. Returns the number of bytes written, which is short if the space is
    /// full.
    pub(super) fn write(&self, offset: u64, memory: &Segment<'_>) -> usize {
        let mut content = self.content_mut();
        let mut stored = 0;
        for piece in pieces(offset, memory.bytes()) {
            let is_counted = piece.page < content.reserved_pages || content.pages.contains_key(&piece.page);
            if !is_counted && !self.space.take(1) {
                break;
            }
            let page = content.pages.entry(piece.page).or_insert_with(|| Box::new([0; PAGE]));
            memory.copy_out(piece.memory_start, &mut page[piece.page_start..piece.page_start + piece.bytes]);
            stored += piece.bytes;
        }
        if stored > 0 {
            content.len = content.len.max(offset + stored as u64);
        }
        stored
    }

    pub(super) fn set_len(&self, bytes: u64) {
        let mut content = self.content_mut();
        if bytes < content.len {
            let kept_pages = bytes.div_ceil(PAGE_BYTES);
            let freed = content.counted_from(kept_pages);
            content.pages.split_off(&kept_pages);
            content.reserved_pages = content.reserved_pages.min(kept_pages);
            self.space.release(freed);
            // Truncated bytes must read as zeros if the file grows again.
            if let Some(page) = content.pages.get_mut(&(bytes / PAGE_BYTES)) {
                page[(bytes % PAGE_BYTES) as usize..].fill(0);
            }
        }
        content.len = bytes;
    }

    /// Reserves the first `bytes` bytes and extends a shorter file to this length. If the space is too small,
    /// changes nothing and returns false.
    pub(super) fn reserve(&self, bytes: u64) -> bool {
        let mut content = self.content_mut();
        let pages = bytes.div_ceil(PAGE_BYTES).max(content.reserved_pages);
        let allocated = content.pages.range(content.reserved_pages..pages).count() as u64;
        if !self.space.take(pages - content.reserved_pages - allocated) {
            return false;
        }
        content.reserved_pages = pages;
        content.len = content.len.max(bytes);
        true
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let counted = self.content().counted_from(0);
        self.space.release(counted);
    }
}

/// The part of a transfer inside one page.
struct Piece {
    page: u64,
    page_start: usize,
    memory_start: usize,
    bytes: usize,
}

fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let mut memory_start = 0;
    std::iter::from_fn(move || {
        let at = offset + memory_start as u64;
        let page_start = (at % PAGE_BYTES) as usize;
        let piece_bytes = (PAGE - page_start).min(bytes - memory_start);
        let piece = Piece { page: at / PAGE_BYTES, page_start, memory_start, bytes: piece_bytes };
        memory_start += piece_bytes;
        (piece_bytes > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPAN: u64 = PAGE_BYTES * 6;
    const CAPACITY_PAGES: u64 = 4;

    #[derive(Debug, Clone)]
    enum Step {
        Write { offset: u64, bytes: usize, value: u8 },
        SetLen(u64),
        Reserve(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..SPAN, 0..9000_usize, 1..=255_u8)
                .prop_map(|(offset, bytes, value)| Step::Write { offset, bytes, value }),
            2 => (0..SPAN).prop_map(Step::SetLen),
            1 => (0..SPAN).prop_map(Step::Reserve),
        ]
    }

    /// The same file as a list of bytes and a set of the pages that are counted in [`Space`].
    #[derive(Default)]
    struct Oracle {
        bytes: Vec<u8>,
        counted: std::collections::BTreeSet<u64>,
    }

    impl Oracle {
        fn write(&mut self, offset: u64, bytes: usize, value: u8) -> usize {
            for index in 0..bytes {
                let at = offset + index as u64;
                let page = at / PAGE_BYTES;
                if !self.counted.contains(&page) && self.counted.len() as u64 == CAPACITY_PAGES {
                    return index;
                }
                self.counted.insert(page);
                let at = at as usize;
                self.bytes.resize(self.bytes.len().max(at + 1), 0);
                self.bytes[at] = value;
            }
            bytes
        }

        fn set_len(&mut self, bytes: u64) {
            if bytes < self.bytes.len() as u64 {
                self.counted.retain(|page| page * PAGE_BYTES < bytes);
            }
            self.bytes.resize(bytes as usize, 0);
        }

        fn reserve(&mut self, bytes: u64) -> bool {
            let mut counted = self.counted.clone();
            counted.extend(0..bytes.div_ceil(PAGE_BYTES));
            if counted.len() as u64 > CAPACITY_PAGES {
                return false;
            }
            self.counted = counted;
            self.bytes.resize(self.bytes.len().max(bytes as usize), 0);
            true
        }
    }

    proptest! {
        #[test]
        fn file_equals_a_list_of_bytes_and_counts_its_pages(steps in proptest::collection::vec(step(), 1..40)) {
            let space = Arc::new(Space::limited(CAPACITY_PAGES * PAGE_BYTES));
            let node = Node::new(Arc::clone(&space));
            let mut oracle = Oracle::default();
            for step in steps {
                match step {
                    Step::Write { offset, bytes, value } => {
                        let data = vec![value; bytes];
                        let stored = node.write(offset, &Segment::from_ref(&data));
                        prop_assert_eq!(stored, oracle.write(offset, bytes, value));
                    }
                    Step::SetLen(bytes) => {
                        node.set_len(bytes);
                        oracle.set_len(bytes);
                    }
                    Step::Reserve(bytes) => prop_assert_eq!(node.reserve(bytes), oracle.reserve(bytes)),
                }
                let mut back = vec![7; oracle.bytes.len() + 5];
                let read = node.read(0, &Segment::from_mut(&mut back));
                prop_assert_eq!(read, oracle.bytes.len());
                prop_assert_eq!(&back[..read], &oracle.bytes[..]);
                prop_assert_eq!(node.len(), oracle.bytes.len() as u64);
                prop_assert_eq!(space.used_bytes(), oracle.counted.len() as u64 * PAGE_BYTES);
            }
            drop(node);
            prop_assert_eq!(space.used_bytes(), 0);
        }
    }
}
