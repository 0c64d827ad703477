//! The types and constants that cross the C ABI, and the macro that exports a function under its two names.

use std::ffi::{c_int, c_void};

pub(crate) use mpi::ffi::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Request, MPI_Status,
};

/// `MPI_Offset`: 64 bits on every MPI served.
pub(crate) type Offset = i64;

/// `MPI_Count`: 64 bits on every MPI served. The `_c` functions take it whether or not the MPI's header has
/// them.
pub(crate) type Count = i64;

/// `MPI_Aint`.
pub(crate) type Aint = isize;

/// `MPI_Fint`: a default Fortran `INTEGER`.
pub(crate) type Fint = c_int;

/// `MPI_SUCCESS`, which the standard fixes at 0.
pub(crate) const SUCCESS: c_int = 0;

unsafe extern "C" {
    /// `MPI_ERRHANDLER_NULL`, from `consts.c`.
    pub(crate) safe static CAPULET_ERRHANDLER_NULL: MPI_Errhandler;
    /// `MPI_ERRORS_ABORT`, or `MPI_ERRHANDLER_NULL` where the MPI has none; from `consts.c`.
    pub(crate) safe static CAPULET_ERRORS_ABORT: MPI_Errhandler;
}

/// `MPI_FILE_NULL`, whose value differs between the MPIs.
pub(crate) fn file_null() -> MPI_File {
    // SAFETY: a constant that `mpi-sys` initializes at compile time and nothing writes.
    unsafe { mpi::ffi::RSMPI_FILE_NULL }
}

/// `MPI_REQUEST_NULL`.
pub(crate) fn request_null() -> MPI_Request {
    // SAFETY: a constant that `mpi-sys` initializes at compile time and nothing writes.
    unsafe { mpi::ffi::RSMPI_REQUEST_NULL }
}

/// `MPI_COMM_WORLD`.
pub(crate) fn comm_world() -> MPI_Comm {
    // SAFETY: a constant that `mpi-sys` initializes at compile time and nothing writes.
    unsafe { mpi::ffi::RSMPI_COMM_WORLD }
}

/// `MPI_COMM_NULL`.
pub(crate) fn comm_null() -> MPI_Comm {
    // SAFETY: a constant that `mpi-sys` initializes at compile time and nothing writes.
    unsafe { mpi::ffi::RSMPI_COMM_NULL }
}

/// A user's error handler for files, as C declares it: `void(MPI_File *, int *, ...)`.
pub(crate) type CHandler = unsafe extern "C" fn(*mut MPI_File, *mut c_int, ...);

/// A user's error handler as Fortran declares it: `SUBROUTINE(file, error_code)`, both by reference.
pub(crate) type FortranHandler = unsafe extern "C" fn(*mut Fint, *mut Fint);

/// MPICH's handler with an extra argument: `void(MPI_File, int, void *)`.
pub(crate) type ExtendedHandler = unsafe extern "C" fn(MPI_File, c_int, *mut c_void);

/// MPICH's destructor of that extra argument: `void(void *)`.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

/// The callbacks of `MPI_Register_datarep`. They are never called, so their arguments do not matter.
pub(crate) type DatarepFunction = unsafe extern "C" fn() -> c_int;

/// Defines one function of the C ABI and exports it as `MPI_<name>` and as `PMPI_<name>`.
///
/// Both names are needed: a profiling tool takes the first and calls the second, Open MPI's Fortran library
/// calls only the second, and MPICH's calls either.
macro_rules! export {
    ($(#[$attribute:meta])* fn $name:ident $arguments:tt -> $result:ty $body:block) => {
        $crate::abi::export_as! {
            [concat!("MPI_", stringify!($name)), concat!("PMPI_", stringify!($name))]
            $(#[$attribute])* fn $name $arguments -> $result $body
        }
    };
}

/// Defines one function of the C ABI and exports it under each of the names given.
macro_rules! export_as {
    ([$($exported:expr),* $(,)?]
     $(#[$attribute:meta])* fn $name:ident $arguments:tt -> $result:ty $body:block) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// The arguments are what the MPI standard demands of the caller of this function.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the signature is C's")]
        unsafe fn $name $arguments -> $result $body

        $($crate::abi::export_one! { $exported, $name, $arguments, $result })*
    };
}

/// One exported name of a function.
macro_rules! export_one {
    ($exported:expr, $name:ident, ($($argument:ident: $kind:ty),* $(,)?), $result:ty) => {
        const _: () = {
            #[unsafe(export_name = $exported)]
            unsafe extern "C" fn exported($($argument: $kind),*) -> $result {
                // SAFETY: the caller's promise is passed on unchanged.
                unsafe { $name($($argument),*) }
            }
        };
    };
}
pub(crate) use {export, export_as, export_one};
