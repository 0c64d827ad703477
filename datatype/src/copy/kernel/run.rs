//! The copy of one run.

use super::{dispatch, index};

/// Copies one run.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, and the two must not overlap.
#[inline]
pub(in crate::copy) unsafe fn run(source: *const u8, target: *mut u8, bytes: u64) {
    // SAFETY: `# Safety` of this function; `dispatch::table` only returns kernels that this processor can
    // run.
    unsafe {
        if bytes <= index::SHORT_MAX_BYTES {
            index::short(source, target, bytes as usize);
        } else {
            (dispatch::table().copy)(source, target, bytes as usize);
        }
    }
}
