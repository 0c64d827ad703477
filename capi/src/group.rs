//! The process group of an open file, for `MPI_File_get_group`.

use capulet_comm::ErrorClass;
use mpi::ffi;

use crate::abi::{MPI_Comm, MPI_Group, SUCCESS, comm_null};
use crate::failure::{Failure, failure};

/// A process group. It is freed when it is dropped.
pub(crate) struct OwnGroup(MPI_Group);

// SAFETY: MPI accepts the handle `MPI_Group` from any thread (MPI 11.6).
unsafe impl Send for OwnGroup {}
// SAFETY: only the drop changes the handle, and no other thread has access to it then.
unsafe impl Sync for OwnGroup {}

impl OwnGroup {
    /// The group of a communicator. Local. `MPI_COMM_NULL` is refused here, because MPI would call its
    /// error handler, which may abort the program.
    ///
    /// # Safety
    /// `comm` is a valid communicator or `MPI_COMM_NULL`.
    pub(crate) unsafe fn of(comm: MPI_Comm) -> Result<Self, Failure> {
        if comm == comm_null() {
            return Err(failure(ErrorClass::Comm, "the communicator is MPI_COMM_NULL"));
        }
        let mut group = null();
        // SAFETY: `# Safety` of this function: `comm` is valid, because it is not null. `group` is one
        // handle.
        let code = unsafe { ffi::MPI_Comm_group(comm, &raw mut group) };
        checked(code, group).map(OwnGroup)
    }

    /// A new handle, which the caller frees. Local. MPI has no function that duplicates a group.
    /// `MPI_Group_excl` with an empty list of ranks does it.
    pub(crate) fn duplicate(&self) -> Result<MPI_Group, Failure> {
        let mut group = null();
        // SAFETY: MPI 7.3.2: `self.0` is a valid group, the list of ranks is empty, and `group` is one
        // handle.
        let code = unsafe { ffi::MPI_Group_excl(self.0, 0, [0].as_ptr(), &raw mut group) };
        checked(code, group)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle and does not use it again.
        unsafe { ffi::MPI_Group_free(&raw mut self.0) };
    }
}

fn null() -> MPI_Group {
    // SAFETY: `mpi-sys` initializes this constant at compile time, and no code writes it.
    unsafe { ffi::RSMPI_GROUP_NULL }
}

fn checked(code: i32, group: MPI_Group) -> Result<MPI_Group, Failure> {
    if code == SUCCESS {
        Ok(group)
    } else {
        Err(failure(ErrorClass::from_code(code), "MPI gives no process group for the file"))
    }
}
