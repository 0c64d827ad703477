//! The MPI objects of this process: a private communicator, and the hook that runs at the start of
//! `MPI_Finalize`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::{consts, ffi, lifetime, progress};

pub(crate) use crate::lifetime::{is_finalizing, is_usable};

/// The MPI objects of this process. They are created once and never freed, because they must outlive
/// every hook that runs in `MPI_Finalize`.
#[derive(Debug)]
pub(crate) struct Process {
    /// A communicator that contains this process only. MPI returns its errors on this communicator
    /// instead of ending the program.
    pub(crate) own_comm: ffi::MPI_Comm,
    /// Whether several threads may be inside MPI at the same time.
    pub(crate) multiple: bool,
    /// The largest tag of a message.
    pub(crate) tag_max: c_int,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it. The other fields are numbers.
unsafe impl Send for Process {}
// SAFETY: as for `Send` above. No field changes after construction.
unsafe impl Sync for Process {}

static PROCESS: OnceLock<Process> = OnceLock::new();
static MAKING: Mutex<()> = Mutex::new(());
/// Frees the objects of this crate at the start of `MPI_Finalize`.
static CLOSE: OnceLock<fn()> = OnceLock::new();

/// Prepares this process. Local, idempotent, and cheap after the first call. Must be called after
/// `MPI_Init`, and as early as possible: hooks on `MPI_COMM_SELF` run in the reverse order of their
/// creation (MPI-4.0 section 11.2.4), and the hook of this crate must run after hooks that still close
/// files. Every collective function of this crate also prepares the process.
///
/// # Errors
/// If MPI is not initialized, is finalized, or fails.
pub fn prepare() -> Result<()> {
    process().map(|_| ())
}

pub(crate) fn process() -> Result<&'static Process> {
    match PROCESS.get() {
        Some(process) => Ok(process),
        None => make(),
    }
}

fn make() -> Result<&'static Process> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(process) = PROCESS.get() {
        return Ok(process);
    }
    if !lifetime::is_initialized() {
        return Err(Error::invalid(ErrorClass::Other, "MPI is not initialized"));
    }
    if lifetime::is_finalized() {
        return Err(Error::Finalized);
    }
    let own_comm = own_communicator()?;
    let process = Process {
        own_comm,
        multiple: thread_level()? >= consts::thread_multiple(),
        // Open MPI attaches predefined attributes to this communicator only.
        tag_max: tag_max(consts::comm_world())?,
    };
    progress::prepare()?;
    hook_finalize()?;
    let process = PROCESS.get_or_init(|| process);
    lifetime::note_prepared();
    Ok(process)
}

/// Lets `close` run at the start of `MPI_Finalize`. All calls pass the same function. Local.
pub(crate) fn close_at_finalize(close: fn()) {
    CLOSE.get_or_init(|| close);
}

fn thread_level() -> Result<c_int> {
    let mut level: c_int = 0;
    // SAFETY: MPI is initialized. MPI writes one int.
    check("MPI_Query_thread", unsafe { ffi::MPI_Query_thread(&raw mut level) })?;
    Ok(level)
}

pub(crate) fn rank_in(comm: ffi::MPI_Comm) -> Result<u32> {
    let mut rank: c_int = 0;
    // SAFETY: MPI is initialized, and the communicator is valid. MPI writes one int.
    check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) })?;
    u32::try_from(rank).map_err(|_| Error::invalid(ErrorClass::Comm, "negative rank"))
}

pub(crate) fn size_of_comm(comm: ffi::MPI_Comm) -> Result<u32> {
    let mut size: c_int = 0;
    // SAFETY: MPI is initialized, and the communicator is valid. MPI writes one int.
    check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(comm, &raw mut size) })?;
    u32::try_from(size).map_err(|_| Error::invalid(ErrorClass::Comm, "negative size"))
}

pub(crate) fn return_errors(comm: ffi::MPI_Comm) -> Result<()> {
    // SAFETY: the communicator is valid, and the error handler is predefined.
    let status = unsafe { ffi::MPI_Comm_set_errhandler(comm, consts::errors_return()) };
    check("MPI_Comm_set_errhandler", status)
}

/// Splits `MPI_COMM_SELF`. In contrast to a duplicate, a split copies no attributes, so it calls no copy
/// functions of other libraries.
fn own_communicator() -> Result<ffi::MPI_Comm> {
    let mut comm = consts::comm_null();
    // SAFETY: MPI is initialized. The call is collective over this process only. MPI writes one handle.
    let status = unsafe { ffi::MPI_Comm_split(consts::comm_self(), 0, 0, &raw mut comm) };
    check("MPI_Comm_split", status)?;
    return_errors(comm)?;
    Ok(comm)
}

fn tag_max(comm: ffi::MPI_Comm) -> Result<c_int> {
    /// The largest tag that every MPI library supports (MPI-4.0 section 9.1.2).
    const GRANTED: c_int = 32767;
    let mut value: *mut c_int = ptr::null_mut();
    let mut found: c_int = 0;
    let target = (&raw mut value).cast::<c_void>();
    // SAFETY: the key is predefined. MPI writes the address of an int that it owns to `value`, and a flag
    // to `found`.
    let status = unsafe { ffi::MPI_Comm_get_attr(comm, consts::tag_bound_key(), target, &raw mut found) };
    check("MPI_Comm_get_attr", status)?;
    if found == 0 || value.is_null() {
        return Ok(GRANTED);
    }
    // SAFETY: MPI-4.0 section 9.1.2: the attribute is set and its value is not null, so the value is the
    // address of an int that MPI owns.
    Ok(unsafe { *value })
}

/// Sets an attribute on `MPI_COMM_SELF`. `MPI_Finalize` deletes this attribute before all else.
fn hook_finalize() -> Result<()> {
    let mut key: c_int = 0;
    // SAFETY: both functions have the prototypes of MPI-4.0 section 7.7.2 and exist as long as the
    // program. MPI writes one int.
    let status = unsafe {
        ffi::MPI_Comm_create_keyval(Some(copy_nothing), Some(on_finalize), &raw mut key, ptr::null_mut())
    };
    check("MPI_Comm_create_keyval", status)?;
    // SAFETY: the call above has created the key. No code dereferences the value.
    let status = unsafe { ffi::MPI_Comm_set_attr(consts::comm_self(), key, ptr::null_mut()) };
    check("MPI_Comm_set_attr", status)
}

/// Tells MPI not to copy the attribute to duplicates. (Open MPI aborts if the copy function is null.)
unsafe extern "C" fn copy_nothing(
    _comm: ffi::MPI_Comm,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI-4.0 section 7.7.2: MPI passes a valid pointer to the flag.
    unsafe { *flag = 0 };
    0
}

unsafe extern "C" fn on_finalize(
    _comm: ffi::MPI_Comm,
    _key: c_int,
    _value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    lifetime::note_finalizing();
    if let Some(close) = CLOSE.get() {
        close();
    }
    progress::end();
    0
}
