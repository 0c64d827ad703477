//! A wrapper that slows a storage down to a given latency and bandwidth.

use crate::{Batch, Caps, Completion, Driver, DriverFile, LockGuard, LockMode, OpenOptions, Result};
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The latency and the bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle {
    /// The least time of every call. Calls of several threads wait at the same time.
    pub latency: Duration,
    /// The bytes per second of all files of the driver together. Unlimited if `None`.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// Sleeps before each call: for the latency, and until the bandwidth has served the bytes of earlier
/// batches and of this one.
#[derive(Debug, Clone)]
pub struct Throttled {
    inner: Arc<dyn Driver>,
    limiter: Arc<Limiter>,
}

#[derive(Debug)]
struct Limiter {
    throttle: Throttle,
    /// The time at which the bandwidth has served all admitted bytes.
    free_at: Mutex<Option<Instant>>,
}

impl Limiter {
    /// The waiting time of a call that moves `bytes` bytes and begins at `now`.
    fn admit(&self, now: Instant, bytes: u64) -> Duration {
        let Some(bytes_per_second) = self.throttle.bytes_per_second else {
            return self.throttle.latency;
        };
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.get());
        let own = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = free_at.map_or(now, |free_at| free_at.max(now));
        // If the clock cannot represent the end, the bytes take no time. No program runs so long.
        let end = start.checked_add(own).unwrap_or(start);
        *free_at = Some(end);
        self.throttle.latency + (end - now)
    }

    fn wait(&self, bytes: u64) {
        std::thread::sleep(self.admit(Instant::now(), bytes));
    }
}

impl Throttled {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Driver>, throttle: Throttle) -> Self {
        Self { inner, limiter: Arc::new(Limiter { throttle, free_at: Mutex::new(None) }) }
    }
}

impl Driver for Throttled {
    forward_to_inner!(name, lasting_path);

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        self.limiter.wait(0);
        let inner = self.inner.open(path, options)?;
        Ok(Arc::new(ThrottledFile { inner, limiter: Arc::clone(&self.limiter) }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.limiter.wait(0);
        self.inner.delete(path)
    }
}

#[derive(Debug)]
struct ThrottledFile {
    inner: Arc<dyn DriverFile>,
    limiter: Arc<Limiter>,
}

impl DriverFile for ThrottledFile {
    forward_to_inner!(path, layout, identity, system_calls);

    fn caps(&self) -> Caps {
        self.inner.caps().without(Caps::IN_MEMORY)
    }

    fn submit(&self, batch: Batch<'_>) -> Completion {
        self.limiter.wait(batch.bytes());
        self.inner.submit(batch)
    }

    fn would_wait(&self, _offset: u64) -> Option<bool> {
        None
    }

    fn len(&self) -> Result<u64> {
        self.limiter.wait(0);
        self.inner.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.limiter.wait(0);
        self.inner.set_len(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.limiter.wait(0);
        self.inner.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.limiter.wait(0);
        self.inner.sync()
    }

    fn refresh(&self) -> Result<()> {
        self.limiter.wait(0);
        self.inner.refresh()
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        self.limiter.wait(0);
        self.inner.try_lock(range, mode)
    }

    fn close(&mut self) -> Result<()> {
        self.limiter.wait(0);
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(latency_ms: u64, bytes_per_second: Option<u64>) -> Limiter {
        let bytes_per_second = bytes_per_second.and_then(NonZeroU64::new);
        let throttle = Throttle { latency: Duration::from_millis(latency_ms), bytes_per_second };
        Limiter { throttle, free_at: Mutex::new(None) }
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn bytes_queue_and_latency_does_not() {
        let (limiter, now) = (limiter(5, Some(1000)), Instant::now());
        assert_eq!(limiter.admit(now, 100), ms(5 + 100));
        assert_eq!(limiter.admit(now, 50), ms(5 + 100 + 50));
        assert_eq!(limiter.admit(now, 0), ms(5 + 150));
        // An idle time is not credited to later bytes.
        assert_eq!(limiter.admit(now + ms(400), 10), ms(5 + 10));
    }

    #[test]
    fn without_bandwidth_a_call_takes_the_latency() {
        assert_eq!(limiter(5, None).admit(Instant::now(), u64::MAX), ms(5));
    }

    #[test]
    fn time_beyond_the_clock_does_not_overflow() {
        let limiter = limiter(0, Some(1));
        limiter.admit(Instant::now(), u64::MAX);
        limiter.admit(Instant::now(), u64::MAX);
    }

    #[test]
    fn each_call_takes_the_latency() {
        let throttle = Throttle { latency: ms(20), bytes_per_second: None };
        let driver = Throttled::new(Arc::new(crate::mem::MemDriver::new()), throttle);
        let start = Instant::now();
        let file = driver.open(Path::new("a"), &OpenOptions::write().create(true)).unwrap();
        file.len().unwrap();
        assert!(start.elapsed() >= ms(40));
    }
}
