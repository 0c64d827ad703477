//! Rows of the locks' bench.

use serde::{Deserialize, Serialize};

/// What one lock did in one experiment on one MPI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockRow {
    /// The MPI, as it names itself.
    pub mpi: String,
    /// The lock, as the hint `capulet_lock` names it; `range-far` is that of ranges among nodes.
    pub lock: String,
    /// Processes.
    pub ranks: u32,
    /// `alone`: acquire and release with nobody in the way. `turns`: all ranks take it by turns and work inside. `apart`: two ranks hold
    /// other bytes at once. `busy`: acquire while the home rank computes.
    pub experiment: String,
    /// Work inside, milliseconds.
    pub work_ms: u32,
    /// Acquisitions that were measured, of all ranks.
    pub acquisitions: u64,
    /// `alone`: microseconds a pair. `turns`: percent of the time that is no work, or, without work, microseconds a section. `apart`: the
    /// time of two by that of one. `busy`: milliseconds.
    pub value: f64,
    /// The longest wait of any rank, milliseconds.
    pub longest_wait_ms: f64,
}
