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

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use capulet_comm::request::Completion;
use capulet_comm::work::{self, UnderWay, Work};
use capulet_comm::{Backoff, ErrorClass, Leaders};
use capulet_sieve::two_phase::TURN_SLOT;

use super::operation::Operation;
use crate::transfer::Outcome;

/// The key that stands for no operation.
const NOBODY: u64 = 0;
/// The error for a malformed message of another node's leader.
const MALFORMED: capulet_comm::Error =
    capulet_comm::Error::Disagreement { what: "which operation comes next" };

/// The operations in progress, in the order in which this rank began them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    entries: Vec<Entry>,
    /// The key of the operation that comes next, as received from the leader of the first node.
    told: Option<u64>,
}

#[derive(Debug)]
struct Entry {
    operation: Operation,
    request: Arc<State>,
    _under_way: UnderWay,
}

/// Called when an operation is over.
type Notice = Box<dyn FnOnce() + Send>;

/// The part of an operation that is visible outside of the queue.
#[derive(Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    outcome: Option<Outcome>,
    notice: Option<Notice>,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("State").field("completion", &self.completion()).finish()
    }
}

impl State {
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

impl Completion for State {
    fn completion(&self) -> Option<(u64, Option<ErrorClass>)> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.outcome.as_ref().map(|outcome| (outcome.bytes, outcome.error.as_ref().map(crate::Error::class)))
    }
}

/// A collective data access in progress. The access continues if this value is dropped.
#[derive(Debug)]
pub struct Request {
    state: Arc<State>,
}

impl Request {
    /// Waits until the operation is over. Blocks for the other ranks. Advances all operations in
    /// progress, and keeps MPI progressing.
    pub fn wait(self) -> Outcome {
        let mut backoff = Backoff::new();
        loop {
            work::advance();
            if let Some(outcome) = self.state.take() {
                return outcome;
            }
            backoff.pause();
            capulet_comm::progress();
        }
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
    pub(crate) fn push(&self, operation: Operation) -> Request {
        let state = Arc::new(State::default());
        let entry = Entry { operation, request: Arc::clone(&state), _under_way: UnderWay::new() };
        self.lock().entries.push(entry);
        self.advance();
        Request { state }
    }

    /// Waits until no operation of the file with channel id `line` is in progress on this rank.
    pub(crate) fn drain(&self, line: u32) {
        let mut backoff = Backoff::new();
        loop {
            work::advance();
            if !self.lock().entries.iter().any(|entry| entry.operation.track().0 == line) {
                return;
            }
            backoff.pause();
            capulet_comm::progress();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Queue {
    fn advance(&self) {
        let mut line = match self.line.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The mutex is held: by another thread, or by this thread further up its stack. The holder
            // makes the progress.
            Err(TryLockError::WouldBlock) => return,
        };
        while line.pass() {}
        let over: Vec<Entry> = line.entries.extract_if(.., |entry| entry.operation.is_over()).collect();
        drop(line);
        for entry in over {
            entry.request.finish(entry.operation.outcome());
        }
    }
}

impl Line {
    /// Advances every operation once. True if any operation changed.
    fn pass(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.entries.len() {
            let (before, rest) = self.entries.split_at_mut(at);
            let operation = &mut rest[0].operation;
            let uses_track =
                |entry: &Entry| !entry.operation.is_done() && entry.operation.track() == operation.track();
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
        let Some(window) = self.entries.first().and_then(|entry| entry.operation.window()) else {
            return false;
        };
        let turn = &window.slots(0)[TURN_SLOT];
        let key = if window.place() == 0 {
            let key = self.next().unwrap_or(NOBODY);
            turn.store(key, Ordering::Release);
            key
        } else {
            turn.load(Ordering::Acquire)
        };
        let mut queued = self.entries.iter_mut().map(|entry| &mut entry.operation);
        let next = queued.find(|operation| operation.is_queued() && operation.key() == key);
        let Some(next) = next else { return false };
        next.admit(window);
        true
    }

    /// The key of the operation that comes next on this node. Called on the first rank of the node.
    fn next(&mut self) -> Option<u64> {
        let first =
            self.entries.iter().map(|entry| &entry.operation).find(|operation| operation.is_queued())?;
        let key = first.key();
        match first.turns() {
            None => return Some(key),
            Some(turns) if turns.node() == 0 => {
                if self.entries.iter().any(|entry| entry.operation.is_settling()) {
                    return None;
                }
                tell(turns.as_ref(), key);
                return Some(key);
            }
            Some(_) => {}
        }
        if self.told.is_none() {
            self.told = self.hear().unwrap_or_else(|error| {
                // The operation fails for the same reason in its following steps.
                tracing::error!(%error, "cannot receive the order of operations from the first node");
                Some(key)
            });
        }
        let told = self.told?;
        let is_told = |entry: &Entry| entry.operation.is_queued() && entry.operation.key() == told;
        self.entries.iter().any(is_told).then(|| self.told.take()).flatten()
    }

    /// The key that the leader of the first node sent, in the messages of any file.
    fn hear(&self) -> capulet_comm::Result<Option<u64>> {
        for turns in self.entries.iter().filter_map(|entry| entry.operation.turns()) {
            if let Some((_, message)) = turns.try_receive()? {
                let key = message.try_into().map_err(|_| MALFORMED)?;
                return Ok(Some(u64::from_le_bytes(key)));
            }
        }
        Ok(None)
    }
}

/// Tells the leaders of all other nodes which operation comes next. Does not wait.
fn tell(turns: &dyn Leaders, key: u64) {
    for node in 1..turns.nodes() {
        if let Err(error) = turns.send(node, key.to_le_bytes().to_vec()) {
            // The operation then fails on all ranks that have begun to move its bytes.
            tracing::error!(%error, node, "cannot tell a node which operation comes next");
        }
    }
}
