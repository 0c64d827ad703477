//! Memory between two pages that fault on every access.

/// Bytes with a page that faults right before and right after them.
#[derive(Debug)]
pub(super) struct Guarded {
    start: *mut u8,
    len: usize,
}

#[cfg(not(miri))]
impl Guarded {
    const PAGE: usize = 64 << 10;

    /// Memory of at least `len` bytes.
    pub(super) fn new(len: usize) -> Self {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
        use std::num::NonZeroUsize;
        let len = len.next_multiple_of(Self::PAGE);
        let all = NonZeroUsize::new(len + 2 * Self::PAGE).expect("the length is not zero");
        // SAFETY: the mapping is new, so nothing else uses it, and the inner pages are a part of it.
        let start = unsafe {
            let map = mmap_anonymous(None, all, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE)
                .expect("mapping memory succeeds");
            let inner = map.byte_add(Self::PAGE);
            mprotect(inner, len, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)
                .expect("changing the protection of own pages succeeds");
            inner.cast().as_ptr()
        };
        Self { start, len }
    }
}

#[cfg(not(miri))]
impl Drop for Guarded {
    fn drop(&mut self) {
        let map =
            std::ptr::NonNull::new(self.start.wrapping_sub(Self::PAGE).cast()).expect("the memory is mapped");
        // SAFETY: `map` is the mapping that `new` made, with its full length; nothing borrows it any more.
        unsafe { nix::sys::mman::munmap(map, self.len + 2 * Self::PAGE).expect("the memory is mapped") };
    }
}

/// Miri itself checks the bounds of each access.
#[cfg(miri)]
impl Guarded {
    pub(super) fn new(len: usize) -> Self {
        Self { start: Box::leak(vec![0; len].into_boxed_slice()).as_mut_ptr(), len }
    }
}

#[cfg(miri)]
impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` leaked this box of `len` bytes, and nothing else frees it.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)) });
    }
}

impl Guarded {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The address of the first byte. The pointer may access all bytes.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` made `len` readable and writable bytes, which the system (or `vec!`) zeroed; `&mut
        // self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
