//! Generalized requests (MPI-4.0 section 13.2): MPI's own functions test them, wait for them and free them.
//!
//! Only the caller's thread advances operations, so MPI must call this crate while MPI waits. Three
//! interfaces make MPI do so. All of them are looked up at run time:
//!
//! * MPICH has generalized requests with `poll` and `wait` functions (`MPIX_Grequest_start`). MPICH calls
//!   them while the program waits for such a request.
//! * MPICH from 4.3 on has `MPIX_Async_start`. MPICH calls the function whatever it waits for.
//! * Open MPI has a progress engine (`opal_progress_register`). It calls the function whatever it waits for.
//!
//! If none is found, operations advance only in calls of Capulet. MPICH 4.0 exports no function that does
//! more than the first one.

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
use crate::still::is_still;
use crate::{consts, ffi, service, status, work};

/// The operation of a request.
pub trait Completion: Debug + Send + Sync {
    /// The number of bytes moved, and the error if the operation failed. `None` while the operation is in
    /// progress. Local, nonblocking.
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)>;

    /// The error that the request returns to MPI when MPI completes it. MPI passes this error to the error
    /// handler of a communicator, never to the error handler of the file. `None` if the error is reported in
    /// another way. Called once, by the MPI function that completes the request.
    fn error_for_mpi(&self) -> Option<ErrorClass> {
        self.completion()?.1
    }

    /// The text of the error. `None` if there is no error, or no text beyond the text of the error class.
    fn description(&self) -> Option<String> {
        None
    }
}

/// A request in progress. Its owner must complete it.
#[derive(Debug)]
#[must_use = "a request that is never completed makes its waiter hang"]
pub struct Request(ffi::MPI_Request);

// SAFETY: an MPI handle is a value that every thread may use that the thread level allows to call MPI
// (MPI-4.0 section 11.6).
unsafe impl Send for Request {}

impl Request {
    /// Starts a request, which is complete after [`Request::complete`]. Before that call,
    /// `completion.completion()` must have become `Some`. Local.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn start(completion: Arc<dyn Completion>) -> Result<Self> {
        let extra = Box::into_raw(Box::new(completion)).cast::<c_void>();
        let mut request = consts::request_null();
        let target = &raw mut request;
        // SAFETY: the functions have the types of MPI-4.0 section 13.2. `extra` belongs to the request until
        // MPI calls `free`, which it does once.
        let code = unsafe {
            match symbol::<ExtendedStart>(c"MPIX_Grequest_start") {
                Some(start) => start(query, free, cancel, poll, wait, extra, target),
                None => ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), extra, target),
            }
        };
        if let Err(error) = check("MPI_Grequest_start", code) {
            // SAFETY: contract of `Box::from_raw`: `extra` came from `Box::into_raw` above, and the failed
            // call has not kept it.
            drop(unsafe { Box::from_raw(extra.cast::<Arc<dyn Completion>>()) });
            return Err(error);
        }
        Ok(Self(request))
    }

    /// The MPI handle of the request.
    pub fn handle(&self) -> ffi::MPI_Request {
        self.0
    }

    /// Tells MPI that the operation is complete. Local.
    pub fn complete(self) {
        // SAFETY: `start` has started the request. It is completed once, because this call consumes `self`.
        // Until then it exists, even if the program has freed it (MPI-4.0 section 3.7.3).
        let code = unsafe { ffi::MPI_Grequest_complete(self.0) };
        if let Err(error) = check("MPI_Grequest_complete", code) {
            tracing::error!(%error, "a request cannot be completed");
        }
    }
}

/// `MPIX_Grequest_start` of MPICH and of the MPIs derived from it.
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

/// A function of the loaded MPI library. `None` if the library has no function of this name.
///
/// # Safety
/// `F` must be a function pointer, of the type that the function of this name has.
unsafe fn symbol<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let name: *const c_char = name.as_ptr();
    // SAFETY: contract of dlsym(3): `name` is a string with a zero byte at its end, because it is a `CStr`.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) };
    // SAFETY: the address is not null. By `# Safety` of this function, a function of type `F` is there.
    (!address.is_null()).then(|| unsafe { mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// Whether Open MPI calls [`on_progress`].
static IS_HOOKED: AtomicBool = AtomicBool::new(false);

fn hook_progress() {
    // SAFETY: `# Safety` of `symbol`: only Open MPI has a function of this name, and it has this type.
    if let Some(register) = unsafe { symbol::<Register>(c"opal_progress_register") } {
        // SAFETY: Open MPI calls `on_progress` until the process ends. Code of this library is never
        // unloaded.
        let code = unsafe { register(on_progress) };
        IS_HOOKED.store(code == 0, Ordering::Relaxed);
        tracing::debug!(code, "hooked into the progress engine");
    }
}

/// `MPIX_Async_start` of MPICH from 4.3 on, where handles are numbers.
type AsyncStart =
    unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void, c_int) -> c_int;

/// `MPIX_STREAM_NULL`.
const NO_STREAM: c_int = 0x3c00_0000;
/// Results of a function of `MPIX_Async_start`: call again, or do not call again.
const ASYNC_NO_PROGRESS: c_int = 0;
const ASYNC_DONE: c_int = 1;

/// Whether MPICH calls [`on_async`] while it makes progress.
static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// Makes MPI call this crate while MPI waits, as far as the MPI library can. Called when an operation starts.
pub(crate) fn ask_to_be_called() {
    ask_to_be_called_always();
    if process::is_usable() {
        call_while_busy();
    }
}

/// Makes MPI call this crate while MPI waits, from now on until `MPI_Finalize`. False if the MPI library
/// cannot. MPICH cannot: its `MPI_Finalize` waits until [`on_async`] wants no further call, before it runs
/// the hooks that end the use of MPI. So MPICH calls only while an operation is in progress.
pub(crate) fn ask_to_be_called_always() -> bool {
    static HOOK: Once = Once::new();
    if process::is_usable() {
        HOOK.call_once(hook_progress);
    }
    IS_HOOKED.load(Ordering::Relaxed)
}

/// Makes MPICH call [`on_async`] whatever MPICH waits for, until no operation is in progress. Does nothing if
/// several threads may be inside MPI: MPICH holds a lock during the call, and operations call MPI.
fn call_while_busy() {
    let is_single = process().is_ok_and(|process| !process.multiple);
    let has_numbers = size_of::<ffi::MPI_Comm>() == size_of::<c_int>();
    if !is_single || !has_numbers || IS_CALLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: `# Safety` of `symbol`: only MPICH has a function of this name. It has this type if handles are
    // numbers, which was checked above.
    let Some(start) = (unsafe { symbol::<AsyncStart>(c"MPIX_Async_start") }) else { return };
    IS_CALLED.store(true, Ordering::Relaxed);
    // SAFETY: MPICH calls `on_async` with the null pointer that it gets here, and `on_async` does not use it.
    let code = unsafe { start(on_async, ptr::null_mut(), NO_STREAM) };
    if code != 0 {
        IS_CALLED.store(false, Ordering::Relaxed);
        tracing::debug!(code, "MPICH does not call us");
    }
}

/// MPICH calls this function while it makes progress. If an operation that this function advances calls MPI,
/// MPICH may call this function again. The inner call returns at once.
unsafe extern "C" fn on_async(_thing: *mut c_void) -> c_int {
    contained(advance_in_mpi);
    if is_still() {
        return ASYNC_NO_PROGRESS;
    }
    // `MPI_Finalize` waits until this function returns ASYNC_DONE.
    if work::is_under_way() && !process::is_finalizing() {
        return ASYNC_NO_PROGRESS;
    }
    IS_CALLED.store(false, Ordering::Relaxed);
    ASYNC_DONE
}

/// Open MPI calls this function while it makes progress.
unsafe extern "C" fn on_progress() -> c_int {
    contained(advance_in_mpi);
    0
}

/// What this crate does in each turn of a wait of MPI.
fn advance_in_mpi() {
    service::answer_now_and_then();
    work::advance_operations();
}

/// The result of the operation of a request. `None` while the operation is in progress.
///
/// # Safety
/// [`Request::start`] created `extra`, and [`free`] has not been called.
unsafe fn completion_of(extra: *mut c_void) -> Option<(u64, Option<ErrorClass>)> {
    // SAFETY: `# Safety` of this function: `extra` is a valid box of this type.
    unsafe { &*extra.cast::<Arc<dyn Completion>>() }.completion()
}

/// Runs `call` so that no panic unwinds into MPI. A panic comes from an operation, for which other ranks may
/// wait, so it aborts the job.
fn contained(call: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err() {
        eprintln!("capulet: a bug in Capulet: a nonblocking operation panicked");
        // SAFETY: MPI is initialized and not finalized, because MPI has called this function.
        unsafe { ffi::MPI_Abort(consts::comm_world(), 1) };
    }
}

/// Fills in the status of a complete request.
unsafe extern "C" fn query(extra: *mut c_void, out: *mut ffi::MPI_Status) -> c_int {
    // SAFETY: MPI passes the `extra` of `Request::start`, and calls `free` later (MPI-4.0 section 13.2).
    let completion = unsafe { &*extra.cast::<Arc<dyn Completion>>() };
    let (bytes, _) = completion.completion().unwrap_or_default();
    // SAFETY: MPI passes a valid status (MPI-4.0 section 13.2).
    match (unsafe { status::set(out, bytes) }, completion.error_for_mpi()) {
        (_, Some(class)) => class.code(),
        (Err(error), None) => error.class().code(),
        (Ok(()), None) => 0,
    }
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: MPI calls this function once, as the last one of the request, and passes the `extra` of
    // `Request::start` (MPI-4.0 section 13.2).
    contained(|| drop(unsafe { Box::from_raw(extra.cast::<Arc<dyn Completion>>()) }));
    0
}

/// An operation on a file cannot be canceled. Does nothing, as MPI-4.0 section 13.2 allows.
unsafe extern "C" fn cancel(_extra: *mut c_void, _is_complete: c_int) -> c_int {
    0
}

/// Advances operations and MPI. MPICH makes no progress of its own while it waits for generalized requests,
/// and other ranks may need this progress.
fn advance_all() {
    work::advance();
    crate::progress();
}

/// MPICH calls this function to test a request.
unsafe extern "C" fn poll(_extra: *mut c_void, _status: *mut ffi::MPI_Status) -> c_int {
    contained(advance_all);
    0
}

/// MPICH calls this function to wait for one of several requests, and calls it again if none is complete.
unsafe extern "C" fn wait(
    count: c_int,
    extras: *mut *mut c_void,
    _timeout: c_double,
    _status: *mut ffi::MPI_Status,
) -> c_int {
    /// Enough pauses to reach the sleeping ones, so that a rank that waits releases its core. Few enough that
    /// the caller soon tests its other requests again.
    const PAUSES_MAX: u32 = 160;
    contained(|| {
        let mut backoff = Backoff::new();
        for _ in 0..PAUSES_MAX {
            advance_all();
            // SAFETY: MPICH passes an array of `count` pointers, each of them the `extra` of a request that
            // is not freed.
            let is_over = |at: usize| unsafe { completion_of(*extras.add(at)) }.is_some();
            if (0..usize::try_from(count).unwrap_or(0)).any(is_over) {
                return;
            }
            backoff.pause();
        }
    });
    0
}
