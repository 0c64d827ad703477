//! The last words before an abort.

use std::ffi::{c_char, c_int};
use std::io::Write as _;
use std::time::Duration;

use capulet_comm::ErrorClass;
use mpi::ffi;

use crate::abi::comm_world;
use crate::errhandler::Kind;

/// Says on standard error why, and aborts the job, as both `MPI_ERRORS_ARE_FATAL` and `MPI_ERRORS_ABORT` want
/// where all processes were started together (MPI 9.3). Returns only if `MPI_Abort` does.
pub(crate) fn abort(call: &str, kind: Kind, name: &str, code: c_int, detail: &str) {
    let handler = if matches!(kind, Kind::Abort) { "MPI_ERRORS_ABORT" } else { "MPI_ERRORS_ARE_FATAL" };
    say(format_args!(
        "rank {}: {call} failed on {name}: {}: {detail}\n\
         capulet: the error handler is {handler}, so the program is aborted",
        rank(),
        text(code)
    ));
    end_all(code);
}

/// Says on standard error that a collective call panicked here, and aborts the job: the other ranks may wait for
/// this one, and would for ever. Returns only if `MPI_Abort` does.
pub(crate) fn abort_after_panic(call: &str) {
    say(format_args!(
        "rank {}: a bug in Capulet: {call} panicked\n\
         capulet: the other ranks may wait for this one, so the program is aborted",
        rank()
    ));
    end_all(ErrorClass::Intern.code());
}

/// Aborts the job, a moment later: launchers, MPICH's above all, drop what they have not passed on when they end it.
fn end_all(code: c_int) {
    const MOMENT: Duration = Duration::from_millis(200);
    std::thread::sleep(MOMENT);
    // SAFETY: MPI is up, as all callers in `guard` made sure, and the communicator is predefined.
    unsafe { ffi::MPI_Abort(comm_world(), code) };
}

/// A line on standard error. One that cannot be written is lost: a broken pipe must not end the program.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "capulet: {text}");
}

/// The rank in `MPI_COMM_WORLD`, or -1.
pub(crate) fn rank() -> c_int {
    let mut rank: c_int = -1;
    // SAFETY: MPI is up and the argument is one int.
    unsafe { ffi::MPI_Comm_rank(comm_world(), &raw mut rank) };
    rank
}

/// The MPI library's text for an error code.
fn text(code: c_int) -> String {
    let mut bytes = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: the buffer has the room that the standard asks for (MPI 9.3).
    let outcome =
        unsafe { ffi::MPI_Error_string(code, bytes.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    match usize::try_from(length) {
        Ok(length) if outcome == 0 && length <= bytes.len() => {
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        }
        _ => format!("error {code}"),
    }
}
