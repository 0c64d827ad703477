//! Messages on standard error, and aborts with a message.

use std::ffi::{c_char, c_int};
use std::io::Write as _;
use std::time::Duration;

use capulet_comm::{ErrorClass, Group};
use mpi::ffi;

use crate::abi::{MPI_File, comm_world, file_null};
use crate::handler::Kind;

/// The file of a failure, for the error handler, the messages and an abort.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The handle of the file.
    pub(crate) file: MPI_File,
    /// The name of the file at open.
    pub(crate) name: &'a str,
    /// The processes of the file. `None` if it has none, or if they are not known any more.
    pub(crate) group: Option<&'a Group>,
}

impl Subject<'_> {
    /// `MPI_FILE_NULL`.
    pub(crate) fn null() -> Self {
        Subject { file: file_null(), name: "MPI_FILE_NULL", group: None }
    }
}

/// Prints the reason on standard error, and aborts: all processes for `MPI_ERRORS_ARE_FATAL`, the
/// processes of the file for `MPI_ERRORS_ABORT` (MPI 9.3). The MPI libraries abort the whole job in both
/// cases.
pub(crate) fn abort(call: &str, kind: Kind, subject: &Subject<'_>, code: c_int, detail: &str) -> ! {
    let handler = if matches!(kind, Kind::Abort) { "MPI_ERRORS_ABORT" } else { "MPI_ERRORS_ARE_FATAL" };
    print(format_args!(
        "rank {}: {call} failed on {}: {}: {detail}\n\
         capulet: the error handler is {handler}, so the program is aborted",
        rank(),
        subject.name,
        error_text(code)
    ));
    abort_job(subject.group.filter(|_| matches!(kind, Kind::Abort)), code)
}

/// Prints on standard error that a collective call panicked, and aborts the job, because the other ranks
/// may wait for this rank forever.
pub(crate) fn abort_after_panic(call: &str) -> ! {
    print(format_args!(
        "rank {}: a bug in Capulet: {call} panicked\n\
         capulet: other ranks may wait for this rank, so the program is aborted",
        rank()
    ));
    abort_job(None, ErrorClass::Intern.code())
}

/// Aborts the processes of a group, or all processes.
fn abort_job(group: Option<&Group>, code: c_int) -> ! {
    /// The time between a message and the abort. Launchers, in particular MPICH's, lose output that they
    /// have not yet forwarded when they end a job.
    const FLUSH_DELAY: Duration = Duration::from_millis(200);
    /// `MPI_Abort` of MPICH 4.0 returns after it has asked the launcher to end the job.
    const LAUNCHER_DELAY: Duration = Duration::from_secs(10);
    std::thread::sleep(FLUSH_DELAY);
    match group {
        Some(group) => group.abort(code),
        None => {
            // SAFETY: C contract of `MPI_Abort`: `MPI_COMM_WORLD` is a valid communicator. MPI is
            // initialized, because `contain` and `advance` of `frame` run only then.
            unsafe { ffi::MPI_Abort(comm_world(), code) };
        }
    }
    std::thread::sleep(LAUNCHER_DELAY);
    // SAFETY: `_exit` ends the process and has no requirements.
    unsafe { libc::_exit(1) }
}

/// Prints a line on standard error with one system call, because launchers mix the output of ranks. A
/// write error is ignored, because a broken pipe must not end the program.
pub(crate) fn print(text: std::fmt::Arguments<'_>) {
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
fn error_text(code: c_int) -> String {
    let mut bytes = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: C contract of `MPI_Error_string`: the buffer has at least `MPI_MAX_ERROR_STRING` characters.
    let outcome =
        unsafe { ffi::MPI_Error_string(code, bytes.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    match usize::try_from(length) {
        Ok(length) if outcome == 0 && length <= bytes.len() => {
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        }
        _ => format!("error {code}"),
    }
}
