//! Nonblocking independent data access (MPI 14.4.2, 14.4.3): the access is done inside the call, and the
//! request that comes back is complete.
//!
//! That is legal for independent access, which needs no other rank. The request is a generalized one (MPI
//! 13.2), which every MPI has and which its own `MPI_Wait`, `MPI_Test` and `MPI_Request_free` take. An access
//! that fails does so in the call and leaves a null request.

use std::ffi::{c_int, c_void};
use std::ptr;

use capulet_adio::{Coordination, Position};
use capulet_comm::{ErrorClass, status};
use capulet_drivers::Direction;
use mpi::ffi;

use crate::abi::{
    Count, MPI_Datatype, MPI_File, MPI_Request, MPI_Status, Offset, SUCCESS, export, request_null,
};
use crate::access::CMemory;
use crate::convert::store;
use crate::guard::{Failure, failure, on_file};

/// Runs one access and gives a request that is complete.
///
/// # Safety
/// The memory is the caller's buffer, valid as MPI demands for the direction; `request` is the caller's
/// pointer to one request, or null.
unsafe fn start(
    call: &'static str,
    file: MPI_File,
    direction: Direction,
    position: Position,
    memory: CMemory,
    request: *mut MPI_Request,
) -> c_int {
    on_file(call, file, |entry| {
        // SAFETY: by the caller's promise.
        unsafe { store(request, request_null()) }?;
        let memory = memory.checked();
        // SAFETY: by the caller's promise.
        let outcome = unsafe { entry.file.access(direction, position, Coordination::Independent, memory) };
        let bytes = outcome.into_result()?;
        // SAFETY: by the caller's promise.
        unsafe { store(request, complete(bytes)?) }
    })
}

/// A request that is complete, and whose status counts `bytes` bytes. Local.
fn complete(bytes: u64) -> Result<MPI_Request, Failure> {
    let mut request = request_null();
    // The count travels in the place of a pointer, so that nothing is to be freed.
    let extra = ptr::without_provenance_mut(bytes as usize);
    // SAFETY: the callbacks have the forms that MPI wants and never read through the pointer; the request is
    // one handle.
    let code = unsafe {
        let started = ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), extra, &raw mut request);
        if started == SUCCESS { ffi::MPI_Grequest_complete(request) } else { started }
    };
    if code == SUCCESS { Ok(request) } else { Err(failure(ErrorClass::from_code(code), "the request")) }
}

/// Fills in the status of a complete request.
unsafe extern "C" fn query(extra: *mut c_void, out: *mut MPI_Status) -> c_int {
    // SAFETY: MPI passes a status to write to.
    match unsafe { status::set(out, extra.addr() as u64) } {
        Ok(()) => SUCCESS,
        Err(error) => error.class().code(),
    }
}

/// Frees what a request holds: nothing.
unsafe extern "C" fn free(_extra: *mut c_void) -> c_int {
    SUCCESS
}

/// Cancels a request that is complete already: nothing happens, as the standard wants.
unsafe extern "C" fn cancel(_extra: *mut c_void, _is_complete: c_int) -> c_int {
    SUCCESS
}

/// A function with an explicit offset, for one type of count.
macro_rules! at {
    ($name:ident, $count:ty, $direction:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.2). Independent; the access is done on return.")]
            fn $name(
                file: MPI_File, offset: Offset, base: *mut c_void, count: $count, datatype: MPI_Datatype,
                request: *mut MPI_Request
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let (call, position) = (concat!("MPI_", stringify!($name)), Position::Explicit(offset));
                // SAFETY: the caller's buffer and request.
                unsafe { start(call, file, Direction::$direction, position, memory, request) }
            }
        }
    };
}

/// A function by the individual file pointer, for one type of count.
macro_rules! individual {
    ($name:ident, $count:ty, $direction:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.3). Independent; the access is done on return.")]
            fn $name(
                file: MPI_File, base: *mut c_void, count: $count, datatype: MPI_Datatype, request: *mut MPI_Request
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let (call, position) = (concat!("MPI_", stringify!($name)), Position::Individual);
                // SAFETY: the caller's buffer and request.
                unsafe { start(call, file, Direction::$direction, position, memory, request) }
            }
        }
    };
}

at! { File_iread_at, c_int, Read }
at! { File_iread_at_c, Count, Read }
at! { File_iwrite_at, c_int, Write }
at! { File_iwrite_at_c, Count, Write }

individual! { File_iread, c_int, Read }
individual! { File_iread_c, Count, Read }
individual! { File_iwrite, c_int, Write }
individual! { File_iwrite_c, Count, Write }
