//! The verdict on a failure: what the error handler of the file requires.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::SUCCESS;
use crate::failure::Failure;
use crate::handler::{self, Call, Handler, Kind};
use crate::report::{self, Subject};

/// The last action of a function, and its return code. It has no destructor: see [`Call`].
pub(crate) enum Verdict {
    /// Return this code.
    Return(c_int),
    /// Call an error handler of the program, then return the code as the handler leaves it.
    Call(Call),
    /// Call an error handler because the program called `MPI_File_call_errhandler`, then return success.
    CallByHand(Call),
}

impl Verdict {
    /// The code that the function returns or passes to the error handler.
    pub(crate) fn code(&self) -> c_int {
        match self {
            Verdict::Return(code) => *code,
            Verdict::Call(call) | Verdict::CallByHand(call) => call.code(),
        }
    }

    /// Performs the action and returns the return code of the function.
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

/// The verdict of the error handler of `MPI_FILE_NULL`.
pub(crate) fn judge_null(call: &'static str, failure: &Failure) -> Verdict {
    judge(call, handler::of_null(), &Subject::null(), failure)
}

/// The verdict of `handler` on a failure. Aborts the job if the handler is fatal.
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
