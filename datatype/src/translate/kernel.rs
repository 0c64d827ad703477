//! The innermost loops: equal blocks of elements from or to places in memory, converted on the way. The only file here that
//! turns addresses into elements.
//!
//! One side is *placed*: blocks at a distance, in rows at a distance. The other is dense. Only the
//! bytes of the elements are read or written, each once. The loops are compiled for several instruction sets, of which
//! [`Kernel`] picks one when it is made.

use std::mem::MaybeUninit;

use crate::translate::convert::Convert;
use crate::translate::number::Bits;

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
    /// From the first block to that of a grid of this shape that follows, in bytes; 0 if none does.
    pub(super) next: isize,
    /// Whether this and the grids around it are too many bytes for the nearest caches.
    pub(super) is_far: bool,
}

impl Grid {
    /// Consecutive elements.
    pub(super) fn dense(elements: usize) -> Self {
        Self { block: elements, count: 1, stride: 0, rows: 1, row_stride: 0, next: 0, is_far: false }
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
        let chosen = versions::<C, GATHER>().into_iter().flatten().next();
        let (from_bytes, to_bytes) = (size_of::<C::From>(), size_of::<C::To>());
        Self { grid: chosen.unwrap_or(grid::<C, GATHER>), misfits: misfits_at::<C>, from_bytes, to_bytes }
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

const CACHE_LINE_BYTES: usize = 64;
/// How many blocks before its use a block is asked for.
const BLOCKS_AHEAD: usize = 32;

/// Elements that are converted at once, where it pays to write that out.
const GROUP: usize = 8;
/// For each place in a group, the bits of an element that did not fit: so groups are compared and collected as vectors.
type Flags<C> = [<C as Convert>::From; GROUP];

/// Converts a group of elements.
#[inline(always)]
fn group<C: Convert>(elements: &[C::From; GROUP], flags: &mut Flags<C>) -> [C::To; GROUP] {
    let mut converted = [C::To::ZERO; GROUP];
    for i in 0..GROUP {
        flags[i] = flags[i] | C::From::mask(C::misfits(elements[i]));
        converted[i] = C::convert(elements[i]);
    }
    converted
}

/// Whether any element of any group did not fit.
#[inline(always)]
fn any<C: Convert>(flags: &Flags<C>) -> bool {
    flags.iter().fold(C::From::ZERO, |all, flag| all | *flag) != C::From::ZERO
}

/// Converts as many elements as both slices have.
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

/// Converts `n` consecutive elements.
///
/// # Safety
/// They must be readable at `from` and writable at `to`, apart from each other.
#[inline(always)]
unsafe fn block<C: Convert>(from: *const u8, to: *mut u8, n: usize) -> bool {
    // SAFETY: the caller promises these elements; `Loose` has their size and no alignment, all their bits are valid, and
    // the two slices, of which one is written through, are apart.
    let (from, to) =
        unsafe { (std::slice::from_raw_parts(from.cast(), n), std::slice::from_raw_parts_mut(to.cast(), n)) };
    convert::<C>(from, to)
}

/// Blocks of any length, one by one.
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
            // SAFETY: block by block and row by row these are the elements that the caller promises.
            misfits |= unsafe { block::<C>(source, target, n) };
            (source, target) = advanced::<C, GATHER>(source, target, grid.stride, n);
        }
        (from, to) = if GATHER { (from, target) } else { (source, to) };
    }
    misfits
}

/// The addresses where the placed side is `start` bytes further.
#[inline(always)]
fn placed<const GATHER: bool>(from: *const u8, to: *mut u8, start: isize) -> (*const u8, *mut u8) {
    if GATHER { (from.wrapping_offset(start), to) } else { (from, to.wrapping_offset(start)) }
}

/// The addresses behind `n` elements of the dense side, and at the next place of the other.
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

/// Blocks of `N` elements, as many at a time as make a group.
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
    // Short rows of distant blocks end before the processor has seen where they lead. Where there is little to do per
    // block, it runs ahead far enough by itself, and where the blocks are near at hand asking costs more than it gives
    // (doubles to floats, every 24th of 10 blocks of FLASH: a third; of 500 blocks it gains 1.7 times).
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
            // SAFETY: block by block and row by row these are the elements that the caller promises.
            unsafe { short_blocks::<C, GATHER, N>(source, target, grid.stride, &mut flags) };
            let stride = grid.stride.wrapping_mul(at_once as isize);
            (source, target) = advanced::<C, GATHER>(source, target, stride, GROUP);
        }
        for _ in 0..grid.count % at_once {
            // SAFETY: as above.
            misfits |= unsafe { block::<C>(source, target, N) };
            (source, target) = advanced::<C, GATHER>(source, target, grid.stride, N);
        }
        (from, to) = if GATHER { (from, target) } else { (source, to) };
    }
    misfits | any::<C>(&flags)
}

/// Asks for the cache lines of a row that follows, in this grid or the next.
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

/// Asks for a cache line.
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

/// Blocks of `N` elements that make one group.
///
/// # Safety
/// As [`Kernel::grid`], for one row of these blocks at a distance of `stride`.
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
            // SAFETY: block `i`, which the caller promises; `Loose` has its size and no alignment.
            *block = unsafe { place.cast::<Loose<[C::From; N]>>().read() }.0;
        }
    } else {
        // SAFETY: the dense elements, which the caller promises.
        elements = unsafe { from.cast::<Loose<[C::From; GROUP]>>().read() }.0;
    }
    let converted = group::<C>(&elements, flags);
    if GATHER {
        // SAFETY: as above.
        unsafe { to.cast::<Loose<[C::To; GROUP]>>().write(Loose(converted)) };
    } else {
        for (i, block) in converted.as_chunks::<N>().0.iter().enumerate() {
            let place = to.wrapping_offset(stride.wrapping_mul(i as isize));
            // SAFETY: as above.
            unsafe { place.cast::<Loose<[C::To; N]>>().write(Loose(*block)) };
        }
    }
}

/// # Safety
/// As [`Kernel::grid`].
#[inline(always)]
unsafe fn grid<C: Convert, const GATHER: bool>(from: *const u8, to: *mut u8, shape: &Grid) -> bool {
    // SAFETY: the caller's promise; each arm has the length of the blocks.
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

/// The loops for this processor, the best first. Only those that are used most exist for AVX-512.
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

/// The same loops for some instruction sets.
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
        // SAFETY: the caller's promise.
        unsafe { super::grid::<C, GATHER>(from, to, shape) }
    }

    /// # Safety
    /// As [`super::Kernel::grid`], on a processor with these parts of AVX-512.
    #[target_feature(enable = "avx512bw,avx512vl")]
    pub(super) unsafe fn avx512<C: Convert, const GATHER: bool>(
        from: *const u8,
        to: *mut u8,
        shape: &Grid,
    ) -> bool {
        // SAFETY: the caller's promise.
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
        // Exponents of all sizes, so that some reals do not fit.
        (0..bytes).map(|i| (i * 167 + i / 7 * 13) as u8).collect()
    }

    /// Every version of a loop against single elements, at every length of a block and of a row.
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
                        // SAFETY: both vectors hold the grid, and the version was made for this processor.
                        let found = unsafe { version(source.as_ptr(), target.as_mut_ptr(), &grid) };
                        assert_eq!((found, &target), (misfits, &expected), "{grid:?}");
                    }
                }
            }
        }
    }

    macro_rules! check_both {
        ($convert:ty, $from:ty, $to:ty) => {
            let read = |bytes: &[u8]| <$from>::from_ne_bytes(bytes.try_into().expect("one element"));
            check::<$convert, true>(read, |bits: $to| bits.to_ne_bytes().to_vec());
            check::<$convert, false>(read, |bits: $to| bits.to_ne_bytes().to_vec());
        };
    }

    #[test]
    fn every_version_of_the_loops() {
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
