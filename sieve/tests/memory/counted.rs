//! Counts the allocated memory of several owners. On each thread one owner allocates at a time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of owners. They are numbered from 0.
pub(crate) const OWNERS: usize = 16;
/// The owner of memory that is not counted.
const UNCOUNTED: usize = OWNERS;
/// Bytes before each allocation, which hold the number of its owner. A larger alignment takes more bytes.
const HEAD_BYTES: usize = 16;

thread_local! {
    static OWNER: Cell<usize> = const { Cell::new(UNCOUNTED) };
}

static HELD_BYTES: [AtomicUsize; OWNERS] = [const { AtomicUsize::new(0) }; OWNERS];
static PEAK_BYTES: [AtomicUsize; OWNERS] = [const { AtomicUsize::new(0) }; OWNERS];

struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

/// The layout of the same memory with a head before it, and the length of the head.
fn with_head(layout: Layout) -> Option<(Layout, usize)> {
    let head_bytes = layout.align().max(HEAD_BYTES);
    let bytes = layout.size().checked_add(head_bytes)?;
    Some((Layout::from_size_align(bytes, head_bytes).ok()?, head_bytes))
}

// SAFETY: the system's allocator provides the memory, with a head before it whose length is a multiple of
// the alignment. So the memory behind the head has the requested size and alignment. It is freed with the
// layout with which it was allocated, which is a function of the requested layout. No method allocates or
// panics.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, head_bytes)) = with_head(layout) else { return std::ptr::null_mut() };
        // SAFETY: `whole` is not empty: it is at least as long as the head.
        let start = unsafe { System.alloc(whole) };
        if start.is_null() {
            return start;
        }
        let owner = OWNER.try_with(Cell::get).unwrap_or(UNCOUNTED);
        // SAFETY: the head is at least one byte long.
        unsafe { start.write(owner as u8) };
        if let Some(held) = HELD_BYTES.get(owner) {
            let now = held.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
            PEAK_BYTES[owner].fetch_max(now, Ordering::Relaxed);
        }
        // SAFETY: the head lies within the allocation.
        unsafe { start.add(head_bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let Some((whole, head_bytes)) = with_head(layout) else { return };
        // SAFETY: `at` came from `alloc` with this layout. `alloc` put the head before it, with the owner
        // in its first byte.
        let (start, owner) = unsafe { (at.sub(head_bytes), at.sub(head_bytes).read()) };
        if let Some(held) = HELD_BYTES.get(usize::from(owner)) {
            held.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: `alloc` allocated `start` with the layout `whole`.
        unsafe { System.dealloc(start, whole) };
    }
}

/// Calls `act`. Its allocations on this thread belong to `owner`, whichever thread frees them.
pub(crate) fn as_owner<T>(owner: usize, act: impl FnOnce() -> T) -> T {
    assert!(owner < OWNERS);
    let before = OWNER.replace(owner);
    let done = act();
    OWNER.set(before);
    done
}

/// Bytes that an owner holds now.
pub(crate) fn held_bytes(owner: usize) -> usize {
    HELD_BYTES[owner].load(Ordering::Relaxed)
}

/// The greatest number of bytes that an owner held since [`forget_peaks`].
pub(crate) fn peak_bytes(owner: usize) -> usize {
    PEAK_BYTES[owner].load(Ordering::Relaxed)
}

pub(crate) fn forget_peaks() {
    (0..OWNERS).for_each(|owner| PEAK_BYTES[owner].store(held_bytes(owner), Ordering::Relaxed));
}
