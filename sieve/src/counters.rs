//! Exact counts of what executors do. Tests assert them; `CAPULET_STATS=1` prints them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the file was opened, on this rank.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes copied between user memory and collective buffers.
    pub copied_bytes: AtomicU64,
    /// Pieces handed to the driver: runs of the file by runs of memory.
    pub pieces: AtomicU64,
    /// Batches handed to the driver.
    pub batches: AtomicU64,
    /// Bytes that this rank, as leader of its node, sent to other nodes: data, and where they go.
    pub exchanged_bytes: AtomicU64,
    /// Messages with them.
    pub exchange_messages: AtomicU64,
    /// Rounds of two-phase.
    pub rounds: AtomicU64,
    /// Barriers of the ranks of the node that two-phase came to.
    pub barriers: AtomicU64,
}

impl Counters {
    /// Adds `amount` to one of the counts.
    pub fn add(count: &AtomicU64, amount: u64) {
        count.fetch_add(amount, Ordering::Relaxed);
    }

    /// The value of one of the counts.
    pub fn get(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }
}
