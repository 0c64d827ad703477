//! Error handlers of files.
//!
//! The MPI library does not know the files of Capulet, so it cannot store their error handlers. No public
//! function tells which function an `MPI_Errhandler` calls. So Capulet replaces the functions that create
//! error handlers: the MPI library creates the handle, and a table in this module records the function.
//!
//! # References
//! An attached error handler stays valid after the program has called `MPI_Errhandler_free` on its
//! handle, and `MPI_File_get_errhandler` returns a handle that the program frees (MPI 9.3.5). Both need
//! one more reference to the MPI object, and MPI has no function for this. The `MPI_FILE_NULL` of the MPI
//! library provides it: this module attaches the error handler there, gets it back, and attaches the
//! previous error handler again.
//!
//! A [`Handler`] holds one such reference. Files, their requests and calls of the handler share it by
//! [`Arc`], so no other thread can free the MPI object while it is in use.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, replace};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use capulet_comm::ErrorClass;
use mpi::ffi::{MPI_Errhandler_free, RSMPI_ERRORS_ARE_FATAL, RSMPI_ERRORS_RETURN};

use crate::abi::{
    CAPULET_ERRHANDLER_NULL, CAPULET_ERRORS_ABORT, CHandler, Destructor, ExtendedHandler, FortranHandler,
    MPI_Errhandler, MPI_File, SUCCESS, file_null,
};
use crate::failure::{Failure, failure};
use crate::handle;
use crate::mpi_library::{mpi_library, predefined};

/// What an error handler does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `MPI_ERRORS_RETURN`, the default for files (MPI 14.7).
    Return,
    /// `MPI_ERRORS_ARE_FATAL`: abort all connected processes.
    Fatal,
    /// `MPI_ERRORS_ABORT`: abort the processes of the file.
    Abort,
    /// Call a C function.
    C(CHandler),
    /// Call a Fortran subroutine.
    Fortran(FortranHandler),
    /// Call a function of MPICH's extended form, with its extra argument.
    Extended(ExtendedHandler, *mut c_void),
}

// SAFETY: the pointer belongs to the program. It is only passed to the program's function, which MPI may
// call from any thread.
unsafe impl Send for Kind {}

// SAFETY: a `Kind` is never changed, and the pointer is only passed on, as for `Send`.
unsafe impl Sync for Kind {}

/// An error handler with one reference to its MPI object.
#[derive(Debug)]
pub(crate) struct Handler {
    kind: Kind,
    handle: MPI_Errhandler,
}

// SAFETY: MPI accepts the handle `MPI_Errhandler` from any thread (MPI 11.6), and `Kind` is `Send`.
unsafe impl Send for Handler {}

// SAFETY: a `Handler` is not changed before it is dropped.
unsafe impl Sync for Handler {}

impl Handler {
    /// The default, `MPI_ERRORS_RETURN`.
    fn returning() -> Self {
        Handler { kind: Kind::Return, handle: errors_return() }
    }

    /// Takes a reference to `handle`, which does `kind`. Predefined error handlers are never freed and
    /// need no reference.
    fn attach(kind: Kind, handle: MPI_Errhandler) -> Result<Self, Failure> {
        let handle = if is_predefined(handle) { handle } else { reference(handle)? };
        Ok(Handler { kind, handle })
    }

    /// What the error handler does.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// A handle of the error handler with a reference of its own, which the caller frees.
    pub(crate) fn reference(&self) -> Result<MPI_Errhandler, Failure> {
        reference(self.handle)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if !is_predefined(self.handle) {
            // SAFETY: `attach` took this reference, and no other code frees it.
            unsafe { MPI_Errhandler_free(&raw mut self.handle) };
        }
    }
}

/// The error handler attached to one file. The file and its requests share it. So a request finds the
/// error handler after the file is closed, and `MPI_File_set_errhandler` affects requests in progress.
#[derive(Clone, Debug)]
pub(crate) struct Attached(Arc<Mutex<Arc<Handler>>>);

impl Attached {
    /// The current error handler. It remains usable after another one is attached to the file.
    pub(crate) fn current(&self) -> Arc<Handler> {
        Arc::clone(&lock(&self.0))
    }

    pub(crate) fn replace(&self, new: Arc<Handler>) -> Arc<Handler> {
        replace(&mut *lock(&self.0), new)
    }
}

/// A pending call of an error handler of the program.
///
/// It has no destructor, because an error handler may leave by `longjmp`, which must not skip
/// destructors. In this case one reference to the error handler is leaked.
pub(crate) struct Call {
    handler: ManuallyDrop<Arc<Handler>>,
    file: MPI_File,
    code: c_int,
}

impl Call {
    pub(crate) fn new(handler: Arc<Handler>, file: MPI_File, code: c_int) -> Self {
        Call { handler: ManuallyDrop::new(handler), file, code }
    }

    /// The error code that the error handler gets.
    pub(crate) fn code(&self) -> c_int {
        self.code
    }

    /// Calls the error handler and returns the error code as the handler leaves it. The caller holds no
    /// lock and no borrow of this library, and no frame between this function and the C ABI has a value
    /// with a destructor.
    pub(crate) fn make(self) -> c_int {
        let left = call(self.handler.kind, self.file, self.code);
        drop(ManuallyDrop::into_inner(self.handler));
        left
    }
}

/// What each created handle does. If MPI reuses a handle, the next creation overwrites the entry.
static CREATED: Mutex<Option<HashMap<usize, Kind>>> = Mutex::new(None);

/// The error handler of `MPI_FILE_NULL`, which files inherit at open. `None` is the default,
/// `MPI_ERRORS_RETURN`.
static OF_NULL: Mutex<Option<Arc<Handler>>> = Mutex::new(None);

/// Held while an error handler is attached to the `MPI_FILE_NULL` of the MPI library.
static CARRIER: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errors_return() -> MPI_Errhandler {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { RSMPI_ERRORS_RETURN }
}

fn errors_are_fatal() -> MPI_Errhandler {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { RSMPI_ERRORS_ARE_FATAL }
}

/// `MPI_ERRORS_ABORT` of the loaded MPI library, if it has one.
///
/// One build is used with Open MPI 4.1, which does not have it, and with 5.0, where it is the address of
/// an object.
fn errors_abort() -> Option<MPI_Errhandler> {
    static FOUND: OnceLock<Option<Handle>> = OnceLock::new();
    if CAPULET_ERRORS_ABORT != CAPULET_ERRHANDLER_NULL {
        return Some(CAPULET_ERRORS_ABORT);
    }
    FOUND.get_or_init(|| predefined(c"ompi_mpi_errors_abort").map(Handle)).as_ref().map(|found| found.0)
}

/// A predefined error handler.
struct Handle(MPI_Errhandler);

// SAFETY: MPI accepts the handle `MPI_Errhandler` from any thread (MPI 11.6).
unsafe impl Send for Handle {}

// SAFETY: the handle is never changed.
unsafe impl Sync for Handle {}

/// What a predefined error handler does. `None` if the error handler is not predefined.
fn predefined_kind(handle: MPI_Errhandler) -> Option<Kind> {
    if handle == errors_return() {
        Some(Kind::Return)
    } else if handle == errors_are_fatal() {
        Some(Kind::Fatal)
    } else if errors_abort() == Some(handle) {
        Some(Kind::Abort)
    } else {
        None
    }
}

fn is_predefined(handle: MPI_Errhandler) -> bool {
    predefined_kind(handle).is_some()
}

/// Takes one more reference to an error handler for files.
///
/// This includes predefined ones: Open MPI counts references to them, and `MPI_Errhandler_free` removes
/// one. MPICH, whose handles are integers, does not count them, and MPICH 4.0 aborts if
/// `MPI_ERRORS_ABORT` is attached to `MPI_FILE_NULL`.
fn reference(handle: MPI_Errhandler) -> Result<MPI_Errhandler, Failure> {
    let is_number = size_of::<MPI_Errhandler>() < size_of::<*mut c_void>();
    if is_number && errors_abort() == Some(handle) {
        return Ok(handle);
    }
    let library = mpi_library().ok_or_else(no_library)?;
    let _carrier = lock(&CARRIER);
    let mut referenced = CAPULET_ERRHANDLER_NULL;
    // SAFETY: MPI 9.3.3: MPI is initialized (`frame::contain` checks it), this MPI library created the handle
    // (`attachable` looks it up in `CREATED`), and every call gets the MPI library's own MPI_FILE_NULL.
    // Its error handler is MPI_ERRORS_RETURN whenever CARRIER is free.
    let done = unsafe {
        (library.set)(file_null(), handle) == SUCCESS && {
            let got = (library.get)(file_null(), &raw mut referenced);
            let restored = (library.set)(file_null(), errors_return());
            got == SUCCESS && restored == SUCCESS
        }
    };
    if done {
        Ok(referenced)
    } else {
        Err(failure(ErrorClass::Arg, "the MPI library refuses the error handler for files"))
    }
}

fn no_library() -> Failure {
    failure(ErrorClass::Intern, "Capulet is not loaded before the MPI library")
}

/// The error handler of a handle from the program, with its own reference.
pub(crate) fn attachable(handle: MPI_Errhandler) -> Result<Handler, Failure> {
    let kind = if handle == CAPULET_ERRHANDLER_NULL {
        None
    } else {
        let created = || lock(&CREATED).as_ref()?.get(&(handle.0 as usize)).copied();
        predefined_kind(handle).or_else(created)
    };
    let kind =
        kind.ok_or_else(|| failure(ErrorClass::Arg, "the handle is not an error handler for files"))?;
    Handler::attach(kind, handle)
}

/// The error handler that a file inherits from `MPI_FILE_NULL` at open (MPI 14.7).
pub(crate) fn inherited() -> Attached {
    Attached(Arc::new(Mutex::new(of_null())))
}

/// The current error handler of `MPI_FILE_NULL`.
pub(crate) fn of_null() -> Arc<Handler> {
    lock(&OF_NULL).clone().unwrap_or_else(|| Arc::new(Handler::returning()))
}

/// Replaces the error handler of `MPI_FILE_NULL` and returns the previous one, if it was not the default.
pub(crate) fn replace_of_null(new: Arc<Handler>) -> Option<Arc<Handler>> {
    lock(&OF_NULL).replace(new)
}

/// Calls an error handler of the program, and returns the code as the handler leaves it. Open MPI and
/// MPICH return this code from the failed call, so a handler can change it. A handler of MPICH's extended
/// form gets the code by value and cannot change it.
fn call(kind: Kind, mut file: MPI_File, mut code: c_int) -> c_int {
    match kind {
        Kind::Return | Kind::Fatal | Kind::Abort => {}
        // SAFETY: MPI 9.3.3: the program passed a function of this form as an error handler. Both
        // arguments are variables of this frame.
        Kind::C(function) => unsafe {
            function(&raw mut file, &raw mut code, std::ptr::null_mut::<c_void>());
        },
        Kind::Fortran(function) => {
            let mut number = handle::to_fortran(file);
            // SAFETY: MPI 9.3.3: the program passed this subroutine. Both arguments are variables of this
            // frame.
            unsafe { function(&raw mut number, &raw mut code) }
        }
        // SAFETY: the program passed a function of this form to `MPIX_File_create_errhandler_x` with this
        // extra argument. MPI does not destroy the argument, because the `Handler` holds a reference.
        Kind::Extended(function, extra) => unsafe { function(file, code, extra) },
    }
    code
}

/// Records what a created handle does.
fn remember(handle: MPI_Errhandler, kind: Kind) {
    lock(&CREATED).get_or_insert_default().insert(handle.0 as usize, kind);
}

/// Creates a handle for `function` in the MPI library, and records it as `kind`.
pub(crate) fn create(function: CHandler, kind: Kind) -> Result<MPI_Errhandler, Failure> {
    let library = mpi_library().ok_or_else(no_library)?;
    let mut made = CAPULET_ERRHANDLER_NULL;
    // SAFETY: the MPI library stores the function. It does not call it, because it does not know files of
    // Capulet.
    let code = unsafe { (library.create)(function, &raw mut made) };
    created(code, made, kind)
}

fn created(code: c_int, made: MPI_Errhandler, kind: Kind) -> Result<MPI_Errhandler, Failure> {
    if code != SUCCESS {
        return Err(failure(ErrorClass::Other, "the MPI library cannot create the error handler"));
    }
    remember(made, kind);
    Ok(made)
}

/// As [`create`], for a function of MPICH's extended form. If the MPI library does not support this form, the
/// destructor is never called.
///
/// # Safety
/// The arguments are valid as MPICH requires for `MPIX_File_create_errhandler_x`.
pub(crate) unsafe fn create_extended(
    function: ExtendedHandler,
    destructor: Option<Destructor>,
    extra: *mut c_void,
) -> Result<MPI_Errhandler, Failure> {
    let kind = Kind::Extended(function, extra);
    let library = mpi_library().ok_or_else(no_library)?;
    match library.create_extended {
        Some(create_extended) => {
            let mut made = CAPULET_ERRHANDLER_NULL;
            // SAFETY: `# Safety` of this function: the arguments are passed on unchanged. `made` is one
            // handle.
            let code = unsafe { create_extended(function, destructor, extra, &raw mut made) };
            created(code, made, kind)
        }
        None => create(as_c_handler(function as *const ()), kind),
    }
}

/// Casts a function of another form to a C error handler, for the MPI library to store.
pub(crate) fn as_c_handler(function: *const ()) -> CHandler {
    // SAFETY: all function pointers have one size, and a function is not null. The MPI library only
    // stores the pointer: it calls error handlers only of files that it opened, and it opens none.
    unsafe { std::mem::transmute::<*const (), CHandler>(function) }
}
