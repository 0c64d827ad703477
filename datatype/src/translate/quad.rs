//! The 80-bit `long double` of the x87 and IEEE binary128, which `external32` stores (MPI 4.1, section
//! 14.5.2).
//!
//! Both formats have a 15-bit exponent with the same bias. The 80-bit format has a 64-bit significand with
//! an explicit leading 1; binary128 has 112 bits after an implicit leading 1. Encoding is therefore exact,
//! and decoding rounds to nearest, ties to even.

/// The leading 1 of an 80-bit significand.
const LEADING: u64 = 1 << 63;
/// Number of significand bits that binary128 has beyond the 80-bit format.
const EXTRA_BITS: u32 = 112 - 63;
const FRACTION_MASK: u128 = (1 << 112) - 1;
const EXPONENT_MAX: u64 = 0x7fff;
/// The quiet bit of a binary128 NaN.
const QUIET: u128 = 1 << 111;

fn quad(sign: u128, exponent: u64, fraction: u128) -> u128 {
    sign << 127 | u128::from(exponent) << 112 | fraction
}

/// The 80-bit number in the low ten bytes of `extended`, as binary128. Encodings that the processor refuses
/// become NaN.
pub(super) fn quad_of_extended(extended: u128) -> u128 {
    let significand = extended as u64;
    let sign = extended >> 79 & 1;
    let exponent = (extended >> 64) as u64 & EXPONENT_MAX;
    let fraction = u128::from(significand & !LEADING) << EXTRA_BITS;
    let leads = significand & LEADING != 0;
    match exponent {
        // This includes numbers that could have been written with exponent 1.
        0 => quad(sign, u64::from(leads), fraction),
        _ if leads => quad(sign, exponent, fraction),
        _ => quad(sign, EXPONENT_MAX, QUIET),
    }
}

/// The nearest 80-bit number, in the low ten bytes. The other bytes are 0.
pub(super) fn extended_of_quad(quad: u128) -> u128 {
    let sign = quad >> 127;
    let exponent = (quad >> 112) as u64 & EXPONENT_MAX;
    let fraction = quad & FRACTION_MASK;
    let kept = (fraction >> EXTRA_BITS) as u64;
    let extended =
        |exponent: u64, significand: u64| sign << 79 | u128::from(exponent) << 64 | u128::from(significand);
    if exponent == EXPONENT_MAX {
        // A NaN whose kept payload bits are all 0 must not become infinity.
        let quiet = if fraction != 0 && kept == 0 { LEADING >> 1 } else { 0 };
        return extended(exponent, LEADING | kept | quiet);
    }
    let cut = fraction & ((1 << EXTRA_BITS) - 1);
    let half = 1 << (EXTRA_BITS - 1);
    let up = u64::from(cut > half || (cut == half && kept & 1 == 1));
    let hidden = if exponent == 0 { 0 } else { LEADING };
    match (hidden | kept).checked_add(up) {
        // Rounding up the largest subnormal number gives the smallest normal number.
        Some(significand) if exponent == 0 => extended(significand >> 63, significand),
        Some(significand) => extended(exponent, significand),
        None => extended(exponent + 1, LEADING),
    }
}

/// Whether a finite binary128 number rounds to infinity.
pub(super) fn overflows_extended(quad: u128) -> bool {
    let finite = (quad >> 112) as u64 & EXPONENT_MAX != EXPONENT_MAX;
    finite && (extended_of_quad(quad) >> 64) as u64 & EXPONENT_MAX == EXPONENT_MAX
}

#[cfg(test)]
mod tests {
    use super::{LEADING, extended_of_quad, overflows_extended, quad_of_extended};

    fn extended(sign_exponent: u16, significand: u64) -> u128 {
        u128::from(sign_exponent) << 64 | u128::from(significand)
    }

    #[test]
    fn known_numbers_convert_both_ways() {
        let pairs = [
            (extended(0, 0), 0),
            (extended(0x8000, 0), 1 << 127),
            (extended(0x3fff, LEADING), 0x3fff << 112),
            (extended(0xc000, LEADING), 0xc000 << 112),
            // 1/3, as MPICH encodes it.
            (extended(0x3ffd, 0xaaaa_aaaa_aaaa_aaab), 0x3ffd_5555_5555_5555_5556_0000_0000_0000),
            (extended(0x7fff, LEADING), 0x7fff << 112),
            (extended(0xffff, LEADING), 0xffff << 112),
            (extended(0x7fff, LEADING | LEADING >> 1), 0x7fff_8000 << 96),
            // The smallest and the largest subnormal number of the 80-bit format.
            (extended(0, 1), 1 << 49),
            (extended(0, LEADING - 1), u128::from(LEADING - 1) << 49),
        ];
        for (extended, quad) in pairs {
            assert_eq!(quad_of_extended(extended), quad, "{extended:#x}");
            assert_eq!(extended_of_quad(quad), extended, "{quad:#x}");
        }
    }

    #[test]
    fn unusual_80_bit_encodings_are_normalized_or_become_nan() {
        // A leading 1 with exponent 0 means exponent 1. Elsewhere, an encoding without the leading 1 is
        // invalid.
        assert_eq!(quad_of_extended(extended(0, LEADING | 1)), 1 << 112 | 1 << 49);
        for refused in [extended(0x3fff, 1), extended(0x7fff, 0), extended(0x7fff, 5)] {
            assert_eq!(quad_of_extended(refused), 0x7fff_8000 << 96, "{refused:#x}");
        }
        // Padding bytes are ignored.
        assert_eq!(quad_of_extended(extended(0x3fff, LEADING) | 0xcc << 100), 0x3fff << 112);
    }

    #[test]
    fn decoding_rounds_to_nearest_even() {
        let one = 0x3fff_u128 << 112;
        let half = 1_u128 << 48;
        let after_one = |steps: u64| extended(0x3fff, LEADING + steps);
        for (tail, steps) in
            [(half - 1, 0), (half, 0), (half + 1, 1), (3 * half - 1, 1), (3 * half, 2), (2 * half, 1)]
        {
            assert_eq!(extended_of_quad(one + tail), after_one(steps), "{tail:#x}");
        }
        // Rounding up to the next power of two, and from the subnormal to the normal numbers.
        assert_eq!(extended_of_quad(0x4000_u128 << 112 | ((1 << 112) - 1)), extended(0x4001, LEADING));
        assert_eq!(extended_of_quad((1 << 112) - 1), extended(1, LEADING));
        // A NaN whose payload is cut off stays a NaN.
        assert_eq!(extended_of_quad(0x7fff << 112 | 1), extended(0x7fff, LEADING | LEADING >> 1));
    }

    #[test]
    fn only_numbers_that_round_beyond_the_largest_overflow() {
        let largest = 0x7ffe_u128 << 112 | ((1 << 112) - 1);
        assert!(overflows_extended(largest) && overflows_extended(largest | 1 << 127));
        assert!(!overflows_extended(largest - (1 << 48)), "just below half a unit in the last place");
        assert!(overflows_extended(largest - (1 << 48) + 1));
        assert!(!overflows_extended(0x7fff << 112) && !overflows_extended(0x7fff << 112 | 1));
        assert_eq!(extended_of_quad(largest), extended(0x7fff, LEADING));
    }
}
