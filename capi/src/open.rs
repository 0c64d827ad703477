//! Open, close and delete files, and query and change open files (MPI 14.2, 14.6.1).

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capulet_adio::{File, OpenRequest};
use capulet_comm::{ErrorClass, info};

use crate::abi::{MPI_Comm, MPI_File, MPI_Group, MPI_Info, Offset, export, file_null};
use crate::convert::{file_name, mode_from_c, mode_to_c, pairs, store};
use crate::environment;
use crate::failure::{Failure, failure};
use crate::frame::{on_closing, on_file, on_file_collective, on_no_file, on_opening};
use crate::group::OwnGroup;
use crate::handler;
use crate::open_files::{self, OpenFile};

export! {
    /// `MPI_File_open` (MPI 14.2.1). Collective over `comm`; blocks.
    ///
    /// An invalid communicator is an error on this rank only. The ranks agree on every other invalid
    /// argument.
    fn File_open(
        comm: MPI_Comm,
        name: *const c_char,
        mode: c_int,
        info: MPI_Info,
        file: *mut MPI_File
    ) -> c_int {
        let body = || {
            if !file.is_null() {
                // SAFETY: `# Safety` of this function (MPI 14.2.1): `file` points to one handle, because
                // it is not null.
                unsafe { file.write(file_null()) };
            }
            let request = if file.is_null() {
                Err(failure(ErrorClass::Arg, "the pointer to the handle is null"))
            } else {
                // SAFETY: `# Safety` of this function (MPI 14.2.1): `name` is null or a C string.
                unsafe { open_request(name, mode, info) }
            };
            // SAFETY: `# Safety` of this function (MPI 14.2.1): `comm` is valid during the call, or null.
            let group = unsafe { OwnGroup::of(comm) };
            // Steps that can fail on this rank only come before the open, which passes their error to all
            // ranks.
            let (request, group) = match (request, group) {
                (Ok(request), Ok(group)) => (Ok(request), Some(group)),
                (Err(error), _) | (_, Err(error)) => (Err(error), None),
            };
            let name = request.as_ref().map(|request| request.name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            // SAFETY: `# Safety` of this function (MPI 14.2.1): `comm` is valid during the call, or null.
            // `open_raw` refuses a null communicator and an inter-communicator.
            let opened = unsafe { File::open_raw(comm, request, &environment::composition().context) }?;
            let Some(group) = group else {
                return Err(failure(
                    ErrorClass::Intern,
                    "a bug in Capulet: a file was opened without a request",
                ));
            };
            let handler = handler::inherited();
            let open = OpenFile { file: opened, group, name, split: Mutex::default(), handler };
            // SAFETY: `file` is not null, because the open had a request.
            unsafe { store(file, open_files::insert(Arc::new(open))) }
        };
        // SAFETY: `# Safety` of this function (MPI 14.2.1): `comm` is valid or null.
        unsafe { on_opening("MPI_File_open", comm, body) }
    }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn open_request(name: *const c_char, mode: c_int, info: MPI_Info) -> Result<OpenRequest, Failure> {
    environment::composition().check()?;
    // SAFETY: `# Safety` of this function: `name` is null or a C string.
    let name = unsafe { file_name(name) }?;
    Ok(OpenRequest { name, mode: mode_from_c(mode), hints: pairs(info)? })
}

export! {
    /// `MPI_File_close` (MPI 14.2.2). Collective; blocks. Afterwards the handle is `MPI_FILE_NULL` and
    /// its previous value is stale, also after an error.
    fn File_close(file: *mut MPI_File) -> c_int {
        const CALL: &str = "MPI_File_close";
        if file.is_null() {
            return on_no_file(CALL, || Err(failure(ErrorClass::Arg, "the pointer to the handle is null")));
        }
        // SAFETY: `# Safety` of this function (MPI 14.2.2): `file` points to one handle, because it is
        // not null.
        let number = unsafe { file.read() };
        on_closing(CALL, number, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.2.2): `file` points to one handle.
            unsafe { file.write(file_null()) };
            sole_owner(open).file.close()
        })
    }
}

/// Waits until no other thread uses the file, and returns it. The file is not in the table any more, so
/// no new use begins.
fn sole_owner(mut open: Arc<OpenFile>) -> OpenFile {
    loop {
        match Arc::try_unwrap(open) {
            Ok(owned) => return owned,
            Err(shared) => open = shared,
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

export! {
    /// `MPI_File_delete` (MPI 14.2.3). Local.
    fn File_delete(name: *const c_char, info: MPI_Info) -> c_int {
        on_no_file("MPI_File_delete", || {
            // SAFETY: `# Safety` of this function (MPI 14.2.3): `name` is null or a C string.
            let name = unsafe { file_name(name) }?;
            pairs(info)?;
            environment::composition().check()?;
            File::delete(&name, &environment::composition().context)
        })
    }
}

export! {
    /// `MPI_File_get_group` (MPI 14.2.7). Local. The caller frees the group.
    fn File_get_group(file: MPI_File, group: *mut MPI_Group) -> c_int {
        on_file("MPI_File_get_group", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.2.7): `group` is null or points to one group.
            unsafe { store(group, open.group.duplicate()?) }
        })
    }
}

export! {
    /// `MPI_File_get_amode` (MPI 14.2.7). Local.
    fn File_get_amode(file: MPI_File, mode: *mut c_int) -> c_int {
        on_file("MPI_File_get_amode", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.2.7): `mode` is null or points to one int.
            unsafe { store(mode, mode_to_c(open.file.mode())) }
        })
    }
}

export! {
    /// `MPI_File_set_info` (MPI 14.2.8). Collective; blocks.
    fn File_set_info(file: MPI_File, info: MPI_Info) -> c_int {
        on_file_collective("MPI_File_set_info", file, |open| open.file.set_info(pairs(info)))
    }
}

export! {
    /// `MPI_File_get_info` (MPI 14.2.8). Local. The caller frees the info object.
    fn File_get_info(file: MPI_File, info: *mut MPI_Info) -> c_int {
        on_file("MPI_File_get_info", file, |open| {
            if info.is_null() {
                return Err(failure(ErrorClass::Arg, "the pointer to the info object is null"));
            }
            let made = info::new_info(&open.file.info())?;
            // SAFETY: `# Safety` of this function (MPI 14.2.8): `info` points to one info object.
            unsafe { store(info, made) }
        })
    }
}

export! {
    /// `MPI_File_get_size` (MPI 14.2.6). Local.
    fn File_get_size(file: MPI_File, bytes: *mut Offset) -> c_int {
        on_file("MPI_File_get_size", file, |open| {
            let size = offset(open.file.size()?)?;
            // SAFETY: `# Safety` of this function (MPI 14.2.6): `bytes` is null or points to one offset.
            unsafe { store(bytes, size) }
        })
    }
}

fn offset(bytes: u64) -> Result<Offset, Failure> {
    Offset::try_from(bytes).map_err(|_| failure(ErrorClass::Io, "the file is larger than an MPI_Offset"))
}

export! {
    /// `MPI_File_set_size` (MPI 14.2.4). Collective; blocks.
    fn File_set_size(file: MPI_File, bytes: Offset) -> c_int {
        on_file_collective("MPI_File_set_size", file, |open| open.file.set_size(bytes))
    }
}

export! {
    /// `MPI_File_preallocate` (MPI 14.2.5). Collective; blocks.
    fn File_preallocate(file: MPI_File, bytes: Offset) -> c_int {
        on_file_collective("MPI_File_preallocate", file, |open| open.file.preallocate(bytes))
    }
}

export! {
    /// `MPI_File_sync` (MPI 14.6.1). Collective; blocks until the data is on stable storage.
    fn File_sync(file: MPI_File) -> c_int {
        on_file_collective("MPI_File_sync", file, |open| open.file.sync())
    }
}

export! {
    /// `MPI_File_set_atomicity` (MPI 14.6.1). Collective; blocks.
    ///
    /// `MPI_ERR_UNSUPPORTED_OPERATION` on all ranks if atomic mode is not possible: among nodes that cache
    /// what they read, or if the hint `capulet_lock` requests a lock that the storage or the nodes do not
    /// support.
    fn File_set_atomicity(file: MPI_File, flag: c_int) -> c_int {
        on_file_collective("MPI_File_set_atomicity", file, |open| open.file.set_atomicity(flag != 0))
    }
}

export! {
    /// `MPI_File_get_atomicity` (MPI 14.6.1). Local.
    fn File_get_atomicity(file: MPI_File, flag: *mut c_int) -> c_int {
        on_file("MPI_File_get_atomicity", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.6.1): `flag` is null or points to one int.
            unsafe { store(flag, c_int::from(open.file.atomicity())) }
        })
    }
}
