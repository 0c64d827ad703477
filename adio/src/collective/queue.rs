//! The operations in progress on one shared memory.
//!
//! The operations use the memory one after another. The first rank of the node decides which operation
//! comes next, among the operations on which it has seen all ranks agree. Every rank has begun those
//! operations. So a rank that waits for one of them advances them all, and no operation waits for one
//! that some rank has not begun. The key of the operation lies in a slot of the memory. The first rank
//! clears the slot when its part is over, so that no rank takes the key for that of a later operation.
//!
//! Nodes that exchange need one order for all nodes. The leader of the first node decides it, and tells
//! the other leaders. It waits until the ranks have agreed on the outcome of the operation before. That
//! operation is then over on all ranks, so no leader takes a message of the next operation for one of an
//! operation that it has not yet given up.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use capulet_comm::request::Completion;
use capulet_comm::work::{self, UnderWay, Work};
use capulet_comm::{ErrorClass, Leaders};
use capulet_sieve::two_phase::OPERATION_SLOT;

use super::operation::CollectiveOperation;
use crate::outcome::Outcome;

/// The key that stands for no operation.
const NO_KEY: u64 = 0;
/// The error for a malformed message of another node's leader.
const MALFORMED: capulet_comm::Error =
    capulet_comm::Error::Disagreement { what: "which operation comes next" };

/// The operations in progress, in the order in which this rank began them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Threads that have taken operations out of the queue and have not reported their outcomes yet.
    publishing: AtomicUsize,
}

#[derive(Debug, Default)]
struct QueueState {
    entries: Vec<QueueEntry>,
    /// The key of the operation that comes next, as received from the leader of the first node.
    next_key: Option<u64>,
}

#[derive(Debug)]
struct QueueEntry {
    operation: CollectiveOperation,
    request: Arc<RequestState>,
    _under_way: UnderWay,
}

/// Called when an operation is over.
type Notice = Box<dyn FnOnce() + Send>;

/// The part of an operation that is visible outside of the queue.
#[derive(Default)]
pub(super) struct RequestState {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    outcome: Option<Outcome>,
    notice: Option<Notice>,
}

impl fmt::Debug for RequestState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RequestState").field("completion", &self.completion()).finish()
    }
}

impl RequestState {
    fn finish(&self, outcome: Outcome) {
        let notice = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.outcome = Some(outcome);
            inner.notice.take()
        };
        if let Some(notice) = notice {
            notice();
        }
    }

    fn take(&self) -> Option<Outcome> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).outcome.take()
    }
}

impl Completion for RequestState {
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.outcome.as_ref().map(|outcome| (outcome.bytes, outcome.error.as_ref().map(crate::Error::class)))
    }

    fn description(&self) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.outcome.as_ref()?.error.as_ref().map(ToString::to_string)
    }
}

/// A collective data access in progress. The access continues if this value is dropped.
#[derive(Debug)]
pub struct Request {
    state: Arc<RequestState>,
}

impl Request {
    /// Waits until the operation is over. Blocks for the other ranks. Advances all operations in
    /// progress, and keeps MPI progressing.
    pub fn wait(self) -> Outcome {
        let mut outcome = None;
        wait_until(|| {
            outcome = self.state.take();
            outcome.is_some()
        });
        outcome.unwrap_or_default()
    }

    /// Calls `notice` when the operation is over, or at once if it is over already. The notice must not
    /// wait for anything.
    pub fn on_completion(&self, notice: impl FnOnce() + Send + 'static) {
        {
            let mut inner = self.state.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if inner.outcome.is_none() {
                inner.notice = Some(Box::new(notice));
                return;
            }
        }
        notice();
    }

    /// The completion that an MPI request of this operation asks for its state.
    pub fn as_completion(&self) -> Arc<dyn Completion> {
        Arc::clone(&self.state) as Arc<dyn Completion>
    }
}

impl Queue {
    /// Whether any operation is in progress on this rank. Local.
    pub(crate) fn is_busy(&self) -> bool {
        !self.lock().entries.is_empty()
    }

    /// Adds an operation to the queue and advances it. Does not wait for other ranks. Another thread may
    /// hold the queue for as long as the storage takes.
    pub(crate) fn push(&self, operation: CollectiveOperation) -> Request {
        let state = Arc::new(RequestState::default());
        let entry = QueueEntry { operation, request: Arc::clone(&state), _under_way: UnderWay::new() };
        self.lock().entries.push(entry);
        self.advance();
        Request { state }
    }

    /// Waits until no operation of the file with channel id `file_id` is in progress on this rank, on any
    /// thread. The bytes that the operations moved are counted then, and no operation refers to the storage.
    pub(crate) fn drain(&self, file_id: u32) {
        wait_until(|| {
            let is_under_way = self.lock().entries.iter().any(|entry| entry.operation.track().0 == file_id);
            !is_under_way && self.publishing.load(Ordering::Acquire) == 0
        });
    }
}

/// Counts a thread that publishes outcomes. Created while the queue is locked, so that a thread that finds
/// the queue empty finds this count.
struct Publishing<'a>(&'a AtomicUsize);

impl<'a> Publishing<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        // Release: a thread that reads the lower count sees the values of the operations dropped.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Queue {
    fn advance(&self) {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The mutex is held: by another thread, or by this thread further up its stack. The holder
            // makes the progress.
            Err(TryLockError::WouldBlock) => return,
        };
        while state.advance_all() {}
        let over: Vec<QueueEntry> = state.entries.extract_if(.., |entry| entry.operation.is_over()).collect();
        let _publishing = Publishing::new(&self.publishing);
        drop(state);
        for entry in over {
            entry.request.finish(entry.operation.outcome());
        }
    }
}

impl QueueState {
    /// Advances every operation once. True if any operation changed.
    fn advance_all(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.entries.len() {
            let (before, rest) = self.entries.split_at_mut(at);
            let operation = &mut rest[0].operation;
            let uses_track = |entry: &QueueEntry| {
                !entry.operation.is_done() && entry.operation.track() == operation.track()
            };
            let has_track = !before.iter().any(uses_track);
            moved |= operation.advance(has_track);
        }
        moved | self.admit()
    }

    /// Admits the next operation to the shared memory if no operation uses it.
    fn admit(&mut self) -> bool {
        if self.entries.iter().any(|entry| entry.operation.is_moving()) {
            return false;
        }
        let Some(shared_memory) = self.entries.first().and_then(|entry| entry.operation.shared_memory())
        else {
            return false;
        };
        let slot = &shared_memory.published(0)[OPERATION_SLOT];
        let key = if shared_memory.place() == 0 {
            let key = self.choose_next().unwrap_or(NO_KEY);
            slot.store(key, Ordering::Release);
            key
        } else {
            slot.load(Ordering::Acquire)
        };
        let mut queued = self.entries.iter_mut().map(|entry| &mut entry.operation);
        let next = queued.find(|operation| operation.is_queued() && operation.key() == key);
        let Some(next) = next else { return false };
        next.admit(shared_memory);
        true
    }

    /// The key of the operation that comes next on this node. Called on the first rank of the node.
    fn choose_next(&mut self) -> Option<u64> {
        let first =
            self.entries.iter().map(|entry| &entry.operation).find(|operation| operation.is_queued())?;
        let key = first.key();
        match first.order() {
            None => return Some(key),
            Some(order) if order.node() == 0 => {
                if self.entries.iter().any(|entry| entry.operation.is_agreeing_on_outcome()) {
                    return None;
                }
                send_next_key(order.as_ref(), key);
                return Some(key);
            }
            Some(_) => {}
        }
        if self.next_key.is_none() {
            self.next_key = self.receive_next_key().unwrap_or_else(|error| {
                // The operation fails for the same reason in its following steps.
                tracing::error!(%error, "cannot receive the order of operations from the first node");
                Some(key)
            });
        }
        let next_key = self.next_key?;
        let is_next = |entry: &QueueEntry| entry.operation.is_queued() && entry.operation.key() == next_key;
        self.entries.iter().any(is_next).then(|| self.next_key.take()).flatten()
    }

    /// The key that the leader of the first node sent, in the messages of any file.
    fn receive_next_key(&self) -> capulet_comm::Result<Option<u64>> {
        for order in self.entries.iter().filter_map(|entry| entry.operation.order()) {
            if let Some((_, message)) = order.try_receive()? {
                let key = message.try_into().map_err(|_| MALFORMED)?;
                return Ok(Some(u64::from_le_bytes(key)));
            }
        }
        Ok(None)
    }
}

/// Tells the leaders of all other nodes which operation comes next. Does not wait.
fn send_next_key(order: &dyn Leaders, key: u64) {
    for node in 1..order.nodes() {
        if let Err(error) = order.send(node, key.to_le_bytes().to_vec()) {
            // The operation then fails on all ranks that have begun to move its bytes.
            tracing::error!(%error, node, "cannot tell a node which operation comes next");
        }
    }
}

/// Advances the operations in progress and MPI until `test` returns true.
fn wait_until(mut test: impl FnMut() -> bool) {
    work::advance();
    let Ok(()) = capulet_comm::wait_until(|| {
        let is_over = test();
        if !is_over {
            capulet_comm::progress();
        }
        Ok::<_, Infallible>(is_over)
    });
}
