//! Messages on standard error, and aborts with a message.

use std::ffi::{c_char, c_int};
use std::io::Write as _;
use std::time::Duration;

use capulet_comm::{ErrorClass, Group};
use mpi::ffi;

use crate::abi::comm_world;
use crate::errhandler::Kind;
use crate::guard::Subject;

/// Prints the reason on standard error, and aborts: all processes for `MPI_ERRORS_ARE_FATAL`, the
/// processes of the file for `MPI_ERRORS_ABORT` (MPI 9.3). The MPI libraries abort the whole job in both
/// cases.
pub(crate) fn abort(call: &str, kind: Kind, subject: &Subject<'_>, code: c_int, detail: &str) -> ! {
    let handler = if matches!(kind, Kind::Abort) { "MPI_ERRORS_ABORT" } else { "MPI_ERRORS_ARE_FATAL" };
    say(format_args!(
        "rank {}: {call} failed on {}: {}: {detail}\n\
         capulet: the error handler is {handler}, so the program is aborted",
        rank(),
        subject.name,
        text(code)
    ));
    end(subject.group.filter(|_| matches!(kind, Kind::Abort)), code)
}

/// Prints on standard error that a collective call panicked, and aborts the job, because the other ranks
/// may wait for this rank forever.
pub(crate) fn abort_after_panic(call: &str) -> ! {
    say(format_args!(
        "rank {}: a bug in Capulet: {call} panicked\n\
         capulet: other ranks may wait for this rank, so the program is aborted",
        rank()
    ));
    end(None, ErrorClass::Intern.code())
}

/// Aborts the processes of a group, or all processes.
fn end(group: Option<&Group>, code: c_int) -> ! {
    /// The time between a message and the abort. Launchers, in particular MPICH's, lose output that they
    /// have not yet forwarded when they end a job.
    const MOMENT: Duration = Duration::from_millis(200);
    /// `MPI_Abort` of MPICH 4.0 returns after it has asked the launcher to end the job.
    const UNTIL_THE_LAUNCHER_ACTS: Duration = Duration::from_secs(10);
    std::thread::sleep(MOMENT);
    match group {
        Some(group) => group.abort(code),
        None => {
            // SAFETY: MPI 9.7: MPI is initialized, because `contained` and `go_on` of `guard` run only
            // then, and `MPI_COMM_WORLD` is a valid communicator.
            unsafe { ffi::MPI_Abort(comm_world(), code) };
        }
    }
    std::thread::sleep(UNTIL_THE_LAUNCHER_ACTS);
    // SAFETY: `_exit` ends the process and has no requirements.
    unsafe { libc::_exit(1) }
}

/// Prints a line on standard error with one system call, because launchers mix the output of ranks. A
/// write error is ignored, because a broken pipe must not end the program.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("capulet: {text}\n").as_bytes());
}

/// The rank in `MPI_COMM_WORLD`. -1 if MPI does not give it.
pub(crate) fn rank() -> c_int {
    let mut rank: c_int = -1;
    // SAFETY: MPI 7.4.1: `MPI_COMM_WORLD` is a valid communicator, and `rank` is one int.
    unsafe { ffi::MPI_Comm_rank(comm_world(), &raw mut rank) };
    rank
}

/// The text of the MPI library for an error code.
fn text(code: c_int) -> String {
    let mut bytes = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: MPI 9.3.4: the buffer has at least `MPI_MAX_ERROR_STRING` characters.
    let outcome =
        unsafe { ffi::MPI_Error_string(code, bytes.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    match usize::try_from(length) {
        Ok(length) if outcome == 0 && length <= bytes.len() => {
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        }
        _ => format!("error {code}"),
    }
}
