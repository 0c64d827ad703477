//! Advisory locks on byte ranges.

use std::fmt;

/// How a range is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// With other shared holders, against exclusive ones.
    Shared,
    /// Alone.
    Exclusive,
}

/// A lock that is held. Dropping it releases it; it keeps what it needs of the file open until then.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    release: Option<Box<dyn FnOnce() + Send>>,
}

impl LockGuard {
    /// A guard that calls `release` once when it is dropped.
    pub fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self { release: Some(Box::new(release)) }
    }

    /// A guard of nothing, for an empty range.
    pub const fn nothing() -> Self {
        Self { release: None }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("held", &self.release.is_some()).finish()
    }
}
