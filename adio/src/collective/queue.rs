//! The operations that are under way on one window.
//!
//! They use the window one after the other. Which comes next is said by the first rank of the node, among those on which it has
//! seen all ranks agree: every rank has begun those, so whichever operation a rank waits for, it advances them all, and none
//! waits for one that somebody has not begun. The number of the operation lies in a slot of the window; the first rank
//! clears it when its part is over, so that no rank takes it for another operation later.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use capulet_comm::request::Completion;
use capulet_comm::work::{self, UnderWay, Work};
use capulet_comm::{Backoff, ErrorClass, NodeShared};
use capulet_sieve::two_phase::TURN_SLOT;

use super::operation::Operation;
use crate::transfer::Outcome;

/// Nobody's turn.
const NOBODY: u64 = 0;

/// Operations in the order in which this rank began them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: Mutex<Vec<Entry>>,
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
        !self.entries.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes an operation in. Does not wait for other ranks; another thread may hold the queue for as long as the storage takes.
    pub(crate) fn push(&self, operation: Operation) -> Request {
        let state = Arc::new(State::default());
        let entry = Entry { operation, request: Arc::clone(&state), _under_way: UnderWay::new() };
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        self.advance();
        Request { state }
    }

    /// Waits until no operation of this file is under way on this rank.
    pub(crate) fn drain(&self, line: u32) {
        let mut backoff = Backoff::new();
        loop {
            work::advance();
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            if !entries.iter().any(|entry| entry.operation.track().0 == line) {
                return;
            }
            drop(entries);
            backoff.pause();
            capulet_comm::progress();
        }
    }
}

impl Work for Queue {
    fn advance(&self) {
        let mut entries = match self.entries.try_lock() {
            Ok(entries) => entries,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody is at it: another thread, or this one, further up.
            Err(TryLockError::WouldBlock) => return,
        };
        while pass(&mut entries) {}
        let mut over = Vec::new();
        let mut at = 0;
        while at < entries.len() {
            if entries[at].operation.is_done() { over.push(entries.remove(at)) } else { at += 1 }
        }
        drop(entries);
        for entry in over {
            entry.request.finish(entry.operation.outcome());
        }
    }
}

/// Lets every operation go on once. True if anything happened.
fn pass(entries: &mut [Entry]) -> bool {
    let mut moved = false;
    for at in 0..entries.len() {
        let (before, rest) = entries.split_at_mut(at);
        let operation = &mut rest[0].operation;
        let uses_track =
            |entry: &Entry| !entry.operation.is_done() && entry.operation.track() == operation.track();
        let has_track = !before.iter().any(uses_track);
        moved |= operation.advance(has_track);
    }
    moved | admit(entries)
}

/// Gives the window to the next operation, if it is free.
fn admit(entries: &mut [Entry]) -> bool {
    if entries.iter().any(|entry| entry.operation.is_moving()) {
        return false;
    }
    let Some(window) = entries.first().and_then(|entry| entry.operation.window()) else { return false };
    let turn = &window.slots(0)[TURN_SLOT];
    let mut queued = entries.iter_mut().map(|entry| &mut entry.operation).filter(|one| one.is_queued());
    let next = if window.place() == 0 {
        let next = queued.next();
        turn.store(next.as_ref().map_or(NOBODY, |next| next.key()), Ordering::Release);
        next
    } else {
        let key = turn.load(Ordering::Acquire);
        queued.find(|operation| operation.key() == key)
    };
    let Some(next) = next else { return false };
    next.admit(Arc::clone(&window) as Arc<dyn NodeShared>);
    true
}
