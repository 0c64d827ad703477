//! Blocking data access at explicit offsets, the individual file pointer and the shared file pointer
//! (MPI 14.4.2 to 14.4.4).

use std::ffi::c_int;

use capulet_comm::status;

use crate::abi::{MPI_File, MPI_Status};
use crate::data_access::{Buffer, Operation, export_data_access};
use crate::frame::on_file_as;

/// Runs one access. In a collective access, an invalid argument is passed down as an error, so that all ranks
/// get it.
///
/// # Safety
/// `buffer` is the buffer of the caller. It is valid for the direction as MPI 14.4 requires. `out` is the
/// status of the caller, or `MPI_STATUS_IGNORE`.
unsafe fn access(
    call: &'static str,
    file: MPI_File,
    operation: Operation,
    buffer: Buffer,
    out: *mut MPI_Status,
) -> c_int {
    let Operation { direction, position, coordination } = operation;
    on_file_as(coordination, call, file, |open| {
        let memory = buffer.checked();
        // SAFETY: `# Safety` of this function: the buffer is valid, as `# Safety` of `File::access` requires.
        let outcome = unsafe { open.file.access(direction, position, coordination, memory) };
        // SAFETY: `# Safety` of this function: `out` is a status or `MPI_STATUS_IGNORE`.
        unsafe { status::set(out, outcome.bytes) }?;
        outcome.error.map_or(Ok(()), Err)
    })
}

export_data_access! {
    access(status: *mut MPI_Status), "Blocks (MPI 14.4.2 to 14.4.4).";
    File_read_at File_read_at_c: Read Explicit Independent;
    File_read_at_all File_read_at_all_c: Read Explicit Collective;
    File_write_at File_write_at_c: Write Explicit Independent;
    File_write_at_all File_write_at_all_c: Write Explicit Collective;

    File_read File_read_c: Read Individual Independent;
    File_read_all File_read_all_c: Read Individual Collective;
    File_write File_write_c: Write Individual Independent;
    File_write_all File_write_all_c: Write Individual Collective;

    File_read_shared File_read_shared_c: Read Shared Independent;
    File_read_ordered File_read_ordered_c: Read Shared Collective;
    File_write_shared File_write_shared_c: Write Shared Independent;
    File_write_ordered File_write_ordered_c: Write Shared Collective;
}
