//! Counts of the accesses to a file on this rank.

use std::sync::atomic::AtomicU64;

use capulet_sieve::{Counters, Direction};

/// The calls and payload bytes of this rank.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    opens: AtomicU64,
}

impl Calls {
    pub(crate) fn count(&self, direction: Direction) {
        let calls = match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        };
        Counters::add(calls, 1);
    }

    /// Counts that this rank opened the file once more.
    pub(crate) fn opened(&self) {
        Counters::add(&self.opens, 1);
    }

    pub(crate) fn moved(&self, direction: Direction, bytes: u64) {
        let total = match direction {
            Direction::Read => &self.read_bytes,
            Direction::Write => &self.written_bytes,
        };
        Counters::add(total, bytes);
    }

    /// The numbers of opens, reads and writes, and the payload bytes read and written.
    pub(crate) fn values(&self) -> [u64; 5] {
        [&self.opens, &self.reads, &self.writes, &self.read_bytes, &self.written_bytes].map(Counters::get)
    }
}
