//! Kernels for 64-bit Arm: loads that take registers apart. There are no masked stores, so that what unpacks is plain moves.

use std::arch::aarch64::*;

use super::isa::Isa;

struct Neon;

super::level::kernels!(Neon);

impl Isa for Neon {
    #[inline(always)]
    unsafe fn pack<const U: usize, const K: usize>(source: *const u8, target: *mut u8, n: usize) -> usize {
        let lanes = 16 / U;
        let mut i = 0;
        while i + lanes < n {
            // SAFETY: unit `i + lanes` exists and lies behind the `K` registers that are loaded from unit `i` on; the target
            // has more than `i + lanes` units.
            unsafe {
                let (from, to) = (source.add(i * U * K), target.add(i * U));
                match (U, K) {
                    (4, 2) => vst1q_u32(to.cast(), vld2q_u32(from.cast()).0),
                    (4, 3) => vst1q_u32(to.cast(), vld3q_u32(from.cast()).0),
                    (4, _) => vst1q_u32(to.cast(), vld4q_u32(from.cast()).0),
                    (_, 2) => vst1q_u64(to.cast(), vld2q_u64(from.cast()).0),
                    (_, 3) => vst1q_u64(to.cast(), vld3q_u64(from.cast()).0),
                    (_, _) => vst1q_u64(to.cast(), vld4q_u64(from.cast()).0),
                }
            }
            i += lanes;
        }
        i
    }
}
