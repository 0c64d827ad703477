//! The locks of the storage, as ROMIO and OMPIO use them. For comparison: they have no order, and they
//! cost system calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capulet_comm::Backoff;
use capulet_drivers::{DriverFile, LockGuard, LockMode};
use capulet_protocol::Request;

use crate::lock::LockCounters;
use crate::{Error, FileLock, Guard, Isolation, Waiting};

/// The offset after the last byte that is locked, which is larger than any file. Drivers lock single bytes
/// behind it for their own purposes.
const DATA_END: u64 = (i64::MAX as u64) - (1 << 16);

/// A lock by the storage, among all processes that open the file. It locks the span of each access.
#[derive(Debug)]
pub struct FileSystemLock {
    file: Arc<dyn DriverFile>,
    time_limit: Option<Duration>,
    progress: fn(),
    counters: Arc<LockCounters>,
}

impl FileSystemLock {
    /// The lock of this file. Its storage must support locks. A wait that lasts longer than `time_limit`
    /// is given up with [`Error::TimedOut`]; without a limit waits have no end. `progress` is called
    /// during a wait, at least once a millisecond. Local.
    pub fn new(file: Arc<dyn DriverFile>, time_limit: Option<Duration>, progress: fn()) -> Arc<Self> {
        Arc::new(Self { file, time_limit, progress, counters: Arc::default() })
    }

    fn try_lock(&self, request: &Request) -> Result<Option<LockGuard>, Error> {
        let mode = if request.is_shared() { LockMode::Shared } else { LockMode::Exclusive };
        let span = request.span();
        let guard = self.file.try_lock(span.start..span.end.min(DATA_END), mode)?;
        if guard.is_some() {
            self.counters.count_acquired();
        }
        Ok(guard)
    }

    fn look_at_the_clock(&self, since: Instant) -> Result<(), Error> {
        let waited = since.elapsed();
        if self.time_limit.is_none_or(|limit| waited <= limit) {
            return Ok(());
        }
        // The system does not name the holder of the lock.
        Err(Error::TimedOut { waited, holders: Vec::new(), are_nodes: false })
    }
}

impl Isolation for FileSystemLock {
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error> {
        let (since, mut backoff) = (Instant::now(), Backoff::brisk());
        let mut has_waited = false;
        loop {
            if let Some(guard) = self.try_lock(request)? {
                self.counters.count_waited(has_waited);
                return Ok(Guard::holding(guard));
            }
            has_waited = true;
            backoff.pause();
            (self.progress)();
            self.look_at_the_clock(since)?;
        }
    }

    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error> {
        if let Some(guard) = self.try_lock(request)? {
            return Ok(Some(Guard::holding(guard)));
        }
        self.look_at_the_clock(waiting.since)?;
        Ok(None)
    }
}

impl FileLock for FileSystemLock {
    fn counters(&self) -> &Arc<LockCounters> {
        &self.counters
    }

    fn settle(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }
}
