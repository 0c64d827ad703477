//! Requests of our own (MPI-4.0 section 13.2): MPI's own functions test them, wait for them and free them.
//!
//! Nobody but the caller's thread advances our work, so MPI must call us while it waits. MPICH has generalized requests with
//! functions for that; with them the work goes on while the program waits for one of our requests, and in our own calls. Open MPI
//! calls whoever registers with its progress engine, whatever it waits for; so does MPICH from 4.3 on (`MPIX_Async_start`). All are
//! found at run time; where there is none, the work goes on in our own calls only. MPICH 4.0 exports nothing that would do more.

use std::ffi::{CStr, c_char, c_double, c_int, c_void};
use std::fmt::Debug;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use crate::backoff::Backoff;
use crate::class::ErrorClass;
use crate::error::{Result, check};
use crate::process::{self, process};
use crate::{consts, ffi, status, work};

/// What a request is for.
pub trait Completion: Debug + Send + Sync {
    /// The bytes moved and the error, if there was one; `None` while the operation is under way. Local, does not wait.
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)>;

    /// The error that MPI is told when it completes the request: MPI gives it to an error handler of a
    /// communicator, never to that of a file. Nothing where somebody else reports it. Called once, by the function
    /// of MPI that completes the request.
    fn error_for_mpi(&self) -> Option<ErrorClass> {
        self.completion()?.1
    }

    /// What went wrong, in words. `None` if nothing did, or if there are no words but those of the class.
    fn description(&self) -> Option<String> {
        None
    }
}

/// A request that is under way. Whoever has it completes it.
#[derive(Debug)]
#[must_use = "a request that nobody completes hangs whoever waits for it"]
pub struct Request(ffi::MPI_Request);

// SAFETY: an MPI handle is a name that any thread may use which the thread level allows to call MPI at all (MPI-4.0
// section 11.6).
unsafe impl Send for Request {}

impl Request {
    /// A request that is complete when it is told so; by then `completion` must have something to say. Local.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn start(completion: Arc<dyn Completion>) -> Result<Self> {
        let extra = Box::into_raw(Box::new(completion)).cast::<c_void>();
        let mut request = consts::request_null();
        let target = &raw mut request;
        // SAFETY: the functions have the forms that MPI wants; `extra` is theirs until `free` is called, which is once.
        let code = unsafe {
            match symbol::<ExtendedStart>(c"MPIX_Grequest_start") {
                Some(start) => start(query, free, cancel, poll, wait, extra, target),
                None => ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), extra, target),
            }
        };
        if let Err(error) = check("MPI_Grequest_start", code) {
            // SAFETY: MPI did not take it; it came from `Box::into_raw` above.
            drop(unsafe { Box::from_raw(extra.cast::<Arc<dyn Completion>>()) });
            return Err(error);
        }
        Ok(Self(request))
    }

    /// What the program knows it by.
    pub fn handle(&self) -> ffi::MPI_Request {
        self.0
    }

    /// Tells MPI that it is over. Local.
    pub fn complete(self) {
        // SAFETY: the request was started by us and is completed once, for `self` is used up. It lives until then, even if the
        // program has freed it (MPI-4.0 section 3.7.3).
        let code = unsafe { ffi::MPI_Grequest_complete(self.0) };
        if let Err(error) = check("MPI_Grequest_complete", code) {
            tracing::error!(%error, "a request cannot be completed");
        }
    }
}

/// `MPIX_Grequest_start` of MPICH and its relatives.
type ExtendedStart = unsafe extern "C" fn(
    unsafe extern "C" fn(*mut c_void, *mut ffi::MPI_Status) -> c_int,
    unsafe extern "C" fn(*mut c_void) -> c_int,
    unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    unsafe extern "C" fn(*mut c_void, *mut ffi::MPI_Status) -> c_int,
    unsafe extern "C" fn(c_int, *mut *mut c_void, c_double, *mut ffi::MPI_Status) -> c_int,
    *mut c_void,
    *mut ffi::MPI_Request,
) -> c_int;

/// `opal_progress_register` of Open MPI.
type Register = unsafe extern "C" fn(unsafe extern "C" fn() -> c_int) -> c_int;

/// A function of the MPI that is loaded.
///
/// # Safety
/// `F` must be the type of a function pointer, and the type of the function of this name.
unsafe fn symbol<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let name: *const c_char = name.as_ptr();
    // SAFETY: a look-up by a string that ends; finds what this library and its dependencies see.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) };
    // SAFETY: not null, and by the caller's promise a function of type `F`.
    (!address.is_null()).then(|| unsafe { mem::transmute_copy::<*mut c_void, F>(&address) })
}

fn hook_progress() {
    // SAFETY: if there is a function of this name it is Open MPI's, of this type.
    if let Some(register) = unsafe { symbol::<Register>(c"opal_progress_register") } {
        // SAFETY: `on_progress` lives as long as the program.
        let code = unsafe { register(on_progress) };
        tracing::debug!(code, "hooked into the progress engine");
    }
}

/// `MPIX_Async_start` of MPICH from 4.3 on, where handles are numbers.
type AsyncStart =
    unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void, c_int) -> c_int;

/// `MPIX_STREAM_NULL`.
const NO_STREAM: c_int = 0x3c00_0000;
/// What MPICH is told: to call again, or not.
const ASYNC_NO_PROGRESS: c_int = 0;
const ASYNC_DONE: c_int = 1;

/// Whether MPICH calls us while it makes progress.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// Has MPI call us in whatever it waits for, as far as it can: now that work is under way.
pub(crate) fn ask_to_be_called() {
    static HOOK: Once = Once::new();
    if process::is_usable() {
        HOOK.call_once(hook_progress);
        call_while_busy();
    }
}

/// Has MPICH call us in whatever it waits for, until nothing is under way. Not where several threads may be inside MPI: it holds a
/// lock over the call, and our work calls MPI.
fn call_while_busy() {
    let is_single = process().is_ok_and(|process| !process.multiple);
    let has_numbers = size_of::<ffi::MPI_Comm>() == size_of::<c_int>();
    if !is_single || !has_numbers || IS_CALLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: if there is a function of this name it is MPICH's, of this type where its handles are numbers.
    let Some(start) = (unsafe { symbol::<AsyncStart>(c"MPIX_Async_start") }) else { return };
    IS_CALLED.store(true, Ordering::Relaxed);
    // SAFETY: the function lives as long as the program; it is given no state.
    let code = unsafe { start(on_async, ptr::null_mut(), NO_STREAM) };
    if code != 0 {
        IS_CALLED.store(false, Ordering::Relaxed);
        tracing::debug!(code, "MPICH does not call us");
    }
}

/// MPICH makes progress, maybe because of a call that we made ourselves when it called us.
unsafe extern "C" fn on_async(_thing: *mut c_void) -> c_int {
    if work::is_advancing() {
        return ASYNC_NO_PROGRESS;
    }
    contained(work::advance);
    // At the end of MPI it waits until it need not call any more.
    if work::is_under_way() && !process::is_finalizing() {
        return ASYNC_NO_PROGRESS;
    }
    IS_CALLED.store(false, Ordering::Relaxed);
    ASYNC_DONE
}

/// Open MPI makes progress.
unsafe extern "C" fn on_progress() -> c_int {
    contained(work::advance);
    0
}

/// What the operation of a request has to say.
///
/// # Safety
/// `extra` came from [`Request::start`] and has not been freed.
unsafe fn completion_of(extra: *mut c_void) -> Option<(u64, Option<ErrorClass>)> {
    // SAFETY: by the caller's promise.
    unsafe { &*extra.cast::<Arc<dyn Completion>>() }.completion()
}

/// Nothing unwinds into MPI. What panics here is the work of an operation, whose other ranks may wait for this one.
fn contained(call: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err() {
        eprintln!("capulet: a bug in Capulet: a nonblocking operation panicked");
        // SAFETY: ends the job; MPI is up, for it has called us.
        unsafe { ffi::MPI_Abort(consts::comm_world(), 1) };
    }
}

/// Fills in the status of a complete request.
unsafe extern "C" fn query(extra: *mut c_void, out: *mut ffi::MPI_Status) -> c_int {
    // SAFETY: MPI passes what it was given: a box from `Request::start`, which has not been freed.
    let completion = unsafe { &*extra.cast::<Arc<dyn Completion>>() };
    let (bytes, _) = completion.completion().unwrap_or_default();
    // SAFETY: MPI passes a status to write to.
    match (unsafe { status::set(out, bytes) }, completion.error_for_mpi()) {
        (_, Some(class)) => class.code(),
        (Err(error), None) => error.class().code(),
        (Ok(()), None) => 0,
    }
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: MPI calls this once, after everything else, with what it was given: a box from `Request::start`.
    contained(|| drop(unsafe { Box::from_raw(extra.cast::<Arc<dyn Completion>>()) }));
    0
}

/// An operation on a file cannot be cancelled: nothing happens, as the standard allows.
unsafe extern "C" fn cancel(_extra: *mut c_void, _is_complete: c_int) -> c_int {
    0
}

/// A turn of MPICH's while it waits for requests of ours: it makes no progress of its own then, and others may wait for it.
fn turn() {
    work::advance();
    crate::progress();
}

/// MPICH tests a request.
unsafe extern "C" fn poll(_extra: *mut c_void, _status: *mut ffi::MPI_Status) -> c_int {
    contained(turn);
    0
}

/// MPICH waits for one of several requests, and comes back if none of them is complete.
unsafe extern "C" fn wait(
    count: c_int,
    extras: *mut *mut c_void,
    _timeout: c_double,
    _status: *mut ffi::MPI_Status,
) -> c_int {
    /// Longer than the first sleeps, so that a rank that waits gives its core away; short enough for whoever waits for other
    /// requests, too.
    const TURNS: u32 = 160;
    contained(|| {
        let mut backoff = Backoff::new();
        for _ in 0..TURNS {
            turn();
            // SAFETY: MPI passes an array of what it was given, of this length.
            let is_over = |at: usize| unsafe { completion_of(*extras.add(at)) }.is_some();
            if (0..usize::try_from(count).unwrap_or(0)).any(is_over) {
                return;
            }
            backoff.pause();
        }
    });
    0
}
