//! The frame around every entry: nothing unwinds across the C ABI, and every failure reaches the right error
//! handler.
//!
//! An entry first decides its [`Verdict`] and drops every other value, and only then calls a user's error
//! handler: a handler that leaves by `longjmp` skips no destructor, and one that closes the file finds it
//! unused.
//!
//! A panic is a bug of ours. In a call of one rank it becomes `MPI_ERR_INTERN`. In a collective call the other
//! ranks may already wait for what the rank that panicked will never send, so the job is aborted there, with a
//! message that names the call. (Panics that the layers below turn into an outcome never come here.)

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use capulet_adio::Coordination;
use capulet_comm::{ErrorClass, Group};

use crate::abi::{MPI_Comm, MPI_File, SUCCESS, comm_null, comm_world, file_null};
use crate::errhandler::{self, Call, Handler, Kind};
use crate::handle::{self, Entry};
use crate::{environment, report};

/// Why an entry failed: an error of the file layer, so that a collective call can pass it down to be agreed
/// on.
pub(crate) use capulet_adio::Error as Failure;

/// A failure that this crate finds itself.
pub(crate) fn failure(class: ErrorClass, what: impl Into<String>) -> Failure {
    Failure::argument(class, what)
}

/// What an entry returns, or does last. It has no destructor, see [`Call`].
pub(crate) enum Verdict {
    /// Return this code.
    Return(c_int),
    /// Call a user's handler, then return the code that it left.
    Call(Call),
    /// Call a user's handler because the program asked for that, then return success.
    CallByHand(Call),
}

impl Verdict {
    /// The code that the entry is about to return or to give to the handler.
    pub(crate) fn code(&self) -> c_int {
        match self {
            Verdict::Return(code) => *code,
            Verdict::Call(call) | Verdict::CallByHand(call) => call.code(),
        }
    }

    /// Ends the entry.
    pub(crate) fn deliver(self) -> c_int {
        match self {
            Verdict::Return(code) => code,
            Verdict::Call(call) => call.make(),
            Verdict::CallByHand(call) => {
                call.make();
                SUCCESS
            }
        }
    }
}

/// The file that a failure belongs to: for the handler, for messages, and for an abort.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Its handle.
    pub(crate) file: MPI_File,
    /// The name it was opened by.
    pub(crate) name: &'a str,
    /// Its processes; `None` if there are none, or if they are not known any more.
    pub(crate) group: Option<&'a Group>,
}

impl Subject<'_> {
    /// `MPI_FILE_NULL`.
    pub(crate) fn null() -> Self {
        Subject { file: file_null(), name: "MPI_FILE_NULL", group: None }
    }
}

/// Runs `body` on the file of a handle, in a call of this rank alone. Failures, among them a panic, go to the
/// file's error handler; a handle that names no file is `MPI_ERR_FILE` and goes to the handler of
/// `MPI_FILE_NULL`.
pub(crate) fn on_file(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(&Entry) -> Result<(), Failure>,
) -> c_int {
    on_file_as(Coordination::Independent, call, file, body)
}

/// As [`on_file`], in a call that all ranks of the file make: a panic aborts if there are others.
pub(crate) fn on_file_together(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(&Entry) -> Result<(), Failure>,
) -> c_int {
    on_file_as(Coordination::Collective, call, file, body)
}

/// [`on_file`] or [`on_file_together`].
pub(crate) fn on_file_as(
    coordination: Coordination,
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(&Entry) -> Result<(), Failure>,
) -> c_int {
    contained(call, coordination, || match handle::find(file) {
        Some(entry) => match attempt(call, ranks_of(coordination, &entry), || body(&entry)) {
            Ok(()) => Verdict::Return(SUCCESS),
            Err(failure) => judge(call, entry.handler.current(), &entry.subject(file), &failure),
        },
        None => judge_null(call, &no_such_handle(file)),
    })
}

/// Takes the file of a handle out of the table and runs `body` on it, in a call that all its ranks make.
/// Failures go to the handler that the file had. A reference to it is held until it has returned.
pub(crate) fn on_closing(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(Arc<Entry>) -> Result<(), Failure>,
) -> c_int {
    contained(call, Coordination::Collective, || match handle::remove(file) {
        Some(entry) => {
            let (handler, name) = (entry.handler.clone(), entry.name.clone());
            let group = Arc::clone(entry.file.group());
            match attempt(call, ranks_of(Coordination::Collective, &entry), || body(entry)) {
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

/// Runs `body` where there is no file yet, or none any more, in a call of this rank alone. Failures go to the
/// handler of `MPI_FILE_NULL`.
pub(crate) fn on_no_file(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    contained(call, Coordination::Independent, || match attempt(call, 1, body) {
        Ok(()) => Verdict::Return(SUCCESS),
        Err(failure) => judge_null(call, &failure),
    })
}

/// As [`on_no_file`], in a call that all ranks of `comm` make.
///
/// # Safety
/// `comm` is a communicator, or null.
pub(crate) unsafe fn on_opening(
    call: &'static str,
    comm: MPI_Comm,
    body: impl FnOnce() -> Result<(), Failure>,
) -> c_int {
    contained(call, Coordination::Collective, || {
        // SAFETY: by the caller's promise; MPI is up in here.
        let ranks = unsafe { size_of(comm) };
        match attempt(call, ranks, body) {
            Ok(()) => Verdict::Return(SUCCESS),
            Err(failure) => judge_null(call, &failure),
        }
    })
}

/// How many ranks make a call on this file together.
fn ranks_of(coordination: Coordination, entry: &Entry) -> u32 {
    match coordination {
        Coordination::Independent => 1,
        Coordination::Collective => entry.file.group().size(),
    }
}

/// The ranks of a communicator; 1 if it is null: then nobody takes part.
///
/// # Safety
/// `comm` is a communicator, or null, and MPI is up.
unsafe fn size_of(comm: MPI_Comm) -> u32 {
    let mut size: c_int = 1;
    if comm != comm_null() {
        // SAFETY: by the caller's promise; the result is one int.
        unsafe { mpi::ffi::MPI_Comm_size(comm, &raw mut size) };
    }
    u32::try_from(size).unwrap_or(1)
}

/// Runs `body` where failures are returned and reach no error handler: there is no MPI object to which one could
/// be attached.
pub(crate) fn returning(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    contained(call, Coordination::Independent, || Verdict::Return(returned(call, body)))
}

/// As [`returning`], for what needs no MPI: it works before initialization and after finalization, too.
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

/// The failure of a handle that names no file.
pub(crate) fn no_such_handle(file: MPI_File) -> Failure {
    let what = if file == file_null() { "MPI_FILE_NULL" } else { "a closed or foreign handle" };
    failure(ErrorClass::File, format!("the file handle is {what}"))
}

/// Decides by the handler of `MPI_FILE_NULL`.
pub(crate) fn judge_null(call: &'static str, failure: &Failure) -> Verdict {
    judge(call, errhandler::of_null(), &Subject::null(), failure)
}

/// Decides by `handler`.
pub(crate) fn judge(
    call: &'static str,
    handler: Arc<Handler>,
    subject: &Subject<'_>,
    failure: &Failure,
) -> Verdict {
    let code = failure.class().code();
    tracing::info!(call, file = subject.name, code, %failure, "call failed");
    let kind = handler.kind();
    match kind {
        Kind::Return => Verdict::Return(code),
        Kind::Fatal | Kind::Abort => report::abort(call, kind, subject, code, &failure.to_string()),
        Kind::C(_) | Kind::Fortran(_) | Kind::Extended(..) => {
            Verdict::Call(Call::new(handler, subject.file, code))
        }
    }
}

/// Runs `body`. A panic becomes `MPI_ERR_INTERN`, or ends the job if other ranks may wait for this one: `ranks`
/// make the call together.
fn attempt(
    call: &'static str,
    ranks: u32,
    body: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    // A panic may leave the file's own state half changed; its locks are poisoned then, or its later calls
    // fail. Memory safety does not depend on it, so the assertion holds.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        if ranks > 1 {
            report::abort_after_panic(call);
        }
        Err(failure(ErrorClass::Intern, format!("a bug in Capulet: {call} panicked")))
    })
}

/// The outermost frame: checks that MPI is up, and contains a panic of the machinery in this file itself.
pub(crate) fn contained(
    call: &'static str,
    coordination: Coordination,
    decide: impl FnOnce() -> Verdict,
) -> c_int {
    let verdict = catch_unwind(AssertUnwindSafe(|| {
        environment::start();
        if let Err(state) = mpi_is_up() {
            tracing::info!(call, state, "call refused");
            return Verdict::Return(ErrorClass::Other.code());
        }
        go_on();
        decide()
    }));
    let verdict = verdict.unwrap_or_else(|_| {
        // Of which file is not known any more; somebody may wait if there is anybody else at all.
        // SAFETY: asked only if MPI is up; `MPI_COMM_WORLD` is a communicator.
        let others = mpi_is_up().is_ok() && unsafe { size_of(comm_world()) } > 1;
        if others && coordination == Coordination::Collective {
            report::abort_after_panic(call);
        }
        Verdict::Return(ErrorClass::Intern.code())
    });
    verdict.deliver()
}

/// Lets operations under way go on: others may wait for them, and some MPIs let them go on in no calls of theirs. Those are not the
/// operation of this call, so their panic ends the job whatever the call is.
pub(crate) fn go_on() {
    if catch_unwind(capulet_comm::work::advance).is_err() {
        report::abort_after_panic("an operation under way");
    }
}

/// Whether MPI is between initialization and finalization; the reason if not. No error handler may be called
/// then.
fn mpi_is_up() -> Result<(), &'static str> {
    let mut flag: c_int = 0;
    // SAFETY: both functions may be called at any time (MPI 11.4.1) and write one int.
    unsafe { mpi::ffi::MPI_Initialized(&raw mut flag) };
    if flag == 0 {
        return Err("MPI is not initialized");
    }
    // SAFETY: as above.
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
    fn a_panic_becomes_an_internal_error() {
        let refused = attempt("test", 1, || panic!("on purpose")).expect_err("a panic is a failure");
        assert_eq!(refused.class().code(), ErrorClass::Intern.code());
    }

    #[test]
    fn before_initialization_a_call_is_refused_and_not_run() {
        let mut ran = false;
        let code = on_no_file("test", || {
            ran = true;
            Ok(())
        });
        assert_eq!(code, ErrorClass::Other.code());
        assert!(!ran);
    }
}
