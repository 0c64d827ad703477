//! The functions that Fortran programs need beyond the C functions.
//!
//! The Fortran libraries of the MPIs call the C functions through the dynamic linker, so their calls
//! reach this library. Two parts remain: handles as integers, and the Fortran error handlers of Open MPI,
//! which do not go through `MPI_File_create_errhandler`.

use std::ffi::c_int;

use crate::abi::{Fint, FortranHandler, MPI_File, SUCCESS, export, export_as};
use crate::convert::{pointer, store};
use crate::frame::on_no_file;
use crate::handle;
use crate::handler::{Kind, as_c_handler, create};

export! {
    /// `MPI_File_c2f` (MPI 19.3.4). Local. Callable at any time.
    fn File_c2f(file: MPI_File) -> Fint {
        handle::to_fortran(file)
    }
}

export! {
    /// `MPI_File_f2c` (MPI 19.3.4). Local. Callable at any time.
    fn File_f2c(file: Fint) -> MPI_File {
        handle::from_fortran(file)
    }
}

export! {
    /// `MPI_File_toint` (MPI 5.0, 20.4). Local. Callable at any time.
    fn File_toint(file: MPI_File) -> c_int {
        handle::to_fortran(file)
    }
}

export! {
    /// `MPI_File_fromint` (MPI 5.0, 20.4). Local. Callable at any time.
    fn File_fromint(file: c_int) -> MPI_File {
        handle::from_fortran(file)
    }
}

export_as! {
    [
        // The names that Fortran compilers use for the routine of mpif.h and of the module mpi.
        "mpi_file_create_errhandler",
        "mpi_file_create_errhandler_",
        "mpi_file_create_errhandler__",
        "MPI_FILE_CREATE_ERRHANDLER",
        "pmpi_file_create_errhandler",
        "pmpi_file_create_errhandler_",
        "pmpi_file_create_errhandler__",
        "PMPI_FILE_CREATE_ERRHANDLER",
        // The names that Open MPI's module mpi_f08 calls.
        "ompi_file_create_errhandler_f",
        "MPI_File_create_errhandler_f",
        "MPI_File_create_errhandler_f08",
        "PMPI_File_create_errhandler_f",
        "PMPI_File_create_errhandler_f08",
    ]
    /// `MPI_FILE_CREATE_ERRHANDLER` of Fortran (MPI 9.3.3). Local. All arguments are references. The
    /// error code is the last argument.
    fn file_create_errhandler(
        function: Option<FortranHandler>, errhandler: *mut Fint, code: *mut Fint
    ) -> () {
        let outcome = on_no_file("MPI_FILE_CREATE_ERRHANDLER", || {
            let function = pointer(function)?;
            let made = create(as_c_handler(function as *const ()), Kind::Fortran(function))?;
            // SAFETY: MPI 19.3.4: `create` returned this handle, so it is valid.
            let number = unsafe { mpi::ffi::RSMPI_Errhandler_c2f(made) };
            // SAFETY: `# Safety` of this function (MPI 9.3.3): `errhandler` is null or points to one
            // integer.
            unsafe { store(errhandler, number) }
        });
        debug_assert!(outcome >= SUCCESS);
        // The error code is optional in mpi_f08, so a null pointer is not an error.
        if !code.is_null() {
            // SAFETY: `# Safety` of this function (MPI 9.3.3): `code` points to one integer, because it
            // is not null.
            unsafe { code.write(outcome) };
        }
    }
}
