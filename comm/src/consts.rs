//! The scalar constants of `consts.c`. Each table of `consts.c` is declared beside the enum that it belongs
//! to.

use std::ffi::c_int;

use crate::ffi;

/// Declares constants of consts.c, and a safe function that reads each of them.
macro_rules! constants {
    ($($reader:ident = $symbol:ident: $type:ty;)*) => {
        unsafe extern "C" {
            $(static $symbol: $type;)*
        }
        $(
            pub(crate) fn $reader() -> $type {
                // SAFETY: consts.c defines the symbol as a constant of this C type, which is never written.
                unsafe { $symbol }
            }
        )*
    };
}

constants! {
    tag_bound_key = capulet_tag_bound_key: c_int;
    info_key_bytes_max = capulet_info_key_bytes_max: c_int;
    info_value_bytes_max = capulet_info_value_bytes_max: c_int;
    mode_nocheck = capulet_mode_nocheck: c_int;
    lock_exclusive = capulet_lock_exclusive: c_int;
    replace = capulet_replace: ffi::MPI_Op;
    no_op = capulet_no_op: ffi::MPI_Op;
    byte = capulet_byte: ffi::MPI_Datatype;
    order_c = capulet_order_c: c_int;
    order_fortran = capulet_order_fortran: c_int;
    distribute_none = capulet_distribute_none: c_int;
    distribute_block = capulet_distribute_block: c_int;
    distribute_cyclic = capulet_distribute_cyclic: c_int;
    distribute_default = capulet_distribute_default: c_int;
}

/// Declares a safe function for each handle and number that `mpi-sys` exports as a C constant.
macro_rules! sys_constants {
    ($($reader:ident = $symbol:ident: $type:ty;)*) => {
        $(
            pub(crate) fn $reader() -> $type {
                // SAFETY: the C part of mpi-sys defines the symbol as a constant of this type. It is
                // initialized at link time and never written.
                unsafe { ffi::$symbol }
            }
        )*
    };
}

sys_constants! {
    comm_null = RSMPI_COMM_NULL: ffi::MPI_Comm;
    comm_world = RSMPI_COMM_WORLD: ffi::MPI_Comm;
    comm_self = RSMPI_COMM_SELF: ffi::MPI_Comm;
    comm_type_shared = RSMPI_COMM_TYPE_SHARED: c_int;
    congruent = RSMPI_CONGRUENT: c_int;
    identical = RSMPI_IDENT: c_int;
    any_source = RSMPI_ANY_SOURCE: c_int;
    errors_return = RSMPI_ERRORS_RETURN: ffi::MPI_Errhandler;
    info_null = RSMPI_INFO_NULL: ffi::MPI_Info;
    request_null = RSMPI_REQUEST_NULL: ffi::MPI_Request;
    status_ignore = RSMPI_STATUS_IGNORE: *mut ffi::MPI_Status;
    thread_multiple = RSMPI_THREAD_MULTIPLE: c_int;
    uint32 = RSMPI_UINT32_T: ffi::MPI_Datatype;
    uint64 = RSMPI_UINT64_T: ffi::MPI_Datatype;
    max = RSMPI_MAX: ffi::MPI_Op;
    sum = RSMPI_SUM: ffi::MPI_Op;
    datatype_null = RSMPI_DATATYPE_NULL: ffi::MPI_Datatype;
    win_null = RSMPI_WIN_NULL: ffi::MPI_Win;
}
