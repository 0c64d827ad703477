//! Types and constants of the C ABI, and the macros that export a function under its names.

use std::ffi::{c_int, c_void};

pub(crate) use mpi::ffi::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Request, MPI_Status,
};

/// `MPI_Offset`. It has 64 bits in every supported MPI.
pub(crate) type Offset = i64;

/// `MPI_Count`. It has 64 bits in every supported MPI. The `_c` functions take it, also where the `mpi.h`
/// of the MPI does not declare them.
pub(crate) type Count = i64;

/// `MPI_Aint`.
pub(crate) type Aint = isize;

/// `MPI_Fint`: a default Fortran `INTEGER`.
pub(crate) type Fint = c_int;

/// `MPI_SUCCESS`. The MPI standard sets it to 0.
pub(crate) const SUCCESS: c_int = 0;

unsafe extern "C" {
    /// `MPI_ERRHANDLER_NULL`, defined in `consts.c`.
    pub(crate) safe static CAPULET_ERRHANDLER_NULL: MPI_Errhandler;
    /// `MPI_ERRORS_ABORT`, defined in `consts.c`. It is `MPI_ERRHANDLER_NULL` if the MPI does not have
    /// it.
    pub(crate) safe static CAPULET_ERRORS_ABORT: MPI_Errhandler;
}

/// `MPI_FILE_NULL`. Its value differs between MPIs.
pub(crate) fn file_null() -> MPI_File {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { mpi::ffi::RSMPI_FILE_NULL }
}

/// `MPI_REQUEST_NULL`.
pub(crate) fn request_null() -> MPI_Request {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { mpi::ffi::RSMPI_REQUEST_NULL }
}

/// `MPI_COMM_WORLD`.
pub(crate) fn comm_world() -> MPI_Comm {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { mpi::ffi::RSMPI_COMM_WORLD }
}

/// `MPI_COMM_NULL`.
pub(crate) fn comm_null() -> MPI_Comm {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { mpi::ffi::RSMPI_COMM_NULL }
}

/// An error handler for files of the program in C: `void(MPI_File *, int *, ...)`.
pub(crate) type CHandler = unsafe extern "C" fn(*mut MPI_File, *mut c_int, ...);

/// An error handler of the program in Fortran: `SUBROUTINE(file, error_code)`. Both arguments are passed
/// by reference.
pub(crate) type FortranHandler = unsafe extern "C" fn(*mut Fint, *mut Fint);

/// An error handler of MPICH with an extra argument: `void(MPI_File, int, void *)`.
pub(crate) type ExtendedHandler = unsafe extern "C" fn(MPI_File, c_int, *mut c_void);

/// The function that destroys the extra argument of an [`ExtendedHandler`]: `void(void *)`.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

/// The callbacks of `MPI_Register_datarep`. No code calls them, so their arguments are not declared.
pub(crate) type DatarepFunction = unsafe extern "C" fn() -> c_int;

/// Defines one function of the C ABI and exports it as `MPI_<name>` and as `PMPI_<name>`.
///
/// Both names are necessary: a profiling tool defines the `MPI_` name and calls the `PMPI_` name, the
/// Fortran library of Open MPI calls only `PMPI_` names, and the Fortran library of MPICH calls both.
macro_rules! export {
    ($(#[$attribute:meta])* fn $name:ident $arguments:tt -> $result:ty $body:block) => {
        $crate::abi::export_as! {
            [concat!("MPI_", stringify!($name)), concat!("PMPI_", stringify!($name))]
            $(#[$attribute])* fn $name $arguments -> $result $body
        }
    };
}

/// Defines one function of the C ABI and exports it under each given name.
macro_rules! export_as {
    ([$($exported:expr),* $(,)?]
     $(#[$attribute:meta])* fn $name:ident $arguments:tt -> $result:ty $body:block) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// The arguments are valid as the MPI standard (for the toolkit, `include/capulet_types.h`)
        /// requires of the caller of this function.
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the signature is C's")]
        unsafe fn $name $arguments -> $result $body

        $($crate::abi::export_one! { $exported, $name, $arguments, $result })*
    };
}

/// Exports one name of a function.
macro_rules! export_one {
    ($exported:expr, $name:ident, ($($argument:ident: $kind:ty),* $(,)?), $result:ty) => {
        const _: () = {
            #[unsafe(export_name = $exported)]
            unsafe extern "C" fn exported($($argument: $kind),*) -> $result {
                // SAFETY: both functions have the same `# Safety`, and the arguments are passed on
                // unchanged.
                unsafe { $name($($argument),*) }
            }
        };
    };
}
pub(crate) use {export, export_as, export_one};
