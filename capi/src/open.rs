//! Open, close, delete, and what an open file is (MPI 14.2).

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capulet_adio::{File, OpenRequest};
use capulet_comm::{ErrorClass, info};

use crate::abi::{MPI_Comm, MPI_File, MPI_Group, MPI_Info, Offset, export, file_null};
use crate::convert::{file_name, mode_from_c, mode_to_c, pairs, store};
use crate::group::OwnGroup;
use crate::guard::{Failure, failure, on_closing, on_file, on_file_together, on_no_file, on_opening};
use crate::handle::{self, Entry};
use crate::{environment, errhandler};

export! {
    /// `MPI_File_open` (MPI 14.2.1). Collective over `comm`; blocks.
    ///
    /// A wrong communicator is found on the rank alone; every other wrong argument is agreed on by all ranks.
    fn File_open(
        comm: MPI_Comm,
        name: *const c_char,
        mode: c_int,
        info: MPI_Info,
        file: *mut MPI_File
    ) -> c_int {
        let body = || {
            if !file.is_null() {
                // SAFETY: the caller's pointer to one handle.
                unsafe { file.write(file_null()) };
            }
            let request = if file.is_null() {
                Err(failure(ErrorClass::Arg, "a null pointer for the file handle"))
            } else {
                // SAFETY: the caller's string.
                unsafe { open_request(name, mode, info) }
            };
            // SAFETY: the caller's communicator, which stays valid during the call.
            let group = unsafe { OwnGroup::of(comm) };
            // Whatever can fail on this rank alone comes before the open, which tells the others.
            let (request, group) = match (request, group) {
                (Ok(request), Ok(group)) => (Ok(request), Some(group)),
                (Err(wrong), _) | (_, Err(wrong)) => (Err(wrong), None),
            };
            let name = request.as_ref().map(|request| request.name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            // SAFETY: as above; of its kind the callee makes sure.
            let opened = unsafe { File::open_raw(comm, request, &environment::composition().context) }?;
            let Some(group) = group else {
                return Err(failure(ErrorClass::Intern, "a file was opened without a request"));
            };
            let handler = errhandler::inherited();
            let entry = Entry { file: opened, group, name, split: Mutex::default(), handler };
            // SAFETY: the request was good, so the pointer is not null.
            unsafe { store(file, handle::insert(Arc::new(entry))) }
        };
        // SAFETY: the caller's communicator.
        unsafe { on_opening("MPI_File_open", comm, body) }
    }
}

/// # Safety
/// `name` is the caller's string, or null.
unsafe fn open_request(name: *const c_char, mode: c_int, info: MPI_Info) -> Result<OpenRequest, Failure> {
    environment::composition().check()?;
    // SAFETY: by the caller's promise.
    let name = unsafe { file_name(name) }?;
    Ok(OpenRequest { name, mode: mode_from_c(mode), hints: pairs(info)? })
}

export! {
    /// `MPI_File_close` (MPI 14.2.2). Collective; blocks. The handle is null and stale from here on, even
    /// after an error.
    fn File_close(file: *mut MPI_File) -> c_int {
        const CALL: &str = "MPI_File_close";
        if file.is_null() {
            return on_no_file(CALL, || Err(failure(ErrorClass::Arg, "a null pointer for the file handle")));
        }
        // SAFETY: the caller's pointer to one handle.
        let number = unsafe { file.read() };
        on_closing(CALL, number, |entry| {
            // SAFETY: as above.
            unsafe { file.write(file_null()) };
            alone(entry).file.close()
        })
    }
}

/// The entry itself, once the calls that other threads have on the same file are over. It is out of the
/// table, so no new ones come.
fn alone(mut entry: Arc<Entry>) -> Entry {
    loop {
        match Arc::try_unwrap(entry) {
            Ok(alone) => return alone,
            Err(shared) => entry = shared,
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

export! {
    /// `MPI_File_delete` (MPI 14.2.3). Local.
    fn File_delete(name: *const c_char, info: MPI_Info) -> c_int {
        on_no_file("MPI_File_delete", || {
            // SAFETY: the caller's string.
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
        on_file("MPI_File_get_group", file, |entry| {
            // SAFETY: the caller's pointer to one group, or null.
            unsafe { store(group, entry.group.duplicate()?) }
        })
    }
}

export! {
    /// `MPI_File_get_amode` (MPI 14.2.7). Local.
    fn File_get_amode(file: MPI_File, mode: *mut c_int) -> c_int {
        on_file("MPI_File_get_amode", file, |entry| {
            // SAFETY: the caller's pointer to one integer, or null.
            unsafe { store(mode, mode_to_c(entry.file.mode())) }
        })
    }
}

export! {
    /// `MPI_File_set_info` (MPI 14.2.8). Collective; blocks.
    fn File_set_info(file: MPI_File, info: MPI_Info) -> c_int {
        on_file_together("MPI_File_set_info", file, |entry| entry.file.set_info(pairs(info)))
    }
}

export! {
    /// `MPI_File_get_info` (MPI 14.2.8). Local. The caller frees the info object.
    fn File_get_info(file: MPI_File, info: *mut MPI_Info) -> c_int {
        on_file("MPI_File_get_info", file, |entry| {
            if info.is_null() {
                return Err(failure(ErrorClass::Arg, "a null pointer for the info object"));
            }
            let made = info::new_info(&entry.file.info())?;
            // SAFETY: the caller's pointer to one info object.
            unsafe { store(info, made) }
        })
    }
}

export! {
    /// `MPI_File_get_size` (MPI 14.2.6). Local.
    fn File_get_size(file: MPI_File, bytes: *mut Offset) -> c_int {
        on_file("MPI_File_get_size", file, |entry| {
            let size = offset(entry.file.size()?)?;
            // SAFETY: the caller's pointer to one offset, or null.
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
        on_file_together("MPI_File_set_size", file, |entry| entry.file.set_size(bytes))
    }
}

export! {
    /// `MPI_File_preallocate` (MPI 14.2.5). Collective; blocks.
    fn File_preallocate(file: MPI_File, bytes: Offset) -> c_int {
        on_file_together("MPI_File_preallocate", file, |entry| entry.file.preallocate(bytes))
    }
}

export! {
    /// `MPI_File_sync` (MPI 14.6.1). Collective; blocks for the device.
    fn File_sync(file: MPI_File) -> c_int {
        on_file_together("MPI_File_sync", file, |entry| entry.file.sync())
    }
}

export! {
    /// `MPI_File_set_atomicity` (MPI 14.6.1). Collective. Refused on all ranks where it cannot be given: among several
    /// nodes, and without shared memory.
    fn File_set_atomicity(file: MPI_File, flag: c_int) -> c_int {
        on_file_together("MPI_File_set_atomicity", file, |entry| entry.file.set_atomicity(flag != 0))
    }
}

export! {
    /// `MPI_File_get_atomicity` (MPI 14.6.1). Local.
    fn File_get_atomicity(file: MPI_File, flag: *mut c_int) -> c_int {
        on_file("MPI_File_get_atomicity", file, |entry| {
            // SAFETY: the caller's pointer to one integer, or null.
            unsafe { store(flag, c_int::from(entry.file.atomicity())) }
        })
    }
}
