//! What becomes of a batch.

use crate::Error;
use std::fmt;

/// What a batch did.
#[derive(Debug, Clone)]
#[must_use = "a batch can fail, or read less than was asked for"]
pub struct BatchResult {
    /// How many bytes of the batch, in its order, were moved. Later ones were not, as far as the storage can tell.
    pub bytes: u64,
    /// Why the rest was not moved. None if all was, and for a read that met the end of the file.
    pub error: Option<Error>,
}

impl BatchResult {
    /// `bytes` bytes were moved, without an error.
    pub const fn moved(bytes: u64) -> Self {
        Self { bytes, error: None }
    }

    /// `bytes` bytes were moved, then `error` came.
    pub const fn failed(bytes: u64, error: Error) -> Self {
        Self { bytes, error: Some(error) }
    }

    /// The number of bytes moved, or the error.
    ///
    /// # Errors
    /// The batch's own.
    pub fn into_result(self) -> crate::Result<u64> {
        self.error.map_or(Ok(self.bytes), Err)
    }
}

/// A batch in flight, as its driver sees it. A driver that returns one makes sure that dropping it, or leaking it, leaves no
/// transfer that uses memory which the promise of [`Segment::from_raw`](crate::Segment::from_raw) does not cover.
pub trait PendingBatch: Send {
    /// The result if it is there; never blocks. Not called again after it gave one.
    fn poll(&mut self) -> Option<BatchResult>;

    /// Blocks until the result is there.
    fn wait(self: Box<Self>) -> BatchResult;
}

enum State {
    Ready(BatchResult),
    Pending(Box<dyn PendingBatch>),
}

/// The outcome of [`submit`](crate::DriverFile::submit): there already, or still to come.
#[must_use = "the outcome of a batch is known when it is waited for"]
pub struct Completion(State);

impl Completion {
    /// A batch that is done.
    pub const fn ready(result: BatchResult) -> Self {
        Self(State::Ready(result))
    }

    /// A batch that is in flight.
    pub fn pending(batch: impl PendingBatch + 'static) -> Self {
        Self(State::Pending(Box::new(batch)))
    }

    /// Drives the batch, never blocks, and tells whether it is done.
    pub fn poll(&mut self) -> bool {
        if let State::Pending(batch) = &mut self.0
            && let Some(result) = batch.poll()
        {
            self.0 = State::Ready(result);
        }
        matches!(self.0, State::Ready(_))
    }

    /// Blocks until the batch is done.
    pub fn wait(self) -> BatchResult {
        match self.0 {
            State::Ready(result) => result,
            State::Pending(batch) => batch.wait(),
        }
    }

    /// The completion of a wrapper: `change` sees the result when it is there. It must not block.
    pub fn map(self, change: impl FnOnce(BatchResult) -> BatchResult + Send + 'static) -> Self {
        match self.0 {
            State::Ready(result) => Self::ready(change(result)),
            State::Pending(inner) => Self::pending(Mapped { inner, change: Some(change) }),
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            State::Pending(_) => f.write_str("Pending"),
        }
    }
}

struct Mapped<F> {
    inner: Box<dyn PendingBatch>,
    /// Taken when the result is there, which happens once.
    change: Option<F>,
}

impl<F: FnOnce(BatchResult) -> BatchResult + Send> PendingBatch for Mapped<F> {
    fn poll(&mut self) -> Option<BatchResult> {
        let result = self.inner.poll()?;
        Some(match self.change.take() {
            Some(change) => change(result),
            None => result,
        })
    }

    fn wait(self: Box<Self>) -> BatchResult {
        let result = self.inner.wait();
        match self.change {
            Some(change) => change(result),
            None => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ReadyAfter(u32);

    impl PendingBatch for ReadyAfter {
        fn poll(&mut self) -> Option<BatchResult> {
            self.0 -= 1;
            (self.0 == 0).then_some(BatchResult::moved(7))
        }

        fn wait(self: Box<Self>) -> BatchResult {
            BatchResult::moved(7)
        }
    }

    fn doubled(result: BatchResult) -> BatchResult {
        BatchResult { bytes: result.bytes * 2, ..result }
    }

    #[test]
    fn a_pending_batch_is_polled_until_it_is_done_and_keeps_its_result() {
        let mut completion = Completion::pending(ReadyAfter(3)).map(doubled);
        assert!(!completion.poll() && !completion.poll() && completion.poll() && completion.poll());
        assert_eq!(completion.wait().bytes, 14);
    }

    #[test]
    fn waiting_needs_no_poll() {
        assert_eq!(Completion::pending(ReadyAfter(9)).map(doubled).wait().bytes, 14);
        assert_eq!(Completion::ready(BatchResult::moved(3)).map(doubled).wait().bytes, 6);
    }
}
