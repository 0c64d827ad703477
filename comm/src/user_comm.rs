//! Calls on communicators of users. No call sends a message that could mix with the user's messages, and
//! no call blocks inside MPI.

use std::ffi::{c_int, c_void};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::process::return_errors;
use crate::wait::wait_until;
use crate::{consts, ffi};

/// While this value lives, MPI returns the errors of the user's communicator to this crate instead of
/// aborting the program.
pub(crate) struct ReturnErrors {
    comm: ffi::MPI_Comm,
    previous: ffi::MPI_Errhandler,
}

impl ReturnErrors {
    pub(crate) fn on(comm: ffi::MPI_Comm) -> Result<Self> {
        let mut previous = consts::errors_return();
        // SAFETY: the caller passes a valid communicator. MPI writes one handle.
        let status = unsafe { ffi::MPI_Comm_get_errhandler(comm, &raw mut previous) };
        check("MPI_Comm_get_errhandler", status)?;
        let guard = ReturnErrors { comm, previous };
        return_errors(comm)?;
        Ok(guard)
    }
}

impl Drop for ReturnErrors {
    fn drop(&mut self) {
        // SAFETY: `previous` came from this communicator. MPI-4.0 section 9.3: MPI_Comm_get_errhandler
        // creates a reference that must be freed.
        unsafe {
            ffi::MPI_Comm_set_errhandler(self.comm, self.previous);
            ffi::MPI_Errhandler_free(&raw mut self.previous);
        }
    }
}

/// Returns an error for an inter-communicator, because a file cannot be opened on one.
pub(crate) fn refuse_inter_communicator(comm: ffi::MPI_Comm) -> Result<()> {
    let mut inter: c_int = 0;
    // SAFETY: the caller passes a valid communicator. MPI writes one int.
    check("MPI_Comm_test_inter", unsafe { ffi::MPI_Comm_test_inter(comm, &raw mut inter) })?;
    if inter == 0 { Ok(()) } else { Err(Error::invalid(ErrorClass::Comm, "an inter-communicator")) }
}

/// Waits for a request of MPI. Tests the request, and sleeps between the tests.
fn wait(mut request: ffi::MPI_Request) -> Result<()> {
    wait_until(|| {
        let mut done: c_int = 0;
        // SAFETY: the request is active until `done` is set, and is not used after that, because `wait_until`
        // ends then. MPI ignores the status.
        let status = unsafe { ffi::MPI_Test(&raw mut request, &raw mut done, consts::status_ignore()) };
        check("MPI_Test", status)?;
        Ok(done != 0)
    })
}

/// Duplicates a communicator. Collective. Sleeps while it waits.
pub(crate) fn duplicate(comm: ffi::MPI_Comm) -> Result<ffi::MPI_Comm> {
    // The handle lies on the heap, so that it can be leaked: MPI may write it at any time until the
    // request completes.
    let target = Box::into_raw(Box::new(consts::comm_null()));
    let mut request = consts::request_null();
    // SAFETY: the communicator is valid. `target` stays valid until the request has completed, and is
    // leaked if the request fails.
    let status = unsafe { ffi::MPI_Comm_idup(comm, target, &raw mut request) };
    check("MPI_Comm_idup", status)?;
    wait(request)?;
    // SAFETY: the request has completed, so MPI no longer uses the address, which came from
    // Box::into_raw.
    Ok(*unsafe { Box::from_raw(target) })
}

/// Whether both communicators have the same processes in the same order.
pub(crate) fn is_congruent(left: ffi::MPI_Comm, right: ffi::MPI_Comm) -> Result<bool> {
    let mut result: c_int = 0;
    // SAFETY: both communicators are valid. The call is local and writes one int (MPI-4.0 section 7.4.1).
    let status = unsafe { ffi::MPI_Comm_compare(left, right, &raw mut result) };
    check("MPI_Comm_compare", status)?;
    Ok(result == consts::congruent())
}

/// The smallest and the largest value over all ranks. Uses a collective operation on the user's
/// communicator, because only messages of collective operations cannot mix with the user's messages.
pub(crate) fn extremes(comm: ffi::MPI_Comm, value: u64) -> Result<(u64, u64)> {
    // The buffers lie on the heap, so that they can be leaked if MPI fails.
    let buffers = Box::into_raw(Box::new([[value, !value], [0, 0]]));
    let mut request = consts::request_null();
    // SAFETY: `buffers` is a valid allocation of two pairs of u64. MPI reads the first pair and writes
    // the second pair until the request completes. The allocation is freed only after that, and is leaked
    // if MPI fails.
    let status = unsafe {
        let source = buffers.cast::<c_void>();
        let target = buffers.cast::<[u64; 2]>().add(1).cast::<c_void>();
        ffi::MPI_Iallreduce(source, target, 2, consts::uint64(), consts::max(), comm, &raw mut request)
    };
    check("MPI_Iallreduce", status)?;
    wait(request)?;
    // SAFETY: the request has completed, so MPI no longer uses the address, which came from
    // Box::into_raw.
    let [_, [max, inverse_min]] = *unsafe { Box::from_raw(buffers) };
    Ok((!inverse_min, max))
}
