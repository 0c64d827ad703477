//! Nonblocking data access (MPI 14.4.2 to 14.4.4). The requests are generalized requests (MPI 13.2).
//! Every MPI has them, and its own `MPI_Wait`, `MPI_Test` and `MPI_Request_free` accept them.
//!
//! An independent access is complete when the call returns. This conforms to the standard, because the
//! access needs no other rank. An error is reported by this call, and the request is `MPI_REQUEST_NULL`
//! then.
//!
//! A collective access continues after the call. Its error is reported by the function that completes the
//! request: the functions of `completion` report it on all ranks, to the error handler of the file.

use std::ffi::c_int;
use std::sync::Arc;

use capulet_comm::ErrorClass;
use capulet_comm::request::{Completion, Request};

use crate::abi::{MPI_File, MPI_Request, request_null};
use crate::convert::store;
use crate::data_access::{Buffer, Operation, export_data_access};
use crate::failure::failure;
use crate::frame::{on_file, on_file_collective};
use crate::pending::Pending;

/// Runs one independent access and returns a complete request.
///
/// # Safety
/// `buffer` is the buffer of the caller. It is valid for the direction as MPI 14.4 requires.
/// `request` is null or points to one request.
unsafe fn start_independent(
    call: &'static str,
    file: MPI_File,
    operation: Operation,
    buffer: Buffer,
    request: *mut MPI_Request,
) -> c_int {
    on_file(call, file, |open| {
        // SAFETY: `# Safety` of this function: `request` is null or points to one request.
        unsafe { store(request, request_null()) }?;
        let Operation { direction, position, coordination } = operation;
        let memory = buffer.checked();
        // SAFETY: `# Safety` of this function: the buffer is valid, as `# Safety` of `File::access`
        // requires.
        let outcome = unsafe { open.file.access(direction, position, coordination, memory) };
        let bytes = outcome.into_result()?;
        let complete = Request::start(Arc::new(Moved(bytes)))?;
        // SAFETY: `# Safety` of this function: `request` points to one request.
        unsafe { store(request, complete.handle()) }?;
        complete.complete();
        Ok(())
    })
}

/// An access that is complete, with the number of bytes moved.
#[derive(Debug)]
struct Moved(u64);

impl Completion for Moved {
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)> {
        Some((self.0, None))
    }
}

/// Starts a collective access. An error on this rank is passed down, so that all ranks get it: an invalid
/// argument, or a request that MPI cannot create. In the second case this function returns the error,
/// because there is no request to report it.
///
/// # Safety
/// As [`start_independent`], until the request is complete (MPI 14.4.5).
unsafe fn start_collective(
    call: &'static str,
    file: MPI_File,
    operation: Operation,
    buffer: Buffer,
    request: *mut MPI_Request,
) -> c_int {
    on_file_collective(call, file, |open| {
        // SAFETY: `# Safety` of `start_independent`: `request` is null or points to one request.
        let cleared = unsafe { store(request, request_null()) };
        let started = cleared.and_then(|()| Pending::start(call, file, open));
        let memory = match &started {
            Ok(_) => buffer.checked(),
            Err(error) => Err(failure(error.class(), "MPI creates no request")),
        };
        // SAFETY: `# Safety` of this function: the buffer is valid until the request is complete, as
        // `# Safety` of `File::start` requires. Without a request, `memory` is an error.
        let access = unsafe { open.file.start(operation.direction, operation.position, memory) };
        let (pending, started) = started?;
        // SAFETY: `# Safety` of `start_independent`: `request` points to one request.
        unsafe { store(request, started.handle()) }?;
        pending.set_completion(access.as_completion());
        access.on_completion(move || {
            pending.access_ended();
            started.complete();
        });
        Ok(())
    })
}

export_data_access! {
    start_independent(request: *mut MPI_Request), "Complete on return (MPI 14.4.2 to 14.4.4).";
    File_iread_at File_iread_at_c: Read Explicit Independent;
    File_iwrite_at File_iwrite_at_c: Write Explicit Independent;
    File_iread File_iread_c: Read Individual Independent;
    File_iwrite File_iwrite_c: Write Individual Independent;
    File_iread_shared File_iread_shared_c: Read Shared Independent;
    File_iwrite_shared File_iwrite_shared_c: Write Shared Independent;
}

export_data_access! {
    start_collective(request: *mut MPI_Request), "Does not block (MPI 14.4.2 and 14.4.3).";
    File_iread_at_all File_iread_at_all_c: Read Explicit Collective;
    File_iwrite_at_all File_iwrite_at_all_c: Write Explicit Collective;
    File_iread_all File_iread_all_c: Read Individual Collective;
    File_iwrite_all File_iwrite_all_c: Write Individual Collective;
}
