//! The client: operations on the words of another process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::contact::Contact;
use crate::error::{Error, Result};
use crate::link::{self, Link};
use crate::pace::{Pace, Stopped, Wait};
use crate::wire::{Request, Status};
use crate::words::{Word, WordOp, check_claim, check_exchange};

/// The operations on the words of the server of a [`Contact`]. Any threads may use a client; their calls
/// take turns. The first call connects. A call after which the state of the words is unknown, because the
/// connection broke or the time limit passed while its request was under way, breaks the client: each later
/// call returns the same error. No request is sent twice. After any other error the client stays usable.
#[derive(Debug)]
pub struct Client {
    contact: Contact,
    turn: Mutex<Turn>,
    /// Signaled when a call ends.
    free: Condvar,
    requests: AtomicU64,
}

#[derive(Debug)]
enum Turn {
    /// No call is under way. The link exists after the first call.
    Free(Option<Link>),
    /// A call of this thread has the link.
    Taken(ThreadId),
    Broken(Error),
}

impl Client {
    /// A client of the server of `contact`. Does not connect.
    pub fn new(contact: Contact) -> Self {
        Self {
            contact,
            turn: Mutex::new(Turn::Free(None)),
            free: Condvar::new(),
            requests: AtomicU64::new(0),
        }
    }

    /// The contact of the server.
    pub fn contact(&self) -> &Contact {
        &self.contact
    }

    /// The number of requests that were sent. Each is one round trip.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Connects if the client is not connected yet: one round trip of TCP and one of the handshake.
    ///
    /// # Errors
    /// As [`Client::load`], without [`Error::OutOfRange`].
    pub fn connect(&self, wait: Wait<'_>) -> Result<()> {
        self.with_link(wait, |_, _| Ok(()))
    }

    /// Fetches a word.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the word does not exist. [`Error::Unreachable`] if no address leads to the
    /// server. [`Error::TimedOut`] if the time limit of `wait` passes. [`Error::Connection`],
    /// [`Error::Closed`], [`Error::Protocol`] or [`Error::Abandoned`] if the connection breaks, or broke in
    /// an earlier call. [`Error::Nested`] in a call from `progress`.
    pub fn load<W: Word>(&self, at: usize, wait: Wait<'_>) -> Result<W> {
        self.update(WordOp::Load, at, wait)
    }

    /// Stores a word and returns its previous value.
    ///
    /// # Errors
    /// As [`Client::load`].
    pub fn swap<W: Word>(&self, at: usize, value: W, wait: Wait<'_>) -> Result<W> {
        self.update(WordOp::Swap { value: value.widen() }, at, wait)
    }

    /// Adds to a word and returns its previous value. The sum wraps.
    ///
    /// # Errors
    /// As [`Client::load`].
    pub fn add<W: Word>(&self, at: usize, value: W, wait: Wait<'_>) -> Result<W> {
        self.update(WordOp::Add { value: value.widen() }, at, wait)
    }

    /// Stores `value` in a word of 32 bits if the word has the value `expected`, and returns its previous
    /// value.
    ///
    /// # Errors
    /// As [`Client::load`].
    pub fn compare_swap(&self, at: usize, expected: u32, value: u32, wait: Wait<'_>) -> Result<u32> {
        self.update(WordOp::CompareSwap { expected: expected.into(), value: value.into() }, at, wait)
    }

    /// Stores `put` from word `base + first` on, and returns the `words` words from word `base` on,
    /// including the stored ones.
    ///
    /// # Errors
    /// As [`Client::load`], and [`Error::OutOfRange`] if `put` does not lie inside of the returned words.
    pub fn exchange(
        &self,
        base: usize,
        first: usize,
        put: &[u64],
        words: usize,
        wait: Wait<'_>,
    ) -> Result<Vec<u64>> {
        check_exchange(first as u64, put.len() as u64, words as u64)?;
        let request = Request::Exchange { base: base as u64, first: first as u64, words: words as u64 };
        self.call(request, put, wait)
    }

    /// Fetches the `words` words from word `base` on and, if all of them are zero, stores `value` in word
    /// `base + at`. Returns the words before the store.
    ///
    /// # Errors
    /// As [`Client::load`], and [`Error::OutOfRange`] if `at` is not below `words`.
    pub fn claim_if_none(
        &self,
        base: usize,
        at: usize,
        value: u64,
        words: usize,
        wait: Wait<'_>,
    ) -> Result<Vec<u64>> {
        check_claim(at as u64, words as u64)?;
        let request = Request::Claim { base: base as u64, at: at as u64, value, words: words as u64 };
        self.call(request, &[], wait)
    }

    fn update<W: Word>(&self, op: WordOp, at: usize, wait: Wait<'_>) -> Result<W> {
        let words = self.call(Request::Word { op, mask: W::MASK, at: at as u64 }, &[], wait)?;
        // `Link::call` has checked the number of words.
        Ok(W::narrow(words[0]))
    }

    fn call(&self, request: Request, put: &[u64], wait: Wait<'_>) -> Result<Vec<u64>> {
        if put.len() > u32::MAX as usize {
            return Err(request.refused(put.len()));
        }
        let reply = self.with_link(wait, |link, pace| {
            self.requests.fetch_add(1, Ordering::Relaxed);
            link.call(request, put, pace)
        })?;
        reply.map_err(|status| match status {
            Status::Done | Status::OutOfRange => request.refused(put.len()),
            Status::Invalid => request.unknown(),
        })
    }

    /// Runs `operate` with the link, when the calls of other threads are over. Its error breaks the client.
    fn with_link<T>(
        &self,
        wait: Wait<'_>,
        operate: impl FnOnce(&mut Link, &mut Pace<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut pace = wait.start();
        let link = self.take(&mut pace)?;
        let mut taken = Taken { client: self, after: Some(Turn::Broken(Error::Abandoned)) };
        let mut link = match link {
            Some(link) => link,
            None => self.link(&mut taken, &mut pace)?,
        };
        let done = operate(&mut link, &mut pace);
        taken.after = Some(match &done {
            Ok(_) => Turn::Free(Some(link)),
            Err(error) => Turn::Broken(error.clone()),
        });
        done
    }

    /// Connects. Neither an error nor a panic breaks the client, because no request is under way.
    fn link(&self, taken: &mut Taken<'_>, pace: &mut Pace<'_>) -> Result<Link> {
        taken.after = Some(Turn::Free(None));
        let link = link::connect(&self.contact, pace)?;
        taken.after = Some(Turn::Broken(Error::Abandoned));
        Ok(link)
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        // No code panics under this mutex.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of this call, and takes the link.
    fn take(&self, pace: &mut Pace<'_>) -> Result<Option<Link>> {
        let me = thread::current().id();
        let mut turn = self.lock();
        loop {
            match &mut *turn {
                Turn::Free(link) => {
                    let link = link.take();
                    *turn = Turn::Taken(me);
                    return Ok(link);
                }
                Turn::Broken(error) => return Err(error.clone()),
                Turn::Taken(thread) if *thread == me => return Err(Error::Nested),
                Turn::Taken(_) => {}
            }
            // The progress function runs without the mutex.
            drop(turn);
            let wait = pace.turn().map_err(|stopped| match stopped {
                Stopped::Late(limit) => {
                    Error::TimedOut { action: "wait for the calls of other threads", address: None, limit }
                }
                Stopped::System(errno) => Error::System { action: "wait", errno },
            })?;
            turn = self.lock();
            if matches!(*turn, Turn::Taken(_)) {
                turn = self.free.wait_timeout(turn, wait).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Ends the turn of a call when it is dropped, also in a panic of the progress function.
struct Taken<'a> {
    client: &'a Client,
    after: Option<Turn>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(after) = self.after.take() {
            *self.client.lock() = after;
        }
        self.client.free.notify_one();
    }
}
