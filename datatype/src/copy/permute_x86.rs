//! Permute programs by AVX-512: bytes with VBMI, words without.

use std::arch::x86_64::{
    __m512i, _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_mask_storeu_epi32,
    _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi32, _mm512_maskz_permutex2var_epi8,
    _mm512_maskz_permutex2var_epi32, _mm512_or_si512, _mm512_permutex2var_epi8, _mm512_permutex2var_epi32,
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

/// Runs all operations `n` times, a step apart.
///
/// # Safety
/// [`has`] must have said so of the unit; what the operations read, but for bytes between moved ones, must be readable, and
/// what they store writable, and the two apart.
pub(super) unsafe fn run(ops: &[Op], form: Form, at: At, n: u64, step: NestDim) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe {
        match (form.unit, form.is_whole) {
            (Unit::Word, true) => words::<true>(ops, form.chain, at, n, step),
            (Unit::Word, false) => words::<false>(ops, form.chain, at, n, step),
            (Unit::Byte, true) => bytes::<true>(ops, form.chain, at, n, step),
            (Unit::Byte, false) => bytes::<false>(ops, form.chain, at, n, step),
        }
    }
}

/// The loops of one unit: indices stay in registers where one operation is stored and there are few, else each is loaded.
macro_rules! permuted_by {
    ($by:ident, $few:ident, $chains:ident, $load:ident, $masked:ident, $store:ident, $permute:ident, $bring:ident, $mask:ty, $features:literal) => {
        /// # Safety
        /// As [`run`], with such units.
        #[target_feature(enable = $features)]
        unsafe fn $by<const WHOLE: bool>(ops: &[Op], chain: usize, at: At, n: u64, step: NestDim) {
            // SAFETY: the caller's promise, handed on unchanged; as many operations as the constant says.
            unsafe {
                match (chain, ops.len()) {
                    (1, 1) => $few::<1, WHOLE>(ops, at, n, step),
                    (1, 2) => $few::<2, WHOLE>(ops, at, n, step),
                    (1, 3) => $few::<3, WHOLE>(ops, at, n, step),
                    (1, 4) => $few::<4, WHOLE>(ops, at, n, step),
                    (1, 5) => $few::<5, WHOLE>(ops, at, n, step),
                    (1, 6) => $few::<6, WHOLE>(ops, at, n, step),
                    (1, _) => $chains::<1, WHOLE>(ops, at, n, step),
                    (2, _) => $chains::<2, WHOLE>(ops, at, n, step),
                    (3, _) => $chains::<3, WHOLE>(ops, at, n, step),
                    _ => $chains::<4, WHOLE>(ops, at, n, step),
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
            let sources = [at.by(op.sources[0], 0).source, at.by(op.sources[1], 0).source];
            // SAFETY: the caller's promise; a masked load reads what the mask tells.
            unsafe {
                if WHOLE {
                    [_mm512_loadu_si512(sources[0].cast()), _mm512_loadu_si512(sources[1].cast())]
                } else {
                    [
                        $masked(op.loads[0] as $mask, sources[0].cast()),
                        $masked(op.loads[1] as $mask, sources[1].cast()),
                    ]
                }
            }
        }

        /// # Safety
        /// As [`run`], with `N` operations.
        #[target_feature(enable = $features)]
        unsafe fn $few<const N: usize, const WHOLE: bool>(ops: &[Op], mut at: At, n: u64, step: NestDim) {
            let Some(ops) = ops.first_chunk::<N>() else { return };
            // SAFETY: indices are aligned to 64; one operation of each repetition after the other.
            unsafe {
                let mut indices = [_mm512_setzero_si512(); N];
                for (index, op) in indices.iter_mut().zip(ops) {
                    *index = _mm512_load_si512(op.index.as_ptr().cast());
                }
                for _ in 0..n {
                    for (index, op) in indices.iter().zip(ops) {
                        let [a, b] = $load::<WHOLE>(op, at);
                        let to = at.by(0, op.target).target.cast();
                        $store(to, op.stores as $mask, $permute(a, *index, b));
                    }
                    at = at.by(step.source, step.target);
                }
            }
        }

        /// # Safety
        /// As [`run`], with a multiple of `N` operations, `N` to a store.
        #[target_feature(enable = $features)]
        unsafe fn $chains<const N: usize, const WHOLE: bool>(ops: &[Op], mut at: At, n: u64, step: NestDim) {
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
                        let to = at.by(0, chain[0].target).target.cast();
                        $store(to, chain[0].stores as $mask, brought);
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
    load_words,
    _mm512_maskz_loadu_epi32,
    _mm512_mask_storeu_epi32,
    _mm512_permutex2var_epi32,
    _mm512_maskz_permutex2var_epi32,
    u16,
    "avx512f,avx512bw"
);
permuted_by!(
    bytes,
    few_bytes,
    chained_bytes,
    load_bytes,
    _mm512_maskz_loadu_epi8,
    _mm512_mask_storeu_epi8,
    _mm512_permutex2var_epi8,
    _mm512_maskz_permutex2var_epi8,
    u64,
    "avx512f,avx512bw,avx512vbmi"
);
