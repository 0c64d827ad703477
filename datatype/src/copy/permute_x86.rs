//! Execution of permute programs by AVX-512: bytes with VBMI, words without.
//!
//! A `window` in the names of the code is a vector of 64 bytes: see [`super::permute`].

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_store_epi32,
    _mm512_mask_storeu_epi8, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi32,
    _mm512_maskz_permutex2var_epi8, _mm512_maskz_permutex2var_epi32, _mm512_or_si512,
    _mm512_permutex2var_epi8, _mm512_permutex2var_epi32, _mm512_permutexvar_epi8, _mm512_permutexvar_epi32,
    _mm512_setzero_si512,
};

use super::address::At;
use super::nest::NestDim;
use super::permute::{Form, Op, Unit};

/// Whether this processor has the instructions that permute such units.
pub(super) fn has(unit: Unit) -> bool {
    let words = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    words && (unit == Unit::Word || is_x86_feature_detected!("avx512vbmi"))
}

/// Prefetches the cache lines of `bytes` bytes. The bytes need not exist.
pub(super) fn fetch(target: *const u8, bytes: u64) {
    for line in (0..bytes as usize).step_by(64) {
        // SAFETY: a prefetch is a hint that never faults, whatever the address, and every x86-64 processor
        // has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(target.wrapping_add(line).cast()) };
    }
}

/// Runs all operations `n` times, a step apart.
///
/// # Safety
/// [`has`] must have returned `true` for the unit. The moved bytes of all operations must be readable in the
/// source and writable in the target, and the two must not overlap. The bytes that loads read between moved
/// bytes must lie on readable pages. With `on_lines`, the units must be words, and all target vectors must
/// begin at multiples of 64.
pub(super) unsafe fn run(ops: &[Op], form: Form, on_lines: bool, at: At, n: u64, step: NestDim) {
    // SAFETY: `# Safety` of this function is that of the loops. `is_whole` is true only if all loads are
    // whole.
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

/// Stores the units that are to be written after an operation to its target vector.
///
/// # Safety
/// The processor must have AVX-512. The words of the mask must be writable. With `LINE`, the vector must
/// begin at a multiple of 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store_words<const LINE: bool>(op: &Op, at: At, vector: __m512i) {
    let aim = op.aim;
    let (to, mask) = (at.by(0, i64::from(aim as i32)).target.cast(), (aim >> 32) as u16);
    // SAFETY: `# Safety` of this function. A masked store does not access the words outside of the mask.
    // `LINE` has the alignment that the aligned store needs.
    unsafe {
        if LINE {
            _mm512_mask_store_epi32(to, mask, vector);
        } else {
            _mm512_mask_storeu_epi32(to, mask, vector);
        }
    }
}

/// Like [`store_words`], for bytes.
///
/// # Safety
/// The processor must have AVX-512 for bytes. The bytes of the mask must be writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store_bytes<const LINE: bool>(op: &Op, at: At, vector: __m512i) {
    let to = at.by(0, i64::from(op.aim as i32)).target.cast();
    // SAFETY: `# Safety` of this function. A masked store does not access the bytes outside of the mask.
    unsafe { _mm512_mask_storeu_epi8(to, op.stores, vector) };
}

/// The loops for one unit. If every operation is stored by itself and there are few, their indices stay in
/// registers; else each index is loaded.
macro_rules! permuted_by {
    ($by:ident, $few:ident, $chains:ident, $singles:ident, $window:ident, $load:ident, $masked:ident, $store:ident,
        $permute:ident, $permute_one:ident, $bring:ident, $mask:ty, $features:literal) => {
        /// # Safety
        /// As for [`run`], with such units.
        #[target_feature(enable = $features)]
        unsafe fn $by<const WHOLE: bool, const LINES: bool>(
            ops: &[Op],
            form: Form,
            at: At,
            n: u64,
            step: NestDim,
        ) {
            // SAFETY: `# Safety` of this function. Each `N` of `few` is the number of operations that is
            // matched, and `WINDOWS` is 1 only if all of them read one vector.
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

        /// One source vector of an operation.
        ///
        /// # Safety
        /// As for [`run`], for this operation.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $window<const WHOLE: bool>(op: &Op, window: usize, at: At) -> __m512i {
            let source = at.by(op.source(window), 0).source;
            // SAFETY: `# Safety` of this function. A masked load does not access the units outside of the
            // mask, and without a mask (`WHOLE`) the operation reads the whole vector.
            unsafe {
                if WHOLE {
                    _mm512_loadu_si512(source.cast())
                } else {
                    $masked(op.loads[window] as $mask, source.cast())
                }
            }
        }

        /// Both source vectors of an operation.
        ///
        /// # Safety
        /// As for [`run`], for this operation.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn $load<const WHOLE: bool>(op: &Op, at: At) -> [__m512i; 2] {
            // SAFETY: `# Safety` of this function is that of `$window`, for both vectors.
            unsafe { [$window::<WHOLE>(op, 0, at), $window::<WHOLE>(op, 1, at)] }
        }

        /// # Safety
        /// As for [`run`], with `N` operations. With `WINDOWS == 1`, each of them must read only one source
        /// vector.
        #[target_feature(enable = $features)]
        unsafe fn $few<const N: usize, const WINDOWS: usize, const WHOLE: bool, const LINES: bool>(
            ops: &[Op],
            mut at: At,
            n: u64,
            step: NestDim,
        ) {
            let Some(ops) = ops.first_chunk::<N>() else { return };
            // SAFETY: `# Safety` of this function: each call runs one operation of one of the `n`
            // repetitions. `Op` is aligned to 64 and begins with its index, so the index has the alignment
            // that the aligned load needs.
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
        /// As for [`run`], with operations each of which is stored: first those on one source vector, then
        /// those on two.
        #[target_feature(enable = $features)]
        unsafe fn $singles<const WHOLE: bool, const LINES: bool>(
            (singles, doubles): (&[Op], &[Op]),
            mut at: At,
            n: u64,
            step: NestDim,
        ) {
            for _ in 0..n {
                // SAFETY: `# Safety` of this function: each call runs one operation of this repetition. `Op`
                // is aligned to 64 and begins with its index, so the index has the alignment that the
                // aligned load needs.
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
        /// As for [`run`], with a multiple of `N` operations, `N` per store.
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
                    // SAFETY: `# Safety` of this function: the chain is the operations of one store of this
                    // repetition. `Op` is aligned to 64 and begins with its index, so the index has the
                    // alignment that the aligned load needs.
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
