//! The operations that are under way on one window.
//!
//! They use the window one after the other. Which comes next is said by the first rank of the node, among those on which it has
//! seen all ranks agree: every rank has begun those, so whichever operation a rank waits for, it advances them all, and none
//! waits for one that somebody has not begun. The number of the operation lies in a slot of the window; the first rank
//! clears it when its part is over, so that no rank takes it for another operation later.
//!
//! Nodes that exchange need one order for all: the leader of the first node gives it, and tells the other leaders. It waits until
//! the ranks have agreed on what came of the operation before: then that is over at all of them, and no leader takes a message of
//! the next one for one of an operation that it has not given up yet.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use capulet_comm::request::Completion;
use capulet_comm::work::{self, UnderWay, Work};
use capulet_comm::{Backoff, ErrorClass, Leaders};
use capulet_sieve::two_phase::TURN_SLOT;

use super::operation::Operation;
use crate::transfer::Outcome;

/// Nobody's turn.
const NOBODY: u64 = 0;
/// What a leader of another node said makes no sense.
const MALFORMED: capulet_comm::Error = capulet_comm::Error::Disagreement { what: "whose turn it is" };

/// Operations in the order in which this rank began them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
    /// Threads that have taken operations out of the line and have not told their outcomes yet.
    telling: AtomicUsize,
}

#[derive(Debug, Default)]
struct Line {
    entries: Vec<Entry>,
    /// The operation whose turn comes next, as the leader of the first node says.
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

/// What is known of an operation outside of the queue.
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

    fn description(&self) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.outcome.as_ref()?.error.as_ref().map(ToString::to_string)
    }
}

/// A collective data access under way. It goes on whether this is kept or not.
#[derive(Debug)]
pub struct Request {
    state: Arc<State>,
}

impl Request {
    /// Waits until it is over. Blocks for the other ranks; advances everything that is under way, and keeps MPI progressing.
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

    /// Calls `notice` when it is over: at once if it is. The notice must not wait for anything.
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

    /// What a request of MPI's needs to know of it.
    pub fn as_completion(&self) -> Arc<dyn Completion> {
        Arc::clone(&self.state) as Arc<dyn Completion>
    }
}

impl Queue {
    /// Whether anything is under way. Local.
    pub(crate) fn is_busy(&self) -> bool {
        !self.lock().entries.is_empty()
    }

    /// Takes an operation in. Does not wait for other ranks; another thread may hold the queue for as long as the storage takes.
    pub(crate) fn push(&self, operation: Operation) -> Request {
        let state = Arc::new(State::default());
        let entry = Entry { operation, request: Arc::clone(&state), _under_way: UnderWay::new() };
        self.lock().entries.push(entry);
        self.advance();
        Request { state }
    }

    /// Waits until no operation of this file is under way on this rank, on whatever thread: what the
    /// operations moved is counted then, and none of them refers to the storage.
    pub(crate) fn drain(&self, line: u32) {
        let mut backoff = Backoff::new();
        loop {
            work::advance();
            let is_under_way = self.lock().entries.iter().any(|entry| entry.operation.track().0 == line);
            if !is_under_way && self.telling.load(Ordering::Acquire) == 0 {
                return;
            }
            backoff.pause();
            capulet_comm::progress();
        }
    }
}

/// A thread that tells outcomes. Begun while the line is locked, so that who finds the line empty finds the
/// thread.
struct Telling<'a>(&'a AtomicUsize);

impl<'a> Telling<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        // After it, what the operations held is dropped for whoever waits.
        self.0.fetch_sub(1, Ordering::Release);
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
            // Somebody is at it: another thread, or this one, further up.
            Err(TryLockError::WouldBlock) => return,
        };
        while line.pass() {}
        let over: Vec<Entry> = line.entries.extract_if(.., |entry| entry.operation.is_over()).collect();
        let _telling = Telling::new(&self.telling);
        drop(line);
        for entry in over {
            entry.request.finish(entry.operation.outcome());
        }
    }
}

impl Line {
    /// Lets every operation go on once. True if anything happened.
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

    /// Gives the window to the next operation, if it is free.
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

    /// The operation that comes next on this node. For its first rank.
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
                // What follows fails for the same reason.
                tracing::error!(%error, "the order of the nodes cannot be had");
                Some(key)
            });
        }
        let told = self.told?;
        let is_told = |entry: &Entry| entry.operation.is_queued() && entry.operation.key() == told;
        self.entries.iter().any(is_told).then(|| self.told.take()).flatten()
    }

    /// What the leader of the first node says, on the line of any file.
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

/// Tells the leaders of all other nodes whose turn it is. Does not wait.
fn tell(turns: &dyn Leaders, key: u64) {
    for node in 1..turns.nodes() {
        if let Err(error) = turns.send(node, key.to_le_bytes().to_vec()) {
            // The operation itself fails then, on all ranks that have come to it.
            tracing::error!(%error, node, "a node cannot be told whose turn it is");
        }
    }
}
