//! A derived type of MPI's that we own.

use std::mem;

use crate::error::{Result, check};
use crate::{consts, ffi, process};

/// Frees its handle when dropped, as long as MPI still runs.
#[derive(Debug)]
pub(super) struct OwnedType(ffi::MPI_Datatype);

// SAFETY: a handle is a name that any thread may use which the thread level allows to call MPI at all (MPI-4.0 section
// 11.6); nothing is changed through it but by the drop, which has it alone.
unsafe impl Send for OwnedType {}
// SAFETY: as above.
unsafe impl Sync for OwnedType {}

impl OwnedType {
    /// Takes over a handle that the caller got from MPI with the duty to free it.
    pub(super) fn take(handle: ffi::MPI_Datatype) -> Self {
        OwnedType(handle)
    }

    /// A duplicate of a valid derived type.
    pub(super) fn duplicate_of(datatype: ffi::MPI_Datatype) -> Result<Self> {
        let mut handle = consts::datatype_null();
        // SAFETY: the type is valid; writes one handle.
        let status = unsafe { ffi::MPI_Type_dup(datatype, &raw mut handle) };
        check("MPI_Type_dup", status)?;
        Ok(OwnedType(handle))
    }

    pub(super) fn raw(&self) -> ffi::MPI_Datatype {
        self.0
    }

    /// The handle, with the duty to free it.
    pub(super) fn give_away(self) -> ffi::MPI_Datatype {
        let handle = self.0;
        mem::forget(self);
        handle
    }
}

impl Drop for OwnedType {
    fn drop(&mut self) {
        if process::is_usable() {
            // SAFETY: the handle is ours, valid and not predefined, and MPI runs. Freeing a type is local; what is under
            // way with it completes normally (MPI-4.0 section 5.1.9).
            unsafe { ffi::MPI_Type_free(&raw mut self.0) };
        }
    }
}
