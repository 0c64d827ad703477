//! Kernels for 64-bit Arm. Packing selects units from registers by table lookups. There are no masked
//! stores, so unpacking uses plain moves.

use std::arch::aarch64::*;

use super::isa::Isa;

struct Neon;

super::level::kernels!(Neon);

/// Bytes of a register.
const REGISTER: usize = 16;

/// For each byte of a register of packed units, its place in `k` registers that hold every `k`-th unit.
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
            // SAFETY: `# Safety` of `Isa::pack`: unit `i + units < n` is readable, and the `K` registers
            // that are loaded from unit `i` on end before it, so they lie between bytes of the source. The
            // target has room for more than `i + units` units. The table has the 16 bytes that are loaded
            // from it. No load or store here needs more than byte alignment.
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
