//! The process group of an open file, for `MPI_File_get_group`.

use capulet_comm::ErrorClass;
use mpi::ffi;

use crate::abi::{MPI_Comm, MPI_Group, SUCCESS, comm_null};
use crate::guard::{Failure, failure};

/// A process group that is freed when dropped.
pub(crate) struct OwnGroup(MPI_Group);

// SAFETY: an MPI_Group is a name that MPI accepts from any thread.
unsafe impl Send for OwnGroup {}
// SAFETY: as above; the handle is never changed while shared.
unsafe impl Sync for OwnGroup {}

impl OwnGroup {
    /// The group of a communicator. Local. The null communicator is refused here: MPI would call its error
    /// handler, which may end the program.
    ///
    /// # Safety
    /// `comm` is a communicator, or null.
    pub(crate) unsafe fn of(comm: MPI_Comm) -> Result<Self, Failure> {
        if comm == comm_null() {
            return Err(failure(ErrorClass::Comm, "the null communicator"));
        }
        let mut group = null();
        // SAFETY: by the caller's promise; the result is one handle.
        let code = unsafe { ffi::MPI_Comm_group(comm, &raw mut group) };
        checked(code, group).map(OwnGroup)
    }

    /// A handle for the caller to free. Local. MPI has no duplication of groups; leaving nobody out is one.
    pub(crate) fn duplicate(&self) -> Result<MPI_Group, Failure> {
        let mut group = null();
        // SAFETY: the group is ours, none of the ranks is read, and the result is one handle.
        let code = unsafe { ffi::MPI_Group_excl(self.0, 0, [0].as_ptr(), &raw mut group) };
        checked(code, group)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // SAFETY: the handle is ours alone and not used again.
        unsafe { ffi::MPI_Group_free(&raw mut self.0) };
    }
}

fn null() -> MPI_Group {
    // SAFETY: a constant that `mpi-sys` initializes at compile time and nothing writes.
    unsafe { ffi::RSMPI_GROUP_NULL }
}

fn checked(code: i32, group: MPI_Group) -> Result<MPI_Group, Failure> {
    if code == SUCCESS {
        Ok(group)
    } else {
        Err(failure(ErrorClass::from_code(code), "the group of the file"))
    }
}
