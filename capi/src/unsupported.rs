//! Functions that are not supported. They return `MPI_ERR_UNSUPPORTED_OPERATION`.

use std::ffi::{c_char, c_int, c_void};

use capulet_comm::ErrorClass;

use crate::abi::{DatarepFunction, export};
use crate::convert::string;
use crate::failure::{Failure, failure};
use crate::frame::on_no_file;

fn unsupported(call: &str) -> Failure {
    failure(ErrorClass::UnsupportedOperation, format!("{call} is not supported"))
}

/// The data representations of every MPI (MPI 14.5).
const PREDEFINED_DATAREPS: [&str; 3] = ["native", "internal", "external32"];

/// # Safety
/// `name` is null or a C string.
unsafe fn register(call: &'static str, name: *const c_char) -> c_int {
    on_no_file(call, || {
        // SAFETY: `# Safety` of this function: `name` is null or a C string.
        let name = unsafe { string(name) }?;
        if PREDEFINED_DATAREPS.iter().any(|predefined| name.to_bytes() == predefined.as_bytes()) {
            return Err(failure(ErrorClass::DupDatarep, "the data representation is predefined"));
        }
        Err(unsupported(call))
    })
}

export! {
    /// `MPI_Register_datarep` (MPI 14.5.3). Local. Data representations of users are not supported. A
    /// predefined name is `MPI_ERR_DUP_DATAREP`.
    fn Register_datarep(
        name: *const c_char, _read: Option<DatarepFunction>, _write: Option<DatarepFunction>,
        _extent: Option<DatarepFunction>, _extra: *mut c_void
    ) -> c_int {
        // SAFETY: `# Safety` of this function (MPI 14.5.3): `name` is null or a C string.
        unsafe { register("MPI_Register_datarep", name) }
    }
}

export! {
    /// `MPI_Register_datarep_c` (MPI 14.5.3). As `MPI_Register_datarep`.
    fn Register_datarep_c(
        name: *const c_char, _read: Option<DatarepFunction>, _write: Option<DatarepFunction>,
        _extent: Option<DatarepFunction>, _extra: *mut c_void
    ) -> c_int {
        // SAFETY: `# Safety` of this function (MPI 14.5.3): `name` is null or a C string.
        unsafe { register("MPI_Register_datarep_c", name) }
    }
}
