//! The processes of a communicator, in their order.

use std::ffi::c_int;

use crate::error::{Error, Result, check};
use crate::{consts, ffi};

/// A group of MPI's. Those that are kept live as long as the process.
#[derive(Debug)]
pub(crate) struct Members(ffi::MPI_Group);

// SAFETY: a handle that any thread may use which the thread level allows to call MPI at all (MPI-4.0 section 11.6).
unsafe impl Send for Members {}
// SAFETY: as for `Send`; nothing changes the group.
unsafe impl Sync for Members {}

impl Members {
    /// Those of a communicator of ours. Local.
    pub(crate) fn of(comm: ffi::MPI_Comm) -> Result<Self> {
        let mut members = std::mem::MaybeUninit::<ffi::MPI_Group>::uninit();
        // SAFETY: the communicator is ours and valid; local; writes one handle (MPI-4.0 section 7.3.2).
        check("MPI_Comm_group", unsafe { ffi::MPI_Comm_group(comm, members.as_mut_ptr()) })?;
        // SAFETY: the call succeeded, so it has written the handle.
        Ok(Self(unsafe { members.assume_init() }))
    }

    /// Whether they are the same processes in the same order.
    pub(crate) fn are(&self, other: &Self) -> Result<bool> {
        let mut result: c_int = 0;
        // SAFETY: both groups are ours and valid; local; writes one int (MPI-4.0 section 7.3.1).
        let status = unsafe { ffi::MPI_Group_compare(self.0, other.0, &raw mut result) };
        check("MPI_Group_compare", status)?;
        Ok(result == consts::identical())
    }

    /// The rank in `all` of the first of these processes. Local.
    pub(crate) fn first_in(&self, all: &Self) -> Result<u32> {
        let (first, mut rank): (c_int, c_int) = (0, -1);
        // SAFETY: both groups are ours and valid; reads one rank and writes one (MPI-4.0 section 7.3.1).
        let status =
            unsafe { ffi::MPI_Group_translate_ranks(self.0, 1, &raw const first, all.0, &raw mut rank) };
        check("MPI_Group_translate_ranks", status)?;
        u32::try_from(rank).map_err(|_| Error::Disagreement { what: "the nodes" })
    }

    /// Gives the group back to MPI. Local.
    pub(crate) fn free(mut self) {
        // SAFETY: the group is ours, and `self` is consumed.
        let status = unsafe { ffi::MPI_Group_free(&raw mut self.0) };
        if let Err(error) = check("MPI_Group_free", status) {
            tracing::warn!(%error, "a group is leaked");
        }
    }
}
