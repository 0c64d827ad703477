//! The requests of collective access that are not complete: what the completion functions need to know of them.
//!
//! A request is a generalized request of the MPI library (MPI 13.2). The MPI library tells its error to the
//! error handler of a communicator, so `completion` reports it instead, to the handler of the file. For that a
//! table leads from the handle of the request to the file's handle, handler and name. It holds nothing of the
//! file itself.
//!
//! The MPI library ends an entry: it calls the free function of a generalized request once, before it gives the
//! handle to another request. So no entry stands for the request of somebody else.
//!
//! No error is lost. An entry knows whether an error was told: by the completion functions of this library, or
//! to the MPI library, where that completed the request in a way of its own. An error that nobody was told, as
//! after `MPI_Request_free`, is said on standard error.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use capulet_comm::request::{Completion, Request};
use capulet_comm::{ErrorClass, Group};

use crate::abi::{Fint, MPI_File, MPI_Request};
use crate::errhandler::Attached;
use crate::guard::{Failure, Subject, Verdict, failure, judge};
use crate::handle::{self, Entry};
use crate::report;

/// How many requests are in the table. The completion functions ask this first, on every call of the program.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// By the handle of the request.
static TABLE: Mutex<Option<HashMap<usize, Arc<Pending>>>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<HashMap<usize, Arc<Pending>>>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the table is empty. Another thread may have begun a request that this one does not know yet; then
/// this one has not been given its handle.
#[inline]
pub(crate) fn is_none_live() -> bool {
    LIVE.load(Ordering::Relaxed) == 0
}

/// A request of this library.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The function that began the access.
    call: &'static str,
    /// The file's handle, as a number: handles are pointers.
    file: Fint,
    name: String,
    handler: Attached,
    group: Weak<Group>,
    /// What becomes of the access; set when the access has begun.
    completion: OnceLock<Arc<dyn Completion>>,
    /// The request's handle, once it is in the table.
    key: OnceLock<usize>,
    /// Functions of this library that are inside the MPI library with this request, and report its error.
    covers: AtomicU32,
    /// Whether its error was told.
    told: AtomicBool,
    /// Whether the MPI library has given the request up.
    is_freed: AtomicBool,
}

impl Pending {
    /// Makes a request for an access to a file and enters it in the table.
    ///
    /// # Errors
    /// If MPI has no request.
    pub(crate) fn start(
        call: &'static str,
        file: MPI_File,
        entry: &Entry,
    ) -> Result<(Arc<Self>, Request), Failure> {
        let pending = Arc::new(Pending {
            call,
            file: handle::to_fortran(file),
            name: entry.name.clone(),
            handler: entry.handler.clone(),
            group: Arc::downgrade(entry.file.group()),
            completion: OnceLock::new(),
            key: OnceLock::new(),
            covers: AtomicU32::new(0),
            told: AtomicBool::new(false),
            is_freed: AtomicBool::new(false),
        });
        let request = Request::start(Arc::new(OfMpi(Arc::clone(&pending))))?;
        let key = key_of(request.handle());
        table().get_or_insert_default().insert(key, Arc::clone(&pending));
        LIVE.fetch_add(1, Ordering::Relaxed);
        let _ = pending.key.set(key);
        Ok((pending, request))
    }

    /// The access has begun.
    pub(crate) fn begun(&self, completion: Arc<dyn Completion>) {
        let _ = self.completion.set(completion);
    }

    /// The access is over, and its request is about to be completed. A request that is freed by now was freed by
    /// `MPI_Request_free`: MPICH gives it up at once, Open MPI when it is complete.
    pub(crate) fn is_over(&self) {
        if self.is_freed.load(Ordering::Acquire) {
            self.tell_after_free();
        }
    }

    /// Says the error of a request that was freed on standard error, for MPI has no other way (MPI 3.7.3).
    fn tell_after_free(&self) {
        let Some(error) = self.error() else { return };
        if self.covers.load(Ordering::Relaxed) == 0 && !self.told.swap(true, Ordering::Relaxed) {
            let (call, name, rank) = (self.call, &self.name, report::rank());
            report::say(format_args!(
                "rank {rank}: {call} failed on {name} after its request was freed: {error}"
            ));
        }
    }

    fn error(&self) -> Option<ErrorClass> {
        self.completion.get()?.completion()?.1
    }

    /// The class of its error, whoever was told. For `MPI_Request_get_status`, which completes nothing.
    pub(crate) fn class(&self) -> Option<c_int> {
        self.error().map(ErrorClass::code)
    }

    /// Decides what is to be done about its error; `None` without an error, and if the error was told already:
    /// a profiling tool may have called the `PMPI_` function of this library from within the `MPI_` function.
    pub(crate) fn judged(&self) -> Option<Verdict> {
        let class = self.error()?;
        if self.told.swap(true, Ordering::Relaxed) {
            return None;
        }
        let words = self.completion.get().and_then(|completion| completion.description());
        let group = self.group.upgrade();
        let subject =
            Subject { file: handle::from_fortran(self.file), name: &self.name, group: group.as_deref() };
        let words = words.unwrap_or_else(|| class.to_string());
        Some(judge(self.call, self.handler.current(), &subject, &failure(class, words)))
    }
}

/// What the MPI library holds of a request. Its end is the end of the request.
#[derive(Debug)]
struct OfMpi(Arc<Pending>);

impl Completion for OfMpi {
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)> {
        self.0.completion.get()?.completion()
    }

    fn error_for_mpi(&self) -> Option<ErrorClass> {
        let error = self.0.error()?;
        let reported_here = self.0.covers.load(Ordering::Relaxed) > 0;
        (!reported_here && !self.0.told.swap(true, Ordering::Relaxed)).then_some(error)
    }
}

impl Drop for OfMpi {
    fn drop(&mut self) {
        let pending = &self.0;
        let Some(key) = pending.key.get() else { return };
        if let Some(table) = table().as_mut() {
            table.remove(key);
        }
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // Before the error is asked for: an access that ends meanwhile sees one of the two.
        pending.is_freed.store(true, Ordering::Release);
        pending.tell_after_free();
    }
}

/// A handle as a number: an integer on MPICH, an address on Open MPI.
fn key_of(request: MPI_Request) -> usize {
    request.0 as usize
}

/// The requests of this library among those of one call, each with its place in the array. While it lives, the
/// MPI library is told nothing of their errors.
///
/// It has no destructor: within the call the MPI library may run a handler of a communicator that leaves by
/// `longjmp`, which must skip none. Some memory is leaked then.
pub(crate) struct Covered(ManuallyDrop<Vec<(usize, Arc<Pending>)>>);

impl Covered {
    /// Looks all of them up; `None` if none is this library's.
    ///
    /// # Safety
    /// `requests` is valid for reading `count` handles, or null.
    pub(crate) unsafe fn find(requests: *const MPI_Request, count: usize) -> Option<Self> {
        if requests.is_null() {
            return None;
        }
        let table = table();
        let table = table.as_ref()?;
        let mut found = Vec::new();
        for place in 0..count {
            // SAFETY: by the caller's promise, and the place is below the count.
            let request = unsafe { *requests.add(place) };
            if let Some(pending) = table.get(&key_of(request)) {
                pending.covers.fetch_add(1, Ordering::Relaxed);
                found.push((place, Arc::clone(pending)));
            }
        }
        (!found.is_empty()).then(|| Covered(ManuallyDrop::new(found)))
    }

    /// The call of the MPI library is over.
    pub(crate) fn uncover(self) -> Vec<(usize, Arc<Pending>)> {
        let found = ManuallyDrop::into_inner(self.0);
        for (_, pending) in &found {
            pending.covers.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }
}
