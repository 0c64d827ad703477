//! Instructions of x86 processors that no library has as functions.

use std::arch::asm;

/// Asks for the line of `target`, to be written: a store under a mask that has to wait for its line costs several times
/// one that does not. The hint of the standard library to this end is compiled to one for reading.
#[inline(always)]
pub(super) fn ask_to_write(target: *mut u8) {
    // SAFETY: a hint, which touches nothing and does not fault, whatever the address. Processors that do not know it take it
    // for no operation.
    unsafe { asm!("prefetchw [{}]", in(reg) target.addr(), options(nostack, preserves_flags, nomem)) };
}

/// Whether the processor says that it moves strings by lines.
pub(super) fn moves_strings() -> bool {
    is_x86_feature_detected!("ermsb")
}

/// Copies a run by the one instruction for it, which knows how much is to come: whole lines of the target need not be read
/// first.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, apart from each other.
pub(super) unsafe fn move_string(source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; the direction flag is clear, as it has to be at every call.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rsi") source => _,
            inout("rdi") target => _,
            options(nostack, preserves_flags)
        );
    }
}
