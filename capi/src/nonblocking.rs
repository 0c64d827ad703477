//! Nonblocking data access (MPI 14.4.2 to 14.4.4). The requests are generalized ones (MPI 13.2), which every MPI has and which
//! its own `MPI_Wait`, `MPI_Test` and `MPI_Request_free` take.
//!
//! An independent access is done inside the call, which is legal, for it needs no other rank, and the request that comes back is
//! complete. One that fails does so in the call and leaves a null request.
//!
//! A collective access goes on after the call. One that fails does so where it is waited for: the functions of
//! `completion` report the error on all ranks, to the error handler of the file.

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
        let complete = Request::start(Arc::new(Moved(bytes)))?;
        // SAFETY: by the caller's promise.
        unsafe { store(request, complete.handle()) }?;
        complete.complete();
        Ok(())
    })
}

/// An access that is over, with its bytes.
#[derive(Debug)]
struct Moved(u64);

impl Completion for Moved {
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)> {
        Some((self.0, None))
    }
}

/// Begins a collective access. Whatever is wrong on this rank is passed down, so that all ranks learn of it: a wrong argument,
/// and also a request that cannot be had. Only then is the failure returned here, for there is nothing to wait for.
///
/// # Safety
/// As [`start`], until the request is complete.
unsafe fn start_together(
    call: &'static str,
    file: MPI_File,
    direction: Direction,
    position: Position,
    memory: CMemory,
    request: *mut MPI_Request,
) -> c_int {
    on_file_together(call, file, |entry| {
        // SAFETY: by the caller's promise.
        let cleared = unsafe { store(request, request_null()) };
        let started = cleared.and_then(|()| Pending::start(call, file, entry));
        let memory = match &started {
            Ok(_) => memory.checked(),
            Err(error) => Err(failure(error.class(), "no request")),
        };
        // SAFETY: by the caller's promise; without a request, no memory is passed on.
        let access = unsafe { entry.file.start(direction, position, memory) };
        let (pending, started) = started?;
        // SAFETY: by the caller's promise.
        unsafe { store(request, started.handle()) }?;
        pending.begun(access.as_completion());
        access.on_completion(move || {
            pending.is_over();
            started.complete();
        });
        Ok(())
    })
}

/// A function with an explicit offset, for one type of count.
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
                // SAFETY: the caller's buffer and request.
                unsafe { $start(call, file, Direction::$direction, position, memory, request) }
            }
        }
    };
}

/// A function by a file pointer, for one type of count.
macro_rules! pointer {
    ($name:ident, $count:ty, $direction:ident, $start:ident, $position:ident, $about:literal) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4). ", $about)]
            fn $name(
                file: MPI_File, base: *mut c_void, count: $count, datatype: MPI_Datatype, request: *mut MPI_Request
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let (call, position) = (concat!("MPI_", stringify!($name)), Position::$position);
                // SAFETY: the caller's buffer and request.
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
