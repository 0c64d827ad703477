//! Kernels for 64-bit Arm: units are taken out of registers by table lookups. There are no masked stores, so that what
//! unpacks is plain moves.

use std::arch::aarch64::*;

use super::isa::Isa;

struct Neon;

super::level::kernels!(Neon);

/// Bytes of a register.
const REGISTER: usize = 16;

/// Where in `k` registers the bytes of every `k`-th unit are.
const fn bytes_of_units(unit: usize, k: usize) -> [u8; REGISTER] {
    let mut from = [0; REGISTER];
    let mut byte = 0;
    while byte < REGISTER {
        from[byte] = (byte / unit * unit * k + byte % unit) as u8;
        byte += 1;
    }
    from
}

impl Isa for Neon {
    #[inline(always)]
    unsafe fn pack<const U: usize, const K: usize>(
        source: *const u8,
        target: *mut u8,
        n: usize,
        _is_far: bool,
    ) -> usize {
        let units = REGISTER / U;
        let table = const { bytes_of_units(U, K) };
        let mut i = 0;
        while i + units < n {
            // SAFETY: unit `i + units` exists and lies behind the `K` registers that are loaded from unit `i` on; the target
            // has more than `i + units` units. 16 bytes are loaded from the table of 16. No load or store here asks
            // for more than the alignment of a byte.
            unsafe {
                let from = source.add(i * U * K);
                let at = |j: usize| vld1q_u8(from.add(j * REGISTER));
                let index = vld1q_u8(table.as_ptr());
                let dense = match K {
                    2 => vqtbl2q_u8(uint8x16x2_t(at(0), at(1)), index),
                    3 => vqtbl3q_u8(uint8x16x3_t(at(0), at(1), at(2)), index),
                    _ => vqtbl4q_u8(uint8x16x4_t(at(0), at(1), at(2), at(3)), index),
                };
                vst1q_u8(target.add(i * U), dense);
            }
            i += units;
        }
        i
    }
}
