//! What an instruction set does better than plain moves. By default: nothing.
//!
//! Methods that return a number say how many units they did, from the first on; the caller does the others by plain moves.
//! Every one of them needs its instructions to be there, besides what it says.

use super::super::nest::NestDim;

/// What an instruction that copies strings does better than loops and the C library.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strings {
    /// Runs of many pages.
    pub(super) are_long: bool,
    /// Rows of a kilobyte too: it begins without delay.
    pub(super) are_short: bool,
}

/// An instruction set.
pub(super) trait Isa {
    /// Units of `U` bytes, `K` units apart, to consecutive ones. `is_far` tells that most of the source is not expected in a
    /// cache of the core.
    ///
    /// # Safety
    /// `n` units must be readable from `source` on, `K * U` bytes apart, and `n * U` bytes writable at `target`.
    #[inline(always)]
    unsafe fn pack<const U: usize, const K: usize>(
        _source: *const u8,
        _target: *mut u8,
        _n: usize,
        _is_far: bool,
    ) -> usize {
        0
    }

    /// The reverse of [`Isa::pack`]. `is_far` tells that most of the target is not expected in a cache of the core.
    ///
    /// # Safety
    /// As [`Isa::pack`], with the sides exchanged. The bytes between the units of the target must not be written.
    #[inline(always)]
    unsafe fn unpack<const U: usize, const K: usize>(
        _source: *const u8,
        _target: *mut u8,
        _n: usize,
        _is_far: bool,
    ) -> usize {
        0
    }

    /// The first blocks of `block` bytes of a row, a few units of 4 bytes apart, to consecutive ones; the stride is in bytes.
    ///
    /// # Safety
    /// `n` blocks must be readable in the source, so far apart, and writable one after the other in the target.
    #[inline(always)]
    unsafe fn pack_near(_from: (*const u8, i64), _target: *mut u8, _block: usize, _n: usize) -> usize {
        0
    }

    /// The reverse of [`Isa::pack_near`]. `is_far` is as for [`Isa::unpack`].
    ///
    /// # Safety
    /// As [`Isa::pack_near`], with the sides exchanged. The bytes between the blocks of the target must not be written.
    #[inline(always)]
    unsafe fn unpack_near(
        _source: *const u8,
        _to: (*mut u8, i64),
        _block: usize,
        _n: usize,
        _is_far: bool,
    ) -> usize {
        0
    }

    /// Consecutive blocks of 12 bytes to places `stride` bytes apart, where 16 bytes from each place on lie in one line.
    ///
    /// # Safety
    /// `n` blocks must be readable from `source` on, one after the other, and writable from `target` on, `stride` bytes
    /// apart. Nothing else may be written.
    #[inline(always)]
    unsafe fn unpack_12(_source: *const u8, _target: *mut u8, _n: usize, _stride: i64) -> usize {
        0
    }

    /// Whole squares of units of `U` bytes (4, 8 or 16) of planes that are consecutive in the source along `p`, in the target
    /// along `q`. Returns how much of each dimension of a plane that was.
    ///
    /// # Safety
    /// All units of the planes must be readable in the source and writable in the target, apart from each other.
    #[inline(always)]
    unsafe fn transpose<const U: usize>(
        _source: *const u8,
        _target: *mut u8,
        _p: &NestDim,
        _q: &NestDim,
        _planes: &NestDim,
    ) -> [u64; 2] {
        [0, 0]
    }

    /// Longest unit that [`Isa::gather_word`] does better than a list of places does.
    const GATHERED_UNIT_MAX: usize = 0;
    /// And [`Isa::scatter_word`].
    const SCATTERED_UNIT_MAX: usize = 0;

    /// The units of `U` bytes of the set bits of one word, to consecutive ones.
    ///
    /// # Safety
    /// The units of the set bits must be readable from `source` on, and 64 units be writable at `target`; what else lies on the
    /// pages of these units may be read, and the bytes behind those of the set bits may be written there, with anything.
    #[inline(always)]
    unsafe fn gather_word<const U: usize>(_source: *const u8, _target: *mut u8, _word: u64) -> bool {
        false
    }

    /// Consecutive units of `U` bytes to those of the set bits of one word.
    ///
    /// # Safety
    /// As many units as there are set bits must be readable at `source`, or 64 if there is `ROOM`, and writable at the places of
    /// the bits from `target` on, where nothing else may be written.
    #[inline(always)]
    unsafe fn scatter_word<const U: usize, const ROOM: bool>(
        _source: *const u8,
        _target: *mut u8,
        _word: u64,
    ) -> bool {
        false
    }

    /// Longest run, in bytes, that a loop of plain moves copies better than the C library does.
    const LOOP_MAX_BYTES: usize = 512;

    /// What the instruction that copies strings is good for.
    #[inline(always)]
    fn moves_strings() -> Strings {
        Strings::default()
    }

    /// Copies a run by that instruction; by the C library, where there is none.
    ///
    /// # Safety
    /// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
    #[inline(always)]
    unsafe fn move_string(source: *const u8, target: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { source.copy_to_nonoverlapping(target, bytes) };
    }

    /// Asks for the line of `source`, to be read.
    #[inline(always)]
    fn ask_to_read(_source: *const u8) {}

    /// Asks for the line of `target`, to be written.
    #[inline(always)]
    fn ask_to_write(_target: *mut u8) {}

    /// Bytes of the pieces of [`Isa::stream`]; 0 if there is none.
    const STREAM_BYTES: usize = 0;

    /// Copies pieces past the caches.
    ///
    /// # Safety
    /// `pieces * STREAM_BYTES` bytes must be readable at `source` and writable at `target`, which must be a multiple of
    /// [`Isa::STREAM_BYTES`].
    #[inline(always)]
    unsafe fn stream(_source: *const u8, _target: *mut u8, _pieces: usize) {}
}
