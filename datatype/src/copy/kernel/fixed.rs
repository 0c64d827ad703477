//! Nests of blocks whose size the compiler knows.

use super::super::nest::NestDim;

/// # Safety
/// As [`super::nest`], with the pointers at the first byte of each side.
pub(super) unsafe fn nest(source: *const u8, target: *mut u8, block: u64, dims: &[NestDim]) {
    let Some((outer, inner)) = dims.split_last() else {
        // SAFETY: the one block of the nest.
        return unsafe { source.copy_to_nonoverlapping(target, block as usize) };
    };
    let (mut source, mut target) = (source, target);
    for _ in 0..outer.n {
        // SAFETY: this repetition of the outer dimension is a part of the caller's nest.
        unsafe { nest(source, target, block, inner) };
        source = source.wrapping_offset(outer.source as isize);
        target = target.wrapping_offset(outer.target as isize);
    }
}
