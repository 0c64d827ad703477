//! Split collective data access (MPI 14.4.5): one function begins a nonblocking access, and another function
//! waits for it. A file has at most one such access in progress.

use std::ffi::{c_int, c_void};
use std::mem::discriminant;
use std::sync::PoisonError;

use capulet_adio::Position;
use capulet_comm::{ErrorClass, status};
use capulet_drivers::Direction;

use crate::abi::{MPI_File, MPI_Status, export};
use crate::data_access::{Buffer, Operation, export_data_access};
use crate::failure::failure;
use crate::frame::on_file_collective;
use crate::open_files::SplitAccess;

/// # Safety
/// `buffer` is the buffer of the caller. It is valid until the access is ended (MPI 14.4.5).
unsafe fn begin(call: &'static str, file: MPI_File, operation: Operation, buffer: Buffer) -> c_int {
    on_file_collective(call, file, |open| {
        let Operation { direction, position, .. } = operation;
        let mut split = open.split.lock().unwrap_or_else(PoisonError::into_inner);
        if split.is_some() {
            return Err(failure(ErrorClass::Other, "a split collective access is in progress on this file"));
        }
        // SAFETY: `# Safety` of this function: the buffer is valid until the access is ended, as
        // `# Safety` of `File::start` requires.
        let request = unsafe { open.file.start(direction, position, buffer.checked()) };
        *split = Some(SplitAccess { kind: (direction, discriminant(&position)), request });
        Ok(())
    })
}

/// # Safety
/// `out` is the status of the caller, or `MPI_STATUS_IGNORE`.
unsafe fn end(
    call: &'static str,
    file: MPI_File,
    direction: Direction,
    position: Position,
    out: *mut MPI_Status,
) -> c_int {
    on_file_collective(call, file, |open| {
        let kind = (direction, discriminant(&position));
        let access = {
            let mut split = open.split.lock().unwrap_or_else(PoisonError::into_inner);
            split.take_if(|access| access.kind == kind)
        };
        let Some(access) = access else {
            return Err(failure(
                ErrorClass::Other,
                "no split collective access of this kind is in progress on this file",
            ));
        };
        let outcome = access.request.wait();
        // SAFETY: `# Safety` of this function: `out` is a status or `MPI_STATUS_IGNORE`.
        unsafe { status::set(out, outcome.bytes) }?;
        outcome.error.map_or(Ok(()), Err)
    })
}

export_data_access! {
    begin(), "Blocks only at the shared file pointer (MPI 14.4.5).";
    File_read_all_begin File_read_all_begin_c: Read Individual Collective;
    File_write_all_begin File_write_all_begin_c: Write Individual Collective;
    File_read_at_all_begin File_read_at_all_begin_c: Read Explicit Collective;
    File_write_at_all_begin File_write_at_all_begin_c: Write Explicit Collective;
    File_read_ordered_begin File_read_ordered_begin_c: Read Shared Collective;
    File_write_ordered_begin File_write_ordered_begin_c: Write Shared Collective;
}

/// Exports end functions. The offset of an explicit position has no effect.
macro_rules! export_end {
    ($($name:ident: $direction:ident, $position:expr;)*) => {
        $(export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.5). Collective. Blocks.")]
            #[doc = "The begin function got the buffer already, so the argument has no effect."]
            fn $name(file: MPI_File, _buffer: *mut c_void, status: *mut MPI_Status) -> c_int {
                let call = concat!("MPI_", stringify!($name));
                // SAFETY: `# Safety` of the exported function (MPI 14.4.5): `status` is a status or
                // `MPI_STATUS_IGNORE`.
                unsafe { end(call, file, Direction::$direction, $position, status) }
            }
        })*
    };
}

export_end! {
    File_read_all_end: Read, Position::Individual;
    File_write_all_end: Write, Position::Individual;
    File_read_at_all_end: Read, Position::Explicit(0);
    File_write_at_all_end: Write, Position::Explicit(0);
    File_read_ordered_end: Read, Position::Shared;
    File_write_ordered_end: Write, Position::Shared;
}
