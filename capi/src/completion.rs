//! The functions that complete requests: `MPI_Wait`, `MPI_Test` and their kin (MPI 3.7.3, 3.7.5, 13.2).
//!
//! The MPI library tells the errors of generalized requests to the error handler of a communicator, which ends
//! the job by default. These functions report the errors of this library's requests as other calls on files do:
//! the handler of the file is called, the class is returned, and the class stands in the status. Functions that
//! complete several requests return `MPI_ERR_IN_STATUS` then, and the `MPI_ERROR` fields of all statuses are set.
//! All else is the MPI library's own work.
//!
//! # Cost
//! Programs call `MPI_Test` in hot loops. While no request of this library is under way, a call here costs two
//! loads, two branches and a jump. While one is, each request passed is looked up in a table.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use capulet_comm::ErrorClass;
use mpi::ffi;

use crate::abi::{MPI_Request, MPI_Status, SUCCESS, request_null};
use crate::guard::{Verdict, go_on};
use crate::pending::{self, Covered};
use crate::real::Next;

/// `MPI_ERR_IN_STATUS` of this MPI.
const IN_STATUS: c_int = ffi::MPI_ERR_IN_STATUS as c_int;

/// Where a call keeps the status of a request.
#[derive(Clone, Copy)]
enum Statuses {
    /// In the only one, of the only request that completes.
    One(*mut MPI_Status),
    /// In an array with one for each request.
    Each(*mut MPI_Status),
    /// In an array with one for each of the requests that completed, whose places are in another array.
    Some { statuses: *mut MPI_Status, count: *const c_int, places: *const c_int },
}

impl Statuses {
    fn first(self) -> *mut MPI_Status {
        match self {
            Statuses::One(status) => status,
            Statuses::Each(statuses) | Statuses::Some { statuses, .. } => statuses,
        }
    }

    /// `MPI_STATUS_IGNORE`, `MPI_STATUSES_IGNORE`, or a null pointer.
    fn are_ignored(self) -> bool {
        // SAFETY: constants that `mpi-sys` initializes at compile time and nothing writes.
        let ignored = unsafe { [ffi::RSMPI_STATUS_IGNORE, ffi::RSMPI_STATUSES_IGNORE] };
        self.first().is_null() || ignored.contains(&self.first())
    }

    /// The status of the request at `place`, which has completed. `None` if statuses are ignored.
    ///
    /// # Safety
    /// The pointers are the caller's, and the MPI library's function has returned.
    unsafe fn of(self, place: usize) -> Option<*mut MPI_Status> {
        if self.are_ignored() {
            return None;
        }
        let at = match self {
            Statuses::One(_) => 0,
            Statuses::Each(_) => place,
            Statuses::Some { places, .. } => {
                // SAFETY: by the caller's promise, the function has written so many places.
                let mut written = (0..unsafe { self.completed(0) }).map(|at| unsafe { *places.add(at) });
                written.position(|written| usize::try_from(written) == Ok(place))?
            }
        };
        // SAFETY: the array has a status for each request that completed (MPI 3.7.5).
        Some(unsafe { self.first().add(at) })
    }

    /// How many statuses of the array were written, of a call with `all` requests that returned success and
    /// completed some.
    ///
    /// # Safety
    /// As [`Statuses::of`].
    unsafe fn completed(self, all: usize) -> usize {
        match self {
            Statuses::One(_) => 0,
            Statuses::Each(_) => all,
            // SAFETY: the caller's pointer to one int, which the function has written. `MPI_UNDEFINED` is negative.
            Statuses::Some { count, .. } => usize::try_from(unsafe { *count }).unwrap_or(0),
        }
    }

    /// Sets the error field of all statuses that were written to success: a call that returns success leaves the
    /// fields as they were.
    ///
    /// # Safety
    /// As [`Statuses::completed`].
    unsafe fn clear_errors(self, all: usize) {
        if self.are_ignored() {
            return;
        }
        // SAFETY: by the caller's promise.
        for at in 0..unsafe { self.completed(all) } {
            // SAFETY: the array has that many statuses.
            unsafe { set_error(self.first().add(at), SUCCESS) };
        }
    }
}

/// # Safety
/// `status` is valid for writing.
unsafe fn set_error(status: *mut MPI_Status, code: c_int) {
    // SAFETY: by the caller's promise; both families of MPI name the field so (MPI 3.2.5).
    unsafe { (&raw mut (*status).MPI_ERROR).write(code) };
}

/// The requests of a call.
#[derive(Clone, Copy)]
struct Requests {
    first: *const MPI_Request,
    count: usize,
}

impl Requests {
    fn one(request: *const MPI_Request) -> Self {
        Requests { first: request, count: 1 }
    }

    /// A negative count is refused by the MPI library.
    fn array(count: c_int, first: *const MPI_Request) -> Self {
        Requests { first, count: usize::try_from(count).unwrap_or(0) }
    }
}

/// A request that has failed and is complete: what is to be done, and its status.
struct Failed {
    verdict: Verdict,
    status: Option<*mut MPI_Status>,
}

/// Runs the MPI library's function, and reports the errors of the requests of this library that it completes.
///
/// # Safety
/// The pointers are the caller's, as the MPI standard demands of the function that `call` calls.
#[inline(never)]
unsafe fn complete(requests: Requests, statuses: Statuses, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let Some(ours) = (unsafe { Covered::find(requests.first, requests.count) }) else { return call() };
    let code = call();
    // SAFETY: by the caller's promise; the call is over.
    let decided = catch_unwind(AssertUnwindSafe(|| unsafe { decide(ours, requests, statuses, code) }));
    match decided {
        // SAFETY: by the caller's promise.
        Ok(failed) => unsafe { deliver(failed, statuses, code) },
        Err(_) => ErrorClass::Intern.code(),
    }
}

/// Which requests have failed, the last first, with their classes in their statuses.
///
/// # Safety
/// As [`complete`], after the call.
unsafe fn decide(
    ours: Covered,
    requests: Requests,
    statuses: Statuses,
    code: c_int,
) -> ManuallyDrop<Vec<Failed>> {
    let mut failed = Vec::new();
    for (place, pending) in ours.uncover().into_iter().rev() {
        // A request that completes becomes null (MPI 3.7.3).
        // SAFETY: by the caller's promise; the place is below the count.
        let is_complete = unsafe { *requests.first.add(place) } == request_null();
        if let Some(verdict) = is_complete.then(|| pending.judged()).flatten() {
            // SAFETY: the request has completed.
            failed.push(Failed { verdict, status: unsafe { statuses.of(place) } });
        }
    }
    if code == SUCCESS && !failed.is_empty() {
        // SAFETY: the call returned success and completed requests.
        unsafe { statuses.clear_errors(requests.count) };
    }
    for Failed { verdict, status } in &failed {
        if let Some(status) = *status {
            // SAFETY: the status of a request that has completed, which is not ignored.
            unsafe { set_error(status, verdict.code()) };
        }
    }
    ManuallyDrop::new(failed)
}

/// Calls the handlers, and returns what the function is to return. No value here has a destructor: a handler may
/// leave by `longjmp`.
///
/// # Safety
/// As [`complete`], after the call.
unsafe fn deliver(mut failed: ManuallyDrop<Vec<Failed>>, statuses: Statuses, code: c_int) -> c_int {
    let mut returned = code;
    while let Some(Failed { verdict, status }) = failed.pop() {
        let left = verdict.deliver();
        if let Some(status) = status {
            // SAFETY: as in `decide`.
            unsafe { set_error(status, left) };
        }
        if code == SUCCESS && left != SUCCESS {
            returned = if matches!(statuses, Statuses::One(_)) { left } else { IN_STATUS };
        }
    }
    drop(ManuallyDrop::into_inner(failed));
    returned
}

/// Of which requests a function says that they are complete, once it has returned success.
#[derive(Clone, Copy)]
enum Seen {
    /// Of all or of none, by a flag.
    If(*const c_int),
    /// Of one or of none, by a flag and its place.
    #[cfg(has_mpi_4_1)]
    One { flag: *const c_int, place: *const c_int },
    /// Of those that [`Statuses::Some`] lists.
    #[cfg(has_mpi_4_1)]
    Listed,
}

impl Seen {
    /// # Safety
    /// The pointers are the caller's, and the MPI library's function has returned success.
    #[cfg_attr(not(has_mpi_4_1), expect(unused_variables, reason = "the flag is for all requests"))]
    unsafe fn has(self, request: usize) -> bool {
        match self {
            // SAFETY: by the caller's promise, one int that the function has written.
            Seen::If(flag) => unsafe { *flag != 0 },
            #[cfg(has_mpi_4_1)]
            // SAFETY: by the caller's promise, one int each that the function has written.
            Seen::One { flag, place } => unsafe { *flag != 0 && usize::try_from(*place) == Ok(request) },
            #[cfg(has_mpi_4_1)]
            Seen::Listed => true,
        }
    }
}

/// Runs a function of the MPI library that says of requests whether they are complete, and completes none. The
/// class of a request that has failed stands in its status; the function that completes it reports it.
///
/// # Safety
/// As [`complete`].
#[inline(never)]
unsafe fn look(requests: Requests, statuses: Statuses, seen: Seen, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    let Some(ours) = (unsafe { Covered::find(requests.first, requests.count) }) else { return call() };
    // MPICH 4.0 does not let generalized requests go on here, so a program that asks in a loop would wait for ever.
    go_on();
    let code = call();
    for (place, pending) in ours.uncover() {
        // SAFETY: by the caller's promise.
        if code == SUCCESS && unsafe { seen.has(place) } {
            // SAFETY: the function has returned, and has seen the request.
            let status = unsafe { statuses.of(place) };
            if let (Some(class), Some(status)) = (pending.class(), status) {
                // SAFETY: a status of the caller's that is not ignored.
                unsafe { set_error(status, class) };
            }
        }
    }
    code
}

/// Defines one function that the MPI library has, exports it as `MPI_<name>` and as `PMPI_<name>`, and passes calls
/// on to the MPI library's function of the same name. While requests of this library are under way, `$watched`
/// does so, which takes the call as a closure.
macro_rules! wraps {
    (fn $name:ident($($argument:ident: $kind:ty),* $(,)?), $watched:expr) => {
        wraps! { @one concat!("MPI_", stringify!($name)), ($($argument: $kind),*), $watched }
        wraps! { @one concat!("PMPI_", stringify!($name)), ($($argument: $kind),*), $watched }
    };
    (@one $exported:expr, ($($argument:ident: $kind:ty),*), $watched:expr) => {
        const _: () = {
            static NEXT: Next = Next::new(concat!($exported, "\0"));
            type Function = unsafe extern "C" fn($($kind),*) -> c_int;

            #[unsafe(export_name = $exported)]
            unsafe extern "C" fn exported($($argument: $kind),*) -> c_int {
                // SAFETY: the type is that which mpi.h declares for this name.
                match unsafe { NEXT.known::<Function>() } {
                    // SAFETY: the caller's arguments, passed on unchanged.
                    Some(function) if pending::is_none_live() => unsafe { function($($argument),*) },
                    // SAFETY: the caller's promise is passed on unchanged.
                    _ => unsafe { watched($($argument),*) },
                }
            }

            /// Apart from the function above, which so needs no stack.
            #[cold]
            #[inline(never)]
            unsafe extern "C" fn watched($($argument: $kind),*) -> c_int {
                // SAFETY: the type is that which mpi.h declares for this name.
                let found = unsafe { NEXT.get::<Function>() };
                let Some(function) = found else { return ErrorClass::UnsupportedOperation.code() };
                // SAFETY: the caller's arguments, passed on unchanged.
                let call = || unsafe { function($($argument),*) };
                // SAFETY: the caller's pointers, as the MPI standard demands of the caller.
                unsafe { $watched(call) }
            }
        };
    };
}

wraps! {
    fn Wait(request: *mut MPI_Request, status: *mut MPI_Status),
    |call| complete(Requests::one(request), Statuses::One(status), call)
}

wraps! {
    fn Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status),
    |call| complete(Requests::one(request), Statuses::One(status), call)
}

wraps! {
    fn Waitany(count: c_int, requests: *mut MPI_Request, place: *mut c_int, status: *mut MPI_Status),
    |call| complete(Requests::array(count, requests), Statuses::One(status), call)
}

wraps! {
    fn Testany(
        count: c_int, requests: *mut MPI_Request, place: *mut c_int, flag: *mut c_int, status: *mut MPI_Status
    ),
    |call| complete(Requests::array(count, requests), Statuses::One(status), call)
}

wraps! {
    fn Waitall(count: c_int, requests: *mut MPI_Request, statuses: *mut MPI_Status),
    |call| complete(Requests::array(count, requests), Statuses::Each(statuses), call)
}

wraps! {
    fn Testall(count: c_int, requests: *mut MPI_Request, flag: *mut c_int, statuses: *mut MPI_Status),
    |call| complete(Requests::array(count, requests), Statuses::Each(statuses), call)
}

wraps! {
    fn Waitsome(
        count: c_int, requests: *mut MPI_Request, completed: *mut c_int, places: *mut c_int,
        statuses: *mut MPI_Status
    ),
    |call| complete(
        Requests::array(count, requests), Statuses::Some { statuses, count: completed, places }, call
    )
}

wraps! {
    fn Testsome(
        count: c_int, requests: *mut MPI_Request, completed: *mut c_int, places: *mut c_int,
        statuses: *mut MPI_Status
    ),
    |call| complete(
        Requests::array(count, requests), Statuses::Some { statuses, count: completed, places }, call
    )
}

wraps! {
    fn Request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status),
    |call| look(Requests::one(&raw const request), Statuses::One(status), Seen::If(flag), call)
}

// Only where the MPI library has them: programs take others for a sign that it has.
#[cfg(has_mpi_4_1)]
wraps! {
    fn Request_get_status_any(
        count: c_int, requests: *const MPI_Request, place: *mut c_int, flag: *mut c_int, status: *mut MPI_Status
    ),
    |call| look(Requests::array(count, requests), Statuses::One(status), Seen::One { flag, place }, call)
}

#[cfg(has_mpi_4_1)]
wraps! {
    fn Request_get_status_all(
        count: c_int, requests: *const MPI_Request, flag: *mut c_int, statuses: *mut MPI_Status
    ),
    |call| look(Requests::array(count, requests), Statuses::Each(statuses), Seen::If(flag), call)
}

#[cfg(has_mpi_4_1)]
wraps! {
    fn Request_get_status_some(
        count: c_int, requests: *const MPI_Request, completed: *mut c_int, places: *mut c_int,
        statuses: *mut MPI_Status
    ),
    |call| look(
        Requests::array(count, requests), Statuses::Some { statuses, count: completed, places }, Seen::Listed,
        call
    )
}
