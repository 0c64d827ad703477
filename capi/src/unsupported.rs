//! The functions that are not built yet: each returns `MPI_ERR_UNSUPPORTED_OPERATION` through the error
//! handler of the file.
//!
//! All ranks that call one of them are refused alike and at once, so that a collective one needs no message.

use std::ffi::{c_char, c_int, c_void};

use capulet_comm::ErrorClass;

use crate::abi::{
    Count, DatarepFunction, MPI_Datatype, MPI_File, MPI_Request, MPI_Status, Offset, export, request_null,
};
use crate::convert::{store, string};
use crate::guard::{Failure, failure, on_file, on_no_file};

fn refuse(call: &'static str, file: MPI_File) -> c_int {
    on_file(call, file, |_| Err(not_built(call)))
}

fn not_built(call: &str) -> Failure {
    failure(ErrorClass::UnsupportedOperation, format!("{call} is not built yet"))
}

/// Refuses a call that starts a request; the request is null.
///
/// # Safety
/// `request` is the caller's pointer to one request, or null.
unsafe fn refuse_request(call: &'static str, file: MPI_File, request: *mut MPI_Request) -> c_int {
    on_file(call, file, |_| {
        // SAFETY: by the caller's promise.
        unsafe { store(request, request_null()) }?;
        Err(not_built(call))
    })
}

/// Defines functions of one form, each with its large-count twin.
macro_rules! twins {
    ($form:ident: $($name:ident, $large:ident;)*) => { $(
        refused! { $form, $name, c_int }
        refused! { $form, $large, Count }
    )* };
}

/// Defines one function that is refused; the first argument is the form of its arguments.
macro_rules! refused {
    (blocking, $name:ident, $count:ty) => {
        export! {
            /// Not built yet.
            fn $name(
                file: MPI_File, _buffer: *mut c_void, _count: $count, _datatype: MPI_Datatype, _status: *mut MPI_Status
            ) -> c_int {
                refuse(concat!("MPI_", stringify!($name)), file)
            }
        }
    };
    (nonblocking, $name:ident, $count:ty) => {
        export! {
            /// Not built yet.
            fn $name(
                file: MPI_File, _buffer: *mut c_void, _count: $count, _datatype: MPI_Datatype,
                request: *mut MPI_Request
            ) -> c_int {
                // SAFETY: the caller's pointer.
                unsafe { refuse_request(concat!("MPI_", stringify!($name)), file, request) }
            }
        }
    };
    (begin, $name:ident, $count:ty) => {
        export! {
            /// Not built yet.
            fn $name(file: MPI_File, _buffer: *mut c_void, _count: $count, _datatype: MPI_Datatype) -> c_int {
                refuse(concat!("MPI_", stringify!($name)), file)
            }
        }
    };
}

/// Functions `(file, buffer, status)` that end a split collective.
macro_rules! ends {
    ($($name:ident;)*) => { $(
        export! {
            /// Not built yet.
            fn $name(file: MPI_File, _buffer: *mut c_void, _status: *mut MPI_Status) -> c_int {
                refuse(concat!("MPI_", stringify!($name)), file)
            }
        }
    )* };
}

twins! { blocking:
    File_read_shared, File_read_shared_c;
    File_write_shared, File_write_shared_c;
    File_read_ordered, File_read_ordered_c;
    File_write_ordered, File_write_ordered_c;
}

twins! { nonblocking:
    File_iread_shared, File_iread_shared_c;
    File_iwrite_shared, File_iwrite_shared_c;
}

twins! { begin:
    File_read_ordered_begin, File_read_ordered_begin_c;
    File_write_ordered_begin, File_write_ordered_begin_c;
}

ends! {
    File_read_ordered_end;
    File_write_ordered_end;
}

export! {
    /// `MPI_File_seek_shared` (MPI 14.4.4). Collective. Not built yet.
    fn File_seek_shared(file: MPI_File, _offset: Offset, _whence: c_int) -> c_int {
        refuse("MPI_File_seek_shared", file)
    }
}

export! {
    /// `MPI_File_get_position_shared` (MPI 14.4.4). Local. Not built yet.
    fn File_get_position_shared(file: MPI_File, _offset: *mut Offset) -> c_int {
        refuse("MPI_File_get_position_shared", file)
    }
}

/// The data representations that every MPI has (MPI 14.5).
const PREDEFINED_DATAREPS: [&str; 3] = ["native", "internal", "external32"];

/// # Safety
/// `name` is the caller's string, or null.
unsafe fn register(call: &'static str, name: *const c_char) -> c_int {
    on_no_file(call, || {
        // SAFETY: by the caller's promise.
        let name = unsafe { string(name) }?;
        if PREDEFINED_DATAREPS.iter().any(|predefined| name.to_bytes() == predefined.as_bytes()) {
            return Err(failure(ErrorClass::DupDatarep, "a predefined data representation"));
        }
        Err(not_built(call))
    })
}

export! {
    /// `MPI_Register_datarep` (MPI 14.5.3). Local. User-defined data representations are not built yet; a
    /// predefined name is `MPI_ERR_DUP_DATAREP`.
    fn Register_datarep(
        name: *const c_char, _read: Option<DatarepFunction>, _write: Option<DatarepFunction>,
        _extent: Option<DatarepFunction>, _extra: *mut c_void
    ) -> c_int {
        // SAFETY: the caller's string.
        unsafe { register("MPI_Register_datarep", name) }
    }
}

export! {
    /// `MPI_Register_datarep_c` (MPI 14.5.3): as `MPI_Register_datarep`.
    fn Register_datarep_c(
        name: *const c_char, _read: Option<DatarepFunction>, _write: Option<DatarepFunction>,
        _extent: Option<DatarepFunction>, _extra: *mut c_void
    ) -> c_int {
        // SAFETY: the caller's string.
        unsafe { register("MPI_Register_datarep_c", name) }
    }
}
