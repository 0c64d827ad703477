//! Instructions of x86 processors for which the standard library has no function, or none that does what is
//! needed.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _MM_HINT_T0, _mm_prefetch};
use std::sync::OnceLock;

use super::isa::Strings;

/// Prefetches the cache line of `source` for reading.
#[inline(always)]
pub(super) fn ask_to_read(source: *const u8) {
    // SAFETY: a prefetch is a hint. It has no effect on memory and does not fault, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(source.cast()) };
}

/// Prefetches the cache line of `target` for writing. A masked store that waits for its line costs several
/// times as much as one that does not. The standard library has a hint for this purpose, but the compiler
/// turns it into a prefetch for reading.
#[inline(always)]
pub(super) fn ask_to_write(target: *mut u8) {
    // SAFETY: a prefetch is a hint. It has no effect on memory and does not fault, whatever the address.
    // Processors without the instruction execute it as a no-operation.
    unsafe { asm!("prefetchw [{}]", in(reg) target.addr(), options(nostack, preserves_flags, nomem)) };
}

/// Whether the processor reports that it copies strings by whole lines, and short strings without a delay.
/// The answer is cached, because `cpuid` takes microseconds in a virtual machine.
pub(super) fn moves_strings() -> Strings {
    static STRINGS: OnceLock<Strings> = OnceLock::new();
    *STRINGS.get_or_init(|| {
        let are_long = is_x86_feature_detected!("ermsb");
        // Fast short `rep movsb`, for which the standard library has no name. Its bit is in the same leaf as
        // that of `ermsb`.
        let are_short = are_long && __cpuid_count(7, 0).edx & 1 << 4 != 0;
        Strings { are_long, are_short }
    })
}

/// Copies a run by the one instruction for it. The instruction knows the length in advance, so it need not
/// read whole lines of the target before it writes them.
///
/// # Safety
/// `bytes` bytes must be readable at `source` and writable at `target`, and the two must not overlap.
pub(super) unsafe fn move_string(source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: `# Safety` of this function. The direction flag is clear on entry to inline assembly, so the
    // copy ascends.
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
