//! [`PageLock`]: isolation on storage whose nodes cache pages, and write whole pages back.
//!
//! On such storage (NFS and the like) a write of one byte may write the whole page from the cache of the
//! node. If the cached page is old, bytes of other nodes are lost. So an access holds its pages, and not only
//! its bytes, while it moves bytes:
//! * Each access first discards what the node has cached. So a read sees what other nodes wrote before, and a
//!   write changes current pages.
//! * A write sends its pages to the storage before it releases them ([`Isolation::publish`]). So the node
//!   holds no dirty page without a lock.
//! * Readers share pages. A read without the lock could bring a page into the cache that is older than the
//!   refresh of a writer on the same node.
//!
//! All accesses behave as in atomic mode then. ROMIO gives the same on NFS by a lock of the storage around
//! each access.
//!
//! There are two locks. The lock of the open file orders the ranks that have opened the file together. Then
//! the access takes a lock of the storage, if the storage has locks, for two reasons. It excludes other opens
//! of the file (`PnetCDF` opens a file once together, and once on each rank). And clients discard their
//! caches when they take a lock, so the second lock costs no more than the refresh that it replaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capulet_drivers::{DriverFile, ErrorKind};
use capulet_protocol::Request;

use crate::file_system::FileSystemLock;
use crate::lock::LockCounters;
use crate::{Error, FileLock, Guard, Isolation, Waiting};

/// A lock of the pages of a file.
#[derive(Debug)]
pub struct PageLock {
    lock: Arc<dyn FileLock>,
    /// `None` if `lock` is a lock of the storage itself.
    storage: Option<Arc<FileSystemLock>>,
    /// Whether the storage has refused a lock of this kind.
    is_refused: AtomicBool,
    file: Arc<dyn DriverFile>,
    page_bytes: u64,
}

/// Both locks of an access. The fields are dropped in their order.
#[derive(Debug)]
struct Held<'a> {
    _storage: Guard<'a>,
    _lock: Guard<'a>,
}

impl PageLock {
    /// `lock`, and the lock `storage` of the storage, for pages of `page_bytes` bytes of `file`. `storage` is
    /// `None` if the storage has no locks, or if `lock` is such a lock. Local.
    pub fn new(
        lock: Arc<dyn FileLock>,
        storage: Option<Arc<FileSystemLock>>,
        file: Arc<dyn DriverFile>,
        page_bytes: u64,
    ) -> Arc<Self> {
        Arc::new(Self { lock, storage, is_refused: AtomicBool::new(false), file, page_bytes })
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

    /// Adds the lock of the storage to `guard`, by `acquire`, which returns `None` if it would have to wait. Or
    /// discards what the node has cached, if the storage has no locks.
    fn with_storage<'a>(
        &'a self,
        guard: Guard<'a>,
        acquire: impl FnOnce(&'a FileSystemLock) -> Result<Option<Guard<'a>>, Error>,
    ) -> Result<Option<Guard<'a>>, Error> {
        let storage = self.storage.as_ref().filter(|_| !self.is_refused.load(Ordering::Relaxed));
        match storage.map(|storage| acquire(storage)) {
            Some(Ok(held)) => {
                Ok(held.map(|storage| Guard::holding(Held { _storage: storage, _lock: guard })))
            }
            Some(Err(Error::Lock(error))) if error.kind() == ErrorKind::Unsupported => {
                tracing::info!(%error, "the storage has no locks: other opens of the file are not excluded");
                self.is_refused.store(true, Ordering::Relaxed);
                self.refresh().map(|()| Some(guard))
            }
            Some(Err(error)) => Err(error),
            None => self.refresh().map(|()| Some(guard)),
        }
    }
}

impl Isolation for PageLock {
    fn enter(&self, request: &Request) -> Result<Guard<'_>, Error> {
        let request = request.in_units_of(self.page_bytes);
        let guard = self.lock.enter(&request)?;
        let held = self.with_storage(guard, |storage| storage.enter(&request).map(Some))?;
        Ok(held.expect("a lock that waits is acquired"))
    }

    fn try_enter(&self, request: &Request, waiting: &mut Waiting) -> Result<Option<Guard<'_>>, Error> {
        let request = request.in_units_of(self.page_bytes);
        let Some(guard) = self.lock.try_enter(&request, waiting)? else { return Ok(None) };
        self.with_storage(guard, |storage| storage.try_enter(&request, waiting))
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
