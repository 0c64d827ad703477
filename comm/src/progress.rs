//! Progress of MPI while this process waits for an event outside of MPI.
//!
//! Most MPI calls that test or probe make progress, but not all of them do. MPICH 4.0 makes no progress in
//! a probe on a communicator of one process, and no MPI library makes progress in a probe that finds a
//! message. So this module tests a generalized request that never completes (MPI-4.0 sections 3.7.3 and
//! 13.2). The request needs no communicator, and no other code can access it.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError, TryLockError};

use crate::error::{Result, check};
use crate::{consts, ffi, lifetime, service};

/// The generalized request that never completes.
#[derive(Debug)]
struct Endless(ffi::MPI_Request);

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it.
unsafe impl Send for Endless {}

impl Endless {
    fn start() -> Result<Self> {
        let mut request = consts::request_null();
        let (extra, target) = (std::ptr::null_mut(), &raw mut request);
        // SAFETY: MPI is initialized. The three functions have the prototypes of MPI-4.0 section 13.2, and
        // access none of their arguments. MPI writes one handle.
        let status = unsafe { ffi::MPI_Grequest_start(Some(query), Some(free), Some(cancel), extra, target) };
        check("MPI_Grequest_start", status)?;
        Ok(Self(request))
    }

    fn test(&self) {
        let (mut request, mut flag) = (self.0, 0);
        // SAFETY: the request is active and belongs to this value. It is not complete, so MPI_Test leaves
        // the handle unchanged. MPI writes the flag, and no status.
        unsafe { ffi::MPI_Test(&raw mut request, &raw mut flag, consts::status_ignore()) };
        debug_assert_eq!(flag, 0, "the request never completes");
    }

    fn end(self) {
        let mut request = self.0;
        // SAFETY: the request belongs to this value and is not complete. It is completed and freed once,
        // because this function consumes the value.
        let codes = unsafe { [ffi::MPI_Grequest_complete(request), ffi::MPI_Request_free(&raw mut request)] };
        debug_assert_eq!(codes, [0; 2]);
    }
}

/// The request exists from [`prepare`](crate::prepare) until `MPI_Finalize` begins. The lock is held during
/// the test, because MPI forbids two threads to test one request at the same time.
static ENDLESS: Mutex<Option<Endless>> = Mutex::new(None);

/// Creates the request. Local.
pub(crate) fn prepare() -> Result<()> {
    *ENDLESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Endless::start()?);
    Ok(())
}

/// Completes and frees the request at the start of `MPI_Finalize`, where no request may be pending.
pub(crate) fn end() {
    let endless = ENDLESS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(endless) = endless {
        endless.end();
    }
}

/// Drives the progress of MPI, so that messages of this process move on, and answers requests of other ranks.
/// Local. Does not block. Has no effect before `MPI_Init`, after `MPI_Finalize`, and when it is called from
/// within itself.
pub fn progress() {
    service::answer();
    if !lifetime::is_usable() || !lifetime::is_prepared() {
        return;
    }
    let endless = match ENDLESS.try_lock() {
        Ok(endless) => endless,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // If the mutex is held, its holder makes the progress. The holder is another thread, or this thread
        // if MPI has called back into this crate.
        Err(TryLockError::WouldBlock) => return,
    };
    if let Some(endless) = &*endless {
        endless.test();
    } else if let Ok(brief) = Endless::start() {
        // `MPI_Finalize` has begun, and delete callbacks of other libraries may still close files.
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
