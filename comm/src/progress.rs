//! MPI's progress while this process waits for something that MPI knows nothing of.
//!
//! A call of MPI that looks for something lets messages go on, but not every one does: MPICH 4.0 makes no progress where it looks for a
//! message in a communicator of one process, and none makes any where it finds one. So a request of our own is tested that never completes
//! (MPI-4.0 sections 3.7.3 and 13.2): that needs no communicator, and nobody else can touch it.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError, TryLockError};

use crate::error::{Result, check};
use crate::{consts, ffi, process};

/// What is tested.
#[derive(Debug)]
struct Endless(ffi::MPI_Request);

// SAFETY: an MPI handle is a name that any thread may use which the thread level allows to call MPI at all (MPI-4.0
// section 11.6).
unsafe impl Send for Endless {}

impl Endless {
    fn start() -> Result<Self> {
        let mut request = consts::request_null();
        let (extra, target) = (std::ptr::null_mut(), &raw mut request);
        // SAFETY: MPI is initialized; the functions have the forms that MPI wants, and use nothing of what they are given.
        let status = unsafe { ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), extra, target) };
        check("MPI_Grequest_start", status)?;
        Ok(Self(request))
    }

    fn test(&self) {
        let (mut request, mut flag) = (self.0, 0);
        // SAFETY: the request is ours and not complete, so that it stays what it is; the flag is written, the status is ignored.
        unsafe { ffi::MPI_Test(&raw mut request, &raw mut flag, consts::status_ignore()) };
        debug_assert_eq!(flag, 0, "nobody completes it");
    }

    fn end(self) {
        let mut request = self.0;
        // SAFETY: a request of ours that is not complete, completed and given back once, as this value ends.
        let codes = unsafe { [ffi::MPI_Grequest_complete(request), ffi::MPI_Request_free(&raw mut request)] };
        debug_assert_eq!(codes, [0; 2]);
    }
}

/// There from [`process::prepare`] until `MPI_Finalize` begins. Held while it is tested: threads may not test one request at a time.
static ENDLESS: Mutex<Option<Endless>> = Mutex::new(None);

/// Makes the request. Local.
pub(crate) fn prepare() -> Result<()> {
    *ENDLESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Endless::start()?);
    Ok(())
}

/// At the start of `MPI_Finalize`: nothing may be left of it there.
pub(crate) fn end() {
    let endless = ENDLESS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(endless) = endless {
        endless.end();
    }
}

/// Gives MPI a chance to move messages of this process. Local; does not block. Harmless before `MPI_Init`, after
/// `MPI_Finalize`, and inside of itself.
pub fn progress() {
    if !process::is_usable() || !process::is_prepared() {
        return;
    }
    let endless = match ENDLESS.try_lock() {
        Ok(endless) => endless,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Another thread is at it, or this one: MPI has called us back.
        Err(TryLockError::WouldBlock) => return,
    };
    if let Some(endless) = &*endless {
        endless.test();
    } else if let Ok(brief) = Endless::start() {
        // In `MPI_Finalize`, where others' hooks may close files still.
        brief.test();
        brief.end();
    }
}

unsafe extern "C" fn query(_extra: *mut c_void, _status: *mut ffi::MPI_Status) -> c_int {
    0
}

unsafe extern "C" fn free(_extra: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn cancel(_extra: *mut c_void, _is_complete: c_int) -> c_int {
    0
}
