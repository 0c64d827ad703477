//! The functions of the MPI library whose names this library replaces.
//!
//! Capulet calls two groups of them. The functions for error handlers: an `MPI_Errhandler` belongs to the
//! MPI library, which creates it, so that its `MPI_Errhandler_free` and `MPI_Errhandler_c2f` accept it.
//! The functions that complete requests: most requests belong to the MPI library.

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

/// Functions of the MPI library.
pub(crate) struct MpiLibrary {
    pub(crate) create: Create,
    pub(crate) set: Set,
    pub(crate) get: Get,
    /// Only MPICH 4.2 and later versions have this function.
    pub(crate) create_extended: Option<CreateExtended>,
}

/// The functions of the MPI library. `None` if no MPI library follows Capulet in the order of symbol
/// look-up.
pub(crate) fn mpi_library() -> Option<&'static MpiLibrary> {
    static LIBRARY: OnceLock<Option<MpiLibrary>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            // SAFETY: `mpi.h` declares the functions of these names with these types. Handles and `MPI_File`
            // are one word.
            unsafe {
                Some(MpiLibrary {
                    create: next(c"PMPI_File_create_errhandler")?,
                    set: next(c"PMPI_File_set_errhandler")?,
                    get: next(c"PMPI_File_get_errhandler")?,
                    create_extended: next(c"PMPIX_File_create_errhandler_x"),
                })
            }
        })
        .as_ref()
}

/// A predefined error handler that is the address of an object, as in Open MPI. `None` if the MPI library
/// has no object of this name, or if its handles are integers.
pub(crate) fn predefined(object: &CStr) -> Option<MPI_Errhandler> {
    // SAFETY: `dlsym` requires a string that ends with a zero byte. With `RTLD_DEFAULT` it finds the same
    // object as the program, also if the program has a copy of the object (copy relocation).
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, object.as_ptr()) };
    if address.is_null() || size_of::<MPI_Errhandler>() != size_of::<*mut c_void>() {
        return None;
    }
    // SAFETY: the sizes are equal. A handle of the size of a pointer is a pointer (`mpi.h` of Open MPI).
    Some(unsafe { transmute_copy::<*mut c_void, MPI_Errhandler>(&address) })
}

/// A function that is looked up at its first call. It is the next function of this name after Capulet. The
/// MPI library defines it, or a profiling tool between Capulet and the MPI library.
pub(crate) struct NextFunction {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl NextFunction {
    /// `name` ends with a zero byte.
    pub(crate) const fn new(name: &'static str) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => NextFunction { name, address: AtomicPtr::new(ptr::null_mut()) },
            Err(_) => panic!("the name of a function must end with its only zero byte"),
        }
    }

    /// The function, if it was looked up before.
    ///
    /// # Safety
    /// `F` is the function pointer type of the name.
    #[inline]
    pub(crate) unsafe fn known<F: Copy>(&self) -> Option<F> {
        // Relaxed: code is constant, so no other memory needs to be visible before the address.
        // SAFETY: `# Safety` of this function: `F` is the type of the function.
        unsafe { function(self.address.load(Ordering::Relaxed)) }
    }

    /// The function. `None` if no library after Capulet defines it.
    ///
    /// # Safety
    /// `F` is the function pointer type of the name.
    pub(crate) unsafe fn get<F: Copy>(&self) -> Option<F> {
        // SAFETY: `# Safety` of this function: `F` is the type of the function.
        unsafe { self.known() }.or_else(|| {
            let address = address_of(self.name);
            self.address.store(address, Ordering::Relaxed);
            // SAFETY: `# Safety` of this function: `F` is the type of the function.
            unsafe { function(address) }
        })
    }
}

/// The next definition of `name` after Capulet's own.
///
/// # Safety
/// `F` is the function pointer type of `name`.
unsafe fn next<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: `# Safety` of this function: `F` is the type of the function.
    unsafe { function(address_of(name)) }
}

fn address_of(name: &CStr) -> *mut c_void {
    // SAFETY: `dlsym` requires a string that ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// # Safety
/// `address` is null or the address of a function of type `F`, a function pointer type.
unsafe fn function<F: Copy>(address: *mut c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the sizes are equal, and `address` is not null. `# Safety` of this function: `F` is its
    // type.
    Some(unsafe { transmute_copy::<*mut c_void, F>(&address) })
}
