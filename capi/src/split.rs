//! Split collective data access (MPI 14.4.5): one function begins a nonblocking access, and another
//! function waits for it. A file has at most one such access in progress.

use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

use capulet_adio::{Position, Request};
use capulet_comm::{ErrorClass, status};
use capulet_drivers::Direction;

use crate::abi::{Count, MPI_Datatype, MPI_File, MPI_Status, Offset, export};
use crate::access::CMemory;
use crate::guard::{failure, on_file_together};

/// The kind of a split collective access. Only the end function of the same kind ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    ReadAt,
    WriteAt,
    ReadOrdered,
    WriteOrdered,
}

/// A split collective access in progress.
pub(crate) type Begun = (Kind, Request);

impl Kind {
    fn direction(self) -> Direction {
        match self {
            Kind::Read | Kind::ReadAt | Kind::ReadOrdered => Direction::Read,
            Kind::Write | Kind::WriteAt | Kind::WriteOrdered => Direction::Write,
        }
    }
}

/// # Safety
/// `memory` describes the buffer of the caller. It is valid until the access is ended (MPI 14.4.5).
unsafe fn begin(
    call: &'static str,
    file: MPI_File,
    kind: Kind,
    position: Position,
    memory: CMemory,
) -> c_int {
    on_file_together(call, file, |entry| {
        let mut split = entry.split.lock().unwrap_or_else(PoisonError::into_inner);
        if split.is_some() {
            return Err(failure(ErrorClass::Other, "a split collective access is in progress on this file"));
        }
        // SAFETY: `# Safety` of this function: the buffer is valid until the access is ended, as `#
        // Safety` of `File::start` requires.
        let access = unsafe { entry.file.start(kind.direction(), position, memory.checked()) };
        *split = Some((kind, access));
        Ok(())
    })
}

/// # Safety
/// `out` is the status of the caller, or `MPI_STATUS_IGNORE`.
unsafe fn end(call: &'static str, file: MPI_File, kind: Kind, out: *mut MPI_Status) -> c_int {
    on_file_together(call, file, |entry| {
        let begun = {
            let mut split = entry.split.lock().unwrap_or_else(PoisonError::into_inner);
            split.take_if(|(begun, _)| *begun == kind)
        };
        let Some((_, access)) = begun else {
            return Err(failure(
                ErrorClass::Other,
                "no split collective access of this kind is in progress on this file",
            ));
        };
        let outcome = access.wait();
        // SAFETY: `# Safety` of this function: `out` is a status or `MPI_STATUS_IGNORE`.
        unsafe { status::set(out, outcome.bytes) }?;
        outcome.error.map_or(Ok(()), Err)
    })
}

/// Exports a begin function, for one count type and with an explicit offset or a file pointer.
macro_rules! begins {
    ($name:ident, $count:ty, $kind:ident, at) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.5). Collective; does not block.")]
            fn $name(
                file: MPI_File, offset: Offset, base: *mut c_void, count: $count, datatype: MPI_Datatype
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let call = concat!("MPI_", stringify!($name));
                // SAFETY: `# Safety` of the exported function (MPI 14.4.5): the buffer is valid until the
                // end function is called.
                unsafe { begin(call, file, Kind::$kind, Position::Explicit(offset), memory) }
            }
        }
    };
    ($name:ident, $count:ty, $kind:ident, $position:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.5). Collective; blocks at the shared pointer only.")]
            fn $name(file: MPI_File, base: *mut c_void, count: $count, datatype: MPI_Datatype) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let call = concat!("MPI_", stringify!($name));
                // SAFETY: `# Safety` of the exported function (MPI 14.4.5): the buffer is valid until the
                // end function is called.
                unsafe { begin(call, file, Kind::$kind, Position::$position, memory) }
            }
        }
    };
}

/// Exports an end function.
macro_rules! ends {
    ($name:ident, $kind:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.5). Collective; blocks. The buffer is that of the first half.")]
            fn $name(file: MPI_File, _buffer: *mut c_void, status: *mut MPI_Status) -> c_int {
                // SAFETY: `# Safety` of the exported function (MPI 14.4.5): `status` is a status or
                // `MPI_STATUS_IGNORE`.
                unsafe { end(concat!("MPI_", stringify!($name)), file, Kind::$kind, status) }
            }
        }
    };
}

begins! { File_read_all_begin, c_int, Read, Individual }
begins! { File_read_all_begin_c, Count, Read, Individual }
begins! { File_write_all_begin, c_int, Write, Individual }
begins! { File_write_all_begin_c, Count, Write, Individual }
begins! { File_read_at_all_begin, c_int, ReadAt, at }
begins! { File_read_at_all_begin_c, Count, ReadAt, at }
begins! { File_write_at_all_begin, c_int, WriteAt, at }
begins! { File_write_at_all_begin_c, Count, WriteAt, at }
begins! { File_read_ordered_begin, c_int, ReadOrdered, Shared }
begins! { File_read_ordered_begin_c, Count, ReadOrdered, Shared }
begins! { File_write_ordered_begin, c_int, WriteOrdered, Shared }
begins! { File_write_ordered_begin_c, Count, WriteOrdered, Shared }

ends! { File_read_all_end, Read }
ends! { File_write_all_end, Write }
ends! { File_read_at_all_end, ReadAt }
ends! { File_write_at_all_end, WriteAt }
ends! { File_read_ordered_end, ReadOrdered }
ends! { File_write_ordered_end, WriteOrdered }
