//! Messages between two ranks. No function blocks inside MPI.
//!
//! A [`Flight`] owns the buffers of its messages. If a flight is dropped before its messages are
//! complete, because of an MPI error elsewhere, the buffers are leaked: MPI may still write to them.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::rank::Rank;
use crate::wait::wait_until;
use crate::{consts, ffi};

/// Counts of the messages and collective operations on one channel so far. They do not depend on timing,
/// so they are exact on any machine.
#[derive(Debug, Default)]
pub struct Counters {
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
    collectives: AtomicU64,
    word_operations: AtomicU64,
}

impl Counters {
    /// The number of messages that this rank has sent.
    pub fn messages_sent(&self) -> u64 {
        self.messages_sent.load(Ordering::Relaxed)
    }

    /// The number of payload bytes that this rank has sent.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// The number of messages that this rank has received.
    pub fn messages_received(&self) -> u64 {
        self.messages_received.load(Ordering::Relaxed)
    }

    /// The number of payload bytes that this rank has received.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.load(Ordering::Relaxed)
    }

    /// The number of collective operations in which this rank took part: reductions, broadcasts, gathers
    /// and barriers.
    pub fn collectives(&self) -> u64 {
        self.collectives.load(Ordering::Relaxed)
    }

    /// The number of operations of this rank on words of other ranks
    /// ([`WorldWords`](crate::WorldWords)). On a word server each is one request and one reply.
    pub fn word_operations(&self) -> u64 {
        self.word_operations.load(Ordering::Relaxed)
    }

    pub(crate) fn count_word_operation(&self) {
        self.word_operations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_collective(&self) {
        self.collectives.fetch_add(1, Ordering::Relaxed);
    }

    fn count_sent(&self, bytes: usize) {
        self.messages_sent.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn count_received(&self, bytes: usize) {
        self.messages_received.fetch_add(1, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// One rank's access to the messages of one tag of one communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire<'a> {
    pub(crate) comm: ffi::MPI_Comm,
    pub(crate) tag: c_int,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The rank in `comm` of each rank that `rank` and `size` count. `None` if `rank` and `size` are
    /// those of `comm`.
    pub(crate) members: Option<&'a [Rank]>,
    pub(crate) counters: &'a Counters,
}

/// The maximum size of one message. It fits an `int` count with room to spare.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 30;

impl Wire<'_> {
    /// The number of `rank` in the communicator.
    fn rank_in_comm(&self, rank: u32) -> c_int {
        self.members.map_or(rank, |members| members[rank as usize].0) as c_int
    }

    /// Starts a send. The flight keeps the bytes.
    pub(crate) fn start_send(&self, target: u32, bytes: Arc<[u8]>, flight: &mut Flight) -> Result<()> {
        self.start_send_of(target, Memory::Shared(bytes), flight)
    }

    /// As [`Wire::start_send`], for bytes that go to one receiver only.
    pub(crate) fn start_send_owned(&self, target: u32, bytes: Vec<u8>, flight: &mut Flight) -> Result<()> {
        self.start_send_of(target, Memory::Owned(bytes), flight)
    }

    fn start_send_of(&self, target: u32, memory: Memory, flight: &mut Flight) -> Result<()> {
        let bytes = memory.bytes();
        if bytes.len() > MESSAGE_BYTES_MAX {
            let reason = format!("a message of {} bytes", bytes.len());
            return Err(Error::invalid(ErrorClass::Arg, reason));
        }
        let mut request = consts::request_null();
        // SAFETY: MPI-4.0 section 3.7.2: the buffer must stay valid and unchanged until the request
        // completes. The heap block of the buffer is moved into the flight below, so its address stays
        // the same. The flight drops the block only after completion, and else leaks it. The length fits
        // an int.
        let status = unsafe {
            ffi::MPI_Isend(
                bytes.as_ptr().cast::<c_void>(),
                bytes.len() as c_int,
                consts::byte(),
                self.rank_in_comm(target),
                self.tag,
                self.comm,
                &raw mut request,
            )
        };
        check("MPI_Isend", status)?;
        self.counters.count_sent(bytes.len());
        flight.parts.push(Part::new(request, memory));
        Ok(())
    }

    /// Starts to receive a message that has arrived from any rank, and returns the rank of its sender in
    /// the communicator with a new flight. `None` if no message has arrived. The message is item 0 of the
    /// flight.
    pub(crate) fn start_receive_any(&self) -> Result<Option<(u32, Flight)>> {
        let mut found: c_int = 0;
        let mut message = mem::MaybeUninit::<ffi::MPI_Message>::uninit();
        let mut status = mem::MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: MPI-4.0 section 3.8.2: MPI writes the flag, and the message and the status if the flag
        // is set. The communicator is private to this crate and valid.
        let code = unsafe {
            ffi::MPI_Improbe(
                consts::any_source(),
                self.tag,
                self.comm,
                &raw mut found,
                message.as_mut_ptr(),
                status.as_mut_ptr(),
            )
        };
        check("MPI_Improbe", code)?;
        if found == 0 {
            return Ok(None);
        }
        let mut count: c_int = 0;
        // SAFETY: a message was found, so MPI_Improbe has initialized the status.
        let (code, status) = unsafe {
            (ffi::MPI_Get_count(status.as_ptr(), consts::byte(), &raw mut count), status.assume_init())
        };
        check("MPI_Get_count", code)?;
        let bytes = usize::try_from(count).unwrap_or(0);
        let mut buffer = vec![0_u8; bytes].into_boxed_slice();
        let mut request = consts::request_null();
        // SAFETY: MPI-4.0 section 3.8.3: the message was found above, and it is received once. The buffer
        // is as long as the message. Its heap block is moved into a flight, which drops it only after
        // completion and else leaks it.
        let code = unsafe {
            ffi::MPI_Imrecv(
                buffer.as_mut_ptr().cast::<c_void>(),
                count,
                consts::byte(),
                message.as_mut_ptr(),
                &raw mut request,
            )
        };
        check("MPI_Imrecv", code)?;
        let mut flight = Flight::default();
        flight.parts.push(Part::new(request, Memory::Received { buffer }));
        Ok(Some((status.MPI_SOURCE as u32, flight)))
    }

    /// Whether a message of a rank has arrived. Does not receive the message.
    pub(crate) fn has_arrived(&self, source: u32) -> Result<bool> {
        let (mut found, source): (c_int, c_int) = (0, self.rank_in_comm(source));
        // SAFETY: MPI-4.0 section 3.8.1: MPI writes the flag, and no status. The communicator is private to
        // this crate and valid.
        let code =
            unsafe { ffi::MPI_Iprobe(source, self.tag, self.comm, &raw mut found, consts::status_ignore()) };
        check("MPI_Iprobe", code)?;
        Ok(found != 0)
    }

    /// Starts to receive a message of at most `bytes` bytes. Returns its index in the flight.
    pub(crate) fn start_receive(&self, source: u32, bytes: usize, flight: &mut Flight) -> Result<usize> {
        self.start_receive_of(self.rank_in_comm(source), bytes, flight)
    }

    /// As [`Wire::start_receive`], from any rank ([`Flight::source`]).
    pub(crate) fn start_receive_of_any(&self, bytes: usize, flight: &mut Flight) -> Result<usize> {
        self.start_receive_of(consts::any_source(), bytes, flight)
    }

    fn start_receive_of(&self, source: c_int, bytes: usize, flight: &mut Flight) -> Result<usize> {
        assert!(bytes <= MESSAGE_BYTES_MAX, "the caller cuts longer messages into chunks");
        let mut buffer = vec![0_u8; bytes].into_boxed_slice();
        let mut request = consts::request_null();
        // SAFETY: MPI-4.0 section 3.7.2: the buffer must stay valid, and no other code may access it,
        // until the request completes. Its heap block is moved into the flight below, so its address
        // stays the same. The flight drops the block only after completion, and else leaks it. The length
        // fits an int.
        let status = unsafe {
            ffi::MPI_Irecv(
                buffer.as_mut_ptr().cast::<c_void>(),
                bytes as c_int,
                consts::byte(),
                source,
                self.tag,
                self.comm,
                &raw mut request,
            )
        };
        check("MPI_Irecv", status)?;
        flight.parts.push(Part::new(request, Memory::Received { buffer }));
        Ok(flight.parts.len() - 1)
    }

    /// Receives one message of at most `bytes` bytes. Waits for the message.
    pub(crate) fn receive(&self, source: u32, bytes: usize) -> Result<Vec<u8>> {
        let mut flight = Flight::default();
        let index = self.start_receive(source, bytes, &mut flight)?;
        flight.land(self.counters)?;
        Ok(flight.take(index))
    }

    /// Sends one message. Waits until the send is complete.
    pub(crate) fn send(&self, target: u32, bytes: &[u8]) -> Result<()> {
        let mut flight = Flight::default();
        self.start_send(target, Arc::from(bytes), &mut flight)?;
        flight.land(self.counters)
    }
}

#[derive(Debug)]
enum Memory {
    Shared(Arc<[u8]>),
    Owned(Vec<u8>),
    Received { buffer: Box<[u8]> },
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Memory::Shared(bytes) => bytes,
            Memory::Owned(bytes) => bytes,
            Memory::Received { buffer } => buffer,
        }
    }
}

#[derive(Debug)]
struct Part {
    request: ffi::MPI_Request,
    memory: Memory,
    received_bytes: usize,
    /// The sender of a complete receive, as a rank of the communicator.
    source: c_int,
}

// SAFETY: MPI-4.0 section 11.6: a handle is not bound to a thread; each thread that may call MPI may use
// it. The part owns its buffer.
unsafe impl Send for Part {}

impl Part {
    fn new(request: ffi::MPI_Request, memory: Memory) -> Self {
        Self { request, memory, received_bytes: 0, source: -1 }
    }

    fn is_done(&self) -> bool {
        self.request == consts::request_null()
    }

    /// Tests the request once. Counts a received message.
    fn test(&mut self, counters: &Counters) -> Result<()> {
        let mut done: c_int = 0;
        let mut status = mem::MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: MPI-4.0 section 3.7.3: MPI_Test writes the flag, and the status if the flag is set. The
        // request belongs to this part and is active, because the caller has checked that it is not null.
        let code = unsafe { ffi::MPI_Test(&raw mut self.request, &raw mut done, status.as_mut_ptr()) };
        check("MPI_Test", code)?;
        if done != 0
            && let Memory::Received { .. } = self.memory
        {
            let mut count: c_int = 0;
            // SAFETY: the receive has completed, so MPI_Test has initialized the status.
            let (code, status) = unsafe {
                (ffi::MPI_Get_count(status.as_ptr(), consts::byte(), &raw mut count), status.assume_init())
            };
            check("MPI_Get_count", code)?;
            self.received_bytes = usize::try_from(count).unwrap_or(0);
            self.source = status.MPI_SOURCE;
            counters.count_received(self.received_bytes);
        }
        Ok(())
    }

    /// Ends an incomplete receive. Local: MPI-4.0 section 3.8.4.
    fn cancel(&mut self) -> Result<()> {
        // SAFETY: the request belongs to this part and is active. MPI_Wait completes it, so MPI does not use
        // the buffer any more. MPI ignores the status.
        unsafe {
            check("MPI_Cancel", ffi::MPI_Cancel(&raw mut self.request))?;
            check("MPI_Wait", ffi::MPI_Wait(&raw mut self.request, consts::status_ignore()))
        }
    }
}

/// Messages in progress. The owner calls [`Flight::land`] or tests the flight until it is complete. A
/// flight that is dropped before that leaks the buffers of its incomplete messages.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    parts: SmallVec<[Part; 4]>,
}

impl Flight {
    /// Waits until all messages are complete. Tests them, and sleeps between the tests.
    pub(crate) fn land(&mut self, counters: &Counters) -> Result<()> {
        wait_until(|| self.test(counters))
    }

    /// Whether all messages are complete. Does not wait.
    pub(crate) fn test(&mut self, counters: &Counters) -> Result<bool> {
        let mut open = 0;
        for part in &mut self.parts {
            if !part.is_done() {
                part.test(counters)?;
                open += usize::from(!part.is_done());
            }
        }
        Ok(open == 0)
    }

    /// As [`Flight::test`]. Also removes the complete messages, which changes the indices in the flight.
    /// So it is only for flights without receives.
    pub(crate) fn sweep(&mut self, counters: &Counters) -> Result<bool> {
        let is_over = self.test(counters)?;
        self.parts.retain(|part| !part.is_done());
        Ok(is_over)
    }

    /// Ends the receives that are not complete, without their messages. Local. Does not wait for other ranks.
    pub(crate) fn cancel(&mut self) -> Result<()> {
        let is_open = |part: &&mut Part| !part.is_done() && matches!(part.memory, Memory::Received { .. });
        self.parts.iter_mut().filter(is_open).try_for_each(Part::cancel)
    }

    /// The sender of a complete receive, as a rank of the communicator.
    pub(crate) fn source(&self, index: usize) -> u32 {
        self.parts[index].source as u32
    }

    /// Takes the bytes of a complete receive.
    pub(crate) fn take(&mut self, index: usize) -> Vec<u8> {
        let part = &mut self.parts[index];
        assert!(part.is_done(), "the message is complete");
        match &mut part.memory {
            Memory::Received { buffer } => {
                let mut bytes = mem::take(buffer).into_vec();
                bytes.truncate(part.received_bytes);
                bytes
            }
            Memory::Shared(_) | Memory::Owned(_) => Vec::new(),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        for part in self.parts.drain(..) {
            if !part.is_done() {
                tracing::error!("a message in progress is dropped; its buffer is leaked");
                mem::forget(part.memory);
            }
        }
    }
}
