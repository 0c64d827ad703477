//! The communicators of dropped groups, until they are freed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::check;
use crate::ffi;

static REMAINS: Mutex<Vec<Remains>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Remains>> {
    REMAINS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the parts of a dropped group. Calls no MPI function, because MPI may run this function inside of a
/// callback.
pub(crate) fn bury(remains: Remains) {
    lock().push(remains);
}

/// Takes the parts of all dropped groups.
pub(crate) fn take() -> Vec<Remains> {
    std::mem::take(&mut *lock())
}

/// The number of dropped groups whose parts are not yet taken.
pub(crate) fn count() -> usize {
    lock().len()
}

/// The parts of a dropped group that are still to be freed.
#[derive(Debug)]
pub(crate) struct Remains {
    comm: ffi::MPI_Comm,
}

// SAFETY: the communicator is a handle. MPI-4.0 section 11.6: a handle is not bound to a thread; each
// thread that may call MPI may use it.
unsafe impl Send for Remains {}

impl Remains {
    pub(crate) fn new(comm: ffi::MPI_Comm) -> Self {
        Self { comm }
    }

    /// Frees the communicator. Local in every known MPI library (see the registry of groups).
    pub(crate) fn free(mut self) {
        // SAFETY: the communicator is private to this crate, and its group is dropped or closed. So no
        // operation is in progress on the communicator.
        let status = unsafe { ffi::MPI_Comm_free(&raw mut self.comm) };
        if let Err(error) = check("MPI_Comm_free", status) {
            tracing::warn!(%error, "a private communicator is leaked");
        }
    }
}
