//! Instructions of x86 processors that no library has as functions.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _MM_HINT_T0, _mm_prefetch};
use std::sync::OnceLock;

use super::isa::Strings;

/// Asks for the line of `source`, to be read.
#[inline(always)]
pub(super) fn ask_to_read(source: *const u8) {
    // SAFETY: a hint, which touches nothing and does not fault, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(source.cast()) };
}

/// Asks for the line of `target`, to be written: a store under a mask that has to wait for its line costs several times
/// one that does not. The hint of the standard library to this end is compiled to one for reading.
#[inline(always)]
pub(super) fn ask_to_write(target: *mut u8) {
    // SAFETY: a hint, which touches nothing and does not fault, whatever the address. Processors that do not know it take it
    // for no operation.
    unsafe { asm!("prefetchw [{}]", in(reg) target.addr(), options(nostack, preserves_flags, nomem)) };
}

/// Whether the processor says that it moves strings by lines, and short ones without delay. Asked once: in a virtual machine
/// an answer takes microseconds.
pub(super) fn moves_strings() -> Strings {
    static STRINGS: OnceLock<Strings> = OnceLock::new();
    *STRINGS.get_or_init(|| {
        let are_long = is_x86_feature_detected!("ermsb");
        // Fast short `rep movsb`, which the standard library has no name for: in the leaf that tells of the long one too.
        let are_short = are_long && __cpuid_count(7, 0).edx & 1 << 4 != 0;
        Strings { are_long, are_short }
    })
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
