//! Views and file pointers (MPI 14.3, 14.4.3, 14.4.4, 14.5.1).

use std::ffi::{c_char, c_int};

use capulet_adio::FileView;
use capulet_comm::ErrorClass;
use mpi::ffi;

use crate::abi::{Aint, Count, MPI_Datatype, MPI_File, MPI_Info, Offset, export};
use crate::convert::{datatype, pairs, store, string, whence};
use crate::failure::{Failure, failure};
use crate::frame::{on_file, on_file_collective};
use crate::open_files::OpenFile;

/// `MPI_DISPLACEMENT_CURRENT`, the same in every supported MPI. The C tests check it.
const DISPLACEMENT_CURRENT: Offset = -54_278_278;

export! {
    /// `MPI_File_set_view` (MPI 14.3). Collective; blocks. The ranks agree on every invalid argument.
    fn File_set_view(
        file: MPI_File,
        displacement: Offset,
        etype: MPI_Datatype,
        filetype: MPI_Datatype,
        representation: *const c_char,
        info: MPI_Info
    ) -> c_int {
        on_file_collective("MPI_File_set_view", file, |open| {
            // SAFETY: `# Safety` of the exported function (MPI 14.3): `representation` is null or a C
            // string.
            let view = unsafe { view(open, displacement, etype, filetype, representation) };
            let (view, hints) = match (view, pairs(info)) {
                (Ok(view), Ok(hints)) => (Ok(view), hints),
                (Err(error), _) | (_, Err(error)) => (Err(error), Vec::new()),
            };
            open.file.set_view_or(view, &hints)
        })
    }
}

/// # Safety
/// `representation` is null or a C string.
unsafe fn view(
    open: &OpenFile,
    displacement: Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    representation: *const c_char,
) -> Result<FileView, Failure> {
    // SAFETY: `# Safety` of this function: `representation` is null or a C string.
    let representation = unsafe { string(representation) }?;
    let representation = representation
        .to_str()
        .map_err(|_| failure(ErrorClass::UnsupportedDatarep, "the data representation is not UTF-8"))?;
    let writable = open.file.mode().writes();
    let (etype, filetype) = (datatype(etype)?, datatype(filetype)?);
    if displacement == DISPLACEMENT_CURRENT {
        return FileView::from_here(etype, filetype, representation, writable);
    }
    FileView::checked(displacement, etype, filetype, representation, writable)
}

export! {
    /// `MPI_File_get_view` (MPI 14.3). Local. The caller frees those datatypes that are not predefined.
    fn File_get_view(
        file: MPI_File,
        displacement: *mut Offset,
        etype: *mut MPI_Datatype,
        filetype: *mut MPI_Datatype,
        representation: *mut c_char
    ) -> c_int {
        on_file("MPI_File_get_view", file, |open| {
            if displacement.is_null() || etype.is_null() || filetype.is_null() || representation.is_null() {
                return Err(failure(ErrorClass::Arg, "the pointer to a result is null"));
            }
            let view = open.file.view();
            let etype_made = view.etype().duplicate()?;
            let filetype_made = view.filetype().duplicate()?;
            // SAFETY: `# Safety` of this function (MPI 14.3): each pointer points to one value, because
            // it is not null.
            unsafe {
                displacement.write(view.displacement_bytes() as Offset);
                etype.write(etype_made);
                filetype.write(filetype_made);
            }
            // SAFETY: MPI 14.3: the caller's string has MPI_MAX_DATAREP_STRING characters. The name of a
            // data representation is shorter.
            unsafe { put_string(representation, view.representation()) };
            Ok(())
        })
    }
}

/// Copies a string and adds a zero byte.
///
/// # Safety
/// `target` is valid for writes of `text.len() + 1` bytes.
unsafe fn put_string(target: *mut c_char, text: &str) {
    debug_assert!(text.len() < ffi::MPI_MAX_DATAREP_STRING as usize);
    // SAFETY: `# Safety` of this function. A Rust string and memory of the caller do not overlap.
    unsafe {
        target.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        target.add(text.len()).write(0);
    }
}

export! {
    /// `MPI_File_seek` (MPI 14.4.3). Local.
    fn File_seek(file: MPI_File, offset: Offset, origin: c_int) -> c_int {
        on_file("MPI_File_seek", file, |open| open.file.seek(offset, whence(origin)?))
    }
}

export! {
    /// `MPI_File_get_position` (MPI 14.4.3). Local. The unit is the etype of the view.
    fn File_get_position(file: MPI_File, offset: *mut Offset) -> c_int {
        on_file("MPI_File_get_position", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.4.3): `offset` is null or points to one offset.
            unsafe { store(offset, open.file.position()?) }
        })
    }
}

export! {
    /// `MPI_File_seek_shared` (MPI 14.4.4). Collective. All ranks pass the same arguments.
    fn File_seek_shared(file: MPI_File, offset: Offset, origin: c_int) -> c_int {
        on_file_collective("MPI_File_seek_shared", file, |open| open.file.seek_shared(offset, whence(origin)))
    }
}

export! {
    /// `MPI_File_get_position_shared` (MPI 14.4.4). Local. The unit is the etype of the view.
    fn File_get_position_shared(file: MPI_File, offset: *mut Offset) -> c_int {
        on_file("MPI_File_get_position_shared", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.4.4): `offset` is null or points to one offset.
            unsafe { store(offset, open.file.position_shared()?) }
        })
    }
}

export! {
    /// `MPI_File_get_byte_offset` (MPI 14.4.3). Local. Converts etypes of the view to a byte of the file.
    fn File_get_byte_offset(file: MPI_File, offset: Offset, displacement: *mut Offset) -> c_int {
        on_file("MPI_File_get_byte_offset", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.4.3): `displacement` is null or points to one
            // offset.
            unsafe { store(displacement, open.file.byte_offset(offset)?) }
        })
    }
}

export! {
    /// `MPI_File_get_type_extent` (MPI 14.5.1). Local. The unit is a byte.
    fn File_get_type_extent(file: MPI_File, kind: MPI_Datatype, extent: *mut Aint) -> c_int {
        on_file("MPI_File_get_type_extent", file, |open| {
            let bytes = open.file.type_extent(&datatype(kind)?);
            // SAFETY: `# Safety` of this function (MPI 14.5.1): `extent` is null or points to one
            // `MPI_Aint`.
            unsafe { store(extent, bytes as Aint) }
        })
    }
}

export! {
    /// `MPI_File_get_type_extent_c` (MPI 14.5.1). Local. The unit is a byte.
    fn File_get_type_extent_c(file: MPI_File, kind: MPI_Datatype, extent: *mut Count) -> c_int {
        on_file("MPI_File_get_type_extent_c", file, |open| {
            // SAFETY: `# Safety` of this function (MPI 14.5.1): `extent` is null or points to one
            // `MPI_Count`.
            unsafe { store(extent, open.file.type_extent(&datatype(kind)?)) }
        })
    }
}
