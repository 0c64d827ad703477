//! Rows of the bench of locks.

use serde::{Deserialize, Serialize};

/// The result of one lock in one experiment on one MPI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockRow {
    /// Name of the MPI, as the MPI gives it.
    pub mpi: String,
    /// Name of the lock, as in the hint `capulet_lock`. `range-far` is the lock of ranges among nodes,
    /// `range-server` the same lock in words on servers, and `range-messages` in words by messages.
    pub lock: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Name of the experiment. `alone`: acquire and release without contention. `fetch`: one
    /// word of the lock is fetched from its home. `turns`: all ranks
    /// acquire the lock in turn and work inside it. `apart`: two ranks hold locks on different bytes at
    /// the same time. `busy`: acquire while the home rank computes.
    pub experiment: String,
    /// Work inside the lock, in milliseconds.
    pub work_ms: u32,
    /// Measured acquisitions of all ranks.
    pub acquisitions: u64,
    /// The result. `alone`: microseconds for a pair of acquire and release. `fetch`: microseconds. `turns`:
    /// percent of the time that is not work, or, without work, microseconds for an acquisition. `apart`: the
    /// time of two ranks divided by the time of one rank. `busy`: milliseconds.
    pub value: f64,
    /// The longest wait of any rank, in milliseconds.
    pub longest_wait_ms: f64,
}
