//! A wrapper that makes a storage bad for atomic mode: no locks, and each access is split into parts with
//! pauses between them.

use crate::{
    Batch, BatchResult, Caps, Completion, Driver, DriverFile, Error, ErrorKind, LockGuard, LockMode,
    OpenOptions, Operation, Result,
};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Splits the accesses to another driver into parts. So atomicity on this driver never comes from the
/// storage.
#[derive(Debug, Clone)]
pub struct Torn {
    inner: Arc<dyn Driver>,
    parts: Parts,
}

#[derive(Debug, Clone, Copy)]
struct Parts {
    /// The length of the largest part.
    part_bytes: u64,
    /// The pause between two parts.
    pause: Duration,
}

impl Torn {
    /// The length of a part: larger than one piece of most accesses, and less than a page.
    const PART_BYTES: u64 = 800;
    /// Long enough for an access of another process between two parts.
    const PAUSE: Duration = Duration::from_micros(40);

    /// Wraps `inner`: splits its accesses and refuses its locks.
    pub fn new(inner: Arc<dyn Driver>) -> Self {
        Self { inner, parts: Parts { part_bytes: Self::PART_BYTES, pause: Self::PAUSE } }
    }
}

impl Driver for Torn {
    forward_to_inner!(lasting_path);

    fn name(&self) -> &'static str {
        "nolock"
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        // With one writer the driver below has less reason to store through a mapping. Such stores are no
        // calls that this wrapper could split.
        let inner = self.inner.open(path, &options.clone().writers(1))?;
        Ok(Arc::new(TornFile { inner, parts: self.parts }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.inner.delete(path)
    }
}

#[derive(Debug)]
struct TornFile {
    inner: Arc<dyn DriverFile>,
    parts: Parts,
}

impl DriverFile for TornFile {
    forward_to_inner!(path, layout, identity, system_calls);

    fn caps(&self) -> Caps {
        self.inner.caps().without(Caps::LOCKS | Caps::IN_MEMORY)
    }

    fn submit(&self, mut batch: Batch<'_>) -> Completion {
        let (bytes, mut moved) = (batch.bytes(), 0);
        if bytes <= self.parts.part_bytes {
            return self.inner.submit(batch);
        }
        while moved < bytes {
            let end = (moved + self.parts.part_bytes).min(bytes);
            let result = self.inner.submit(batch.part(moved..end)).wait();
            let is_short = moved + result.bytes < end;
            moved += result.bytes;
            if is_short || result.error.is_some() {
                return Completion::ready(BatchResult { bytes: moved, error: result.error });
            }
            if moved < bytes {
                std::thread::sleep(self.parts.pause);
            }
        }
        Completion::ready(BatchResult::moved(moved))
    }

    fn would_wait(&self, _offset: u64) -> Option<bool> {
        None
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.inner.set_len(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.inner.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn refresh(&self) -> Result<()> {
        self.inner.refresh()
    }

    fn try_lock(&self, _range: Range<u64>, _mode: LockMode) -> Result<Option<LockGuard>> {
        Err(Error::message(ErrorKind::Unsupported, Operation::Lock, self.path(), "this storage has no locks"))
    }

    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
}
