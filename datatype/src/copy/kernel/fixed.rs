//! Movers: how one block is copied, by the class of its size.
//!
//! Sizes that the compiler knows become a few moves of registers. Any other size up to twice a register is two moves that
//! overlap in the middle of the block, so that no size costs a call, a mask or a byte outside of the block.

/// Longest block, in bytes, that is always worth a loop.
pub(super) const LONG_BYTES: usize = 512;

const LINE_BYTES: usize = 64;

/// Copies one block.
pub(super) trait Mover: Copy {
    /// Bytes of the block.
    fn bytes(self) -> usize;

    /// # Safety
    /// [`Mover::bytes`] bytes must be readable at `source` and writable at `target`, apart from each other.
    unsafe fn copy(self, source: *const u8, target: *mut u8);

    /// As [`Mover::copy`], where no block of the target begins at the end of another.
    ///
    /// # Safety
    /// As [`Mover::copy`].
    #[inline(always)]
    unsafe fn spread(self, source: *const u8, target: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.copy(source, target) };
    }
}

/// Exactly `N` bytes, in ascending order: left to itself the compiler stores the last bytes first, and each of those lines waits
/// (40 bytes far apart: 20 GB/s so, 22.5 in order).
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact<const N: usize>;

impl<const N: usize> Exact<N> {
    /// The greatest power of two that fits.
    const FIRST: usize = if N == 0 { 0 } else { 1 << N.ilog2() };
    /// The least power of two that holds the rest, which may overlap the first bytes; 0 if there is none.
    const LAST: usize = if N == Self::FIRST { 0 } else { (N - Self::FIRST).next_power_of_two() };
}

impl<const N: usize> Mover for Exact<N> {
    #[inline(always)]
    fn bytes(self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        // SAFETY: both parts lie in the block, and are all of it.
        unsafe {
            source.copy_to_nonoverlapping(target, Self::FIRST);
            let last = N - Self::LAST;
            source.add(last).copy_to_nonoverlapping(target.add(last), Self::LAST);
        }
    }
}

/// From `W` to `2 * W` bytes: the first `W` and the last `W`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<const W: usize>(pub(super) usize);

impl<const W: usize> Mover for Pair<W> {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        let last = self.0 - W;
        // SAFETY: `W <= self.0 <= 2 * W`, so both parts lie in the block; the caller promises all of its bytes.
        unsafe {
            source.copy_to_nonoverlapping(target, W);
            source.add(last).copy_to_nonoverlapping(target.add(last), W);
        }
    }

    /// By halves of a line, where a part is a whole one: those that cross the end of a line are as many, and take less each. Next
    /// to each other that does not count (92 bytes: 26 GB/s by halves and 24 by wholes, 31 and 33 where they are packed).
    #[inline(always)]
    unsafe fn spread(self, source: *const u8, target: *mut u8) {
        if W != LINE_BYTES {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(source, target) };
        }
        // SAFETY: the two parts of `copy`, each as two halves.
        unsafe {
            for at in [0, W / 2, self.0 - W, self.0 - W / 2] {
                source.add(at).copy_to_nonoverlapping(target.add(at), W / 2);
            }
        }
    }
}

/// Blocks of so many pieces are stored at multiples of these, but for the first and the last piece: stores that cross the end of a
/// line take a twentieth more even where both sides come from memory.
const ALIGNED_MIN: usize = 4;

/// `W` bytes or more: whole pieces of `W`, then the last `W` bytes, which may overlap the piece before; so may the second piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Many<const W: usize>(pub(super) usize);

impl<const W: usize> Mover for Many<W> {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        let last = self.0 - W;
        let mut at = 0;
        // SAFETY: every piece starts at or before `last`, so it ends in the block; the caller promises all of its bytes.
        // The first multiple of `W` in the target is at most `W` bytes on.
        unsafe {
            if self.0 >= ALIGNED_MIN * W {
                source.copy_to_nonoverlapping(target, W);
                at = W - target.addr() % W;
            }
            while at < last {
                source.add(at).copy_to_nonoverlapping(target.add(at), W);
                at += W;
            }
            source.add(last).copy_to_nonoverlapping(target.add(last), W);
        }
    }
}

/// Any number of bytes, by the C library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Library(pub(super) usize);

impl Mover for Library {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { source.copy_to_nonoverlapping(target, self.0) };
    }
}

/// Runs `$body` with `$mover` bound to the mover of `$bytes` bytes: once per class, so that each is compiled on its own.
/// Blocks of more than `$loop_max_bytes` bytes, [`LONG_BYTES`] unless told, are left to the C library.
macro_rules! with_mover {
    ($bytes:expr, $mover:ident => $body:expr) => {
        with_mover!($bytes, $crate::copy::kernel::fixed::LONG_BYTES, $mover => $body)
    };
    ($bytes:expr, $loop_max_bytes:expr, $mover:ident => $body:expr) => {{
        use $crate::copy::kernel::fixed::{Exact, Library, Many, Pair};
        macro_rules! arm {
            ($value:expr) => {{
                let $mover = $value;
                $body
            }};
        }
        match $bytes as usize {
            0 => {}
            1 => arm!(Exact::<1>),
            2 => arm!(Exact::<2>),
            4 => arm!(Exact::<4>),
            8 => arm!(Exact::<8>),
            12 => arm!(Exact::<12>),
            16 => arm!(Exact::<16>),
            20 => arm!(Exact::<20>),
            24 => arm!(Exact::<24>),
            28 => arm!(Exact::<28>),
            32 => arm!(Exact::<32>),
            40 => arm!(Exact::<40>),
            48 => arm!(Exact::<48>),
            56 => arm!(Exact::<56>),
            64 => arm!(Exact::<64>),
            bytes @ 3 => arm!(Pair::<2>(bytes)),
            bytes @ 5..8 => arm!(Pair::<4>(bytes)),
            bytes @ 9..16 => arm!(Pair::<8>(bytes)),
            bytes @ 17..32 => arm!(Pair::<16>(bytes)),
            bytes @ 33..64 => arm!(Pair::<32>(bytes)),
            bytes @ 65..=128 => arm!(Pair::<64>(bytes)),
            bytes if bytes <= $loop_max_bytes => arm!(Many::<64>(bytes)),
            bytes => arm!(Library(bytes)),
        }
    }};
}
pub(super) use with_mover;
