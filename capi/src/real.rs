//! The functions of the MPI library behind the names that this library takes over.
//!
//! Two groups are needed: the error handler functions, because an `MPI_Errhandler` belongs to the MPI library,
//! which must make it, so that its `MPI_Errhandler_free` and `MPI_Errhandler_c2f` know it; and the functions that
//! complete requests, because most requests are the MPI library's own.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

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

/// A predefined error handler that is the address of an object, as Open MPI has them; `None` if the MPI library
/// has no object of this name, or if its handles are numbers.
pub(crate) fn predefined(object: &CStr) -> Option<MPI_Errhandler> {
    // SAFETY: a look-up by a string that ends. It finds the copy of the object that the program itself may have
    // (a copy relocation), as the program does.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, object.as_ptr()) };
    if address.is_null() || size_of::<MPI_Errhandler>() != size_of::<*mut c_void>() {
        return None;
    }
    // SAFETY: the sizes are equal, and where a handle is as long as a pointer it is one (`mpi.h` of Open MPI).
    Some(unsafe { transmute_copy::<*mut c_void, MPI_Errhandler>(&address) })
}

/// A function that is looked up at its first call. It is the one that comes after this library: the MPI
/// library's, or a profiling tool's between the two.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// `name` ends with a zero byte.
    pub(crate) const fn new(name: &'static str) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Next { name, address: AtomicPtr::new(ptr::null_mut()) },
            Err(_) => panic!("a name of a function ends with its only zero byte"),
        }
    }

    /// The function, if it was looked up already.
    ///
    /// # Safety
    /// `F` is the function pointer type of the name.
    #[inline]
    pub(crate) unsafe fn known<F: Copy>(&self) -> Option<F> {
        // Relaxed: code is not written, so nothing has to be seen before the address.
        // SAFETY: by the caller's promise.
        unsafe { function(self.address.load(Ordering::Relaxed)) }
    }

    /// The function; `None` if nothing after this library has it.
    ///
    /// # Safety
    /// `F` is the function pointer type of the name.
    pub(crate) unsafe fn get<F: Copy>(&self) -> Option<F> {
        // SAFETY: by the caller's promise.
        unsafe { self.known() }.or_else(|| {
            let address = address_of(self.name);
            self.address.store(address, Ordering::Relaxed);
            // SAFETY: by the caller's promise.
            unsafe { function(address) }
        })
    }
}

/// The definition of `name` that comes after this library's own.
///
/// # Safety
/// `F` is the function pointer type of `name`.
unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: by the caller's promise.
    unsafe { function(address_of(name)) }
}

fn address_of(name: &CStr) -> *mut c_void {
    // SAFETY: dlsym may be called with any string that ends.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// # Safety
/// The address is null, or that of a function of the function pointer type `F`.
unsafe fn function<F: Copy>(address: *mut c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the sizes are equal, the address is not null, and F is its type by the caller's promise.
    Some(unsafe { transmute_copy::<*mut c_void, F>(&address) })
}
