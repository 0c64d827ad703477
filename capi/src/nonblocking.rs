//! Nonblocking data access (MPI 14.4.2 to 14.4.4). The requests are generalized requests (MPI 13.2).
//! Every MPI has them, and its own `MPI_Wait`, `MPI_Test` and `MPI_Request_free` accept them.
//!
//! An independent access is complete when the call returns. This conforms to the standard, because the
//! access needs no other rank. An error is reported by this call, and the request is `MPI_REQUEST_NULL`
//! then.
//!
//! A collective access continues after the call. Its error is reported by the function that completes the
//! request: the functions of `completion` report it on all ranks, to the error handler of the file.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use capulet_adio::{Coordination, Position};
use capulet_comm::ErrorClass;
use capulet_comm::request::{Completion, Request};
use capulet_drivers::Direction;

use crate::abi::{Count, MPI_Datatype, MPI_File, MPI_Request, Offset, export, request_null};
use crate::access::CMemory;
use crate::convert::store;
use crate::guard::{failure, on_file, on_file_together};
use crate::pending::Pending;

/// Runs one independent access and returns a complete request.
///
/// # Safety
/// `memory` describes the buffer of the caller. It is valid for the direction as MPI 14.4 requires.
/// `request` is null or points to one request.
unsafe fn start(
    call: &'static str,
    file: MPI_File,
    direction: Direction,
    position: Position,
    memory: CMemory,
    request: *mut MPI_Request,
) -> c_int {
    on_file(call, file, |entry| {
        // SAFETY: `# Safety` of this function: `request` is null or points to one request.
        unsafe { store(request, request_null()) }?;
        let memory = memory.checked();
        // SAFETY: `# Safety` of this function: the buffer is valid, as `# Safety` of `File::access`
        // requires.
        let outcome = unsafe { entry.file.access(direction, position, Coordination::Independent, memory) };
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
/// As [`start`], until the request is complete (MPI 14.4.5).
unsafe fn start_together(
    call: &'static str,
    file: MPI_File,
    direction: Direction,
    position: Position,
    memory: CMemory,
    request: *mut MPI_Request,
) -> c_int {
    on_file_together(call, file, |entry| {
        // SAFETY: `# Safety` of `start`: `request` is null or points to one request.
        let cleared = unsafe { store(request, request_null()) };
        let started = cleared.and_then(|()| Pending::start(call, file, entry));
        let memory = match &started {
            Ok(_) => memory.checked(),
            Err(error) => Err(failure(error.class(), "MPI creates no request")),
        };
        // SAFETY: `# Safety` of this function: the buffer is valid until the request is complete, as `#
        // Safety` of `File::start` requires. Without a request, `memory` is an error.
        let access = unsafe { entry.file.start(direction, position, memory) };
        let (pending, started) = started?;
        // SAFETY: `# Safety` of `start`: `request` points to one request.
        unsafe { store(request, started.handle()) }?;
        pending.begun(access.as_completion());
        access.on_completion(move || {
            pending.is_over();
            started.complete();
        });
        Ok(())
    })
}

/// Exports a function with an explicit offset, for one count type.
macro_rules! at {
    ($name:ident, $count:ty, $direction:ident, $start:ident, $about:literal) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.2). ", $about)]
            fn $name(
                file: MPI_File, offset: Offset, base: *mut c_void, count: $count, datatype: MPI_Datatype,
                request: *mut MPI_Request
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let (call, position) = (concat!("MPI_", stringify!($name)), Position::Explicit(offset));
                // SAFETY: `# Safety` of the exported function (MPI 14.4): buffer and request are valid.
                unsafe { $start(call, file, Direction::$direction, position, memory, request) }
            }
        }
    };
}

/// Exports a function that uses a file pointer, for one count type.
macro_rules! pointer {
    ($name:ident, $count:ty, $direction:ident, $start:ident, $position:ident, $about:literal) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4). ", $about)]
            fn $name(
                file: MPI_File, base: *mut c_void, count: $count, datatype: MPI_Datatype, request: *mut MPI_Request
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let (call, position) = (concat!("MPI_", stringify!($name)), Position::$position);
                // SAFETY: `# Safety` of the exported function (MPI 14.4): buffer and request are valid.
                unsafe { $start(call, file, Direction::$direction, position, memory, request) }
            }
        }
    };
}

at! { File_iread_at, c_int, Read, start, "Independent; the access is done on return." }
at! { File_iread_at_c, Count, Read, start, "Independent; the access is done on return." }
at! { File_iwrite_at, c_int, Write, start, "Independent; the access is done on return." }
at! { File_iwrite_at_c, Count, Write, start, "Independent; the access is done on return." }

pointer! { File_iread, c_int, Read, start, Individual, "Independent; the access is done on return." }
pointer! { File_iread_c, Count, Read, start, Individual, "Independent; the access is done on return." }
pointer! { File_iwrite, c_int, Write, start, Individual, "Independent; the access is done on return." }
pointer! { File_iwrite_c, Count, Write, start, Individual, "Independent; the access is done on return." }

pointer! { File_iread_shared, c_int, Read, start, Shared, "Independent; the access is done on return." }
pointer! { File_iread_shared_c, Count, Read, start, Shared, "Independent; the access is done on return." }
pointer! { File_iwrite_shared, c_int, Write, start, Shared, "Independent; the access is done on return." }
pointer! { File_iwrite_shared_c, Count, Write, start, Shared, "Independent; the access is done on return." }

at! { File_iread_at_all, c_int, Read, start_together, "Collective; does not block." }
at! { File_iread_at_all_c, Count, Read, start_together, "Collective; does not block." }
at! { File_iwrite_at_all, c_int, Write, start_together, "Collective; does not block." }
at! { File_iwrite_at_all_c, Count, Write, start_together, "Collective; does not block." }

pointer! { File_iread_all, c_int, Read, start_together, Individual, "Collective; does not block." }
pointer! { File_iread_all_c, Count, Read, start_together, Individual, "Collective; does not block." }
pointer! { File_iwrite_all, c_int, Write, start_together, Individual, "Collective; does not block." }
pointer! { File_iwrite_all_c, Count, Write, start_together, Individual, "Collective; does not block." }
