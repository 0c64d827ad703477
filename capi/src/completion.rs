//! The functions that complete requests: `MPI_Wait`, `MPI_Test` and similar functions (MPI 3.7.3, 3.7.5,
//! 13.2).
//!
//! The MPI library reports the error of a generalized request to the error handler of a communicator,
//! which aborts the job by default. The functions of this module report the errors of Capulet's requests
//! like other calls on files: they call the error handler of the file, return the error class, and write
//! it to the status. A function that completes several requests returns `MPI_ERR_IN_STATUS` in this case,
//! and sets the field `MPI_ERROR` of all statuses. The MPI library does everything else.
//!
//! # Cost
//! Programs call `MPI_Test` in hot loops. While Capulet has no request in progress, these functions cost
//! two loads, two branches and a jump more than the function of the MPI library. While it has one, each
//! request of the call is looked up in a table.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use capulet_comm::ErrorClass;
use mpi::ffi;

use crate::abi::{MPI_Request, MPI_Status, SUCCESS, request_null};
use crate::frame::advance;
use crate::mpi_library::NextFunction;
use crate::pending::{self, Claimed};
use crate::verdict::Verdict;

/// `MPI_ERR_IN_STATUS` of this MPI.
const IN_STATUS: c_int = ffi::MPI_ERR_IN_STATUS as c_int;

/// Where a call writes the status of a request.
#[derive(Clone, Copy)]
enum Statuses {
    /// One status, for the only request that the call completes.
    One(*mut MPI_Status),
    /// An array with one status for each request of the call.
    Each(*mut MPI_Status),
    /// An array with one status for each completed request. Another array has the indices of these
    /// requests.
    Some { statuses: *mut MPI_Status, count: *const c_int, indices: *const c_int },
}

impl Statuses {
    fn first(self) -> *mut MPI_Status {
        match self {
            Statuses::One(status) => status,
            Statuses::Each(statuses) | Statuses::Some { statuses, .. } => statuses,
        }
    }

    /// True for `MPI_STATUS_IGNORE`, `MPI_STATUSES_IGNORE` and a null pointer.
    fn are_ignored(self) -> bool {
        // SAFETY: `mpi-sys` initializes these constants at compile time, and no code writes them.
        let ignored = unsafe { [ffi::RSMPI_STATUS_IGNORE, ffi::RSMPI_STATUSES_IGNORE] };
        self.first().is_null() || ignored.contains(&self.first())
    }

    /// The status of the completed request at `index`. `None` if the caller ignores statuses.
    ///
    /// # Safety
    /// The caller of the MPI function passed the pointers, and the function of the MPI library has returned.
    unsafe fn of(self, index: usize) -> Option<*mut MPI_Status> {
        if self.are_ignored() {
            return None;
        }
        let at = match self {
            Statuses::One(_) => 0,
            Statuses::Each(_) => index,
            Statuses::Some { indices, .. } => {
                // SAFETY: MPI 3.7.5: the function of the MPI library has written this number of indices.
                let mut written = (0..unsafe { self.completed(0) }).map(|at| unsafe { *indices.add(at) });
                written.position(|written| usize::try_from(written) == Ok(index))?
            }
        };
        // SAFETY: MPI 3.7.5: the array has a status for each completed request.
        Some(unsafe { self.first().add(at) })
    }

    /// The number of statuses in the array that a call with `all` requests has written. The call returned
    /// success and completed requests.
    ///
    /// # Safety
    /// As [`Statuses::of`].
    unsafe fn completed(self, all: usize) -> usize {
        match self {
            Statuses::One(_) => 0,
            Statuses::Each(_) => all,
            // SAFETY: `# Safety` of `Statuses::of`: the function has written the count. `MPI_UNDEFINED`
            // is negative.
            Statuses::Some { count, .. } => usize::try_from(unsafe { *count }).unwrap_or(0),
        }
    }

    /// Sets the error field of every written status to success, because a call that returns success does
    /// not write these fields.
    ///
    /// # Safety
    /// As [`Statuses::completed`].
    unsafe fn clear_errors(self, all: usize) {
        if self.are_ignored() {
            return;
        }
        // SAFETY: this function and `Statuses::completed` have the same `# Safety`.
        for at in 0..unsafe { self.completed(all) } {
            // SAFETY: MPI 3.7.5: the array has `completed` statuses.
            unsafe { set_error(self.first().add(at), SUCCESS) };
        }
    }
}

/// # Safety
/// `status` is valid for writing.
unsafe fn set_error(status: *mut MPI_Status, code: c_int) {
    // SAFETY: `# Safety` of this function: `status` is valid. MPI 3.2.5 defines the field `MPI_ERROR`.
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

    /// The MPI library refuses a negative count, so this function may treat it as 0.
    fn array(count: c_int, first: *const MPI_Request) -> Self {
        Requests { first, count: usize::try_from(count).unwrap_or(0) }
    }
}

/// A request that is complete and has failed: its verdict and its status.
struct Failed {
    verdict: Verdict,
    status: Option<*mut MPI_Status>,
}

/// Runs the function of the MPI library, and reports the errors of those Capulet requests that it
/// completes.
///
/// # Safety
/// The caller of the MPI function passed the pointers. They are valid as the MPI standard requires for this
/// function.
#[inline(never)]
unsafe fn complete(requests: Requests, statuses: Statuses, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: `# Safety` of this function: the array is null or has `count` requests.
    let Some(claimed) = (unsafe { Claimed::find(requests.first, requests.count) }) else { return call() };
    let code = call();
    // SAFETY: `# Safety` of this function implies `# Safety` of `decide`, because `call` has returned.
    let decided = catch_unwind(AssertUnwindSafe(|| unsafe { decide(claimed, requests, statuses, code) }));
    match decided {
        // SAFETY: `# Safety` of this function implies `# Safety` of `deliver`, because `call` has returned.
        Ok(failed) => unsafe { deliver(failed, statuses, code) },
        Err(_) => ErrorClass::Intern.code(),
    }
}

/// Finds the failed requests, the last request first, and writes their error classes to their statuses.
///
/// # Safety
/// As [`complete`]. The function of the MPI library has returned.
unsafe fn decide(
    claimed: Claimed,
    requests: Requests,
    statuses: Statuses,
    code: c_int,
) -> ManuallyDrop<Vec<Failed>> {
    let mut failed = Vec::new();
    for (index, pending) in claimed.release().into_iter().rev() {
        // MPI 3.7.3: a completed request becomes `MPI_REQUEST_NULL`.
        // SAFETY: `# Safety` of `complete`: the array has `count` requests, and `index` is less than that.
        let is_complete = unsafe { *requests.first.add(index) } == request_null();
        if let Some(verdict) = is_complete.then(|| pending.verdict()).flatten() {
            // SAFETY: `# Safety` of `complete`: the pointers are valid, and the request at `index` is
            // complete.
            failed.push(Failed { verdict, status: unsafe { statuses.of(index) } });
        }
    }
    if code == SUCCESS && !failed.is_empty() {
        // SAFETY: `# Safety` of `complete`: the pointers are valid. The call returned success and
        // completed requests.
        unsafe { statuses.clear_errors(requests.count) };
    }
    for Failed { verdict, status } in &failed {
        if let Some(status) = *status {
            // SAFETY: `Statuses::of` returned this status of the caller.
            unsafe { set_error(status, verdict.code()) };
        }
    }
    ManuallyDrop::new(failed)
}

/// Calls the error handlers, and returns the return code of the function. A handler may leave by
/// `longjmp`, so no value here has a destructor.
///
/// # Safety
/// As [`complete`]. The function of the MPI library has returned.
unsafe fn deliver(mut failed: ManuallyDrop<Vec<Failed>>, statuses: Statuses, code: c_int) -> c_int {
    let mut returned = code;
    while let Some(Failed { verdict, status }) = failed.pop() {
        let left = verdict.deliver();
        if let Some(status) = status {
            // SAFETY: `Statuses::of` returned this status of the caller.
            unsafe { set_error(status, left) };
        }
        if code == SUCCESS && left != SUCCESS {
            returned = if matches!(statuses, Statuses::One(_)) { left } else { IN_STATUS };
        }
    }
    drop(ManuallyDrop::into_inner(failed));
    returned
}

/// Which requests a query function reports as complete, after it has returned success.
#[derive(Clone, Copy)]
enum CompleteWhen {
    /// All requests or none, by a flag.
    Flag(*const c_int),
    /// One request or none, by a flag and an index.
    #[cfg(has_mpi_4_1)]
    FlagAndIndex { flag: *const c_int, index: *const c_int },
    /// The requests that [`Statuses::Some`] lists.
    #[cfg(has_mpi_4_1)]
    Listed,
}

impl CompleteWhen {
    /// # Safety
    /// The caller of the MPI function passed the pointers, and the function of the MPI library has returned
    /// success.
    #[cfg_attr(not(has_mpi_4_1), expect(unused_variables, reason = "the flag is for all requests"))]
    unsafe fn includes(self, request: usize) -> bool {
        match self {
            // SAFETY: `# Safety` of this function: the MPI library has written the flag.
            CompleteWhen::Flag(flag) => unsafe { *flag != 0 },
            #[cfg(has_mpi_4_1)]
            // SAFETY: `# Safety` of this function: the MPI library has written the flag and the index.
            CompleteWhen::FlagAndIndex { flag, index } => unsafe {
                *flag != 0 && usize::try_from(*index) == Ok(request)
            },
            #[cfg(has_mpi_4_1)]
            CompleteWhen::Listed => true,
        }
    }
}

/// Runs a function of the MPI library that queries requests and completes none. Writes the error class of
/// a failed request to its status. Only the function that completes the request reports the error.
///
/// # Safety
/// As [`complete`].
#[inline(never)]
unsafe fn query(
    requests: Requests,
    statuses: Statuses,
    complete: CompleteWhen,
    call: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: `# Safety` of this function: the array is null or has `count` requests.
    let Some(claimed) = (unsafe { Claimed::find(requests.first, requests.count) }) else { return call() };
    // MPICH 4.0 does not advance generalized requests here. Without this call, a program that queries in
    // a loop would never end.
    advance();
    let code = call();
    for (index, pending) in claimed.release() {
        // SAFETY: `# Safety` of this function: the pointers are valid. The function has returned success.
        if code == SUCCESS && unsafe { complete.includes(index) } {
            // SAFETY: `# Safety` of this function: the pointers are valid. The function reported the
            // request as complete.
            let status = unsafe { statuses.of(index) };
            if let (Some(class), Some(status)) = (pending.class(), status) {
                // SAFETY: `Statuses::of` returned this status of the caller.
                unsafe { set_error(status, class) };
            }
        }
    }
    code
}

/// Defines a function that the MPI library has too, and exports it as `MPI_<name>` and as `PMPI_<name>`.
/// It calls the function of the MPI library with the same name. While Capulet has requests in progress,
/// `$watched` makes this call, which it gets as a closure.
macro_rules! wraps {
    (fn $name:ident($($argument:ident: $kind:ty),* $(,)?), $watched:expr) => {
        wraps! { @one concat!("MPI_", stringify!($name)), ($($argument: $kind),*), $watched }
        wraps! { @one concat!("PMPI_", stringify!($name)), ($($argument: $kind),*), $watched }
    };
    (@one $exported:expr, ($($argument:ident: $kind:ty),*), $watched:expr) => {
        const _: () = {
            static NEXT: NextFunction = NextFunction::new(concat!($exported, "\0"));
            type Function = unsafe extern "C" fn($($kind),*) -> c_int;

            #[unsafe(export_name = $exported)]
            unsafe extern "C" fn exported($($argument: $kind),*) -> c_int {
                // SAFETY: `mpi.h` declares the function of this name with this type.
                match unsafe { NEXT.known::<Function>() } {
                    // SAFETY: the caller's arguments are passed on unchanged.
                    Some(function) if pending::is_none_live() => unsafe { function($($argument),*) },
                    // SAFETY: `watched` requires of its caller the same as this function.
                    _ => unsafe { watched($($argument),*) },
                }
            }

            /// A separate function, so that `exported` needs no stack frame.
            #[cold]
            #[inline(never)]
            unsafe extern "C" fn watched($($argument: $kind),*) -> c_int {
                // SAFETY: `mpi.h` declares the function of this name with this type.
                let found = unsafe { NEXT.get::<Function>() };
                let Some(function) = found else { return ErrorClass::UnsupportedOperation.code() };
                // SAFETY: the caller's arguments are passed on unchanged.
                let call = || unsafe { function($($argument),*) };
                // SAFETY: the MPI standard requires of the caller that these pointers are valid.
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
    fn Waitany(count: c_int, requests: *mut MPI_Request, index: *mut c_int, status: *mut MPI_Status),
    |call| complete(Requests::array(count, requests), Statuses::One(status), call)
}

wraps! {
    fn Testany(
        count: c_int, requests: *mut MPI_Request, index: *mut c_int, flag: *mut c_int, status: *mut MPI_Status
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
        count: c_int, requests: *mut MPI_Request, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status
    ),
    |call| complete(
        Requests::array(count, requests), Statuses::Some { statuses, count: completed, indices }, call
    )
}

wraps! {
    fn Testsome(
        count: c_int, requests: *mut MPI_Request, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status
    ),
    |call| complete(
        Requests::array(count, requests), Statuses::Some { statuses, count: completed, indices }, call
    )
}

wraps! {
    fn Request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status),
    |call| query(Requests::one(&raw const request), Statuses::One(status), CompleteWhen::Flag(flag), call)
}

// Exported only if the MPI library has these functions: programs detect MPI 4.1 by their presence.
#[cfg(has_mpi_4_1)]
wraps! {
    fn Request_get_status_any(
        count: c_int, requests: *const MPI_Request, index: *mut c_int, flag: *mut c_int,
        status: *mut MPI_Status
    ),
    |call| query(
        Requests::array(count, requests), Statuses::One(status), CompleteWhen::FlagAndIndex { flag, index },
        call
    )
}

#[cfg(has_mpi_4_1)]
wraps! {
    fn Request_get_status_all(
        count: c_int, requests: *const MPI_Request, flag: *mut c_int, statuses: *mut MPI_Status
    ),
    |call| query(Requests::array(count, requests), Statuses::Each(statuses), CompleteWhen::Flag(flag), call)
}

#[cfg(has_mpi_4_1)]
wraps! {
    fn Request_get_status_some(
        count: c_int, requests: *const MPI_Request, completed: *mut c_int, indices: *mut c_int,
        statuses: *mut MPI_Status
    ),
    |call| query(
        Requests::array(count, requests), Statuses::Some { statuses, count: completed, indices },
        CompleteWhen::Listed, call
    )
}
