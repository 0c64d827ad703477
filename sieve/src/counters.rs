//! Exact counts of what executors do. Tests assert them; `CAPULET_STATS=1` prints them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the file was opened, on this rank.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes copied between user memory and buffers: collective buffers, packed data for other nodes,
    /// buffers of independent accesses.
    pub copied_bytes: AtomicU64,
    /// Pieces handed to the driver. A piece is contiguous in the file and in memory.
    pub pieces: AtomicU64,
    /// Batches handed to the driver.
    pub batches: AtomicU64,
    /// Bytes that this rank, as leader of its node, sent to other nodes: data, and the description of
    /// where the data go.
    pub exchanged_bytes: AtomicU64,
    /// Messages that carried these bytes: requests and replies.
    pub exchange_messages: AtomicU64,
    /// Rounds of two-phase.
    pub rounds: AtomicU64,
    /// Barriers of the node's ranks in two-phase.
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
