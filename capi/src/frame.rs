//! The frame around every function of the C ABI. No panic unwinds across the C ABI, and every failure
//! goes to the right error handler.
//!
//! A function first determines its [`Verdict`] and drops every other value. Then it calls the error
//! handler of the program. So an error handler that leaves by `longjmp` skips no destructor, and an error
//! handler that closes the file finds it unused.
//!
//! A panic is a bug in Capulet. In an independent call it becomes `MPI_ERR_INTERN`. In a collective call
//! the other ranks may already wait for a message that this rank will never send. So the job is aborted,
//! and a message names the call. (The layers below turn some panics into an outcome. Those panics do not
//! come here.)

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use capulet_adio::Coordination;
use capulet_comm::ErrorClass;

use crate::abi::{MPI_Comm, MPI_File, SUCCESS, comm_null, comm_world, file_null};
use crate::environment;
use crate::failure::{Failure, failure};
use crate::open_files::{self, OpenFile};
use crate::report::{self, Subject};
use crate::verdict::{Verdict, judge, judge_null};

/// Runs `body` on the file of a handle, in an independent call. Failures, including a panic, go to the
/// error handler of the file. A handle that names no file is `MPI_ERR_FILE`, which goes to the error
/// handler of `MPI_FILE_NULL`.
pub(crate) fn on_file(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(&OpenFile) -> Result<(), Failure>,
) -> c_int {
    on_file_as(Coordination::Independent, call, file, body)
}

/// As [`on_file`], in a collective call: a panic aborts the job if the file has other ranks.
pub(crate) fn on_file_collective(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(&OpenFile) -> Result<(), Failure>,
) -> c_int {
    on_file_as(Coordination::Collective, call, file, body)
}

/// As [`on_file`] or [`on_file_collective`].
pub(crate) fn on_file_as(
    coordination: Coordination,
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(&OpenFile) -> Result<(), Failure>,
) -> c_int {
    contain(call, coordination, || match open_files::find(file) {
        Some(open) => match attempt(call, ranks_of(coordination, &open), || body(&open)) {
            Ok(()) => Verdict::Return(SUCCESS),
            Err(failure) => judge(call, open.handler.current(), &open.subject(file), &failure),
        },
        None => judge_null(call, &no_such_handle(file)),
    })
}

/// Removes the file of a handle from the table and runs `body` on it, in a collective call. Failures go
/// to the error handler of the file. `handler` holds a reference to it until the error handler has
/// returned.
pub(crate) fn on_closing(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(Arc<OpenFile>) -> Result<(), Failure>,
) -> c_int {
    contain(call, Coordination::Collective, || match open_files::remove(file) {
        Some(open) => {
            let (handler, name) = (open.handler.clone(), open.name.clone());
            let group = Arc::clone(open.file.group());
            match attempt(call, ranks_of(Coordination::Collective, &open), || body(open)) {
                Ok(()) => Verdict::Return(SUCCESS),
                Err(failure) => {
                    let subject = Subject { file, name: &name, group: Some(&group) };
                    judge(call, handler.current(), &subject, &failure)
                }
            }
        }
        None => judge_null(call, &no_such_handle(file)),
    })
}

/// Runs `body` without a file, in an independent call. Failures go to the error handler of
/// `MPI_FILE_NULL`.
pub(crate) fn on_no_file(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    contain(call, Coordination::Independent, || match attempt(call, 1, body) {
        Ok(()) => Verdict::Return(SUCCESS),
        Err(failure) => judge_null(call, &failure),
    })
}

/// As [`on_no_file`], in a collective call of the ranks of `comm`.
///
/// # Safety
/// `comm` is a valid communicator or `MPI_COMM_NULL`.
pub(crate) unsafe fn on_opening(
    call: &'static str,
    comm: MPI_Comm,
    body: impl FnOnce() -> Result<(), Failure>,
) -> c_int {
    contain(call, Coordination::Collective, || {
        // SAFETY: `# Safety` of this function, and `contain` runs this closure only while MPI is
        // initialized.
        let ranks = unsafe { size_of(comm) };
        match attempt(call, ranks, body) {
            Ok(()) => Verdict::Return(SUCCESS),
            Err(failure) => judge_null(call, &failure),
        }
    })
}

/// The number of ranks that make this call on the file.
fn ranks_of(coordination: Coordination, open: &OpenFile) -> u32 {
    match coordination {
        Coordination::Independent => 1,
        Coordination::Collective => open.file.group().size(),
    }
}

/// The number of ranks of a communicator. 1 for `MPI_COMM_NULL`, because no other rank takes part then.
///
/// # Safety
/// `comm` is a valid communicator or `MPI_COMM_NULL`, and MPI is initialized.
unsafe fn size_of(comm: MPI_Comm) -> u32 {
    let mut size: c_int = 1;
    if comm != comm_null() {
        // SAFETY: `# Safety` of this function: `comm` is valid, because it is not null. `size` is one
        // int.
        unsafe { mpi::ffi::MPI_Comm_size(comm, &raw mut size) };
    }
    u32::try_from(size).unwrap_or(1)
}

/// Runs `body` and returns the error class of a failure. No error handler is called, because these
/// functions have no MPI object that could have one.
pub(crate) fn returning(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    contain(call, Coordination::Independent, || Verdict::Return(returned(call, body)))
}

/// As [`returning`], for functions that need no MPI. They work before initialization and after
/// finalization too.
pub(crate) fn returning_at_any_time(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    catch_unwind(AssertUnwindSafe(|| returned(call, body))).unwrap_or(ErrorClass::Intern.code())
}

fn returned(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match attempt(call, 1, body) {
        Ok(()) => SUCCESS,
        Err(failure) => {
            let code = failure.class().code();
            tracing::debug!(call, code, %failure, "call failed");
            code
        }
    }
}

/// The failure for a handle that names no file.
pub(crate) fn no_such_handle(file: MPI_File) -> Failure {
    let what = if file == file_null() { "MPI_FILE_NULL" } else { "a closed or foreign handle" };
    failure(ErrorClass::File, format!("the file handle is {what}"))
}

/// Runs `body`. A panic becomes `MPI_ERR_INTERN` if `ranks`, the number of ranks that make the call, is
/// 1. Otherwise it aborts the job, because other ranks may wait for this rank.
fn attempt(
    call: &'static str,
    ranks: u32,
    body: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    // A panic may leave the state of the file half changed. Its locks are poisoned then, or later calls
    // on it fail. Memory safety does not depend on this state, so `AssertUnwindSafe` is correct.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        if ranks > 1 {
            report::abort_after_panic(call);
        }
        Err(failure(ErrorClass::Intern, format!("a bug in Capulet: {call} panicked")))
    })
}

/// The outermost frame. Checks that MPI is initialized, and catches panics of the frames in this module.
pub(crate) fn contain(
    call: &'static str,
    coordination: Coordination,
    decide: impl FnOnce() -> Verdict,
) -> c_int {
    let verdict = catch_unwind(AssertUnwindSafe(|| {
        environment::start();
        if let Err(state) = check_initialized() {
            tracing::info!(call, state, "call refused");
            return Verdict::Return(ErrorClass::Other.code());
        }
        advance();
        decide()
    }));
    let verdict = verdict.unwrap_or_else(|_| {
        // The file is not known here. Any other rank of `MPI_COMM_WORLD` may wait for this rank.
        // SAFETY: `# Safety` of `size_of`: MPI is initialized, and `MPI_COMM_WORLD` is a valid communicator.
        let others = check_initialized().is_ok() && unsafe { size_of(comm_world()) } > 1;
        if others && coordination == Coordination::Collective {
            report::abort_after_panic(call);
        }
        Verdict::Return(ErrorClass::Intern.code())
    });
    verdict.deliver()
}

/// Advances operations in progress: other ranks may wait for them, and some MPIs do not advance them in
/// their own calls. They are not the operation of this call, so their panic aborts the job in independent
/// calls too.
pub(crate) fn advance() {
    if catch_unwind(capulet_comm::work::advance).is_err() {
        report::abort_after_panic("an operation in progress");
    }
}

/// Fails if MPI is not initialized yet or is finalized, with the reason. No error handler may be called
/// then.
fn check_initialized() -> Result<(), &'static str> {
    let mut flag: c_int = 0;
    // SAFETY: MPI 11.4.1: `MPI_Initialized` may be called at any time. It writes one int.
    unsafe { mpi::ffi::MPI_Initialized(&raw mut flag) };
    if flag == 0 {
        return Err("MPI is not initialized");
    }
    // SAFETY: MPI 11.4.1: `MPI_Finalized` may be called at any time. It writes one int.
    unsafe { mpi::ffi::MPI_Finalized(&raw mut flag) };
    if flag != 0 {
        return Err("MPI is finalized");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_internal_error() {
        let refused = attempt("test", 1, || panic!("on purpose")).expect_err("a panic becomes a failure");
        assert_eq!(refused.class().code(), ErrorClass::Intern.code());
    }

    #[test]
    fn call_before_initialization_is_refused_and_not_run() {
        let mut ran = false;
        let code = on_no_file("test", || {
            ran = true;
            Ok(())
        });
        assert_eq!(code, ErrorClass::Other.code());
        assert!(!ran);
    }
}
