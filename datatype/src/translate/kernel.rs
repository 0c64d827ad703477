//! The innermost loops: equal blocks of elements are read from places in memory, or written to them, and
//! are converted on the way. This is the only file of the module that turns addresses into elements.
//!
//! One side is *placed*: its blocks lie at a fixed distance, in rows at a fixed distance. The other side is
//! dense. Only bytes of elements are read or written, each of them once. The loops are compiled for several
//! instruction sets, and a [`Kernel`] picks one of them when it is made.

use std::mem::MaybeUninit;

use crate::translate::convert::Convert;
use crate::translate::number::Bits;

/// An element at any address: its alignment is 1.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Loose<T>(T);

/// Blocks in rows. A dense side has the same blocks without gaps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// Number of elements of one block.
    pub(super) block: usize,
    /// Number of blocks of one row.
    pub(super) count: usize,
    /// Distance from block to block, in bytes.
    pub(super) stride: isize,
    /// Number of rows.
    pub(super) rows: usize,
    /// Distance from row to row, in bytes.
    pub(super) row_stride: isize,
    /// Distance from the first block to the first block of the next grid of this shape, in bytes; 0 if
    /// there is none.
    pub(super) next: isize,
    /// Whether this grid and the grids around it have too many bytes for the nearest caches.
    pub(super) is_far: bool,
}

impl Grid {
    /// Consecutive elements.
    pub(super) fn dense(elements: usize) -> Self {
        Self { block: elements, count: 1, stride: 0, rows: 1, row_stride: 0, next: 0, is_far: false }
    }
}

/// Converts a grid between `from` and `to`. Returns whether an element was out of range.
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
    /// A kernel that reads placed elements and writes dense ones.
    pub(super) fn gathering<C: Convert>() -> Self {
        Self::of::<C, true>()
    }

    /// A kernel that reads dense elements and writes placed ones.
    pub(super) fn scattering<C: Convert>() -> Self {
        Self::of::<C, false>()
    }

    fn of<C: Convert, const GATHER: bool>() -> Self {
        let chosen = versions::<C, GATHER>().into_iter().flatten().next();
        let (from_bytes, to_bytes) = (size_of::<C::From>(), size_of::<C::To>());
        Self { grid: chosen.unwrap_or(grid::<C, GATHER>), misfits: misfits_at::<C>, from_bytes, to_bytes }
    }

    /// Converts a grid. Returns whether an element was out of range. [`Convert::convert`] defines the value
    /// that is stored for such an element.
    ///
    /// # Safety
    /// All elements of the grid must be readable at `from` and writable at `to`: the placed side as the
    /// grid describes, the dense side one element after the other. No byte that is read may be among the
    /// bytes that are written.
    #[inline]
    pub(super) unsafe fn grid(&self, from: *const u8, to: *mut u8, shape: &Grid) -> bool {
        // SAFETY: `# Safety` of this function. `Kernel::of` chose the loop for this processor, with the
        // element sizes of this kernel.
        unsafe { (self.grid)(from, to, shape) }
    }

    /// Whether the element at `from` is out of range.
    ///
    /// # Safety
    /// The element must be readable.
    pub(super) unsafe fn misfits(&self, from: *const u8) -> bool {
        // SAFETY: `# Safety` of this function: the element is readable, as `misfits_at` requires.
        unsafe { (self.misfits)(from) }
    }
}

/// # Safety
/// As [`Kernel::misfits`].
unsafe fn misfits_at<C: Convert>(from: *const u8) -> bool {
    // SAFETY: `# Safety` of `Kernel::misfits`: an element is readable here. `Loose` has its size and the
    // alignment 1.
    C::misfits(unsafe { from.cast::<Loose<C::From>>().read() }.0)
}

const CACHE_LINE_BYTES: usize = 64;
/// Number of blocks between the prefetch of a block and its use.
const BLOCKS_AHEAD: usize = 32;

/// Number of elements that are converted together, where this pays off.
const GROUP: usize = 8;
/// For each position in a group, a nonzero value if an element there was out of range. The flags are as
/// wide as elements, so that groups are compared and collected as vectors.
type Flags<C> = [<C as Convert>::From; GROUP];

/// Converts a group of elements, and sets the flags of those out of range.
#[inline(always)]
fn group<C: Convert>(elements: &[C::From; GROUP], flags: &mut Flags<C>) -> [C::To; GROUP] {
    let mut converted = [C::To::ZERO; GROUP];
    for i in 0..GROUP {
        flags[i] = flags[i] | C::From::mask(C::misfits(elements[i]));
        converted[i] = C::convert(elements[i]);
    }
    converted
}

/// Whether any element of any group was out of range.
#[inline(always)]
fn any<C: Convert>(flags: &Flags<C>) -> bool {
    flags.iter().fold(C::From::ZERO, |all, flag| all | *flag) != C::From::ZERO
}

/// Converts as many elements as both slices have. Returns whether an element was out of range.
#[inline(always)]
fn convert<C: Convert>(from: &[Loose<C::From>], to: &mut [MaybeUninit<Loose<C::To>>]) -> bool {
    let (mut from, mut to) = (from, to);
    let mut misfits = false;
    if C::HOT {
        let mut flags = [C::From::ZERO; GROUP];
        let (groups, rest) = from.as_chunks::<GROUP>();
        let (targets, odd) = to.as_chunks_mut::<GROUP>();
        for (elements, target) in groups.iter().zip(targets) {
            let converted = group::<C>(&elements.map(|element| element.0), &mut flags);
            *target = converted.map(|element| MaybeUninit::new(Loose(element)));
        }
        (from, to, misfits) = (rest, odd, any::<C>(&flags));
    }
    for (from, to) in from.iter().zip(to) {
        misfits |= C::misfits(from.0);
        to.write(Loose(C::convert(from.0)));
    }
    misfits
}

/// Converts `n` consecutive elements. Returns whether an element was out of range.
///
/// # Safety
/// The elements must be readable at `from` and writable at `to`, and the two must not overlap.
#[inline(always)]
unsafe fn block<C: Convert>(from: *const u8, to: *mut u8, n: usize) -> bool {
    // SAFETY: `# Safety` of this function: the elements are readable and writable. `Loose` has their size
    // and alignment 1, all bit patterns are valid, and the two slices do not overlap, so the mutable slice
    // is the only one through which its bytes are accessed.
    let (from, to) =
        unsafe { (std::slice::from_raw_parts(from.cast(), n), std::slice::from_raw_parts_mut(to.cast(), n)) };
    convert::<C>(from, to)
}

/// Converts blocks of any length, one at a time.
///
/// # Safety
/// As [`Kernel::grid`].
#[inline(always)]
unsafe fn rows<C: Convert, const GATHER: bool>(mut from: *const u8, mut to: *mut u8, grid: &Grid) -> bool {
    let n = grid.block;
    let mut misfits = false;
    for row in 0..grid.rows {
        let start = grid.row_stride.wrapping_mul(row as isize);
        let (mut source, mut target) =
            if GATHER { (from.wrapping_offset(start), to) } else { (from, to.wrapping_offset(start)) };
        for _ in 0..grid.count {
            // SAFETY: `# Safety` of `Kernel::grid`: block by block and row by row, these are the elements
            // of the grid.
            misfits |= unsafe { block::<C>(source, target, n) };
            (source, target) = advanced::<C, GATHER>(source, target, grid.stride, n);
        }
        (from, to) = if GATHER { (from, target) } else { (source, to) };
    }
    misfits
}

/// The addresses with the placed side moved by `start` bytes.
#[inline(always)]
fn placed<const GATHER: bool>(from: *const u8, to: *mut u8, start: isize) -> (*const u8, *mut u8) {
    if GATHER { (from.wrapping_offset(start), to) } else { (from, to.wrapping_offset(start)) }
}

/// The addresses after `n` elements of the dense side, and at the next place of the other side.
#[inline(always)]
fn advanced<C: Convert, const GATHER: bool>(
    from: *const u8,
    to: *mut u8,
    stride: isize,
    n: usize,
) -> (*const u8, *mut u8) {
    if GATHER {
        (from.wrapping_offset(stride), to.wrapping_add(n * size_of::<C::To>()))
    } else {
        (from.wrapping_add(n * size_of::<C::From>()), to.wrapping_offset(stride))
    }
}

/// Converts blocks of `N` elements, as many together as make a group.
///
/// # Safety
/// As [`Kernel::grid`], for blocks of `N` elements.
#[inline(always)]
unsafe fn short_rows<C: Convert, const GATHER: bool, const N: usize>(
    mut from: *const u8,
    mut to: *mut u8,
    grid: &Grid,
) -> bool {
    let at_once = GROUP / N;
    // Short rows of distant blocks end before the processor has recognized their pattern. Where a block
    // takes little work, the processor runs far enough ahead without help. Where the blocks lie in a near
    // cache, a prefetch costs more than it gains. (Doubles to floats, every 24th of FLASH: with 10 blocks
    // the prefetch costs a third, with 500 blocks it is 1.7 times as fast.)
    let is_slow = GATHER && grid.is_far && size_of::<C::To>() < size_of::<C::From>();
    let is_sparse = grid.stride.unsigned_abs() > CACHE_LINE_BYTES && grid.count < BLOCKS_AHEAD;
    let fetches = is_slow && is_sparse;
    let rows_ahead = BLOCKS_AHEAD / grid.count.max(1);
    let mut flags = [C::From::ZERO; GROUP];
    let mut misfits = false;
    for row in 0..grid.rows {
        let start = grid.row_stride.wrapping_mul(row as isize);
        let (mut source, mut target) = placed::<GATHER>(from, to, start);
        if fetches {
            fetch_ahead(if GATHER { from } else { to }, grid, row + rows_ahead);
        }
        for _ in 0..grid.count / at_once {
            // SAFETY: `# Safety` of `Kernel::grid`: block by block and row by row, these are the elements
            // of the grid.
            unsafe { short_blocks::<C, GATHER, N>(source, target, grid.stride, &mut flags) };
            let stride = grid.stride.wrapping_mul(at_once as isize);
            (source, target) = advanced::<C, GATHER>(source, target, stride, GROUP);
        }
        for _ in 0..grid.count % at_once {
            // SAFETY: as for `short_blocks`: these are the blocks of the row that do not make a whole
            // group.
            misfits |= unsafe { block::<C>(source, target, N) };
            (source, target) = advanced::<C, GATHER>(source, target, grid.stride, N);
        }
        (from, to) = if GATHER { (from, target) } else { (source, to) };
    }
    misfits | any::<C>(&flags)
}

/// Prefetches the cache lines of a later row, in this grid or the next.
#[inline(always)]
fn fetch_ahead(base: *const u8, grid: &Grid, row: usize) {
    let start = if row < grid.rows {
        grid.row_stride.wrapping_mul(row as isize)
    } else if grid.next != 0 && row < 2 * grid.rows {
        grid.row_stride.wrapping_mul((row - grid.rows) as isize).wrapping_add(grid.next)
    } else {
        return;
    };
    for i in 0..grid.count {
        fetch(base.wrapping_offset(start.wrapping_add(grid.stride.wrapping_mul(i as isize))));
    }
}

/// Prefetches a cache line.
#[inline(always)]
fn fetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, and cannot fail at any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Converts the blocks of `N` elements that make one group.
///
/// # Safety
/// As [`Kernel::grid`], for one row of these blocks, `stride` bytes apart.
#[inline(always)]
unsafe fn short_blocks<C: Convert, const GATHER: bool, const N: usize>(
    from: *const u8,
    to: *mut u8,
    stride: isize,
    flags: &mut Flags<C>,
) {
    let mut elements = [C::From::ZERO; GROUP];
    if GATHER {
        for (i, block) in elements.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let place = from.wrapping_offset(stride.wrapping_mul(i as isize));
            // SAFETY: `# Safety` of this function: block `i` is readable. `Loose` has its size and the
            // alignment 1.
            *block = unsafe { place.cast::<Loose<[C::From; N]>>().read() }.0;
        }
    } else {
        // SAFETY: `# Safety` of this function: the dense elements are readable. `Loose` has the alignment 1.
        elements = unsafe { from.cast::<Loose<[C::From; GROUP]>>().read() }.0;
    }
    let converted = group::<C>(&elements, flags);
    if GATHER {
        // SAFETY: `# Safety` of this function: the dense elements are writable. `Loose` has the alignment 1.
        unsafe { to.cast::<Loose<[C::To; GROUP]>>().write(Loose(converted)) };
    } else {
        for (i, block) in converted.as_chunks::<N>().0.iter().enumerate() {
            let place = to.wrapping_offset(stride.wrapping_mul(i as isize));
            // SAFETY: `# Safety` of this function: block `i` is writable. `Loose` has the alignment 1.
            unsafe { place.cast::<Loose<[C::To; N]>>().write(Loose(*block)) };
        }
    }
}

/// # Safety
/// As [`Kernel::grid`].
#[inline(always)]
unsafe fn grid<C: Convert, const GATHER: bool>(from: *const u8, to: *mut u8, shape: &Grid) -> bool {
    // SAFETY: `# Safety` of this function. Each arm matches the length of the blocks.
    unsafe {
        if C::HOT {
            match shape.block {
                1 => return short_rows::<C, GATHER, 1>(from, to, shape),
                2 => return short_rows::<C, GATHER, 2>(from, to, shape),
                4 => return short_rows::<C, GATHER, 4>(from, to, shape),
                8 => return short_rows::<C, GATHER, 8>(from, to, shape),
                _ => {}
            }
        }
        rows::<C, GATHER>(from, to, shape)
    }
}

/// The loops for this processor, the best first. AVX-512 loops exist only for the most frequent
/// conversions.
fn versions<C: Convert, const GATHER: bool>() -> [Option<GridFn>; 3] {
    #[cfg(target_arch = "x86_64")]
    {
        let wide = C::HOT && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
        let avx512: Option<GridFn> = wide.then_some(x86::avx512::<C, GATHER>);
        let avx2: Option<GridFn> = is_x86_feature_detected!("avx2").then_some(x86::avx2::<C, GATHER>);
        [avx512, avx2, Some(grid::<C, GATHER>)]
    }
    #[cfg(not(target_arch = "x86_64"))]
    [None, None, Some(grid::<C, GATHER>)]
}

/// The same loops, compiled for some instruction sets.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Convert, Grid};

    /// # Safety
    /// As [`super::Kernel::grid`], on a processor with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2<C: Convert, const GATHER: bool>(
        from: *const u8,
        to: *mut u8,
        shape: &Grid,
    ) -> bool {
        // SAFETY: `# Safety` of this function includes that of `super::grid`.
        unsafe { super::grid::<C, GATHER>(from, to, shape) }
    }

    /// # Safety
    /// As [`super::Kernel::grid`], on a processor with AVX-512BW and AVX-512VL.
    #[target_feature(enable = "avx512bw,avx512vl")]
    pub(super) unsafe fn avx512<C: Convert, const GATHER: bool>(
        from: *const u8,
        to: *mut u8,
        shape: &Grid,
    ) -> bool {
        // SAFETY: `# Safety` of this function includes that of `super::grid`.
        unsafe { super::grid::<C, GATHER>(from, to, shape) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Convert, Grid, versions};
    use crate::translate::convert::{Decode, Encode, Swap, Truth};
    use crate::translate::number::Bits;

    const CANARY: u8 = 0x5a;

    fn pattern(bytes: usize) -> Vec<u8> {
        // The pattern has exponents of all sizes, so that some reals are out of range.
        (0..bytes).map(|i| (i * 167 + i / 7 * 13) as u8).collect()
    }

    /// Compares every version of a loop with the conversion of single elements, at several lengths of
    /// blocks and rows.
    fn check<C: Convert, const GATHER: bool>(
        read: impl Fn(&[u8]) -> C::From,
        written: impl Fn(C::To) -> Vec<u8>,
    ) {
        let (source_bytes, target_bytes) = (size_of::<C::From>(), size_of::<C::To>());
        let placed_bytes = if GATHER { source_bytes } else { target_bytes };
        for block in if cfg!(miri) { vec![1, 3] } else { (1..=10).chain([16, 37]).collect() } {
            for count in if cfg!(miri) { vec![2, 9] } else { vec![1, 2, 3, 8, 9, 33] } {
                for (gap, rows) in [(0, 1), (1, 3), (160, 2)] {
                    let stride = block * placed_bytes + gap;
                    let row_stride = count * stride + 5;
                    let grid = Grid {
                        block,
                        count,
                        stride: stride as isize,
                        rows,
                        row_stride: row_stride as isize,
                        next: 0,
                        is_far: gap > 0,
                    };
                    let place = |i: usize| {
                        i / (block * count) * row_stride
                            + i / block % count * stride
                            + i % block * placed_bytes
                    };
                    let elements = rows * count * block;
                    let dense_bytes = if GATHER { target_bytes } else { source_bytes };
                    let (spread, dense) = (place(elements - 1) + placed_bytes, elements * dense_bytes);
                    let (from_bytes, to_bytes) = if GATHER { (spread, dense) } else { (dense, spread) };
                    let source = pattern(from_bytes);
                    let mut expected = vec![CANARY; to_bytes];
                    let mut misfits = false;
                    for i in 0..elements {
                        let (from, to) =
                            if GATHER { (place(i), i * target_bytes) } else { (i * source_bytes, place(i)) };
                        let element = read(&source[from..from + source_bytes]);
                        misfits |= C::misfits(element);
                        expected[to..to + target_bytes].copy_from_slice(&written(C::convert(element)));
                    }
                    for version in versions::<C, GATHER>().into_iter().flatten() {
                        let mut target = vec![CANARY; to_bytes];
                        // SAFETY: `# Safety` of `Kernel::grid`: both vectors hold the grid. `versions`
                        // returns loops for this processor.
                        let found = unsafe { version(source.as_ptr(), target.as_mut_ptr(), &grid) };
                        assert_eq!((found, &target), (misfits, &expected), "{grid:?}");
                    }
                }
            }
        }
    }

    macro_rules! check_both {
        ($convert:ty, $from:ty, $to:ty) => {
            let read =
                |bytes: &[u8]| <$from>::from_ne_bytes(bytes.try_into().expect("the slice holds one element"));
            check::<$convert, true>(read, |bits: $to| bits.to_ne_bytes().to_vec());
            check::<$convert, false>(read, |bits: $to| bits.to_ne_bytes().to_vec());
        };
    }

    #[test]
    fn every_loop_version_agrees_with_single_conversions() {
        check_both!(Swap<u8>, u8, u8);
        check_both!(Swap<u16>, u16, u16);
        check_both!(Swap<u32>, u32, u32);
        check_both!(Swap<u64>, u64, u64);
        check_both!(Swap<u128>, u128, u128);
        check_both!(Encode<f64, f32>, u64, u32);
        check_both!(Decode<f32, f64>, u32, u64);
        check_both!(Encode<f64, i16>, u64, u16);
        check_both!(Decode<u16, f32>, u16, u32);
        check_both!(Encode<i64, u32>, u64, u32);
        check_both!(Truth<u32>, u32, u32);
        assert_eq!(u32::mask(true), u32::MAX);
    }
}
