//! The number of a process in a group.

use std::ffi::c_int;
use std::fmt;

/// The number of a process in its [`Group`](crate::Group), from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank as an index into a table with one entry per rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The rank as an argument of an MPI function. MPI numbers processes by `int`, so each rank that MPI
    /// gave fits.
    pub const fn as_int(self) -> c_int {
        self.0 as c_int
    }

    /// The rank of a number that MPI gave. `None` for a negative number (`MPI_UNDEFINED`, `MPI_PROC_NULL`).
    pub fn from_int(rank: c_int) -> Option<Rank> {
        u32::try_from(rank).ok().map(Rank)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
