//! Permute programs by AVX-512: bytes with VBMI, words with the foundation alone.

use std::arch::x86_64::{
    __m512i, _mm_load_si128, _mm512_cvtepu8_epi32, _mm512_load_si512, _mm512_loadu_si512,
    _mm512_mask_storeu_epi8, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi32,
    _mm512_permutex2var_epi8, _mm512_permutex2var_epi32, _mm512_setzero_si512,
};

use super::nest::NestDim;
use super::permute::{Op, Unit};
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
pub(super) unsafe fn run(ops: &[Op], (unit, is_whole): (Unit, bool), at: At, n: u64, step: NestDim) {
    // SAFETY: the caller's promise, handed on unchanged.
    unsafe {
        match (unit, is_whole) {
            (Unit::Word, true) => words::<true>(ops, at, n, step),
            (Unit::Word, false) => words::<false>(ops, at, n, step),
            (Unit::Byte, true) => bytes::<true>(ops, at, n, step),
            (Unit::Byte, false) => bytes::<false>(ops, at, n, step),
        }
    }
}

/// # Safety
/// As [`run`], with words.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn words<const WHOLE: bool>(ops: &[Op], at: At, n: u64, step: NestDim) {
    // SAFETY: the caller's promise, handed on unchanged; as many operations as the constant says.
    unsafe {
        match ops.len() {
            1 => few_words::<1, WHOLE>(ops, at, n, step),
            2 => few_words::<2, WHOLE>(ops, at, n, step),
            3 => few_words::<3, WHOLE>(ops, at, n, step),
            4 => few_words::<4, WHOLE>(ops, at, n, step),
            5 => few_words::<5, WHOLE>(ops, at, n, step),
            6 => few_words::<6, WHOLE>(ops, at, n, step),
            7 => few_words::<7, WHOLE>(ops, at, n, step),
            8 => few_words::<8, WHOLE>(ops, at, n, step),
            _ => many_words::<WHOLE>(ops, at, n, step),
        }
    }
}

/// One operation on words.
///
/// # Safety
/// As [`run`], of this operation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn permute_words<const WHOLE: bool>(op: &Op, index: __m512i, at: At) {
    let here = at.by(op.sources[0], op.target);
    let other = at.by(op.sources[1], 0);
    // SAFETY: the caller's promise: masked loads and stores touch what the masks tell.
    unsafe {
        let (a, b) = if WHOLE {
            (_mm512_loadu_si512(here.source.cast()), _mm512_loadu_si512(other.source.cast()))
        } else {
            (
                _mm512_maskz_loadu_epi32(op.loads[0] as u16, here.source.cast()),
                _mm512_maskz_loadu_epi32(op.loads[1] as u16, other.source.cast()),
            )
        };
        _mm512_mask_storeu_epi32(
            here.target.cast(),
            op.stores as u16,
            _mm512_permutex2var_epi32(a, index, b),
        );
    }
}

/// The indices of an operation on words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn word_index(op: &Op) -> __m512i {
    // SAFETY: the first 16 of 64 bytes, which are aligned to 64.
    unsafe { _mm512_cvtepu8_epi32(_mm_load_si128(op.index.as_ptr().cast())) }
}

/// Indices stay in registers.
///
/// # Safety
/// As [`run`], with `N` operations on words.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn few_words<const N: usize, const WHOLE: bool>(ops: &[Op], mut at: At, n: u64, step: NestDim) {
    let Some(ops) = ops.first_chunk::<N>() else { return };
    let mut indices = [_mm512_setzero_si512(); N];
    for (index, op) in indices.iter_mut().zip(ops) {
        *index = word_index(op);
    }
    for _ in 0..n {
        for (index, op) in indices.iter().zip(ops) {
            // SAFETY: one operation of this repetition.
            unsafe { permute_words::<WHOLE>(op, *index, at) };
        }
        at = at.by(step.source, step.target);
    }
}

/// # Safety
/// As [`run`], with words.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn many_words<const WHOLE: bool>(ops: &[Op], mut at: At, n: u64, step: NestDim) {
    for _ in 0..n {
        for op in ops {
            // SAFETY: one operation of this repetition.
            unsafe { permute_words::<WHOLE>(op, word_index(op), at) };
        }
        at = at.by(step.source, step.target);
    }
}

/// # Safety
/// As [`run`], with bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn bytes<const WHOLE: bool>(ops: &[Op], mut at: At, n: u64, step: NestDim) {
    for _ in 0..n {
        for op in ops {
            let here = at.by(op.sources[0], op.target);
            let other = at.by(op.sources[1], 0);
            // SAFETY: the caller's promise: masked loads and stores touch what the masks tell; indices are aligned.
            unsafe {
                let index = _mm512_load_si512(op.index.as_ptr().cast());
                let (a, b) = if WHOLE {
                    (_mm512_loadu_si512(here.source.cast()), _mm512_loadu_si512(other.source.cast()))
                } else {
                    (
                        _mm512_maskz_loadu_epi8(op.loads[0], here.source.cast()),
                        _mm512_maskz_loadu_epi8(op.loads[1], other.source.cast()),
                    )
                };
                _mm512_mask_storeu_epi8(here.target.cast(), op.stores, _mm512_permutex2var_epi8(a, index, b));
            }
        }
        at = at.by(step.source, step.target);
    }
}
