//! Advisory locks on byte ranges.

use std::fmt;

/// How a range is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Excludes exclusive locks only.
    Shared,
    /// Excludes all other locks.
    Exclusive,
}

/// A held lock. Dropping the guard releases the lock. Until then the guard keeps open what the lock needs of
/// the file.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    release: Option<Box<dyn FnOnce() + Send>>,
}

impl LockGuard {
    /// A guard that calls `release` once when it is dropped.
    pub fn new(release: impl FnOnce() + Send + 'static) -> Self {
        Self { release: Some(Box::new(release)) }
    }

    /// A guard without a lock, for an empty range.
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
