//! A wrapper that injects faults by a plan.

use super::fault_plan::{Effect, FaultPlan, Target};
use crate::{
    Batch, BatchResult, Completion, Direction, Driver, DriverFile, Error, ErrorKind, LockGuard, LockMode,
    OpenOptions, Operation, Result,
};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Injects the faults of a [`FaultPlan`]. Clones share the plan and the count of calls.
#[derive(Debug, Clone)]
pub struct Faulty {
    inner: Arc<dyn Driver>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    plan: FaultPlan,
    /// The number of calls so far by target, in the order of `Target::NAMES`.
    calls: [AtomicU64; Target::NAMES.len()],
}

/// The combined effect of all faults that apply to one call.
#[derive(Debug, Default)]
struct CallEffect {
    delay: Duration,
    failure: Option<(ErrorKind, u64)>,
    short_bytes: Option<u64>,
    piece_bytes: Option<u64>,
}

impl CallEffect {
    /// The number of bytes of a batch that are moved, and the error after these bytes.
    fn stop(&self, batch: &Batch<'_>) -> (u64, Option<ErrorKind>) {
        let short_bytes = self.short_bytes.unwrap_or(u64::MAX).min(batch.bytes());
        let is_short = short_bytes < batch.bytes();
        match self.failure {
            Some((kind, after_bytes)) => (short_bytes.min(after_bytes), Some(kind)),
            // A short read means the end of the file. A short write must report an error.
            None if is_short && batch.direction() == Direction::Write => (short_bytes, Some(ErrorKind::Io)),
            None => (short_bytes, None),
        }
    }
}

impl Faults {
    fn count(&self, target: Target) -> &AtomicU64 {
        &self.calls[target as usize]
    }

    /// Counts a call of `target`, sleeps for its delay, and returns the other effects on the call.
    ///
    /// # Panics
    /// If the plan says so.
    fn next_effect(&self, target: Target) -> CallEffect {
        let index = self.count(target).fetch_add(1, Relaxed);
        let index_of_any = self.count(Target::Any).fetch_add(1, Relaxed);
        let mut effect = CallEffect::default();
        for fault in &self.plan.faults {
            let applies = match fault.target {
                Target::Any => fault.when.matches(index_of_any),
                own => own == target && fault.when.matches(index),
            };
            if !applies {
                continue;
            }
            match fault.effect {
                Effect::Fail { kind, after_bytes } => {
                    effect.failure = effect.failure.or(Some((kind, after_bytes)));
                }
                Effect::Short { bytes } => effect.short_bytes = effect.short_bytes.or(Some(bytes)),
                Effect::Pieces { bytes } => effect.piece_bytes = effect.piece_bytes.or(Some(bytes)),
                Effect::Delay(delay) => effect.delay += delay,
                Effect::Panic => panic!("this panic is injected into a call of {target:?}"),
            }
        }
        std::thread::sleep(effect.delay);
        effect
    }

    /// Counts a call that moves no bytes, and returns the injected error.
    fn admit(&self, target: Target, operation: Operation, path: &Path) -> Result<()> {
        match self.next_effect(target).failure {
            None => Ok(()),
            Some((kind, _)) => Err(injected(kind, operation, path)),
        }
    }
}

impl Faulty {
    /// Injects the faults of `plan` into the calls of `inner`.
    pub fn new(inner: Arc<dyn Driver>, plan: FaultPlan) -> Self {
        let calls = std::array::from_fn(|_| AtomicU64::new(0));
        Self { inner, faults: Arc::new(Faults { plan, calls }) }
    }

    /// The number of calls of `target` so far. A run without faults thus gives the range of call numbers for
    /// later plans.
    pub fn calls(&self, target: Target) -> u64 {
        self.faults.count(target).load(Relaxed)
    }
}

impl Driver for Faulty {
    forward_to_inner!(name, lasting_path);

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        self.faults.admit(Target::Open, Operation::Open, path)?;
        let inner = self.inner.open(path, options)?;
        Ok(Arc::new(FaultyFile { inner, faults: Arc::clone(&self.faults) }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        self.faults.admit(Target::Delete, Operation::Delete, path)?;
        self.inner.delete(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn DriverFile>,
    faults: Arc<Faults>,
}

impl FaultyFile {
    /// Moves the first `bytes` bytes of the batch, in pieces of `piece_bytes` if there is such a number.
    fn move_front(&self, batch: &mut Batch<'_>, bytes: u64, piece_bytes: Option<u64>) -> BatchResult {
        let piece_bytes = piece_bytes.unwrap_or(u64::MAX).max(1);
        let mut moved = 0;
        while moved < bytes {
            let end = moved.saturating_add(piece_bytes).min(bytes);
            let result = self.inner.submit(batch.part(moved..end)).wait();
            let short = moved + result.bytes < end;
            moved += result.bytes;
            if short || result.error.is_some() {
                return BatchResult { bytes: moved, error: result.error };
            }
        }
        BatchResult::moved(moved)
    }
}

impl DriverFile for FaultyFile {
    forward_to_inner!(path, caps, layout, identity, would_wait, system_calls);

    fn submit(&self, mut batch: Batch<'_>) -> Completion {
        let (target, operation) = match batch.direction() {
            Direction::Read => (Target::Read, Operation::Read),
            Direction::Write => (Target::Write, Operation::Write),
        };
        let effect = self.faults.next_effect(target);
        let (bytes, failure) = effect.stop(&batch);
        let is_one_piece = effect.piece_bytes.is_none_or(|piece_bytes| bytes <= piece_bytes);
        if bytes == batch.bytes() && failure.is_none() && is_one_piece {
            return self.inner.submit(batch);
        }
        let mut result = self.move_front(&mut batch, bytes, effect.piece_bytes);
        if result.error.is_none() {
            result.error = failure.map(|kind| injected(kind, operation, self.path()));
        }
        Completion::ready(result)
    }

    fn len(&self) -> Result<u64> {
        self.faults.admit(Target::Len, Operation::Length, self.path())?;
        self.inner.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.faults.admit(Target::SetLen, Operation::SetLength, self.path())?;
        self.inner.set_len(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.faults.admit(Target::Preallocate, Operation::Preallocate, self.path())?;
        self.inner.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.faults.admit(Target::Sync, Operation::Sync, self.path())?;
        self.inner.sync()
    }

    fn refresh(&self) -> Result<()> {
        self.faults.admit(Target::Refresh, Operation::Refresh, self.path())?;
        self.inner.refresh()
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        self.faults.admit(Target::Lock, Operation::Lock, self.path())?;
        self.inner.try_lock(range, mode)
    }

    fn close(&mut self) -> Result<()> {
        let admitted = self.faults.admit(Target::Close, Operation::Close, self.inner.path());
        // An injected failure closes the file too, like a failing close of the system.
        let closed = self.inner.close();
        admitted.and(closed)
    }
}

/// An injected error of this kind, with a system code that belongs to the kind.
fn injected(kind: ErrorKind, operation: Operation, path: &Path) -> Error {
    let code = match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Exists => libc::EEXIST,
        ErrorKind::Permission => libc::EACCES,
        ErrorKind::ReadOnly => libc::EROFS,
        ErrorKind::NoSpace => libc::ENOSPC,
        ErrorKind::Quota => libc::EDQUOT,
        ErrorKind::TooLarge => libc::EFBIG,
        ErrorKind::BadName => libc::ENAMETOOLONG,
        ErrorKind::Busy => libc::EBUSY,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::Closed => libc::EBADF,
        ErrorKind::Io => libc::EIO,
    };
    Error::new(kind, operation, path, io::Error::from_raw_os_error(code))
}
