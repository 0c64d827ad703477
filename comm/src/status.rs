//! Status objects. Their fields differ between MPIs and are never touched here.

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::{consts, ffi};

/// Says in a status how many bytes were moved, and that nothing was cancelled (MPI-4.0 section 13.3). Does nothing for
/// `MPI_STATUS_IGNORE`. Local.
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
    // SAFETY: by the caller's promise.
    let code = unsafe { ffi::MPI_Status_set_elements_x(status, consts::byte(), count) };
    check("MPI_Status_set_elements_x", code)?;
    // SAFETY: by the caller's promise.
    check("MPI_Status_set_cancelled", unsafe { ffi::MPI_Status_set_cancelled(status, 0) })
}
