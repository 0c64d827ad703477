//! Split collective data access (MPI 14.4.5): a nonblocking access that is begun by one call and waited for by another. A file
//! has at most one.

use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

use capulet_adio::{Position, Request};
use capulet_comm::{ErrorClass, status};
use capulet_drivers::Direction;

use crate::abi::{Count, MPI_Datatype, MPI_File, MPI_Status, Offset, export};
use crate::access::CMemory;
use crate::guard::{failure, on_file_together};

/// The two halves of one access of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    ReadAt,
    WriteAt,
    ReadOrdered,
    WriteOrdered,
}

/// An access that was begun.
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
/// The memory is the caller's buffer, valid as MPI demands until the access is ended.
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
            return Err(failure(ErrorClass::Other, "a split collective access is under way on this file"));
        }
        // SAFETY: by the caller's promise.
        let access = unsafe { entry.file.start(kind.direction(), position, memory.checked()) };
        *split = Some((kind, access));
        Ok(())
    })
}

/// # Safety
/// `out` is the caller's status, or `MPI_STATUS_IGNORE`.
unsafe fn end(call: &'static str, file: MPI_File, kind: Kind, out: *mut MPI_Status) -> c_int {
    on_file_together(call, file, |entry| {
        let begun = {
            let mut split = entry.split.lock().unwrap_or_else(PoisonError::into_inner);
            split.take_if(|(begun, _)| *begun == kind)
        };
        let Some((_, access)) = begun else {
            return Err(failure(
                ErrorClass::Other,
                "no such split collective access is under way on this file",
            ));
        };
        let outcome = access.wait();
        // SAFETY: by the caller's promise.
        unsafe { status::set(out, outcome.bytes) }?;
        outcome.error.map_or(Ok(()), Err)
    })
}

/// The first halves of an access, for one type of count, with an explicit offset or by a file pointer.
macro_rules! begins {
    ($name:ident, $count:ty, $kind:ident, at) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.5). Collective; does not block.")]
            fn $name(
                file: MPI_File, offset: Offset, base: *mut c_void, count: $count, datatype: MPI_Datatype
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let call = concat!("MPI_", stringify!($name));
                // SAFETY: the caller's buffer.
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
                // SAFETY: the caller's buffer.
                unsafe { begin(call, file, Kind::$kind, Position::$position, memory) }
            }
        }
    };
}

/// The second half of an access.
macro_rules! ends {
    ($name:ident, $kind:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.5). Collective; blocks. The buffer is that of the first half.")]
            fn $name(file: MPI_File, _buffer: *mut c_void, status: *mut MPI_Status) -> c_int {
                // SAFETY: the caller's status.
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
