//! The result of a batch, ready or pending.

use crate::Error;
use std::fmt;

/// The result of a batch.
#[derive(Debug, Clone)]
#[must_use = "a batch can fail, or read less than was asked for"]
pub struct BatchResult {
    /// The length of the prefix of the batch that was moved, in bytes. As far as the storage can tell, no
    /// later byte was moved.
    pub bytes: u64,
    /// The reason why the rest was not moved. `None` if all bytes were moved, and for a read that reached
    /// the end of the file.
    pub error: Option<Error>,
}

impl BatchResult {
    /// A result of `bytes` moved bytes, without an error.
    pub const fn moved(bytes: u64) -> Self {
        Self { bytes, error: None }
    }

    /// A result of `bytes` moved bytes, followed by `error`.
    pub const fn failed(bytes: u64, error: Error) -> Self {
        Self { bytes, error: Some(error) }
    }

    /// The number of bytes moved, or the error.
    ///
    /// # Errors
    /// The error of the batch.
    pub fn into_result(self) -> crate::Result<u64> {
        self.error.map_or(Ok(self.bytes), Err)
    }
}

/// A batch in progress, implemented by its driver. After a drop or a leak of the value, no transfer may use
/// memory for longer than `# Safety` of [`Segment::from_raw`](crate::Segment::from_raw) permits.
pub trait PendingBatch: Send {
    /// The result, if the batch has completed. Never blocks. It is not called again after it returned a
    /// result.
    fn poll(&mut self) -> Option<BatchResult>;

    /// Blocks until the batch has completed.
    fn wait(self: Box<Self>) -> BatchResult;
}

enum State {
    Ready(BatchResult),
    Pending(Box<dyn PendingBatch>),
}

/// The outcome of [`submit`](crate::DriverFile::submit): ready or pending.
#[must_use = "the outcome of a batch is known when it is waited for"]
pub struct Completion(State);

impl Completion {
    /// The completion of a batch that has completed.
    pub const fn ready(result: BatchResult) -> Self {
        Self(State::Ready(result))
    }

    /// The completion of a batch in progress.
    pub fn pending(batch: impl PendingBatch + 'static) -> Self {
        Self(State::Pending(Box::new(batch)))
    }

    /// Makes progress on the batch, and returns whether it has completed. Never blocks.
    pub fn poll(&mut self) -> bool {
        if let State::Pending(batch) = &mut self.0
            && let Some(result) = batch.poll()
        {
            self.0 = State::Ready(result);
        }
        matches!(self.0, State::Ready(_))
    }

    /// Blocks until the batch has completed.
    pub fn wait(self) -> BatchResult {
        match self.0 {
            State::Ready(result) => result,
            State::Pending(batch) => batch.wait(),
        }
    }

    /// The completion of a wrapper: `change` maps the result when it is ready. `change` must not block.
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
    /// Taken when the result is ready, which happens once.
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
    fn pending_batch_completes_by_polls_and_keeps_its_result() {
        let mut completion = Completion::pending(ReadyAfter(3)).map(doubled);
        assert!(!completion.poll() && !completion.poll() && completion.poll() && completion.poll());
        assert_eq!(completion.wait().bytes, 14);
    }

    #[test]
    fn wait_completes_without_polls() {
        assert_eq!(Completion::pending(ReadyAfter(9)).map(doubled).wait().bytes, 14);
        assert_eq!(Completion::ready(BatchResult::moved(3)).map(doubled).wait().bytes, 6);
    }
}
