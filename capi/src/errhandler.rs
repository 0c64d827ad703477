//! Error handlers of files.
//!
//! The MPI library cannot keep the handler of a file that it does not know, and no public function tells what
//! an `MPI_Errhandler` calls. So creation is interposed: the MPI library makes the handle, and a table here
//! remembers what it calls.
//!
//! # References
//! An attached handler must outlive `MPI_Errhandler_free` of the user's handle, and `MPI_File_get_errhandler`
//! hands out a handle that the user frees (MPI 9.3.4). Both need one more reference to an MPI object, for
//! which MPI has no function. The MPI library's own `MPI_FILE_NULL` gives it: attach the handler there, get it
//! back, and attach the old one again.
//!
//! A [`Handler`] holds one such reference. Files, their requests and calls of the handler share it by [`Arc`],
//! so no other thread can free the MPI object while one of them uses it.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, replace};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use capulet_adio::Coordination;
use capulet_comm::ErrorClass;
use mpi::ffi::{MPI_Errhandler_free, RSMPI_ERRORS_ARE_FATAL, RSMPI_ERRORS_RETURN};

use crate::abi::{
    CAPULET_ERRHANDLER_NULL, CAPULET_ERRORS_ABORT, CHandler, Destructor, ExtendedHandler, FortranHandler,
    MPI_Errhandler, MPI_File, SUCCESS, export, export_as, file_null,
};
use crate::convert::{pointer, store};
use crate::guard::{Failure, Subject, Verdict, contained, failure, judge_null, no_such_handle, on_no_file};
use crate::real::{predefined, real};
use crate::{handle, report};

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
// SAFETY: as for `Send`; nothing changes a `Kind`.
unsafe impl Sync for Kind {}

/// A handler with one reference to its MPI object.
#[derive(Debug)]
pub(crate) struct Handler {
    kind: Kind,
    handle: MPI_Errhandler,
}

// SAFETY: an MPI_Errhandler is a name that MPI accepts from any thread, and Kind is Send.
unsafe impl Send for Handler {}
// SAFETY: as for `Send`; nothing changes a `Handler` before its drop.
unsafe impl Sync for Handler {}

impl Handler {
    /// The default, `MPI_ERRORS_RETURN`.
    fn returning() -> Self {
        Handler { kind: Kind::Return, handle: errors_return() }
    }

    /// Takes a reference to `handle`, which does `kind`. Predefined handlers are never freed and need none.
    fn attach(kind: Kind, handle: MPI_Errhandler) -> Result<Self, Failure> {
        let handle = if is_predefined(handle) { handle } else { reference(handle)? };
        Ok(Handler { kind, handle })
    }

    /// What it does.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if !is_predefined(self.handle) {
            // SAFETY: `attach` took this reference, and only this drop gives it back.
            unsafe { MPI_Errhandler_free(&raw mut self.handle) };
        }
    }
}

/// Where the handler of one file is kept. The file and its requests share it, so a request whose file is
/// closed still finds the handler, and a later `MPI_File_set_errhandler` reaches the requests.
#[derive(Clone, Debug)]
pub(crate) struct Attached(Arc<Mutex<Arc<Handler>>>);

impl Attached {
    /// The handler as it is now. It stays usable when the file gets another one.
    pub(crate) fn current(&self) -> Arc<Handler> {
        Arc::clone(&lock(&self.0))
    }

    fn replace(&self, new: Arc<Handler>) -> Arc<Handler> {
        replace(&mut *lock(&self.0), new)
    }
}

/// A call of a user's handler that is due.
///
/// It has no destructor: a handler may leave by `longjmp`, which must skip none. One reference to the handler
/// is leaked then.
pub(crate) struct Call {
    handler: ManuallyDrop<Arc<Handler>>,
    file: MPI_File,
    code: c_int,
}

impl Call {
    pub(crate) fn new(handler: Arc<Handler>, file: MPI_File, code: c_int) -> Self {
        Call { handler: ManuallyDrop::new(handler), file, code }
    }

    /// The code that the handler is given.
    pub(crate) fn code(&self) -> c_int {
        self.code
    }

    /// Calls the handler, and returns the code that it left. Nothing of this library may be locked or borrowed,
    /// and no value with a destructor may live in the callers' frames up to the C ABI.
    pub(crate) fn make(self) -> c_int {
        let left = call(self.handler.kind, self.file, self.code);
        drop(ManuallyDrop::into_inner(self.handler));
        left
    }
}

/// What each created handle calls. A handle that MPI gives out again is overwritten by its next creation.
static CREATED: Mutex<Option<HashMap<usize, Kind>>> = Mutex::new(None);

/// The handler of `MPI_FILE_NULL`, inherited by files at open; `None` stands for the default,
/// `MPI_ERRORS_RETURN`.
static OF_NULL: Mutex<Option<Arc<Handler>>> = Mutex::new(None);

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

/// `MPI_ERRORS_ABORT` of the MPI library that is loaded, if it has one.
///
/// One build serves Open MPI 4.1, which has none, and 5.0, where it is the address of an object.
fn errors_abort() -> Option<MPI_Errhandler> {
    static FOUND: OnceLock<Option<Handle>> = OnceLock::new();
    if CAPULET_ERRORS_ABORT != CAPULET_ERRHANDLER_NULL {
        return Some(CAPULET_ERRORS_ABORT);
    }
    FOUND.get_or_init(|| predefined(c"ompi_mpi_errors_abort").map(Handle)).as_ref().map(|found| found.0)
}

/// A predefined handle.
struct Handle(MPI_Errhandler);

// SAFETY: an MPI_Errhandler is a name that MPI accepts from any thread.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`; nothing changes the handle.
unsafe impl Sync for Handle {}

/// What a predefined handle does; `None` for every other one.
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

/// One more reference to an error handler for files.
///
/// To a predefined one too: Open MPI counts those, and its `MPI_Errhandler_free` takes one away. MPICH, whose
/// handles are numbers, counts none, and 4.0 aborts when it is given `MPI_ERRORS_ABORT`.
fn reference(handle: MPI_Errhandler) -> Result<MPI_Errhandler, Failure> {
    let is_number = size_of::<MPI_Errhandler>() < size_of::<*mut c_void>();
    if is_number && errors_abort() == Some(handle) {
        return Ok(handle);
    }
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
    } else {
        let created = || lock(&CREATED).as_ref()?.get(&(handle.0 as usize)).copied();
        predefined_kind(handle).or_else(created)
    };
    let kind = kind.ok_or_else(|| failure(ErrorClass::Arg, "not an error handler for files"))?;
    Handler::attach(kind, handle)
}

/// The handler that a file has from `MPI_FILE_NULL` when it is opened (MPI 14.7).
pub(crate) fn inherited() -> Attached {
    Attached(Arc::new(Mutex::new(of_null())))
}

/// The handler of `MPI_FILE_NULL` as it is now.
pub(crate) fn of_null() -> Arc<Handler> {
    lock(&OF_NULL).clone().unwrap_or_else(|| Arc::new(Handler::returning()))
}

/// Calls a user's handler, and returns the code that it left. The peers return that code from the failing
/// call, so a handler can change it. MPICH's extended form gets the code by value and cannot.
fn call(kind: Kind, mut file: MPI_File, mut code: c_int) -> c_int {
    match kind {
        Kind::Return | Kind::Fatal | Kind::Abort => {}
        // SAFETY: the user gave this function as a handler of this form, and both arguments live on this
        // frame.
        Kind::C(function) => unsafe {
            function(&raw mut file, &raw mut code, std::ptr::null_mut::<c_void>());
        },
        Kind::Fortran(function) => {
            let mut number = handle::to_fortran(file);
            // SAFETY: the user gave this subroutine as a handler, and both arguments live on this frame.
            unsafe { function(&raw mut number, &raw mut code) }
        }
        // SAFETY: the user gave this function as a handler of this form; the extra argument is the one that came
        // with the function, and the reference of the `Handler` keeps MPI from destroying it.
        Kind::Extended(function, extra) => unsafe { function(file, code, extra) },
    }
    code
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
            let new = Arc::new(attachable(errhandler)?);
            // The old one is dropped after its lock is released: its drop may call MPI.
            let old = match entry {
                Some(entry) => Some(entry.handler.replace(new)),
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
            // Held until the user's reference is taken: another thread may set another handler meanwhile.
            let handler = entry.map_or_else(of_null, |entry| entry.handler.current());
            pointer((!errhandler.is_null()).then_some(()))?;
            // SAFETY: the caller's pointer to one handle, or null.
            unsafe { store(errhandler, reference(handler.handle)?) }
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
            let handler = entry.as_ref().map_or_else(of_null, |entry| entry.handler.current());
            let kind = handler.kind();
            match kind {
                Kind::Return => Verdict::Return(SUCCESS),
                Kind::Fatal | Kind::Abort => {
                    let subject = entry.as_ref().map_or_else(Subject::null, |entry| entry.subject(file));
                    report::abort(CALL, kind, &subject, code, "the program called the error handler")
                }
                Kind::C(_) | Kind::Fortran(_) | Kind::Extended(..) => {
                    Verdict::CallByHand(Call::new(handler, file, code))
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
