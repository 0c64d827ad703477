//! Handles of MPI datatypes, and the ownership of the handles of derived types.

use std::mem;
use std::sync::Arc;

use crate::error::{Result, check};
use crate::{consts, ffi, lifetime};

/// The handle of a predefined type, or a shared derived type.
#[derive(Debug, Clone)]
pub(super) enum Handle {
    Predefined(ffi::MPI_Datatype),
    Derived(Arc<OwnedType>),
}

impl Handle {
    pub(super) fn raw(&self) -> ffi::MPI_Datatype {
        match self {
            Handle::Predefined(handle) => *handle,
            Handle::Derived(owned) => owned.raw(),
        }
    }
}

// SAFETY: the handle of a predefined type is a constant of the MPI library. `OwnedType` is Send and Sync.
unsafe impl Send for Handle {}
// SAFETY: as for `Send` above.
unsafe impl Sync for Handle {}

/// A derived datatype that this crate must free. Dropping it frees the handle, unless MPI is finalized.
#[derive(Debug)]
pub(super) struct OwnedType(ffi::MPI_Datatype);

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it. Only the drop changes the datatype, and the drop has exclusive access.
unsafe impl Send for OwnedType {}
// SAFETY: as for `Send` above.
unsafe impl Sync for OwnedType {}

impl OwnedType {
    /// Takes over a handle of a derived datatype that MPI gave to the caller and that the caller would have
    /// to free.
    pub(super) fn take(handle: ffi::MPI_Datatype) -> Self {
        OwnedType(handle)
    }

    /// A duplicate of a valid datatype.
    pub(super) fn duplicate_of(datatype: ffi::MPI_Datatype) -> Result<Self> {
        let mut handle = consts::datatype_null();
        // SAFETY: the caller passes a valid datatype. MPI writes one handle.
        let status = unsafe { ffi::MPI_Type_dup(datatype, &raw mut handle) };
        check("MPI_Type_dup", status)?;
        Ok(OwnedType(handle))
    }

    pub(super) fn raw(&self) -> ffi::MPI_Datatype {
        self.0
    }

    /// Gives up the ownership of the handle: the receiver must free it.
    pub(super) fn give_away(self) -> ffi::MPI_Datatype {
        let handle = self.0;
        mem::forget(self);
        handle
    }
}

impl Drop for OwnedType {
    fn drop(&mut self) {
        if lifetime::is_usable() {
            // SAFETY: this value owns the handle, which is valid and not predefined, and MPI is initialized
            // and not finalized. MPI-4.0 section 5.1.9: a communication that uses the type completes
            // normally.
            unsafe { ffi::MPI_Type_free(&raw mut self.0) };
        }
    }
}
