//! Movers: a mover copies one block. There is one type of mover per class of block sizes.
//!
//! A size that the compiler knows becomes a few register moves. Any other size up to twice a register
//! becomes two moves that overlap in the middle of the block. So no size costs a call or a mask, or touches
//! a byte outside of the block.

/// Longest block, in bytes, for which a loop always pays.
pub(super) const LONG_BYTES: usize = 512;

const LINE_BYTES: usize = 64;

/// Copies one block.
pub(super) trait Mover: Copy {
    /// Bytes of the block.
    fn bytes(self) -> usize;

    /// # Safety
    /// [`Mover::bytes`] bytes must be readable at `source` and writable at `target`, and the two must not
    /// overlap.
    unsafe fn copy(self, source: *const u8, target: *mut u8);

    /// Like [`Mover::copy`], for blocks that do not touch each other in the target.
    ///
    /// # Safety
    /// As for [`Mover::copy`].
    #[inline(always)]
    unsafe fn spread(self, source: *const u8, target: *mut u8) {
        // SAFETY: `# Safety` of this function is that of `copy`.
        unsafe { self.copy(source, target) };
    }
}

/// Copies exactly `N` bytes, in ascending order. Without a fixed order the compiler stores the last bytes
/// first, and each of these stores waits for its line (blocks of 40 bytes that are far apart: 20 GB/s, and
/// 22.5 in ascending order).
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact<const N: usize>;

impl<const N: usize> Exact<N> {
    /// The greatest power of two that is at most `N`.
    const FIRST: usize = if N == 0 { 0 } else { 1 << N.ilog2() };
    /// The least power of two that holds the rest, which may overlap the first bytes; 0 if there is no rest.
    const LAST: usize = if N == Self::FIRST { 0 } else { (N - Self::FIRST).next_power_of_two() };
}

impl<const N: usize> Mover for Exact<N> {
    #[inline(always)]
    fn bytes(self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        // SAFETY: `# Safety` of this function: the first `FIRST` and the last `LAST` bytes lie in the block
        // and cover it.
        unsafe {
            source.copy_to_nonoverlapping(target, Self::FIRST);
            let last = N - Self::LAST;
            source.add(last).copy_to_nonoverlapping(target.add(last), Self::LAST);
        }
    }
}

/// Copies `W` to `2 * W` bytes: the first `W` and the last `W`.
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
        // SAFETY: `W <= self.0 <= 2 * W`, so both parts lie in the block, whose bytes `# Safety` of this
        // function covers.
        unsafe {
            source.copy_to_nonoverlapping(target, W);
            source.add(last).copy_to_nonoverlapping(target.add(last), W);
        }
    }

    /// If a part is a whole line, stores it as two halves. As many stores cross the end of a line as with
    /// whole parts, but each takes less time. For blocks next to each other this does not matter. (Blocks of
    /// 92 bytes: 26 GB/s by halves and 24 by whole parts; packed blocks: 31 and 33.)
    #[inline(always)]
    unsafe fn spread(self, source: *const u8, target: *mut u8) {
        if W != LINE_BYTES {
            // SAFETY: `# Safety` of this function is that of `copy`.
            return unsafe { self.copy(source, target) };
        }
        // SAFETY: `# Safety` of this function, for the two parts of `copy`, each as two halves.
        unsafe {
            for at in [0, W / 2, self.0 - W, self.0 - W / 2] {
                source.add(at).copy_to_nonoverlapping(target.add(at), W / 2);
            }
        }
    }
}

/// Blocks of at least this many pieces are stored at multiples of the piece, except for the first and the
/// last piece: stores that cross the end of a line take a twentieth more time, even if both sides come from
/// memory.
const ALIGNED_MIN: usize = 4;

/// Copies `W` bytes or more: whole pieces of `W`, then the last `W` bytes. The last piece may overlap the
/// one before it, and so may the second piece.
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
        // SAFETY: `W <= self.0`, and every piece starts at or before `last`, so it ends in the block, whose
        // bytes `# Safety` of this function covers. The next multiple of `W` in the target is at most `W`
        // bytes behind the start, so no byte is left out.
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

/// Copies any number of bytes, by the C library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Library(pub(super) usize);

impl Mover for Library {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, source: *const u8, target: *mut u8) {
        // SAFETY: `# Safety` of this function.
        unsafe { source.copy_to_nonoverlapping(target, self.0) };
    }
}

/// Runs `$body` with `$mover` bound to the mover of `$bytes` bytes. The body is compiled once per class of
/// sizes. Blocks of more than `$loop_max_bytes` bytes (default: [`LONG_BYTES`]) are left to the C library.
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
