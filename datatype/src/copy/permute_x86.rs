//! Permute programs by AVX-512: bytes with VBMI, words without.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_store_epi32,
    _mm512_mask_storeu_epi8, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi32,
    _mm512_maskz_permutex2var_epi8, _mm512_maskz_permutex2var_epi32, _mm512_or_si512,
    _mm512_permutex2var_epi8, _mm512_permutex2var_epi32, _mm512_permutexvar_epi8, _mm512_permutexvar_epi32,
    _mm512_setzero_si512,
};

use super::nest::NestDim;
use super::permute::{Form, Op, Unit};
use super::program::At;

/// Whether this machine can permute such units.
pub(super) fn has(unit: Unit) -> bool {
    let words = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    words && (unit == Unit::Word || is_x86_feature_detected!("avx512vbmi"))
}

/// Sends for the lines of so many bytes, which need not exist.
pub(super) fn fetch(target: *const u8, bytes: u64) {
    for line in (0..bytes as usize).step_by(64) {
        // SAFETY: a hint for any address, and an instruction that every processor of the architecture has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(target.wrapping_add(line).cast()) };
    }
}

/// Runs all operations `n` times, a step apart.
///
/// # Safety
/// [`has`] must have said so of the unit; what the operations read, but for bytes between moved ones, must be readable, and
/// what they store writable, and the two apart. With `on_lines`, units must be words, and all windows of the target begin at
/// multiples of 64.
pub(super) unsafe fn run(ops: &[Op], form: Form, on_lines: bool, at: At, n: u64, step: NestDim) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe {
        match (form.unit, form.is_whole, on_lines) {
            (Unit::Word, true, true) => words::<true, true>(ops, form, at, n, step),
            (Unit::Word, false, true) => words::<false, true>(ops, form, at, n, step),
            (Unit::Word, true, false) => words::<true, false>(ops, form, at, n, step),
            (Unit::Word, false, false) => words::<false, false>(ops, form, at, n, step),
            (Unit::Byte, true, _) => bytes::<true, false>(ops, form, at, n, step),
            (Unit::Byte, false, _) => bytes::<false, false>(ops, form, at, n, step),
        }
    }
}

/// Stores what is to be written after an operation, to its window.
///
/// # Safety
/// The processor must have AVX-512; the words must be writable, and the window begin at a multiple of 64 if it is a `LINE`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store_words<const LINE: bool>(op: &Op, at: At, vector: __m512i) {
    let aim = op.aim;
    let (to, mask) = (at.by(0, i64::from(aim as i32)).target.cast(), (aim >> 32) as u16);
    // SAFETY: the caller's promise; other words are not touched.
    unsafe {
        if LINE {
            _mm512_mask_store_epi32(to, mask, vector);
        } else {
            _mm512_mask_storeu_epi32(to, mask, vector);
        }
    }
}

/// As [`store_words`], of bytes.
///
/// # Safety
/// The processor must have AVX-512 with bytes; the bytes must be writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store_bytes<const LINE: bool>(op: &Op, at: At, vector: __m512i) {
    let to = at.by(0, i64::from(op.aim as i32)).target.cast();
    // SAFETY: the caller's promise; other bytes are not touched.
    unsafe { _mm512_mask_storeu_epi8(to, op.stores, vector) };
}

/// The loops of one unit: indices stay in registers where one operation is stored and there are few, else each is loaded.
macro_rules! permuted_by {
    ($by:ident, $few:ident, $chains:ident, $singles:ident, $window:ident, $load:ident, $masked:ident, $store:ident,
        $permute:ident, $permute_one:ident, $bring:ident, $mask:ty, $features:literal) => {
        /// # Safety
        /// As [`run`], with such units.
        #[target_feature(enable = $features)]
        unsafe fn $by<const WHOLE: bool, const LINES: bool>(
            ops: &[Op],
            form: Form,
            at: At,
            n: u64,
            step: NestDim,
        ) {
            // SAFETY: the caller's promise, handed on unchanged; as many operations as the constant says.
            unsafe {
                match (form.chain, ops.len()) {
                    (1, 1) if form.singles == 1 => $few::<1, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 2) if form.singles == 2 => $few::<2, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 3) if form.singles == 3 => $few::<3, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 4) if form.singles == 4 => $few::<4, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 5) if form.singles == 5 => $few::<5, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 6) if form.singles == 6 => $few::<6, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 7) if form.singles == 7 => $few::<7, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 8) if form.singles == 8 => $few::<8, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 9) if form.singles == 9 => $few::<9, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 10) if form.singles == 10 => $few::<10, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 11) if form.singles == 11 => $few::<11, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 12) if form.singles == 12 => $few::<12, 1, WHOLE, LINES>(ops, at, n, step),
                    (1, 1) => $few::<1, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 2) => $few::<2, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 3) => $few::<3, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 4) => $few::<4, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 5) => $few::<5, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 6) => $few::<6, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 7) => $few::<7, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 8) => $few::<8, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 9) => $few::<9, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 10) => $few::<10, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 11) => $few::<11, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, 12) => $few::<12, 2, WHOLE, LINES>(ops, at, n, step),
                    (1, _) => $singles::<WHOLE, LINES>(ops.split_at(form.singles), at, n, step),
                    (2, _) => $chains::<2, WHOLE, LINES>(ops, at, n, step),
                    (3, _) => $chains::<3, WHOLE, LINES>(ops, at, n, step),
                    _ => $chains::<4, WHOLE, LINES>(ops, at, n, step),
                }
            }
        }

        /// One window of an operation.
        ///
        /// # Safety
        /// As [`run`], of this operation.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $window<const WHOLE: bool>(op: &Op, window: usize, at: At) -> __m512i {
            let source = at.by(op.source(window), 0).source;
            // SAFETY: the caller's promise; a masked load reads what the mask tells.
            unsafe {
                if WHOLE {
                    _mm512_loadu_si512(source.cast())
                } else {
                    $masked(op.loads[window] as $mask, source.cast())
                }
            }
        }

        /// The two windows of an operation.
        ///
        /// # Safety
        /// As [`run`], of this operation.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $load<const WHOLE: bool>(op: &Op, at: At) -> [__m512i; 2] {
            // SAFETY: the caller's promise.
            unsafe { [$window::<WHOLE>(op, 0, at), $window::<WHOLE>(op, 1, at)] }
        }

        /// # Safety
        /// As [`run`], with `N` operations; all of them on one window, if there is to be but one.
        #[target_feature(enable = $features)]
        unsafe fn $few<const N: usize, const WINDOWS: usize, const WHOLE: bool, const LINES: bool>(
            ops: &[Op],
            mut at: At,
            n: u64,
            step: NestDim,
        ) {
            let Some(ops) = ops.first_chunk::<N>() else { return };
            // SAFETY: indices are aligned to 64; one operation of each repetition after the other.
            unsafe {
                let mut indices = [_mm512_setzero_si512(); N];
                for (index, op) in indices.iter_mut().zip(ops) {
                    *index = _mm512_load_si512(op.index.as_ptr().cast());
                }
                for _ in 0..n {
                    for (index, op) in indices.iter().zip(ops) {
                        let brought = if WINDOWS == 1 {
                            $permute_one(*index, $window::<WHOLE>(op, 0, at))
                        } else {
                            let [a, b] = $load::<WHOLE>(op, at);
                            $permute(a, *index, b)
                        };
                        $store::<LINES>(op, at, brought);
                    }
                    at = at.by(step.source, step.target);
                }
            }
        }

        /// # Safety
        /// As [`run`], with operations that are stored each: those on one window, then those on two.
        #[target_feature(enable = $features)]
        unsafe fn $singles<const WHOLE: bool, const LINES: bool>(
            (singles, doubles): (&[Op], &[Op]),
            mut at: At,
            n: u64,
            step: NestDim,
        ) {
            for _ in 0..n {
                // SAFETY: one operation of this repetition after the other; indices are aligned to 64.
                unsafe {
                    for op in singles {
                        let window = $window::<WHOLE>(op, 0, at);
                        let index = _mm512_load_si512(op.index.as_ptr().cast());
                        $store::<LINES>(op, at, $permute_one(index, window));
                    }
                    for op in doubles {
                        let [a, b] = $load::<WHOLE>(op, at);
                        let index = _mm512_load_si512(op.index.as_ptr().cast());
                        $store::<LINES>(op, at, $permute(a, index, b));
                    }
                }
                at = at.by(step.source, step.target);
            }
        }

        /// # Safety
        /// As [`run`], with a multiple of `N` operations, `N` to a store.
        #[target_feature(enable = $features)]
        unsafe fn $chains<const N: usize, const WHOLE: bool, const LINES: bool>(
            ops: &[Op],
            mut at: At,
            n: u64,
            step: NestDim,
        ) {
            let (chains, _) = ops.as_chunks::<N>();
            for _ in 0..n {
                for chain in chains {
                    let mut brought = _mm512_setzero_si512();
                    // SAFETY: the operations of one store of this repetition; indices are aligned to 64.
                    unsafe {
                        for op in chain {
                            let [a, b] = $load::<WHOLE>(op, at);
                            let index = _mm512_load_si512(op.index.as_ptr().cast());
                            brought = _mm512_or_si512(brought, $bring(op.brings as $mask, a, index, b));
                        }
                        $store::<LINES>(&chain[0], at, brought);
                    }
                }
                at = at.by(step.source, step.target);
            }
        }
    };
}

permuted_by!(
    words,
    few_words,
    chained_words,
    single_words,
    window_of_words,
    load_words,
    _mm512_maskz_loadu_epi32,
    store_words,
    _mm512_permutex2var_epi32,
    _mm512_permutexvar_epi32,
    _mm512_maskz_permutex2var_epi32,
    u16,
    "avx512f,avx512bw"
);
permuted_by!(
    bytes,
    few_bytes,
    chained_bytes,
    single_bytes,
    window_of_bytes,
    load_bytes,
    _mm512_maskz_loadu_epi8,
    store_bytes,
    _mm512_permutex2var_epi8,
    _mm512_permutexvar_epi8,
    _mm512_maskz_permutex2var_epi8,
    u64,
    "avx512f,avx512bw,avx512vbmi"
);
