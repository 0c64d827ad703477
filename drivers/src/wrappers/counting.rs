//! A wrapper with exact counts of calls, transfers and bytes.

use crate::{
    Batch, BatchResult, Completion, Direction, Driver, DriverFile, LockGuard, LockMode, OpenOptions, Result,
};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Growing counts, shared by a driver and its files.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($name: AtomicU64,)*
        }

        /// A copy of the counts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The present counts. They are not consistent with each other if other threads count meanwhile.
            pub fn snapshot(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Calls of `open`.
    opens,
    /// Calls of `delete`.
    deletes,
    /// Batches that read.
    read_batches,
    /// Transfers of batches that read.
    read_transfers,
    /// Bytes moved by batches that read.
    read_bytes,
    /// Batches that write.
    write_batches,
    /// Transfers of batches that write.
    write_transfers,
    /// Bytes moved by batches that write.
    write_bytes,
    /// Calls of `len`.
    lens,
    /// Calls of `set_len`.
    set_lens,
    /// Calls of `preallocate`.
    preallocates,
    /// Calls of `sync`.
    syncs,
    /// Calls of `refresh`.
    refreshes,
    /// Calls of `try_lock`.
    locks,
    /// Calls of `close`.
    closes,
    /// Failed calls of all these kinds.
    errors,
    /// System calls that read, of dropped files.
    system_reads,
    /// System calls that write, of dropped files.
    system_writes,
    /// All system calls of dropped files.
    system_calls,
}

impl Counters {
    fn outcome<T>(&self, count: &AtomicU64, outcome: Result<T>) -> Result<T> {
        count.fetch_add(1, Relaxed);
        self.errors.fetch_add(u64::from(outcome.is_err()), Relaxed);
        outcome
    }

    fn moved(&self, bytes: &AtomicU64, result: BatchResult) -> BatchResult {
        bytes.fetch_add(result.bytes, Relaxed);
        self.errors.fetch_add(u64::from(result.error.is_some()), Relaxed);
        result
    }
}

/// Counts every call, transfer and byte. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Counting {
    inner: Arc<dyn Driver>,
    counters: Arc<Counters>,
}

impl Counting {
    /// Counts the calls to `inner`, from zero.
    pub fn new(inner: Arc<dyn Driver>) -> Self {
        Self { inner, counters: Arc::default() }
    }

    /// The counts of this driver and its files.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

impl Driver for Counting {
    forward_to_inner!(name, lasting_path);

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        let inner = self.counters.outcome(&self.counters.opens, self.inner.open(path, options))?;
        Ok(Arc::new(CountingFile { inner, counters: Arc::clone(&self.counters) }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.counters.outcome(&self.counters.deletes, self.inner.delete(path))
    }
}

#[derive(Debug)]
struct CountingFile {
    inner: Arc<dyn DriverFile>,
    counters: Arc<Counters>,
}

impl DriverFile for CountingFile {
    forward_to_inner!(path, caps, layout, identity, would_wait, system_calls);

    fn submit(&self, batch: Batch<'_>) -> Completion {
        let counters = Arc::clone(&self.counters);
        let transfers = batch.transfers().len() as u64;
        match batch.direction() {
            Direction::Read => {
                counters.read_batches.fetch_add(1, Relaxed);
                counters.read_transfers.fetch_add(transfers, Relaxed);
                self.inner.submit(batch).map(move |result| counters.moved(&counters.read_bytes, result))
            }
            Direction::Write => {
                counters.write_batches.fetch_add(1, Relaxed);
                counters.write_transfers.fetch_add(transfers, Relaxed);
                self.inner.submit(batch).map(move |result| counters.moved(&counters.write_bytes, result))
            }
        }
    }

    fn len(&self) -> Result<u64> {
        self.counters.outcome(&self.counters.lens, self.inner.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.counters.outcome(&self.counters.set_lens, self.inner.set_len(bytes))
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.counters.outcome(&self.counters.preallocates, self.inner.preallocate(bytes))
    }

    fn sync(&self) -> Result<()> {
        self.counters.outcome(&self.counters.syncs, self.inner.sync())
    }

    fn refresh(&self) -> Result<()> {
        self.counters.outcome(&self.counters.refreshes, self.inner.refresh())
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        self.counters.outcome(&self.counters.locks, self.inner.try_lock(range, mode))
    }

    fn close(&mut self) -> Result<()> {
        self.counters.outcome(&self.counters.closes, self.inner.close())
    }
}

impl Drop for CountingFile {
    fn drop(&mut self) {
        let calls = self.inner.system_calls();
        self.counters.system_reads.fetch_add(calls.reads, Relaxed);
        self.counters.system_writes.fetch_add(calls.writes, Relaxed);
        self.counters.system_calls.fetch_add(calls.total(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posix::PosixDriver;
    use crate::{DriverFileExt, Transfer};

    #[test]
    fn every_call_byte_and_error_is_counted_once() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("file");
        let driver = Counting::new(Arc::new(PosixDriver::new()));
        let mut file = driver.open(&path, &OpenOptions::read_write().create(true)).unwrap();
        let batch = Batch::write(vec![Transfer::from_memory(0, b"abc"), Transfer::from_memory(3, b"de")]);
        file.submit(batch).wait().into_result().unwrap();
        file.read_at(3, &mut [0; 10]).unwrap();
        file.len().unwrap();
        file.set_len(u64::MAX).unwrap_err();
        file.preallocate(1).unwrap();
        file.sync().unwrap();
        file.refresh().unwrap();
        file.close().unwrap();
        file.close().unwrap_err();
        drop(file);
        driver.delete(&path).unwrap();
        driver.delete(&path).unwrap_err();
        let expected = Counts {
            opens: 1,
            deletes: 2,
            read_batches: 1,
            read_transfers: 1,
            read_bytes: 2,
            write_batches: 1,
            write_transfers: 2,
            write_bytes: 5,
            lens: 1,
            set_lens: 1,
            preallocates: 1,
            syncs: 1,
            refreshes: 1,
            locks: 0,
            closes: 2,
            errors: 3,
            // The second call finds the end of the file.
            system_reads: 2,
            system_writes: 1,
            // Four to open, one each for the length, the reservation, the sync and the close.
            system_calls: 11,
        };
        assert_eq!(driver.counters().snapshot(), expected);
    }
}
