//! The innermost loops: equal blocks of elements from or to places in memory, converted on the way. The only file here that
//! turns addresses into elements.
//!
//! One side is *placed*: blocks at a distance, in rows at a distance. The other is dense. Only the
//! bytes of the elements are read or written, each once. The loops are compiled for several instruction sets, of which
//! [`Kernel`] picks one when it is made.

use std::mem::MaybeUninit;

use crate::translate::convert::Convert;

/// An element anywhere.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Loose<T>(T);

/// Blocks in rows. A dense side has the same blocks without distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// Elements of one block.
    pub(super) block: usize,
    /// Blocks of one row.
    pub(super) count: usize,
    /// From block to block, in bytes.
    pub(super) stride: isize,
    /// Rows.
    pub(super) rows: usize,
    /// From row to row, in bytes.
    pub(super) row_stride: isize,
}

impl Grid {
    /// Consecutive elements.
    pub(super) fn dense(elements: usize) -> Self {
        Self { block: elements, count: 1, stride: 0, rows: 1, row_stride: 0 }
    }
}

/// Converts a grid between `from` and `to`; whether something did not fit.
type GridFn = unsafe fn(from: *const u8, to: *mut u8, grid: &Grid) -> bool;

/// The loops of one conversion in one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    grid: GridFn,
    misfits: unsafe fn(from: *const u8) -> bool,
    /// Bytes of an element that is read.
    pub(super) from_bytes: usize,
    /// Bytes of an element that is written.
    pub(super) to_bytes: usize,
}

impl Kernel {
    /// Placed elements are read, dense ones written.
    pub(super) fn gathering<C: Convert>() -> Self {
        Self::of::<C, true>()
    }

    /// Dense elements are read, placed ones written.
    pub(super) fn scattering<C: Convert>() -> Self {
        Self::of::<C, false>()
    }

    fn of<C: Convert, const GATHER: bool>() -> Self {
        let mut chosen: GridFn = grid::<C, GATHER>;
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            chosen = avx2::grid::<C, GATHER>;
        }
        let misfits = misfits_at::<C>;
        Self { grid: chosen, misfits, from_bytes: size_of::<C::From>(), to_bytes: size_of::<C::To>() }
    }

    /// Converts a grid; whether something did not fit. What did not fit is stored as [`Convert::convert`] has it.
    ///
    /// # Safety
    /// All elements of the grid must be readable at `from` and writable at `to`, the placed side as the grid says and the
    /// dense side one after the other, and no byte that is read may be among those that are written.
    #[inline]
    pub(super) unsafe fn grid(&self, from: *const u8, to: *mut u8, shape: &Grid) -> bool {
        // SAFETY: the caller's promise. The function was chosen for this processor, and its element sizes are ours.
        unsafe { (self.grid)(from, to, shape) }
    }

    /// Whether the element at `from` does not fit.
    ///
    /// # Safety
    /// The element must be readable.
    pub(super) unsafe fn misfits(&self, from: *const u8) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (self.misfits)(from) }
    }
}

/// # Safety
/// As [`Kernel::misfits`].
unsafe fn misfits_at<C: Convert>(from: *const u8) -> bool {
    // SAFETY: an element is readable here; `Loose` has its size and no alignment.
    C::misfits(unsafe { from.cast::<Loose<C::From>>().read() }.0)
}

/// Converts as many elements as both slices have.
#[inline(always)]
fn convert<C: Convert>(from: &[Loose<C::From>], to: &mut [MaybeUninit<Loose<C::To>>]) -> bool {
    let mut misfits = false;
    for (from, to) in from.iter().zip(to) {
        misfits |= C::misfits(from.0);
        to.write(Loose(C::convert(from.0)));
    }
    misfits
}

/// Converts one block of `n` elements.
///
/// # Safety
/// `n` elements must be readable at `from` and writable at `to`, apart from each other.
#[inline(always)]
unsafe fn block<C: Convert>(from: *const u8, to: *mut u8, n: usize) -> bool {
    // SAFETY: the caller promises these elements; `Loose` has their size and no alignment, all their bits are valid, and
    // the two slices, of which one is written through, are apart.
    let (from, to) =
        unsafe { (std::slice::from_raw_parts(from.cast(), n), std::slice::from_raw_parts_mut(to.cast(), n)) };
    convert::<C>(from, to)
}

/// # Safety
/// As [`Kernel::grid`]; `N` is the length of a block, or 0 where that is only known in the grid.
#[inline(always)]
unsafe fn rows<C: Convert, const GATHER: bool, const N: usize>(
    mut from: *const u8,
    mut to: *mut u8,
    grid: &Grid,
) -> bool {
    let n = if N > 0 { N } else { grid.block };
    let (read, written) = (n * size_of::<C::From>(), n * size_of::<C::To>());
    let mut misfits = false;
    for row in 0..grid.rows {
        let start = grid.row_stride.wrapping_mul(row as isize);
        let (mut placed_from, mut placed_to) = (from.wrapping_offset(start), to.wrapping_offset(start));
        for _ in 0..grid.count {
            // SAFETY: block by block and row by row these are the elements that the caller promises.
            misfits |= unsafe {
                if GATHER { block::<C>(placed_from, to, n) } else { block::<C>(from, placed_to, n) }
            };
            placed_from = placed_from.wrapping_offset(grid.stride);
            placed_to = placed_to.wrapping_offset(grid.stride);
            if GATHER {
                to = to.wrapping_add(written);
            } else {
                from = from.wrapping_add(read);
            }
        }
    }
    misfits
}

/// # Safety
/// As [`Kernel::grid`].
#[inline(always)]
unsafe fn grid<C: Convert, const GATHER: bool>(from: *const u8, to: *mut u8, shape: &Grid) -> bool {
    // SAFETY: the caller's promise; each arm has the length of the blocks.
    unsafe {
        if C::HOT {
            match shape.block {
                1 => return rows::<C, GATHER, 1>(from, to, shape),
                2 => return rows::<C, GATHER, 2>(from, to, shape),
                4 => return rows::<C, GATHER, 4>(from, to, shape),
                8 => return rows::<C, GATHER, 8>(from, to, shape),
                _ => {}
            }
        }
        rows::<C, GATHER, 0>(from, to, shape)
    }
}

/// The same loops for processors with AVX2.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Convert, Grid};

    /// # Safety
    /// As [`super::Kernel::grid`], on a processor with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn grid<C: Convert, const GATHER: bool>(
        from: *const u8,
        to: *mut u8,
        shape: &Grid,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { super::grid::<C, GATHER>(from, to, shape) }
    }
}
