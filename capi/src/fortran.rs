//! What Fortran programs need beyond the C functions.
//!
//! The Fortran libraries of the MPIs are thin and call the C functions through the dynamic linker, so they
//! reach this library. Two things are left: handles as integers, and Open MPI's Fortran error handlers, which
//! go past `MPI_File_create_errhandler`.

use std::ffi::c_int;

use crate::abi::{Fint, FortranHandler, MPI_File, SUCCESS, export, export_as};
use crate::convert::{pointer, store};
use crate::errhandler::{Kind, as_c_handler, create};
use crate::guard::on_no_file;
use crate::handle;

export! {
    /// `MPI_File_c2f` (MPI 19.3.4). Local; may be called at any time.
    fn File_c2f(file: MPI_File) -> Fint {
        handle::to_fortran(file)
    }
}

export! {
    /// `MPI_File_f2c` (MPI 19.3.4). Local; may be called at any time.
    fn File_f2c(file: Fint) -> MPI_File {
        handle::from_fortran(file)
    }
}

export! {
    /// `MPI_File_toint` (MPI 5.0, 20.4). Local; may be called at any time.
    fn File_toint(file: MPI_File) -> c_int {
        handle::to_fortran(file)
    }
}

export! {
    /// `MPI_File_fromint` (MPI 5.0, 20.4). Local; may be called at any time.
    fn File_fromint(file: c_int) -> MPI_File {
        handle::from_fortran(file)
    }
}

export_as! {
    [
        // The names that Fortran compilers give to the routine of mpif.h and of the module mpi.
        "mpi_file_create_errhandler",
        "mpi_file_create_errhandler_",
        "mpi_file_create_errhandler__",
        "MPI_FILE_CREATE_ERRHANDLER",
        "pmpi_file_create_errhandler",
        "pmpi_file_create_errhandler_",
        "pmpi_file_create_errhandler__",
        "PMPI_FILE_CREATE_ERRHANDLER",
        // The names by which Open MPI's mpi_f08 module calls it.
        "ompi_file_create_errhandler_f",
        "MPI_File_create_errhandler_f",
        "MPI_File_create_errhandler_f08",
        "PMPI_File_create_errhandler_f",
        "PMPI_File_create_errhandler_f08",
    ]
    /// `MPI_FILE_CREATE_ERRHANDLER` of Fortran (MPI 9.3.3). Local. All arguments by reference, the code last.
    fn file_create_errhandler(function: Option<FortranHandler>, errhandler: *mut Fint, code: *mut Fint) -> () {
        let outcome = on_no_file("MPI_FILE_CREATE_ERRHANDLER", || {
            let function = pointer(function)?;
            let made = create(as_c_handler(function as *const ()), Kind::Fortran(function))?;
            // SAFETY: the handle was made by the MPI library a line ago.
            let number = unsafe { mpi::ffi::RSMPI_Errhandler_c2f(made) };
            // SAFETY: the caller's pointer to one integer, or null.
            unsafe { store(errhandler, number) }
        });
        debug_assert!(outcome >= SUCCESS);
        // The code is optional in mpi_f08, so null is no error here.
        if !code.is_null() {
            // SAFETY: not null, so it is the caller's integer.
            unsafe { code.write(outcome) };
        }
    }
}
