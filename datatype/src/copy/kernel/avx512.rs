//! Kernels for processors with AVX-512 F, BW and VL.

use std::arch::x86_64::*;

use super::super::nest::NestDim;
use super::isa::{Isa, Strings};
use super::strided::{self, Lanes, MaskedLanes};
use super::transpose::{self, Square};
use super::{near, x86};

/// Whether the processor has the instructions.
pub(super) fn is_available() -> bool {
    !cfg!(miri)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

struct Avx512;

/// Prefetch distance, in bytes, for the masked loads and stores of bitmaps. No processor that was measured
/// prefetches for masked accesses by itself, as it does for plain ones. Packing units at random strides of 2
/// to 5 from L3: 4-byte units 4.6 GB/s without and 13 with prefetching, 8-byte units 3.1 and 9.
const AHEAD_BYTES: usize = 2048;

super::level::kernels!(Avx512, "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,popcnt");

/// 16 units of 4 bytes.
pub(super) struct Lanes4;
/// 8 units of 8 bytes.
struct Lanes8;

macro_rules! lanes {
    ($name:ident, $unit:literal, $mask:ty, $widen:ident, $load_masked:ident, $store_masked:ident, $permute:ident, $merge:ident) => {
        impl Lanes for $name {
            const UNIT: usize = $unit;
            type Vector = __m512i;
            type Index = __m512i;
            type Mask = $mask;

            #[inline(always)]
            unsafe fn index(lanes: &[u8; 16]) -> __m512i {
                // SAFETY: the processor has the instructions by `# Safety` of `Lanes::index`. `lanes` has
                // the 16 bytes that are loaded.
                unsafe { $widen(_mm_loadu_si128(lanes.as_ptr().cast())) }
            }
            #[inline(always)]
            unsafe fn mask(bits: u32) -> $mask {
                bits as $mask
            }
            #[inline(always)]
            unsafe fn load(from: *const u8) -> __m512i {
                // SAFETY: `# Safety` of `Lanes::load`: a register, 64 bytes, is readable at `from`.
                unsafe { _mm512_loadu_si512(from.cast()) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut u8, vector: __m512i) {
                // SAFETY: `# Safety` of `Lanes::store`: a register, 64 bytes, is writable at `to`.
                unsafe { _mm512_storeu_si512(to.cast(), vector) };
            }
            #[inline(always)]
            unsafe fn permute(index: __m512i, vector: __m512i) -> __m512i {
                // SAFETY: `# Safety` of `Lanes::permute`: the processor has the instruction, which accesses
                // no memory.
                unsafe { $permute(index, vector) }
            }
            #[inline(always)]
            unsafe fn merge(into: __m512i, mask: $mask, index: __m512i, vector: __m512i) -> __m512i {
                // SAFETY: `# Safety` of `Lanes::merge`: the processor has the instruction, which accesses no
                // memory.
                unsafe { $merge(into, mask, index, vector) }
            }
        }

        impl MaskedLanes for $name {
            #[inline(always)]
            unsafe fn load_masked(from: *const u8, mask: $mask) -> __m512i {
                // SAFETY: `# Safety` of `MaskedLanes::load_masked`: the lanes of the mask are readable;
                // other lanes are not read.
                unsafe { $load_masked(mask, from.cast()) }
            }
            #[inline(always)]
            unsafe fn store_masked(to: *mut u8, mask: $mask, vector: __m512i) {
                // SAFETY: `# Safety` of `MaskedLanes::store_masked`: the lanes of the mask are writable;
                // others are not written.
                unsafe { $store_masked(to.cast(), mask, vector) };
            }
        }
    };
}
lanes!(
    Lanes4,
    4,
    __mmask16,
    _mm512_cvtepu8_epi32,
    _mm512_maskz_loadu_epi32,
    _mm512_mask_storeu_epi32,
    _mm512_permutexvar_epi32,
    _mm512_mask_permutexvar_epi32
);
lanes!(
    Lanes8,
    8,
    __mmask8,
    _mm512_cvtepu8_epi64,
    _mm512_maskz_loadu_epi64,
    _mm512_mask_storeu_epi64,
    _mm512_permutexvar_epi64,
    _mm512_mask_permutexvar_epi64
);

/// Units of 16 bytes, as pairs of lanes of 8 bytes.
struct Lanes16;

/// The lanes that make the first register after [`Square::mix`]. The lanes of the second operand are
/// numbered after those of the first. The lanes that make the second register are `distance` higher.
const fn mixed(lanes: usize, distance: usize) -> [u8; 16] {
    let mut from = [0; 16];
    let mut lane = 0;
    while lane < lanes {
        from[lane] = if lane & distance == 0 { lane } else { lanes + lane - distance } as u8;
        lane += 1;
    }
    from
}

macro_rules! square {
    ($name:ident, $lanes:literal, $index:ident, $register_lanes:literal, $per_unit:literal, $permute:ident) => {
        impl Square<$lanes> for $name {
            type Vector = __m512i;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> __m512i {
                // SAFETY: `# Safety` of `Square::load`: a register, 64 bytes, is readable at `from`.
                unsafe { _mm512_loadu_si512(from.cast()) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut u8, vector: __m512i) {
                // SAFETY: `# Safety` of `Square::store`: a register, 64 bytes, is writable at `to`.
                unsafe { _mm512_storeu_si512(to.cast(), vector) };
            }
            #[inline(always)]
            unsafe fn mix(distance: usize, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
                // SAFETY: `# Safety` of `Square::mix`: the processor has the instructions, which access no
                // memory but constants.
                unsafe {
                    let first = $index::index(&mixed($register_lanes, distance * $per_unit));
                    let step = $index::index(&[(distance * $per_unit) as u8; 16]);
                    let second = _mm512_add_epi32(first, step);
                    ($permute(a, first, b), $permute(a, second, b))
                }
            }
        }
    };
}
square!(Lanes4, 16, Lanes4, 16, 1, _mm512_permutex2var_epi32);
square!(Lanes8, 8, Lanes8, 8, 1, _mm512_permutex2var_epi64);
square!(Lanes16, 4, Lanes8, 8, 2, _mm512_permutex2var_epi64);

impl Isa for Avx512 {
    #[inline(always)]
    unsafe fn transpose<const U: usize>(
        source: *const u8,
        target: *mut u8,
        p: &NestDim,
        q: &NestDim,
        planes: &NestDim,
    ) -> [u64; 2] {
        // SAFETY: `# Safety` of `Isa::transpose`; each type of lanes has units of `U` bytes, and the
        // constant is the number of its units in a register.
        unsafe {
            match U {
                4 => transpose::planes::<Lanes4, 16>(source, target, p, q, planes),
                8 => transpose::planes::<Lanes8, 8>(source, target, p, q, planes),
                _ => transpose::planes::<Lanes16, 4>(source, target, p, q, planes),
            }
        }
    }

    #[inline(always)]
    unsafe fn pack<const U: usize, const K: usize>(
        source: *const u8,
        target: *mut u8,
        n: usize,
        is_far: bool,
    ) -> usize {
        // SAFETY: `# Safety` of `Isa::pack`; each type of lanes has units of `U` bytes, and `done` units are
        // copied before the rest.
        unsafe {
            if U == 4 {
                let done = strided::pack::<Lanes4, 16, K>(source, target, n, is_far);
                strided::pack_rest::<Lanes4, 16, K>(source, target, n, done);
            } else {
                let done = strided::pack::<Lanes8, 8, K>(source, target, n, is_far);
                strided::pack_rest::<Lanes8, 8, K>(source, target, n, done);
            }
        }
        n
    }

    #[inline(always)]
    unsafe fn unpack<const U: usize, const K: usize>(
        source: *const u8,
        target: *mut u8,
        n: usize,
        is_far: bool,
    ) -> usize {
        if strided::PLAIN_UNITS_BYTES <= U && 2 < K && !is_far {
            return 0;
        }
        // SAFETY: `# Safety` of `Isa::unpack`; each type of lanes has units of `U` bytes.
        unsafe {
            if U == 4 {
                strided::unpack::<Lanes4, 16, K>(source, target, n, is_far);
            } else {
                strided::unpack::<Lanes8, 8, K>(source, target, n, is_far);
            }
        }
        n
    }

    #[inline(always)]
    unsafe fn pack_near(from: (*const u8, i64), target: *mut u8, block: usize, n: usize) -> usize {
        // SAFETY: `# Safety` of `Isa::pack_near`, with the instructions of this set.
        unsafe { near::pack(from, target, block, n) }
    }

    #[inline(always)]
    unsafe fn unpack_near(
        source: *const u8,
        to: (*mut u8, i64),
        block: usize,
        n: usize,
        is_far: bool,
    ) -> usize {
        // SAFETY: `# Safety` of `Isa::unpack_near`, with the instructions of this set.
        unsafe { near::unpack(source, to, block, n, is_far) }
    }

    #[inline(always)]
    unsafe fn unpack_12(source: *const u8, target: *mut u8, n: usize, stride: i64) -> usize {
        const BLOCK: __mmask8 = 0b111;
        let (mut from, mut to) = (source, target);
        for _ in 0..n {
            // SAFETY: `# Safety` of `Isa::unpack_12`, for this block. The mask has its three lanes; no other
            // lane is read or written.
            unsafe { _mm_mask_storeu_epi32(to.cast(), BLOCK, _mm_maskz_loadu_epi32(BLOCK, from.cast())) };
            (from, to) = (from.wrapping_add(12), to.wrapping_offset(stride as isize));
        }
        n
    }

    const GATHERED_UNIT_MAX: usize = 8;
    const SCATTERED_UNIT_MAX: usize = 8;

    #[inline(always)]
    unsafe fn gather_word<const U: usize>(source: *const u8, target: *mut u8, word: u64) -> bool {
        let mut to = target;
        for step in 0..U {
            // SAFETY: `# Safety` of `Isa::gather_word`. Only the units of the set bits are read. At most
            // `step * LANES` units are stored before this vector, so it ends within the 64 writable units. A
            // prefetch has no effect on memory and never faults, whatever the address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(source.wrapping_add(64 * step + AHEAD_BYTES).cast());
                if U == 4 {
                    let mask = (word >> (16 * step)) as __mmask16;
                    let units = _mm512_maskz_loadu_epi32(mask, source.wrapping_add(64 * step).cast());
                    _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(mask, units));
                    to = to.wrapping_add(mask.count_ones() as usize * U);
                } else {
                    let mask = (word >> (8 * step)) as __mmask8;
                    let units = _mm512_maskz_loadu_epi64(mask, source.wrapping_add(64 * step).cast());
                    _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi64(mask, units));
                    to = to.wrapping_add(mask.count_ones() as usize * U);
                }
            }
        }
        true
    }

    #[inline(always)]
    unsafe fn scatter_word<const U: usize, const ROOM: bool>(
        source: *const u8,
        target: *mut u8,
        word: u64,
    ) -> bool {
        let mut from = source;
        for step in 0..U {
            // SAFETY: `# Safety` of `Isa::scatter_word`. A load reads as many units as the mask has bits;
            // with `ROOM` it reads 16 or 8 units, at most `step * LANES` units after `source`, so it ends
            // within the 64 readable units. Only the lanes of the mask are stored. A prefetch has no effect
            // on memory and never faults, whatever the address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(target.wrapping_add(64 * step + AHEAD_BYTES).cast::<i8>());
                if U == 4 {
                    let mask = (word >> (16 * step)) as __mmask16;
                    let taken = if ROOM { !0 } else { _bzhi_u32(!0, mask.count_ones()) as __mmask16 };
                    let units = _mm512_maskz_expand_epi32(mask, Lanes4::load_masked(from, taken));
                    _mm512_mask_storeu_epi32(target.wrapping_add(64 * step).cast(), mask, units);
                    from = from.wrapping_add(mask.count_ones() as usize * U);
                } else {
                    let mask = (word >> (8 * step)) as __mmask8;
                    let taken = if ROOM { !0 } else { _bzhi_u32(!0, mask.count_ones()) as __mmask8 };
                    let units = _mm512_maskz_expand_epi64(mask, Lanes8::load_masked(from, taken));
                    _mm512_mask_storeu_epi64(target.wrapping_add(64 * step).cast(), mask, units);
                    from = from.wrapping_add(mask.count_ones() as usize * U);
                }
            }
        }
        true
    }

    const LOOP_MAX_BYTES: usize = 16 << 10;

    #[inline(always)]
    fn moves_strings() -> Strings {
        x86::moves_strings()
    }

    #[inline(always)]
    unsafe fn move_string(source: *const u8, target: *mut u8, bytes: usize) {
        // SAFETY: `# Safety` of `Isa::move_string`; every x86-64 processor has the instruction.
        unsafe { x86::move_string(source, target, bytes) };
    }

    #[inline(always)]
    fn ask_to_read(source: *const u8) {
        x86::ask_to_read(source);
    }

    #[inline(always)]
    fn ask_to_write(target: *mut u8) {
        x86::ask_to_write(target);
    }

    const STREAM_BYTES: usize = 64;

    #[inline(always)]
    unsafe fn stream(source: *const u8, target: *mut u8, pieces: usize) {
        // SAFETY: `# Safety` of `Isa::stream`: piece `i < pieces` of both sides, and `target` is a multiple
        // of 64. The fence orders the streaming stores before later stores of the caller, as plain stores
        // would be.
        unsafe {
            for i in 0..pieces {
                let piece = _mm512_loadu_si512(source.add(i * 64).cast());
                _mm512_stream_si512(target.add(i * 64).cast(), piece);
            }
            _mm_sfence();
        }
    }
}
