//! The allocator of the command.

/// Counts the allocated bytes, for `bench plan`.
#[global_allocator]
pub(crate) static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
