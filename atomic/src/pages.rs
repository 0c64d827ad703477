//! [`PageLock`]: isolation on storage whose nodes cache pages, and write whole pages back.
//!
//! On such storage (NFS and the like) a write of one byte may write the whole page from the cache of the node.
//! If the cached page is old, bytes of other nodes are lost. So an access holds its pages, and not only its
//! bytes, while it moves bytes:
//! * Each access first discards what the node has cached. So a read sees what other nodes wrote before, and a
//!   write changes current pages.
//! * A write sends its pages to the storage before it releases them ([`Isolation::publish`]). So the node holds
//!   no dirty page without a lock.
//! * Readers share pages. A read without the lock could bring a page into the cache that is older than the
//!   refresh of a writer on the same node.
//!
//! All accesses behave as in atomic mode then. ROMIO gives the same on NFS by a lock of the storage around each
//! access.

use std::sync::Arc;

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
}

impl PageLock {
    /// `lock` for pages of `page_bytes` bytes of `file`. Local.
    pub fn new(lock: Arc<dyn FileLock>, file: Arc<dyn DriverFile>, page_bytes: u64) -> Arc<Self> {
        Arc::new(Self { lock, file, page_bytes })
    }

    /// The size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Discards what the node has cached. Local; blocks for the storage.
    ///
    /// # Errors
    /// [`Error::Pages`]. Reads may return old bytes then.
    pub fn refresh(&self) -> Result<(), Error> {
        self.file.refresh().map_err(Error::Pages)
    }
}

impl Isolation for PageLock {
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error> {
        let guard = self.lock.enter(&request.in_units_of(self.page_bytes))?;
        self.refresh()?;
        Ok(guard)
    }

    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error> {
        let guard = self.lock.try_enter(&request.in_units_of(self.page_bytes), waiting)?;
        if guard.is_some() {
            self.refresh()?;
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
