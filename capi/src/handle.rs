//! Handles of files: integers that are cast to `MPI_File`.
//!
//! The same integer is the handle of a file in C and in Fortran. A look-up in the table of open files detects
//! a stale or foreign handle, which does not crash. The table reuses an integer only after about two billion
//! other files were opened.

use std::ffi::c_int;

use crate::abi::{Fint, MPI_File, file_null};

/// The first handle. No handle is in the first page of addresses, where the standard ABI of MPI 5.0 has
/// its constants.
pub(crate) const FIRST: Fint = 4096;

/// The integer of a handle. `None` for a pointer that is no handle of this library.
pub(crate) fn to_number(handle: MPI_File) -> Option<Fint> {
    Fint::try_from(handle.addr()).ok().filter(|&number| number >= FIRST)
}

/// The handle with this integer.
pub(crate) fn from_number(number: Fint) -> MPI_File {
    std::ptr::without_provenance_mut(number as isize as usize)
}

/// `MPI_File_c2f`: the integer of the handle. 0 for `MPI_FILE_NULL`, as in the Fortran headers of MPICH
/// and Open MPI. A pointer that cannot be a handle becomes -1, which names no file.
pub(crate) fn to_fortran(handle: MPI_File) -> c_int {
    if handle.is_null() || handle == file_null() {
        return 0;
    }
    Fint::try_from(handle.addr()).unwrap_or(-1)
}

/// `MPI_File_f2c`: the handle with this integer. `MPI_FILE_NULL` for 0.
pub(crate) fn from_fortran(number: c_int) -> MPI_File {
    if number == 0 { file_null() } else { from_number(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_handle_is_zero_in_fortran() {
        assert_eq!(to_fortran(file_null()), 0);
        assert_eq!(from_fortran(0), file_null());
    }

    #[test]
    fn handles_convert_to_fortran_and_back() {
        for number in [FIRST, FIRST + 1, Fint::MAX] {
            let handle = from_number(number);
            assert_eq!(to_fortran(handle), number);
            assert_eq!(from_fortran(number), handle);
        }
    }

    #[test]
    fn foreign_handle_is_minus_one_in_fortran() {
        let on_stack = 0_u8;
        let foreign: MPI_File = std::ptr::from_ref(&on_stack).cast_mut().cast();
        assert_eq!(to_fortran(foreign), -1);
    }
}
