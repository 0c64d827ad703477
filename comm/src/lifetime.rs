//! The phases of MPI in this process: whether MPI may be called, whether this crate is prepared, and whether
//! `MPI_Finalize` has begun.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ffi;

static PREPARED: AtomicBool = AtomicBool::new(false);
/// Set at the start of `MPI_Finalize`. After that the registry of groups frees no communicator: hooks that
/// run later may still use it, and MPI may already have released some of its resources.
static FINALIZING: AtomicBool = AtomicBool::new(false);

/// Notes that this process is prepared.
pub(crate) fn note_prepared() {
    PREPARED.store(true, Ordering::Release);
}

/// Whether [`prepare`](crate::prepare) has succeeded.
pub(crate) fn is_prepared() -> bool {
    PREPARED.load(Ordering::Acquire)
}

/// Notes that `MPI_Finalize` has begun.
pub(crate) fn note_finalizing() {
    FINALIZING.store(true, Ordering::Release);
}

/// Whether `MPI_Finalize` has begun.
pub(crate) fn is_finalizing() -> bool {
    FINALIZING.load(Ordering::Acquire)
}

/// Whether MPI functions may be called.
pub(crate) fn is_usable() -> bool {
    is_initialized() && !is_finalized()
}

pub(crate) fn is_initialized() -> bool {
    let mut flag: c_int = 0;
    // SAFETY: MPI-4.0 section 11.4.1: any thread may call MPI_Initialized at any time. MPI writes one int.
    unsafe { ffi::MPI_Initialized(&raw mut flag) };
    flag != 0
}

pub(crate) fn is_finalized() -> bool {
    let mut flag: c_int = 0;
    // SAFETY: MPI-4.0 section 11.4.1: any thread may call MPI_Finalized at any time. MPI writes one int.
    unsafe { ffi::MPI_Finalized(&raw mut flag) };
    flag != 0
}
