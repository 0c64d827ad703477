//! Calls on the communicators of users: none of them sends a message there that could mix with theirs, and none blocks inside of MPI.

use std::ffi::{c_int, c_void};

use crate::backoff::Backoff;
use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::process::return_errors;
use crate::{consts, ffi, work};

/// Makes MPI return the errors of a user's communicator while we use it, instead of aborting the program.
pub(crate) struct ReturnErrors {
    comm: ffi::MPI_Comm,
    previous: ffi::MPI_Errhandler,
}

impl ReturnErrors {
    pub(crate) fn on(comm: ffi::MPI_Comm) -> Result<Self> {
        let mut previous = consts::errors_return();
        // SAFETY: the communicator is the caller's and valid; writes one handle.
        let status = unsafe { ffi::MPI_Comm_get_errhandler(comm, &raw mut previous) };
        check("MPI_Comm_get_errhandler", status)?;
        let guard = ReturnErrors { comm, previous };
        return_errors(comm)?;
        Ok(guard)
    }
}

impl Drop for ReturnErrors {
    fn drop(&mut self) {
        // SAFETY: `previous` was got from this communicator; getting it made a reference that must be freed (MPI-4.0
        // section 9.3).
        unsafe {
            ffi::MPI_Comm_set_errhandler(self.comm, self.previous);
            ffi::MPI_Errhandler_free(&raw mut self.previous);
        }
    }
}

/// Fails for an inter-communicator: a file has none.
pub(crate) fn refuse_inter_communicator(comm: ffi::MPI_Comm) -> Result<()> {
    let mut inter: c_int = 0;
    // SAFETY: the communicator is valid; writes one int.
    check("MPI_Comm_test_inter", unsafe { ffi::MPI_Comm_test_inter(comm, &raw mut inter) })?;
    if inter == 0 { Ok(()) } else { Err(Error::invalid(ErrorClass::Comm, "an inter-communicator")) }
}

/// Waits for a request of MPI's own: tests, and sleeps in between.
fn wait(mut request: ffi::MPI_Request) -> Result<()> {
    let mut backoff = Backoff::new();
    loop {
        let mut done: c_int = 0;
        // SAFETY: the request is active until `done` is set, and then not used again; the status is ignored.
        let status = unsafe { ffi::MPI_Test(&raw mut request, &raw mut done, consts::status_ignore()) };
        check("MPI_Test", status)?;
        if done != 0 {
            return Ok(());
        }
        backoff.pause();
        // Another rank may wait for an operation that goes on here before it comes.
        work::advance();
    }
}

/// A communicator of the same processes. Collective; sleeps while it waits.
pub(crate) fn duplicate(comm: ffi::MPI_Comm) -> Result<ffi::MPI_Comm> {
    // On the heap, so that it can be leaked: MPI writes the handle at any time until the request completes.
    let target = Box::into_raw(Box::new(consts::comm_null()));
    let mut request = consts::request_null();
    // SAFETY: the communicator is valid; `target` stays valid until the request has completed, for ever if it fails.
    let status = unsafe { ffi::MPI_Comm_idup(comm, target, &raw mut request) };
    check("MPI_Comm_idup", status)?;
    wait(request)?;
    // SAFETY: the request has completed, so MPI no longer knows the address, which came from Box::into_raw.
    Ok(*unsafe { Box::from_raw(target) })
}

/// Whether both have the same processes in the same order.
pub(crate) fn is_congruent(left: ffi::MPI_Comm, right: ffi::MPI_Comm) -> Result<bool> {
    let mut result: c_int = 0;
    // SAFETY: both communicators are valid; local; writes one int (MPI-4.0 section 7.4.1).
    let status = unsafe { ffi::MPI_Comm_compare(left, right, &raw mut result) };
    check("MPI_Comm_compare", status)?;
    Ok(result == consts::congruent())
}

/// The smallest and the largest value over all ranks, by a collective operation of the user's communicator: the only
/// messages there that cannot mix with the user's.
pub(crate) fn extremes(comm: ffi::MPI_Comm, value: u64) -> Result<(u64, u64)> {
    // On the heap, so that it can be leaked if MPI fails.
    let buffers = Box::into_raw(Box::new([[value, !value], [0, 0]]));
    let mut request = consts::request_null();
    // SAFETY: `buffers` is a valid allocation of two pairs; the first is read and the second written until the request
    // completes; it is freed only after.
    let status = unsafe {
        let source = buffers.cast::<c_void>();
        let target = buffers.cast::<[u64; 2]>().add(1).cast::<c_void>();
        ffi::MPI_Iallreduce(source, target, 2, consts::uint64(), consts::max(), comm, &raw mut request)
    };
    check("MPI_Iallreduce", status)?;
    wait(request)?;
    // SAFETY: the request has completed; the address came from Box::into_raw.
    let [_, [max, inverse_min]] = *unsafe { Box::from_raw(buffers) };
    Ok((!inverse_min, max))
}
