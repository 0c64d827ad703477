//! The processes of a communicator, in their order, and the stamp that identifies a group of processes.

use std::ffi::c_int;

use crate::error::{Error, Result, check};
use crate::{consts, ffi};

/// Two numbers on which the ranks of a group have agreed: the largest number of groups that any of the
/// ranks has created, and a random number. The random number distinguishes groups of processes that were
/// spawned later from older groups. All ranks of two groups sort the groups in the same order.
pub(crate) type Stamp = [u64; 2];

/// An `MPI_Group`. A value that is not freed by [`Members::free`] lives as long as the process.
#[derive(Debug)]
pub(crate) struct Members(ffi::MPI_Group);

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it.
unsafe impl Send for Members {}
// SAFETY: as for `Send` above. No call changes the group.
unsafe impl Sync for Members {}

impl Members {
    /// The processes of a communicator of this crate. Local.
    pub(crate) fn of(comm: ffi::MPI_Comm) -> Result<Self> {
        let mut members = std::mem::MaybeUninit::<ffi::MPI_Group>::uninit();
        // SAFETY: the communicator is valid. The call is local and writes one handle (MPI-4.0 section
        // 7.3.2).
        check("MPI_Comm_group", unsafe { ffi::MPI_Comm_group(comm, members.as_mut_ptr()) })?;
        // SAFETY: the call has succeeded, so MPI has written the handle.
        Ok(Self(unsafe { members.assume_init() }))
    }

    /// Whether both groups have the same processes in the same order.
    pub(crate) fn are(&self, other: &Self) -> Result<bool> {
        let mut result: c_int = 0;
        // SAFETY: this crate owns both groups, and they are valid. The call is local and writes one int
        // (MPI-4.0 section 7.3.1).
        let status = unsafe { ffi::MPI_Group_compare(self.0, other.0, &raw mut result) };
        check("MPI_Group_compare", status)?;
        Ok(result == consts::identical())
    }

    /// The rank in `all` of the first process of this group. Local.
    pub(crate) fn first_in(&self, all: &Self) -> Result<u32> {
        let (first, mut rank): (c_int, c_int) = (0, -1);
        // SAFETY: this crate owns both groups, and they are valid. MPI reads one rank and writes one rank
        // (MPI-4.0 section 7.3.1).
        let status =
            unsafe { ffi::MPI_Group_translate_ranks(self.0, 1, &raw const first, all.0, &raw mut rank) };
        check("MPI_Group_translate_ranks", status)?;
        u32::try_from(rank).map_err(|_| Error::Disagreement { what: "the nodes" })
    }

    /// Frees the group. Local.
    pub(crate) fn free(mut self) {
        // SAFETY: this value owns the group. The group is freed once, because this function consumes the
        // value.
        let status = unsafe { ffi::MPI_Group_free(&raw mut self.0) };
        if let Err(error) = check("MPI_Group_free", status) {
            tracing::warn!(%error, "a group is leaked");
        }
    }
}
