//! The functions for error handlers of files (MPI 9.3.3, 9.5).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use capulet_adio::Coordination;

use crate::abi::{
    CHandler, Destructor, ExtendedHandler, MPI_Errhandler, MPI_File, SUCCESS, export, export_as, file_null,
};
use crate::convert::{pointer, store};
use crate::failure::Failure;
use crate::frame::{contain, no_such_handle, on_file, on_no_file};
use crate::handler::{Call, Kind, attachable, create, create_extended, of_null, replace_of_null};
use crate::open_files::{self, OpenFile};
use crate::report::{self, Subject};
use crate::verdict::{Verdict, judge_null};

export! {
    /// `MPI_File_create_errhandler` (MPI 9.3.3). Local.
    fn File_create_errhandler(function: Option<CHandler>, errhandler: *mut MPI_Errhandler) -> c_int {
        on_no_file("MPI_File_create_errhandler", || {
            let function = pointer(function)?;
            let made = create(function, Kind::C(function))?;
            // SAFETY: `# Safety` of this function (MPI 9.3.3): `errhandler` is null or points to one
            // handle.
            unsafe { store(errhandler, made) }
        })
    }
}

export! {
    /// `MPI_File_set_errhandler` (MPI 9.3.3). Local.
    fn File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> c_int {
        on_handler("MPI_File_set_errhandler", file, |open| {
            let new = Arc::new(attachable(errhandler)?);
            // The previous error handler is dropped after its lock is released, because the drop may call
            // MPI.
            let old = match open {
                Some(open) => Some(open.handler.replace(new)),
                None => replace_of_null(new),
            };
            drop(old);
            Ok(())
        })
    }
}

export! {
    /// `MPI_File_get_errhandler` (MPI 9.3.3). Local. The caller frees the handle.
    fn File_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) -> c_int {
        on_handler("MPI_File_get_errhandler", file, |open| {
            // `handler` holds its reference until the program has its own: another thread may replace the
            // error handler.
            let handler = open.map_or_else(of_null, |open| open.handler.current());
            pointer((!errhandler.is_null()).then_some(()))?;
            // SAFETY: `# Safety` of this function (MPI 9.3.3): `errhandler` points to one handle.
            unsafe { store(errhandler, handler.reference()?) }
        })
    }
}

export! {
    /// `MPI_File_call_errhandler` (MPI 9.5). Local. Returns success if the handler returns.
    fn File_call_errhandler(file: MPI_File, code: c_int) -> c_int {
        const CALL: &str = "MPI_File_call_errhandler";
        contain(CALL, Coordination::Independent, || {
            let open = open_files::find(file);
            if open.is_none() && file != file_null() {
                return judge_null(CALL, &no_such_handle(file));
            }
            let handler = open.as_ref().map_or_else(of_null, |open| open.handler.current());
            let kind = handler.kind();
            match kind {
                Kind::Return => Verdict::Return(SUCCESS),
                Kind::Fatal | Kind::Abort => {
                    let subject = open.as_ref().map_or_else(Subject::null, |open| open.subject(file));
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
    body: impl FnOnce(Option<&OpenFile>) -> Result<(), Failure>,
) -> c_int {
    if file == file_null() {
        on_no_file(call, || body(None))
    } else {
        on_file(call, file, |open| body(Some(open)))
    }
}

export_as! {
    ["MPIX_File_create_errhandler_x", "PMPIX_File_create_errhandler_x"]
    /// `MPIX_File_create_errhandler_x` of MPICH, which its Fortran and C++ bindings use. Local.
    ///
    /// If the MPI does not have this function, the destructor is never called, because no function tells
    /// when the last reference is freed.
    fn File_create_errhandler_x(
        function: Option<ExtendedHandler>,
        destructor: Option<Destructor>,
        extra: *mut c_void,
        errhandler: *mut MPI_Errhandler,
    ) -> c_int {
        on_no_file("MPIX_File_create_errhandler_x", || {
            let function = pointer(function)?;
            // SAFETY: this function and `create_extended` have the same `# Safety`.
            let made = unsafe { create_extended(function, destructor, extra) }?;
            // SAFETY: `# Safety` of this function: `errhandler` is null or points to one handle.
            unsafe { store(errhandler, made) }
        })
    }
}
