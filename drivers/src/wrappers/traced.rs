//! A wrapper that reports each call as a `tracing` event with the target `capulet::driver`.

use crate::{Batch, Completion, Driver, DriverFile, LockGuard, LockMode, OpenOptions, Result};
use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tracing::{debug, trace};

const TARGET: &str = "capulet::driver";

/// Reports calls that open, close, delete or change a whole file at level `debug`, and batches and all other
/// calls at level `trace`. Without a subscriber a call costs one check.
#[derive(Debug, Clone)]
pub struct Traced {
    inner: Arc<dyn Driver>,
}

impl Traced {
    /// Reports the calls to `inner`.
    pub fn new(inner: Arc<dyn Driver>) -> Self {
        Self { inner }
    }
}

impl Driver for Traced {
    forward_to_inner!(name, lasting_path);

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        let opened = self.inner.open(path, options);
        match &opened {
            Ok(file) => debug!(
                target: TARGET, driver = self.name(), path = %path.display(), ?options, caps = ?file.caps(),
                layout = ?file.layout(), "open"
            ),
            Err(error) => {
                debug!(target: TARGET, driver = self.name(), path = %path.display(), ?options, %error, "open");
            }
        }
        Ok(Arc::new(TracedFile { path: path.display().to_string(), inner: opened?, close_reported: false }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let deleted = self.inner.delete(path);
        debug!(
            target: TARGET, driver = self.name(), path = %path.display(), outcome = outcome_text(&deleted),
            "delete"
        );
        deleted
    }
}

#[derive(Debug)]
struct TracedFile {
    path: String,
    inner: Arc<dyn DriverFile>,
    /// Whether the close has been reported.
    close_reported: bool,
}

/// The outcome of a call as text.
fn outcome_text<T: Debug>(outcome: &Result<T>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

impl DriverFile for TracedFile {
    forward_to_inner!(path, caps, layout, identity, would_wait, system_calls);

    fn submit(&self, batch: Batch<'_>) -> Completion {
        if !tracing::enabled!(target: TARGET, tracing::Level::TRACE) {
            return self.inner.submit(batch);
        }
        let (direction, asked_bytes) = (batch.direction(), batch.bytes());
        let (transfers, offset) =
            (batch.transfers().len(), batch.transfers().first().map(|first| first.offset));
        let path = self.path.clone();
        self.inner.submit(batch).map(move |result| {
            let error = result.error.as_ref().map(ToString::to_string);
            trace!(
                target: TARGET, path, ?direction, transfers, offset, asked_bytes, moved_bytes = result.bytes, error,
                "submit"
            );
            result
        })
    }

    fn len(&self) -> Result<u64> {
        let len = self.inner.len();
        trace!(target: TARGET, path = self.path, outcome = outcome_text(&len), "len");
        len
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let outcome = self.inner.set_len(bytes);
        debug!(target: TARGET, path = self.path, bytes, outcome = outcome_text(&outcome), "set_len");
        outcome
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        let outcome = self.inner.preallocate(bytes);
        debug!(target: TARGET, path = self.path, bytes, outcome = outcome_text(&outcome), "preallocate");
        outcome
    }

    fn sync(&self) -> Result<()> {
        let outcome = self.inner.sync();
        debug!(target: TARGET, path = self.path, outcome = outcome_text(&outcome), "sync");
        outcome
    }

    fn refresh(&self) -> Result<()> {
        let outcome = self.inner.refresh();
        debug!(target: TARGET, path = self.path, outcome = outcome_text(&outcome), "refresh");
        outcome
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        let outcome = self.inner.try_lock(range.clone(), mode);
        trace!(target: TARGET, path = self.path, ?range, ?mode, outcome = outcome_text(&outcome), "try_lock");
        outcome
    }

    fn close(&mut self) -> Result<()> {
        self.close_reported = true;
        let outcome = self.inner.close();
        let calls = self.inner.system_calls();
        debug!(target: TARGET, path = self.path, ?calls, outcome = outcome_text(&outcome), "close");
        outcome
    }
}

impl Drop for TracedFile {
    fn drop(&mut self) {
        if !self.close_reported {
            debug!(target: TARGET, path = self.path, calls = ?self.inner.system_calls(), "close");
        }
    }
}

#[cfg(test)]
#[allow(clippy::missing_trait_methods, reason = "a listener needs few of them")]
mod tests {
    use super::*;
    use crate::DriverFileExt;
    use crate::mem::MemDriver;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use tracing::field::{Field, Visit};
    use tracing::{Event, Level, Metadata, Subscriber, span};

    /// A subscriber that keeps the message of each event up to a level.
    struct Listener {
        level: Level,
        messages: Arc<Mutex<Vec<String>>>,
        spans: AtomicU64,
    }

    struct Message<'a>(&'a mut String);

    impl Visit for Message<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                *self.0 = format!("{value:?}");
            }
        }
    }

    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= self.level
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1 + self.spans.fetch_add(1, Relaxed))
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut message = String::new();
            event.record(&mut Message(&mut message));
            assert_eq!(event.metadata().target(), TARGET);
            self.messages.lock().unwrap().push(message);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    fn messages_at(level: Level) -> Vec<String> {
        let messages = Arc::new(Mutex::new(Vec::new()));
        let listener = Listener { level, messages: Arc::clone(&messages), spans: AtomicU64::new(0) };
        tracing::subscriber::with_default(listener, || {
            let driver = Traced::new(Arc::new(MemDriver::new()));
            let mut file = driver.open(Path::new("a"), &OpenOptions::write().create(true)).unwrap();
            file.write_all_at(0, b"x").unwrap();
            file.sync().unwrap();
            file.refresh().unwrap();
            file.close().unwrap();
            drop(file);
            drop(driver.open(Path::new("a"), &OpenOptions::write()).unwrap());
            driver.delete(Path::new("b")).unwrap_err();
        });
        Arc::try_unwrap(messages).unwrap().into_inner().unwrap()
    }

    #[test]
    fn each_call_is_reported_once_at_its_level() {
        assert_eq!(
            messages_at(Level::TRACE),
            ["open", "submit", "sync", "refresh", "close", "open", "close", "delete"]
        );
        assert_eq!(
            messages_at(Level::DEBUG),
            ["open", "sync", "refresh", "close", "open", "close", "delete"]
        );
        assert!(messages_at(Level::INFO).is_empty());
    }
}
