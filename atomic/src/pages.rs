//! [`PageLock`]: isolation on storage whose nodes cache pages, and write whole pages back.
//!
//! On such storage (NFS and the like) a write of one byte may write the whole page from the cache of the node.
//! If the cached page is old, bytes of other nodes are lost. So an access holds its pages, and not only its
//! bytes, while it moves bytes:
//! * A write locks its pages exclusively, discards what the node has cached, writes, and sends its pages to the
//!   storage ([`Isolation::publish`]). Then it releases the lock. So the node holds no dirty page without a
//!   lock.
//! * A read shares the lock of its pages. Otherwise a page that the read brings into the cache could be older
//!   than the refresh of a writer on the same node.
//! * A read discards what the node has cached if [`PageLock::expire`] was called since the last refresh, and in
//!   atomic mode always. Nonatomic reads need not see what other nodes wrote before a sync (MPI 4.1, section
//!   14.6.1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use capulet_drivers::DriverFile;
use capulet_protocol::Request;

use crate::lock::LockCounters;
use crate::{Error, FileLock, Guard, Isolation, Waiting};

/// A lock of the pages of a file, among all ranks of several nodes.
#[derive(Debug)]
pub struct PageLock {
    lock: Arc<dyn FileLock>,
    file: Arc<dyn DriverFile>,
    page_bytes: u64,
    is_atomic: AtomicBool,
    /// The number of calls of [`PageLock::expire`].
    expired: AtomicU64,
    /// The value of `expired` at the last refresh. Held during a refresh, so that no thread reads before the
    /// refresh of another thread is over.
    refreshed: Mutex<u64>,
}

impl PageLock {
    /// `lock` for pages of `page_bytes` bytes of `file`. Local.
    pub fn new(lock: Arc<dyn FileLock>, file: Arc<dyn DriverFile>, page_bytes: u64) -> Arc<Self> {
        let refreshed = Mutex::new(0);
        let (is_atomic, expired) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { lock, file, page_bytes, is_atomic, expired, refreshed })
    }

    /// The size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Sets whether accesses that begin later are atomic. Local.
    pub fn set_atomic(&self, is_atomic: bool) {
        self.is_atomic.store(is_atomic, Ordering::Relaxed);
    }

    /// States that other nodes may have written what this rank must see. The next access of this rank discards
    /// what the node has cached. Local; makes no call of the storage.
    pub fn expire(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// Discards what the node has cached, if [`PageLock::expire`] was called since the last time. Not collective;
    /// blocks for the storage.
    ///
    /// # Errors
    /// [`Error::Pages`]. Reads may return old bytes then.
    pub fn refresh_if_expired(&self) -> Result<(), Error> {
        self.refresh_unless(|refreshed, expired| refreshed == expired)
    }

    fn refresh_unless(&self, is_fresh: impl FnOnce(u64, u64) -> bool) -> Result<(), Error> {
        // The value is set after a successful refresh only, so a panic leaves it valid.
        let mut refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        let expired = self.expired.load(Ordering::Relaxed);
        if !is_fresh(*refreshed, expired) {
            self.file.refresh().map_err(Error::Pages)?;
            *refreshed = expired;
        }
        Ok(())
    }

    /// The first step of an access that holds its pages.
    fn begin(&self, request: &Request) -> Result<(), Error> {
        if request.is_shared() && !self.is_atomic.load(Ordering::Relaxed) {
            return self.refresh_if_expired();
        }
        self.refresh_unless(|_, _| false)
    }
}

impl Isolation for PageLock {
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error> {
        let guard = self.lock.enter(&request.in_units_of(self.page_bytes))?;
        self.begin(request)?;
        Ok(guard)
    }

    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error> {
        let guard = self.lock.try_enter(&request.in_units_of(self.page_bytes), waiting)?;
        if guard.is_some() {
            self.begin(request)?;
        }
        Ok(guard)
    }

    fn publish(&self) -> Result<(), Error> {
        self.file.sync().map_err(Error::Pages)
    }
}

impl FileLock for PageLock {
    fn counters(&self) -> &Arc<LockCounters> {
        self.lock.counters()
    }

    fn settle(&self) -> bool {
        self.lock.settle()
    }

    fn finish(&self) -> Result<(), Error> {
        self.lock.finish()
    }
}
