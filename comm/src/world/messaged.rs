//! Words in memory of each process, which the process itself reads and changes when a message asks for it.
//! For clusters where MPI has no window that works without the target, and no connection over TCP.
//!
//! A rank answers in each of its waits and calls of this crate, and in the waits of MPI if the MPI calls this
//! crate there ([`service`]). A rank that waits for a reply answers too, so ranks that wait for each other
//! go on. Only a rank that computes, or that waits in an MPI that does not call this crate, lets others wait.
//!
//! Requests, replies and the end have a communicator of their own. The reply has the number of its request,
//! and a tag that follows from the number. So requests of several threads do not mix.
//!
//! Cost of an operation: one message to the home rank and one message back; nothing for words of this rank.
//! Each rank has one receive posted for the next request. A test of this receive costs the same for any
//! number of ranks. A probe instead would search the messages of all ranks on Open MPI. Memory: the words of
//! this rank, and a communicator.

use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use capulet_word_server::{Operation, Words};

use super::WorldWords;
use super::medium::{At, FetchOp, Medium, Width};
use crate::agree::ReduceOp;
use crate::backoff::Backoff;
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result};
use crate::ffi;
use crate::message::{Counters, Flight, Wire};
use crate::process::return_errors;
use crate::remains::Remains;
use crate::request;
use crate::service::{self, Service};
use crate::still::Still;
use crate::user_comm::duplicate;
use crate::wait::wait_with;
use crate::work;

/// The tag of requests.
const REQUEST: c_int = 0;
/// Tells rank 0 that a rank makes no further operations.
const DEPARTED: c_int = 1;
/// Tells a rank that all ranks have departed, so that no further request comes.
const ENDED: c_int = 2;
/// Tells a rank that the sender answers no longer, although not all ranks have departed.
const GONE: c_int = 3;
/// The tags from here on are for replies.
const REPLIES: c_int = 4;
/// The largest tag that every MPI has (MPI-4.0 section 9.1.2).
const TAG_MAX: c_int = 32767;

/// The requests that one call answers at most, so that a rank that others ask often gets on.
const ANSWERS_MAX: usize = 16;
/// How long a rank waits in `MPI_Finalize` for the other ranks.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time between two looks whether the home rank of an operation is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The words of all ranks of a group.
#[derive(Debug)]
pub(super) struct Messaged {
    part: Arc<OwnPart>,
    service: Arc<dyn Service>,
    is_answered_in_mpi: bool,
    next_number: AtomicU64,
}

/// The words of this rank, and the communicator for the words of other ranks.
struct OwnPart {
    comm: ffi::MPI_Comm,
    rank: u32,
    size: u32,
    words: Words,
    desk: Mutex<Desk>,
    counters: Counters,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use it.
// The other fields are owned values that are Send.
unsafe impl Send for OwnPart {}
// SAFETY: as for `Send` above. After construction only the atomics and the values inside of mutexes change.
unsafe impl Sync for OwnPart {}

impl fmt::Debug for OwnPart {
    /// Without the words, which are many.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnPart").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// The requests of other ranks.
#[derive(Debug, Default)]
struct Desk {
    /// The receive of the next request. `None` before the start, after the end, and after an error of MPI.
    posted: Option<Flight>,
    /// The replies that are being sent.
    replies: Flight,
}

/// Whether the MPI of every rank calls this crate while it waits. Collective over the communicator.
pub(super) fn is_answered_in_mpi(wire: Wire<'_>) -> Result<bool> {
    let mut lanes = [u64::from(request::ask_to_be_called_always())];
    collective::allreduce(wire, &mut lanes, &[ReduceOp::Min])?;
    Ok(lanes == [1])
}

impl Messaged {
    /// Makes `words` words of this rank, and begins to answer. Collective over the communicator. The caller
    /// must tell the other ranks about an error.
    pub(super) fn make(wire: Wire<'_>, words: usize, is_answered_in_mpi: bool) -> Result<Self> {
        let comm = duplicate(wire.comm)?;
        let part = Arc::new(OwnPart {
            comm,
            rank: wire.rank,
            size: wire.size,
            words: Words::new(words),
            desk: Mutex::default(),
            counters: Counters::default(),
        });
        return_errors(comm)?;
        part.desk.lock().unwrap_or_else(PoisonError::into_inner).posted = Some(part.post()?);
        let service: Arc<dyn Service> = Arc::clone(&part) as Arc<dyn Service>;
        service::begin(Arc::clone(&service));
        Ok(Self { part, service, is_answered_in_mpi, next_number: AtomicU64::new(0) })
    }

    /// Runs an operation on the words of a rank. Also answers other ranks if the words are those of this rank,
    /// because the caller may do nothing else until another rank has changed a word.
    fn on(&self, rank: u32, operation: &Operation) -> Result<Vec<u64>> {
        let part = &self.part;
        if rank == part.rank {
            service::answer();
            return Ok(part.words.apply(operation)?);
        }
        // No work of this crate advances in the wait, because the work may need the lock that waits here.
        let _still = Still::new();
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (mut sent, mut reply) = (Flight::default(), Flight::default());
        part.wire(reply_tag(number)).start_receive(rank, operation.reply_bytes(), &mut reply)?;
        part.wire(REQUEST).start_send_owned(rank, operation.request(number)?, &mut sent)?;
        let looked = Cell::new(Instant::now());
        let waited = wait_with(Backoff::brisk(), || {
            if reply.test(&part.counters)? && sent.test(&part.counters)? {
                return Ok(true);
            }
            if looked.get().elapsed() > LOOK_EVERY {
                looked.set(Instant::now());
                part.check_there(rank)?;
            }
            Ok(false)
        });
        if let Err(error) = waited {
            // The reply may come nevertheless, and must not find the memory of another one.
            reply.cancel()?;
            return Err(error);
        }
        Ok(operation.words_of_reply(number, &reply.take(0))?)
    }

    /// The word that an operation on a single word fetches.
    fn fetch(&self, rank: u32, operation: &Operation) -> Result<u64> {
        let words = self.on(rank, operation)?;
        words.first().copied().ok_or(Error::Disagreement { what: "the words of a reply" })
    }

    /// Tells rank 0 that this rank makes no further operations, and waits until all ranks have told so. False
    /// if this takes longer than [`PATIENCE`].
    fn depart(&self) -> Result<bool> {
        let (part, since) = (&self.part, Instant::now());
        let mut told = Flight::default();
        if part.rank != 0 {
            let mut ended = Flight::default();
            part.wire(DEPARTED).start_send_owned(0, Vec::new(), &mut told)?;
            part.wire(ENDED).start_receive(0, 0, &mut ended)?;
            return Ok(part.await_until_late(&mut ended, since)? && part.await_until_late(&mut told, since)?);
        }
        for _ in 1..part.size {
            let mut departed = Flight::default();
            part.wire(DEPARTED).start_receive_of_any(0, &mut departed)?;
            if !part.await_until_late(&mut departed, since)? {
                return Ok(false);
            }
        }
        part.tell_all(ENDED, &mut told)?;
        part.await_until_late(&mut told, since)
    }

    /// Stops to answer. Local. Has no effect in a second call.
    fn stop(&self) {
        service::end(&self.service);
        let mut desk = self.part.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut posted) = desk.posted.take()
            && let Err(error) = posted.cancel()
        {
            tracing::warn!(%error, "the receive for requests of other ranks cannot be canceled");
        }
    }
}

impl Drop for Messaged {
    /// Stops if another rank could not make its words. The communicator is leaked then.
    fn drop(&mut self) {
        self.stop();
    }
}

impl OwnPart {
    fn wire(&self, tag: c_int) -> Wire<'_> {
        let (comm, rank, size, counters) = (self.comm, self.rank, self.size, &self.counters);
        Wire { comm, tag, rank, size, members: None, counters }
    }

    /// Posts the receive of the next request.
    fn post(&self) -> Result<Flight> {
        const BYTES: usize = Operation::request_bytes(WorldWords::ENTRY_WORDS);
        let mut posted = Flight::default();
        self.wire(REQUEST).start_receive_of_any(BYTES, &mut posted)?;
        Ok(posted)
    }

    /// Answers the requests that have arrived, at most [`ANSWERS_MAX`].
    fn answer_at(&self, desk: &mut Desk) -> Result<()> {
        desk.replies.sweep(&self.counters)?;
        for _ in 0..ANSWERS_MAX {
            let Some(posted) = &mut desk.posted else { return Ok(()) };
            if !posted.test(&self.counters)? {
                return Ok(());
            }
            let (rank, request) = (posted.source(0), posted.take(0));
            desk.posted = Some(self.post()?);
            match self.words.answer(&request) {
                Ok((number, reply)) => {
                    self.wire(reply_tag(number)).start_send_owned(rank, reply, &mut desk.replies)?;
                }
                // Only another program on this communicator can send such a message.
                Err(error) => tracing::error!(%error, rank, "a message that is no request"),
            }
        }
        Ok(())
    }

    /// Fails if a rank has left.
    fn check_there(&self, rank: u32) -> Result<()> {
        if self.wire(GONE).has_arrived(rank)? {
            let reason = format!("rank {rank}, which holds the words, answers no longer");
            return Err(Error::invalid(ErrorClass::Other, reason));
        }
        Ok(())
    }

    /// Starts to send an empty message with a tag to all other ranks.
    fn tell_all(&self, tag: c_int, told: &mut Flight) -> Result<()> {
        let mut others = (0..self.size).filter(|rank| *rank != self.rank);
        others.try_for_each(|rank| self.wire(tag).start_send_owned(rank, Vec::new(), told))
    }

    /// Waits for messages, and answers requests. Gives up the messages and returns false if the time since
    /// `since` is longer than [`PATIENCE`].
    fn await_until_late(&self, flight: &mut Flight, since: Instant) -> Result<bool> {
        let mut backoff = Backoff::new();
        while !flight.test(&self.counters)? {
            if since.elapsed() > PATIENCE {
                flight.cancel()?;
                return Ok(false);
            }
            backoff.pause();
            work::advance();
        }
        Ok(true)
    }

    /// Waits until all replies are sent, at most [`PATIENCE`].
    fn await_replies(&self) -> Result<bool> {
        let mut replies = {
            let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut desk.replies)
        };
        self.await_until_late(&mut replies, Instant::now())
    }

    /// Tells all ranks that this rank answers no longer. Nothing is done about an error: MPI has failed.
    fn tell_gone(&self) {
        let mut told = Flight::default();
        let sent = self.tell_all(GONE, &mut told).and_then(|()| told.test(&self.counters));
        tracing::debug!(?sent, "this rank answers no longer");
    }
}

impl Service for OwnPart {
    fn answer(&self) {
        let mut desk = match self.desk.try_lock() {
            Ok(desk) => desk,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The words are being made or closed.
            Err(TryLockError::WouldBlock) => return,
        };
        if let Err(error) = self.answer_at(&mut desk) {
            tracing::error!(%error, "requests of other ranks for words are no longer answered");
            desk.posted = None;
            self.tell_gone();
        }
    }
}

impl Medium for Messaged {
    fn fetch_and(&self, op: FetchOp, value: u64, width: Width, At { rank, word }: At) -> Result<u64> {
        let narrow = value as u32;
        let operation = match (op, width) {
            (FetchOp::Load, Width::W32) => Operation::load::<u32>(word),
            (FetchOp::Load, Width::W64) => Operation::load::<u64>(word),
            (FetchOp::Swap, Width::W32) => Operation::swap(word, narrow),
            (FetchOp::Swap, Width::W64) => Operation::swap(word, value),
            (FetchOp::Add, Width::W32) => Operation::add(word, narrow),
            (FetchOp::Add, Width::W64) => Operation::add(word, value),
        };
        self.fetch(rank, &operation)
    }

    fn compare_swap(&self, expected: u32, value: u32, At { rank, word }: At) -> Result<u32> {
        self.fetch(rank, &Operation::compare_swap(word, expected, value)).map(|before| before as u32)
    }

    fn exchange(&self, table: At, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        self.on(table.rank, &Operation::exchange(table.word, first, put, words))
    }

    fn claim_if_none(&self, table: At, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        self.on(table.rank, &Operation::claim_if_none(table.word, at, value, words))
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn is_passive(&self) -> Option<bool> {
        Some(self.part.size == 1)
    }

    fn guarantee(&self) -> &'static str {
        if self.is_answered_in_mpi {
            "an operation waits until its target waits in MPI or calls Capulet"
        } else {
            "an operation waits until its target calls Capulet"
        }
    }

    fn waits_at_close(&self) -> bool {
        true
    }

    fn messages(&self) -> Option<[u64; 2]> {
        let counters = &self.part.counters;
        Some([counters.messages_sent(), counters.messages_received()])
    }

    fn close(&self, _all_departed: bool) {
        let all_departed = self.depart().unwrap_or_else(|error| {
            tracing::warn!(%error, "the ranks cannot agree on the end of their words");
            false
        });
        let are_answered = self.part.await_replies().unwrap_or(false);
        self.stop();
        if all_departed && are_answered {
            Remains::new(self.part.comm).free();
        } else {
            self.part.tell_gone();
            tracing::warn!("a communicator is leaked: not all ranks have released their words");
        }
    }
}

/// The tag of the reply to the request `number`. Requests that are under way at the same time have different
/// tags: a thread has one request under way, and its number is one of the last numbers.
fn reply_tag(number: u64) -> c_int {
    REPLIES + (number % (TAG_MAX - REPLIES + 1) as u64) as c_int
}
