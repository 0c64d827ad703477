//! Status objects. Their fields differ between MPI libraries, so this module sets them by MPI functions
//! only.

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::{consts, ffi};

/// Sets the number of transferred bytes in a status, and marks the operation as not cancelled (MPI-4.0
/// section 13.3). Does nothing for `MPI_STATUS_IGNORE`. Local.
///
/// # Errors
/// If the number does not fit in an `MPI_Count`, or MPI fails.
///
/// # Safety
/// The pointer is `MPI_STATUS_IGNORE` or valid for writing a status.
pub unsafe fn set(status: *mut ffi::MPI_Status, bytes: u64) -> Result<()> {
    if status == consts::status_ignore() {
        return Ok(());
    }
    let Ok(count) = ffi::MPI_Count::try_from(bytes) else {
        return Err(Error::invalid(ErrorClass::Count, format!("{bytes} bytes")));
    };
    // SAFETY: `# Safety` of this function: the pointer is valid for writing a status, because it is not
    // MPI_STATUS_IGNORE.
    let code = unsafe { ffi::MPI_Status_set_elements_x(status, consts::byte(), count) };
    check("MPI_Status_set_elements_x", code)?;
    // SAFETY: as in the call of MPI_Status_set_elements_x above.
    check("MPI_Status_set_cancelled", unsafe { ffi::MPI_Status_set_cancelled(status, 0) })
}
