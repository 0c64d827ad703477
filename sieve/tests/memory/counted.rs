//! Counts the memory of each of several owners, of which one allocates at a time on each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Owners are numbered from 0 to this.
pub(crate) const OWNERS: usize = 16;
/// Whose memory is not counted.
const NOBODY: usize = OWNERS;
/// Bytes before each allocation, for the number of its owner; more where the alignment asks for it.
const HEAD_BYTES: usize = 16;

thread_local! {
    static OWNER: Cell<usize> = const { Cell::new(NOBODY) };
}

static HELD_BYTES: [AtomicUsize; OWNERS] = [const { AtomicUsize::new(0) }; OWNERS];
static PEAK_BYTES: [AtomicUsize; OWNERS] = [const { AtomicUsize::new(0) }; OWNERS];

struct Counted;

#[global_allocator]
static COUNTED: Counted = Counted;

/// The same memory with a head, and how long the head is.
fn with_head(layout: Layout) -> Option<(Layout, usize)> {
    let head_bytes = layout.align().max(HEAD_BYTES);
    let bytes = layout.size().checked_add(head_bytes)?;
    Some((Layout::from_size_align(bytes, head_bytes).ok()?, head_bytes))
}

// SAFETY: memory comes from the system's allocator, longer by a head that is a multiple of the alignment, so what follows the
// head is as large and as aligned as was asked for; it is given back with the layout that it was got with, which is a
// function of the layout asked for. Nothing in here allocates or panics.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, head_bytes)) = with_head(layout) else { return std::ptr::null_mut() };
        // SAFETY: at least a head long.
        let start = unsafe { System.alloc(whole) };
        if start.is_null() {
            return start;
        }
        let owner = OWNER.try_with(Cell::get).unwrap_or(NOBODY);
        // SAFETY: the head is at least a byte.
        unsafe { start.write(owner as u8) };
        if let Some(held) = HELD_BYTES.get(owner) {
            let now = held.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
            PEAK_BYTES[owner].fetch_max(now, Ordering::Relaxed);
        }
        // SAFETY: within what was allocated.
        unsafe { start.add(head_bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let Some((whole, head_bytes)) = with_head(layout) else { return };
        // SAFETY: `at` came from `alloc` with this layout, which put the head before it and the owner at its start.
        let (start, owner) = unsafe { (at.sub(head_bytes), at.sub(head_bytes).read()) };
        if let Some(held) = HELD_BYTES.get(usize::from(owner)) {
            held.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: as it was allocated.
        unsafe { System.dealloc(start, whole) };
    }
}

/// What `act` allocates on this thread belongs to `owner`, whoever frees it.
pub(crate) fn as_owner<T>(owner: usize, act: impl FnOnce() -> T) -> T {
    assert!(owner < OWNERS);
    let before = OWNER.replace(owner);
    let done = act();
    OWNER.set(before);
    done
}

/// What an owner holds now, bytes.
pub(crate) fn held_bytes(owner: usize) -> usize {
    HELD_BYTES[owner].load(Ordering::Relaxed)
}

/// The most that an owner held since [`forget_peaks`], bytes.
pub(crate) fn peak_bytes(owner: usize) -> usize {
    PEAK_BYTES[owner].load(Ordering::Relaxed)
}

pub(crate) fn forget_peaks() {
    (0..OWNERS).for_each(|owner| PEAK_BYTES[owner].store(held_bytes(owner), Ordering::Relaxed));
}
