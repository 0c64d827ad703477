//! Blocking data access at explicit offsets, the individual file pointer and the shared file pointer (MPI
//! 14.4.2 to 14.4.4).

use std::ffi::{c_int, c_void};

use capulet_adio::{Coordination, Position, UserMemory};
use capulet_comm::status;
use capulet_drivers::Direction;

use crate::abi::{Count, MPI_Datatype, MPI_File, MPI_Status, Offset, export};
use crate::convert::{buffer, count, description};
use crate::guard::{Failure, on_file_as};

/// The arguments of a data access function that describe its buffer.
pub(crate) struct CMemory {
    pub(crate) base: *mut c_void,
    pub(crate) count: Count,
    pub(crate) datatype: MPI_Datatype,
}

impl CMemory {
    /// Checks the arguments and imports the datatype.
    pub(crate) fn checked(self) -> Result<UserMemory, Failure> {
        let count = count(self.count)?;
        let datatype = description(self.datatype)?;
        buffer(self.base, count, &datatype)?;
        Ok(UserMemory { base: self.base.cast(), count, datatype })
    }
}

/// Runs one access. In a collective access, an invalid argument is passed down as an error, so that all
/// ranks get it.
///
/// # Safety
/// `memory` describes the buffer of the caller. It is valid for the direction as MPI 14.4 requires. `out`
/// is the status of the caller, or `MPI_STATUS_IGNORE`.
unsafe fn access(
    call: &'static str,
    file: MPI_File,
    (direction, position, coordination): (Direction, Position, Coordination),
    memory: CMemory,
    out: *mut MPI_Status,
) -> c_int {
    on_file_as(coordination, call, file, |entry| {
        let memory = memory.checked();
        // SAFETY: `# Safety` of this function: the buffer is valid, as `# Safety` of `File::access`
        // requires.
        let outcome = unsafe { entry.file.access(direction, position, coordination, memory) };
        // SAFETY: `# Safety` of this function: `out` is a status or `MPI_STATUS_IGNORE`.
        unsafe { status::set(out, outcome.bytes) }?;
        outcome.error.map_or(Ok(()), Err)
    })
}

/// Exports a function with an explicit offset, for one count type.
macro_rules! at {
    ($name:ident, $count:ty, $direction:ident, $coordination:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4.2). ", stringify!($coordination), "; blocks.")]
            fn $name(
                file: MPI_File, offset: Offset, base: *mut c_void, count: $count, datatype: MPI_Datatype,
                status: *mut MPI_Status
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let what = (Direction::$direction, Position::Explicit(offset), Coordination::$coordination);
                // SAFETY: `# Safety` of the exported function (MPI 14.4): buffer and status are valid.
                unsafe { access(concat!("MPI_", stringify!($name)), file, what, memory, status) }
            }
        }
    };
}

/// Exports a function that uses a file pointer, for one count type.
macro_rules! pointer {
    ($name:ident, $count:ty, $direction:ident, $coordination:ident, $position:ident) => {
        export! {
            #[doc = concat!("`MPI_", stringify!($name), "` (MPI 14.4). ", stringify!($coordination), "; blocks.")]
            fn $name(
                file: MPI_File, base: *mut c_void, count: $count, datatype: MPI_Datatype, status: *mut MPI_Status
            ) -> c_int {
                let memory = CMemory { base, count: Count::from(count), datatype };
                let what = (Direction::$direction, Position::$position, Coordination::$coordination);
                // SAFETY: `# Safety` of the exported function (MPI 14.4): buffer and status are valid.
                unsafe { access(concat!("MPI_", stringify!($name)), file, what, memory, status) }
            }
        }
    };
}

at! { File_read_at, c_int, Read, Independent }
at! { File_read_at_c, Count, Read, Independent }
at! { File_read_at_all, c_int, Read, Collective }
at! { File_read_at_all_c, Count, Read, Collective }
at! { File_write_at, c_int, Write, Independent }
at! { File_write_at_c, Count, Write, Independent }
at! { File_write_at_all, c_int, Write, Collective }
at! { File_write_at_all_c, Count, Write, Collective }

pointer! { File_read, c_int, Read, Independent, Individual }
pointer! { File_read_c, Count, Read, Independent, Individual }
pointer! { File_read_all, c_int, Read, Collective, Individual }
pointer! { File_read_all_c, Count, Read, Collective, Individual }
pointer! { File_write, c_int, Write, Independent, Individual }
pointer! { File_write_c, Count, Write, Independent, Individual }
pointer! { File_write_all, c_int, Write, Collective, Individual }
pointer! { File_write_all_c, Count, Write, Collective, Individual }
pointer! { File_read_shared, c_int, Read, Independent, Shared }
pointer! { File_read_shared_c, Count, Read, Independent, Shared }
pointer! { File_read_ordered, c_int, Read, Collective, Shared }
pointer! { File_read_ordered_c, Count, Read, Collective, Shared }
pointer! { File_write_shared, c_int, Write, Independent, Shared }
pointer! { File_write_shared_c, Count, Write, Independent, Shared }
pointer! { File_write_ordered, c_int, Write, Collective, Shared }
pointer! { File_write_ordered_c, Count, Write, Collective, Shared }
