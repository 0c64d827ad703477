//! The requests of collective accesses in progress, for the functions that complete requests.
//!
//! A request is a generalized request of the MPI library (MPI 13.2). The MPI library reports its error to
//! the error handler of a communicator, so the module `completion` reports it instead, to the error
//! handler of the file. A table leads from the handle of a request to the handle, the error handler and
//! the name of its file. It does not refer to the file itself.
//!
//! The MPI library ends an entry of the table: it calls the free function of a generalized request once,
//! before it gives the handle to another request. So an entry never represents a request of other code.
//!
//! No error is lost. An entry knows whether its error was reported: by the functions of `completion`, or
//! to the MPI library, if the MPI library completed the request in another way. An error that was not
//! reported, such as after `MPI_Request_free`, is printed on standard error.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use capulet_comm::request::{Completion, Request};
use capulet_comm::{ErrorClass, Group};

use crate::abi::{Fint, MPI_File, MPI_Request};
use crate::failure::{Failure, failure};
use crate::handle;
use crate::handler::Attached;
use crate::open_files::OpenFile;
use crate::report::{self, Subject};
use crate::verdict::{Verdict, judge};

/// The number of requests in the table. Every call of a completion function checks it first.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The table. Its key is the handle of the request.
static TABLE: Mutex<Option<HashMap<usize, Arc<Pending>>>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<HashMap<usize, Arc<Pending>>>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the table is empty. Another thread may have just started a request that this thread does not
/// see yet. This thread cannot have its handle then.
#[inline]
pub(crate) fn is_none_live() -> bool {
    LIVE.load(Ordering::Relaxed) == 0
}

/// A request of Capulet.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The function that started the access.
    call: &'static str,
    /// The handle of the file as an integer, because `MPI_File` is a pointer, which is not `Send`.
    file: Fint,
    name: String,
    handler: Attached,
    group: Weak<Group>,
    /// The result of the access. It is set when the access has started.
    completion: OnceLock<Arc<dyn Completion>>,
    /// The handle of the request, after it is in the table.
    key: OnceLock<usize>,
    /// The number of functions of `completion` that now call the MPI library with this request, and that
    /// report its error.
    claims: AtomicU32,
    /// Whether the error was reported.
    is_reported: AtomicBool,
    /// Whether the MPI library has freed the request.
    is_freed: AtomicBool,
}

impl Pending {
    /// Creates a request for an access to a file, and adds it to the table.
    ///
    /// # Errors
    /// MPI cannot create a request.
    pub(crate) fn start(
        call: &'static str,
        file: MPI_File,
        open: &OpenFile,
    ) -> Result<(Arc<Self>, Request), Failure> {
        let pending = Arc::new(Pending {
            call,
            file: handle::to_fortran(file),
            name: open.name.clone(),
            handler: open.handler.clone(),
            group: Arc::downgrade(open.file.group()),
            completion: OnceLock::new(),
            key: OnceLock::new(),
            claims: AtomicU32::new(0),
            is_reported: AtomicBool::new(false),
            is_freed: AtomicBool::new(false),
        });
        let request = Request::start(Arc::new(RequestState(Arc::clone(&pending))))?;
        let key = key_of(request.handle());
        table().get_or_insert_default().insert(key, Arc::clone(&pending));
        LIVE.fetch_add(1, Ordering::Relaxed);
        let _ = pending.key.set(key);
        Ok((pending, request))
    }

    /// Sets the source of the result, after the access has started.
    pub(crate) fn set_completion(&self, completion: Arc<dyn Completion>) {
        let _ = self.completion.set(completion);
    }

    /// Called when the access is over, before its request is completed. If the request is freed already,
    /// the program called `MPI_Request_free`: MPICH frees it at once, Open MPI when it is complete.
    pub(crate) fn access_ended(&self) {
        if self.is_freed.load(Ordering::Acquire) {
            self.report_after_free();
        }
    }

    /// Prints the error of a freed request on standard error, because MPI cannot report it in another way
    /// (MPI 3.7.3).
    fn report_after_free(&self) {
        let Some(error) = self.error() else { return };
        if self.claims.load(Ordering::Relaxed) == 0 && !self.is_reported.swap(true, Ordering::Relaxed) {
            let (call, name, rank) = (self.call, &self.name, report::rank());
            report::print(format_args!(
                "rank {rank}: {call} failed on {name} after its request was freed: {error}"
            ));
        }
    }

    fn error(&self) -> Option<ErrorClass> {
        self.completion.get()?.completion()?.1
    }

    /// The error class, also if the error was reported already. For `MPI_Request_get_status`, which
    /// completes no request.
    pub(crate) fn class(&self) -> Option<c_int> {
        self.error().map(ErrorClass::code)
    }

    /// The verdict on the error. `None` if there is no error, or if it was reported already: a profiling
    /// tool may call the `PMPI_` function of this library from its `MPI_` function.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let class = self.error()?;
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return None;
        }
        let text = self.completion.get().and_then(|completion| completion.description());
        let group = self.group.upgrade();
        let subject =
            Subject { file: handle::from_fortran(self.file), name: &self.name, group: group.as_deref() };
        let text = text.unwrap_or_else(|| class.to_string());
        Some(judge(self.call, self.handler.current(), &subject, &failure(class, text)))
    }
}

/// The state of a request that the MPI library owns. It is dropped when the MPI library frees the
/// request.
#[derive(Debug)]
struct RequestState(Arc<Pending>);

impl Completion for RequestState {
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)> {
        self.0.completion.get()?.completion()
    }

    fn error_for_mpi(&self) -> Option<ErrorClass> {
        let error = self.0.error()?;
        let is_claimed = self.0.claims.load(Ordering::Relaxed) > 0;
        (!is_claimed && !self.0.is_reported.swap(true, Ordering::Relaxed)).then_some(error)
    }
}

impl Drop for RequestState {
    fn drop(&mut self) {
        let pending = &self.0;
        let Some(key) = pending.key.get() else { return };
        if let Some(table) = table().as_mut() {
            table.remove(key);
        }
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // This store comes before the error is read. So if the access ends at the same time, this
        // function or `access_ended` prints the error.
        pending.is_freed.store(true, Ordering::Release);
        pending.report_after_free();
    }
}

/// The handle of a request as an integer. It is an integer in MPICH, and an address in Open MPI.
fn key_of(request: MPI_Request) -> usize {
    request.0 as usize
}

/// The requests of Capulet among the requests of one call, each with its index in the array. While this
/// value lives, the MPI library does not get their errors.
///
/// It has no destructor: during the call, the MPI library may run an error handler of a communicator that
/// leaves by `longjmp`, which must not skip destructors. Some memory is leaked then.
pub(crate) struct Claimed(ManuallyDrop<Vec<(usize, Arc<Pending>)>>);

impl Claimed {
    /// Looks up all requests. `None` if none is a request of Capulet.
    ///
    /// # Safety
    /// `requests` is null or valid for reads of `count` handles.
    pub(crate) unsafe fn find(requests: *const MPI_Request, count: usize) -> Option<Self> {
        if requests.is_null() {
            return None;
        }
        let table = table();
        let table = table.as_ref()?;
        let mut found = Vec::new();
        for index in 0..count {
            // SAFETY: `# Safety` of this function: `index` is less than `count`.
            let request = unsafe { *requests.add(index) };
            if let Some(pending) = table.get(&key_of(request)) {
                pending.claims.fetch_add(1, Ordering::Relaxed);
                found.push((index, Arc::clone(pending)));
            }
        }
        (!found.is_empty()).then(|| Claimed(ManuallyDrop::new(found)))
    }

    /// Ends the duty to report errors, after the function of the MPI library has returned.
    pub(crate) fn release(self) -> Vec<(usize, Arc<Pending>)> {
        let found = ManuallyDrop::into_inner(self.0);
        for (_, pending) in &found {
            pending.claims.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }
}
