//! Error handlers of files.
//!
//! The MPI library cannot keep the handler of a file that it does not know, and no public function tells what
//! an `MPI_Errhandler` calls. So creation is interposed: the MPI library makes the handle, and a table here
//! remembers what it calls.
//!
//! # References
//! An attached handler must outlive `MPI_Errhandler_free` of the user's handle, and `MPI_File_get_errhandler`
//! hands out a handle that the user frees (MPI 9.3.4). Both need one more reference to an MPI object, for
//! which MPI has no function. It is had by way of the MPI library's own `MPI_FILE_NULL`: attach the handler
//! there, get it back, and attach the old one again.

use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::replace;
use std::sync::{Mutex, MutexGuard, PoisonError};

use capulet_adio::Coordination;
use capulet_comm::ErrorClass;
use mpi::ffi::{MPI_Errhandler_free, RSMPI_ERRORS_ARE_FATAL, RSMPI_ERRORS_RETURN};

use crate::abi::{
    CAPULET_ERRHANDLER_NULL, CAPULET_ERRORS_ABORT, CHandler, Destructor, ExtendedHandler, FortranHandler,
    MPI_Errhandler, MPI_File, SUCCESS, export, export_as, file_null,
};
use crate::convert::{pointer, store};
use crate::guard::{Failure, Verdict, contained, failure, judge_null, no_such_handle, on_no_file};
use crate::real::real;
use crate::{handle, report};

use std::ffi::c_void;

/// What a handler does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `MPI_ERRORS_RETURN`, the default for files (MPI 14.7).
    Return,
    /// `MPI_ERRORS_ARE_FATAL`: abort all connected processes.
    Fatal,
    /// `MPI_ERRORS_ABORT`: abort the processes of the file.
    Abort,
    /// A C function.
    C(CHandler),
    /// A Fortran subroutine.
    Fortran(FortranHandler),
    /// A function of MPICH's extended form, with its extra argument.
    Extended(ExtendedHandler, *mut c_void),
}

// SAFETY: the pointer is a user's own and is only passed back to the user's function, which MPI may call from
// any thread.
unsafe impl Send for Kind {}

/// A handler that is attached to a file, with a reference of its own.
pub(crate) struct Handler {
    kind: Kind,
    handle: MPI_Errhandler,
}

// SAFETY: an MPI_Errhandler is a name that MPI accepts from any thread, and Kind is Send.
unsafe impl Send for Handler {}

impl Handler {
    /// The default, `MPI_ERRORS_RETURN`.
    fn returning() -> Self {
        Handler { kind: Kind::Return, handle: errors_return() }
    }

    /// Takes a reference to `handle`, which does `kind`. Predefined handlers are for ever and need none.
    fn attach(kind: Kind, handle: MPI_Errhandler) -> Result<Self, Failure> {
        let handle = if is_predefined(handle) { handle } else { reference(handle)? };
        Ok(Handler { kind, handle })
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if !is_predefined(self.handle) {
            // SAFETY: `attach` took this reference and nobody else frees it.
            unsafe { MPI_Errhandler_free(&raw mut self.handle) };
        }
    }
}

/// What each created handle calls. A handle that MPI gives out again is overwritten by its next creation.
static CREATED: Mutex<Option<HashMap<usize, Kind>>> = Mutex::new(None);

/// The handler of `MPI_FILE_NULL`, inherited by files at open; `None` stands for the default,
/// `MPI_ERRORS_RETURN`.
static OF_NULL: Mutex<Option<Handler>> = Mutex::new(None);

/// Held while the MPI library's `MPI_FILE_NULL` carries a handler.
static CARRIER: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errors_return() -> MPI_Errhandler {
    // SAFETY: a constant that `mpi-sys` initializes at compile time and nothing writes.
    unsafe { RSMPI_ERRORS_RETURN }
}

fn errors_are_fatal() -> MPI_Errhandler {
    // SAFETY: as above.
    unsafe { RSMPI_ERRORS_ARE_FATAL }
}

fn is_predefined(handle: MPI_Errhandler) -> bool {
    handle == errors_return() || handle == errors_are_fatal() || handle == CAPULET_ERRORS_ABORT
}

/// One more reference to an error handler for files.
///
/// To a predefined one too: Open MPI counts those, and its `MPI_Errhandler_free` takes one away.
fn reference(handle: MPI_Errhandler) -> Result<MPI_Errhandler, Failure> {
    let real = real().ok_or_else(no_library)?;
    let _carrier = lock(&CARRIER);
    let mut referenced = CAPULET_ERRHANDLER_NULL;
    // SAFETY: MPI is up (`contained`), the handle was made by this MPI library (`CREATED`), and all calls are
    // made with the MPI library's own MPI_FILE_NULL, whose handler is MPI_ERRORS_RETURN whenever CARRIER is
    // free.
    let done = unsafe {
        (real.set)(file_null(), handle) == SUCCESS && {
            let got = (real.get)(file_null(), &raw mut referenced);
            let restored = (real.set)(file_null(), errors_return());
            got == SUCCESS && restored == SUCCESS
        }
    };
    if done { Ok(referenced) } else { Err(failure(ErrorClass::Arg, "no error handler for files")) }
}

fn no_library() -> Failure {
    failure(ErrorClass::Intern, "no MPI library behind Capulet: it must come before the MPI library")
}

/// The handler behind a user's handle, with a reference of its own.
fn attachable(handle: MPI_Errhandler) -> Result<Handler, Failure> {
    let kind = if handle == CAPULET_ERRHANDLER_NULL {
        None
    } else if handle == errors_return() {
        Some(Kind::Return)
    } else if handle == errors_are_fatal() {
        Some(Kind::Fatal)
    } else if handle == CAPULET_ERRORS_ABORT {
        Some(Kind::Abort)
    } else {
        lock(&CREATED).as_ref().and_then(|created| created.get(&(handle.0 as usize)).copied())
    };
    let kind = kind.ok_or_else(|| failure(ErrorClass::Arg, "not an error handler for files"))?;
    Handler::attach(kind, handle)
}

/// The handler that a file has from `MPI_FILE_NULL` when it is opened (MPI 14.7).
pub(crate) fn inherited() -> Handler {
    let parent = lock(&OF_NULL).as_ref().map(|handler| (handler.kind, handler.handle));
    match parent {
        Some((kind, handle)) => Handler::attach(kind, handle).unwrap_or_else(|_| Handler::returning()),
        None => Handler::returning(),
    }
}

/// What the handler of a file does.
pub(crate) fn kind_of(handler: &Mutex<Handler>) -> Kind {
    lock(handler).kind
}

/// What the handler of `MPI_FILE_NULL` does.
pub(crate) fn kind_of_null() -> Kind {
    lock(&OF_NULL).as_ref().map_or(Kind::Return, |handler| handler.kind)
}

/// Calls a user's handler. Nothing of this library may be locked or borrowed.
pub(crate) fn call(kind: Kind, mut file: MPI_File, mut code: c_int) {
    match kind {
        Kind::Return | Kind::Fatal | Kind::Abort => {}
        // SAFETY: the user gave this function as a handler of this form, and both arguments live on this
        // frame.
        Kind::C(function) => unsafe {
            function(&raw mut file, &raw mut code, std::ptr::null_mut::<c_void>());
        },
        Kind::Fortran(function) => {
            let mut number = handle::to_fortran(file);
            // SAFETY: as above.
            unsafe { function(&raw mut number, &raw mut code) }
        }
        // SAFETY: as above; the extra argument is the one that came with the function, and is still
        // referenced.
        Kind::Extended(function, extra) => unsafe { function(file, code, extra) },
    }
}

/// Remembers what a created handle calls.
fn remember(handle: MPI_Errhandler, kind: Kind) {
    lock(&CREATED).get_or_insert_default().insert(handle.0 as usize, kind);
}

/// Lets the MPI library make a handle for `function` and remembers it as `kind`.
pub(crate) fn create(function: CHandler, kind: Kind) -> Result<MPI_Errhandler, Failure> {
    let real = real().ok_or_else(no_library)?;
    let mut made = CAPULET_ERRHANDLER_NULL;
    // SAFETY: the MPI library stores the function and never calls it: it knows no file of ours.
    let code = unsafe { (real.create)(function, &raw mut made) };
    created(code, made, kind)
}

fn created(code: c_int, made: MPI_Errhandler, kind: Kind) -> Result<MPI_Errhandler, Failure> {
    if code != SUCCESS {
        return Err(failure(ErrorClass::Other, "the MPI library could not make the error handler"));
    }
    remember(made, kind);
    Ok(made)
}

export! {
    /// `MPI_File_create_errhandler` (MPI 9.3.3). Local.
    fn File_create_errhandler(function: Option<CHandler>, errhandler: *mut MPI_Errhandler) -> c_int {
        on_no_file("MPI_File_create_errhandler", || {
            let function = pointer(function)?;
            let made = create(function, Kind::C(function))?;
            // SAFETY: the caller's pointer to one handle, or null.
            unsafe { store(errhandler, made) }
        })
    }
}

export! {
    /// `MPI_File_set_errhandler` (MPI 9.3.3). Local.
    fn File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> c_int {
        on_handler("MPI_File_set_errhandler", file, |entry| {
            let new = attachable(errhandler)?;
            // The old one is dropped after its lock, because that calls MPI.
            let old = match entry {
                Some(entry) => Some(replace(&mut *lock(&entry.handler), new)),
                None => lock(&OF_NULL).replace(new),
            };
            drop(old);
            Ok(())
        })
    }
}

export! {
    /// `MPI_File_get_errhandler` (MPI 9.3.3). Local. The caller frees the handle.
    fn File_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) -> c_int {
        on_handler("MPI_File_get_errhandler", file, |entry| {
            let handle = match entry {
                Some(entry) => lock(&entry.handler).handle,
                None => lock(&OF_NULL).as_ref().map_or(errors_return(), |handler| handler.handle),
            };
            pointer((!errhandler.is_null()).then_some(()))?;
            // SAFETY: the caller's pointer to one handle, or null.
            unsafe { store(errhandler, reference(handle)?) }
        })
    }
}

export! {
    /// `MPI_File_call_errhandler` (MPI 9.5). Local. Returns success if the handler returns.
    fn File_call_errhandler(file: MPI_File, code: c_int) -> c_int {
        const CALL: &str = "MPI_File_call_errhandler";
        contained(CALL, Coordination::Independent, || {
            let entry = handle::find(file);
            if entry.is_none() && file != file_null() {
                return judge_null(CALL, &no_such_handle(file));
            }
            let kind = entry.as_ref().map_or_else(kind_of_null, |entry| kind_of(&entry.handler));
            match kind {
                Kind::Return => Verdict::Return(SUCCESS),
                Kind::Fatal | Kind::Abort => {
                    let name = entry.as_ref().map_or("MPI_FILE_NULL", |entry| entry.name.as_str());
                    report::abort(CALL, kind, name, code, "the program called the error handler");
                    Verdict::Return(SUCCESS)
                }
                Kind::C(_) | Kind::Fortran(_) | Kind::Extended(..) => {
                    Verdict::Call { kind, file, code, returns: SUCCESS }
                }
            }
        })
    }
}

/// Runs `body` on the file of a handle, or on `None` for `MPI_FILE_NULL`, which has an error handler too.
fn on_handler(
    call: &'static str,
    file: MPI_File,
    body: impl FnOnce(Option<&handle::Entry>) -> Result<(), Failure>,
) -> c_int {
    if file == file_null() {
        on_no_file(call, || body(None))
    } else {
        crate::guard::on_file(call, file, |entry| body(Some(entry)))
    }
}

export_as! {
    ["MPIX_File_create_errhandler_x", "PMPIX_File_create_errhandler_x"]
    /// MPICH's `MPIX_File_create_errhandler_x`, by which its Fortran and C++ bindings make theirs. Local.
    ///
    /// Where the MPI has no such function, the destructor is never called: nothing tells when the last
    /// reference goes.
    fn File_create_errhandler_x(
        function: Option<ExtendedHandler>,
        destructor: Option<Destructor>,
        extra: *mut c_void,
        errhandler: *mut MPI_Errhandler,
    ) -> c_int {
        on_no_file("MPIX_File_create_errhandler_x", || {
            let function = pointer(function)?;
            let kind = Kind::Extended(function, extra);
            let real = real().ok_or_else(no_library)?;
            let made = match real.create_extended {
                Some(create_extended) => {
                    let mut made = CAPULET_ERRHANDLER_NULL;
                    // SAFETY: the caller's arguments, passed on unchanged.
                    let code = unsafe { create_extended(function, destructor, extra, &raw mut made) };
                    created(code, made, kind)?
                }
                None => create(as_c_handler(function as *const ()), kind)?,
            };
            // SAFETY: the caller's pointer to one handle, or null.
            unsafe { store(errhandler, made) }
        })
    }
}

/// A function of another form in the dress of a C handler, for the MPI library to store.
pub(crate) fn as_c_handler(function: *const ()) -> CHandler {
    // SAFETY: function pointers have one size and this one is not null, being a function. The MPI library
    // only stores it: it calls handlers of files that it opened itself, and it opens none.
    unsafe { std::mem::transmute::<*const (), CHandler>(function) }
}
