//! The functions of the MPI library behind the names that this library takes over.
//!
//! Only the error handler functions are needed: an `MPI_Errhandler` belongs to the MPI library, which must
//! make it, so that its `MPI_Errhandler_free` and `MPI_Errhandler_c2f` know it.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute_copy;
use std::sync::OnceLock;

use crate::abi::{CHandler, Destructor, ExtendedHandler, MPI_Errhandler, MPI_File};

type Create = unsafe extern "C" fn(CHandler, *mut MPI_Errhandler) -> c_int;
type CreateExtended =
    unsafe extern "C" fn(ExtendedHandler, Option<Destructor>, *mut c_void, *mut MPI_Errhandler) -> c_int;
type Set = unsafe extern "C" fn(MPI_File, MPI_Errhandler) -> c_int;
type Get = unsafe extern "C" fn(MPI_File, *mut MPI_Errhandler) -> c_int;

/// The MPI library's own functions.
pub(crate) struct Real {
    pub(crate) create: Create,
    pub(crate) set: Set,
    pub(crate) get: Get,
    /// Only MPICH 4.2 and later have it.
    pub(crate) create_extended: Option<CreateExtended>,
}

/// The MPI library's own functions; `None` if no MPI library follows this one in the order of symbol look-up.
pub(crate) fn real() -> Option<&'static Real> {
    static REAL: OnceLock<Option<Real>> = OnceLock::new();
    REAL.get_or_init(|| {
        // SAFETY: the types are those that mpi.h declares for these names, with handles and MPI_File being
        // one word.
        unsafe {
            Some(Real {
                create: next(c"PMPI_File_create_errhandler")?,
                set: next(c"PMPI_File_set_errhandler")?,
                get: next(c"PMPI_File_get_errhandler")?,
                create_extended: next(c"PMPIX_File_create_errhandler_x"),
            })
        }
    })
    .as_ref()
}

/// The definition of `name` that comes after this library's own.
///
/// # Safety
/// `F` is the function pointer type of `name`.
unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: dlsym may be called with any name.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the sizes are equal, the address is not null, and F is its type by the caller's promise.
    Some(unsafe { transmute_copy::<*mut c_void, F>(&address) })
}
