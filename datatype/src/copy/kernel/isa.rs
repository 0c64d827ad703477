//! What an instruction set does better than plain moves. By default: nothing.
//!
//! Methods that return a number return how many units they copied, from the first one on; the caller copies
//! the rest by plain moves. Every unsafe method needs a processor with the instructions of the set, in
//! addition to the conditions it states.

use super::super::nest::NestDim;

/// What an instruction that copies strings does better than loops and the C library.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strings {
    /// Copies runs of many pages better.
    pub(super) are_long: bool,
    /// Copies rows of a kilobyte better too, because it begins without a delay.
    pub(super) are_short: bool,
}

/// An instruction set.
pub(super) trait Isa {
    /// Packs units of `U` bytes, `K` units apart, to consecutive bytes. `is_far` tells that most of the
    /// source is not expected in a cache of the core.
    ///
    /// # Safety
    /// `n` units must be readable from `source` on, `K * U` bytes apart. `n * U` bytes must be writable at
    /// `target`. The two must not overlap.
    #[inline(always)]
    unsafe fn pack<const U: usize, const K: usize>(
        _source: *const u8,
        _target: *mut u8,
        _n: usize,
        _is_far: bool,
    ) -> usize {
        0
    }

    /// The reverse of [`Isa::pack`]. `is_far` tells that most of the target is not expected in a cache of
    /// the core.
    ///
    /// # Safety
    /// As for [`Isa::pack`], with the sides exchanged. An implementation must not write the bytes between
    /// the units of the target.
    #[inline(always)]
    unsafe fn unpack<const U: usize, const K: usize>(
        _source: *const u8,
        _target: *mut u8,
        _n: usize,
        _is_far: bool,
    ) -> usize {
        0
    }

    /// Packs blocks of `block` bytes that are a few units of 4 bytes apart to consecutive bytes, from the
    /// first block of a row on. The stride is in bytes.
    ///
    /// # Safety
    /// `n` blocks must be readable in the source at this stride, `n` consecutive blocks writable in the
    /// target, and the two must not overlap.
    #[inline(always)]
    unsafe fn pack_near(_from: (*const u8, i64), _target: *mut u8, _block: usize, _n: usize) -> usize {
        0
    }

    /// The reverse of [`Isa::pack_near`]. `is_far` has the meaning that it has in [`Isa::unpack`].
    ///
    /// # Safety
    /// As for [`Isa::pack_near`], with the sides exchanged. An implementation must not write the bytes
    /// between the blocks of the target.
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

    /// Unpacks consecutive blocks of 12 bytes to places `stride` bytes apart. At each place, the 16 bytes
    /// from there on lie in one cache line.
    ///
    /// # Safety
    /// `n` consecutive blocks must be readable from `source` on, `n` blocks writable from `target` on,
    /// `stride` bytes apart, and the two must not overlap. An implementation must not write other bytes.
    #[inline(always)]
    unsafe fn unpack_12(_source: *const u8, _target: *mut u8, _n: usize, _stride: i64) -> usize {
        0
    }

    /// Transposes the whole squares of planes of units of `U` bytes (4, 8 or 16). The planes are consecutive
    /// in the source along `p` and in the target along `q`. Returns how much of each dimension of a plane
    /// was copied.
    ///
    /// # Safety
    /// The planes must be consecutive as stated. All their units must be readable in the source and writable
    /// in the target, and the two must not overlap.
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

    /// Longest unit for which [`Isa::gather_word`] is better than a list of places.
    const GATHERED_UNIT_MAX: usize = 0;
    /// Longest unit for which [`Isa::scatter_word`] is better than a list of places.
    const SCATTERED_UNIT_MAX: usize = 0;

    /// Copies the units of `U` bytes of the set bits of one word to consecutive bytes.
    ///
    /// # Safety
    /// The units of the set bits must be readable from `source` on, 64 units must be writable at `target`,
    /// and the two must not overlap. An implementation may read other bytes on the pages of these units, and
    /// may write any values to the bytes of the 64 units behind those of the set bits.
    #[inline(always)]
    unsafe fn gather_word<const U: usize>(_source: *const u8, _target: *mut u8, _word: u64) -> bool {
        false
    }

    /// Copies consecutive units of `U` bytes to the units of the set bits of one word.
    ///
    /// # Safety
    /// As many units as there are set bits must be readable at `source` (with `ROOM`, 64 units), the units
    /// of the set bits must be writable from `target` on, and the two must not overlap. An implementation
    /// must not write other bytes.
    #[inline(always)]
    unsafe fn scatter_word<const U: usize, const ROOM: bool>(
        _source: *const u8,
        _target: *mut u8,
        _word: u64,
    ) -> bool {
        false
    }

    /// Longest run, in bytes, that a loop of plain moves copies better than the C library.
    const LOOP_MAX_BYTES: usize = 512;

    /// Which runs the string instruction copies better than loops and the C library.
    #[inline(always)]
    fn moves_strings() -> Strings {
        Strings::default()
    }

    /// Copies a run by the string instruction, or by the C library if there is no such instruction.
    ///
    /// # Safety
    /// `bytes` bytes must be readable at `source` and writable at `target`, and the two must not overlap.
    #[inline(always)]
    unsafe fn move_string(source: *const u8, target: *mut u8, bytes: usize) {
        // SAFETY: `# Safety` of this function.
        unsafe { source.copy_to_nonoverlapping(target, bytes) };
    }

    /// Prefetches the cache line of `source` for reading.
    #[inline(always)]
    fn ask_to_read(_source: *const u8) {}

    /// Prefetches the cache line of `target` for writing.
    #[inline(always)]
    fn ask_to_write(_target: *mut u8) {}

    /// Bytes of the pieces that [`Isa::stream`] copies; 0 if the instruction set has no such stores.
    const STREAM_BYTES: usize = 0;

    /// Copies pieces with stores that bypass the caches.
    ///
    /// # Safety
    /// `pieces * STREAM_BYTES` bytes must be readable at `source` and writable at `target`, and the two must
    /// not overlap. `target` must be a multiple of [`Isa::STREAM_BYTES`].
    #[inline(always)]
    unsafe fn stream(_source: *const u8, _target: *mut u8, _pieces: usize) {}
}
