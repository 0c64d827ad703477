//! Messages between two ranks, sent and received without ever blocking inside MPI.
//!
//! Buffers in flight are owned by their [`Flight`]. If a flight is given up (an MPI error elsewhere), they are leaked: MPI
//! may still write to them.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::backoff::Backoff;
use crate::class::ErrorClass;
use crate::error::{Error, Result, check};
use crate::rank::Rank;
use crate::{consts, ffi, work};

/// What went over one channel so far. Exact on any machine.
#[derive(Debug, Default)]
pub struct Counters {
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
    collectives: AtomicU64,
}

impl Counters {
    /// Messages that this rank sent.
    pub fn messages_sent(&self) -> u64 {
        self.messages_sent.load(Ordering::Relaxed)
    }

    /// Payload bytes that this rank sent.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// Messages that this rank received.
    pub fn messages_received(&self) -> u64 {
        self.messages_received.load(Ordering::Relaxed)
    }

    /// Payload bytes that this rank received.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.load(Ordering::Relaxed)
    }

    /// Operations of all ranks that this rank took part in: reductions, broadcasts, gathers, barriers.
    pub fn collectives(&self) -> u64 {
        self.collectives.load(Ordering::Relaxed)
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

/// One end of one tag of one communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire<'a> {
    pub(crate) comm: ffi::MPI_Comm,
    pub(crate) tag: c_int,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The ranks in `comm` of those that `rank` and `size` count; `None` if they are the same.
    pub(crate) members: Option<&'a [Rank]>,
    pub(crate) counters: &'a Counters,
}

/// The most bytes that one message may carry here: fits an `int` count with room to spare.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 30;

impl Wire<'_> {
    /// The rank in the communicator.
    fn rank_in_comm(&self, rank: u32) -> c_int {
        self.members.map_or(rank, |members| members[rank as usize].0) as c_int
    }

    /// Starts to send. The flight keeps the bytes.
    pub(crate) fn start_send(&self, target: u32, bytes: Arc<[u8]>, flight: &mut Flight) -> Result<()> {
        self.start_send_of(target, Memory::Shared(bytes), flight)
    }

    /// As [`Wire::start_send`], for bytes of one receiver.
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
        // SAFETY: the buffer is valid for reading for its length, which fits an int; its heap block is moved into the flight below
        // (the address stays), which drops it only after the request has completed and else leaks it (MPI-4.0 section 3.7.2).
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
        flight.parts.push(Part { request, memory, received_bytes: 0 });
        Ok(())
    }

    /// Starts to receive a message that has come, from whomever, as a flight of its own. The rank that it is from; `None` if
    /// no message has come.
    pub(crate) fn start_receive_any(&self) -> Result<Option<(u32, Flight)>> {
        let mut found: c_int = 0;
        let mut message = mem::MaybeUninit::<ffi::MPI_Message>::uninit();
        let mut status = mem::MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: the communicator is ours; MPI writes the flag, and message and status if it is set (MPI-4.0 section 3.8.2).
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
        // SAFETY: the message was found above and is received once; the buffer is as long as the message, and its heap block is
        // moved into a flight, which drops it only after completion and else leaks it (MPI-4.0 section 3.8.3).
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
        flight.parts.push(Part { request, memory: Memory::Received { buffer }, received_bytes: 0 });
        Ok(Some((status.MPI_SOURCE as u32, flight)))
    }

    /// Starts to receive a message of at most `bytes` bytes. The index finds it in the flight.
    pub(crate) fn start_receive(&self, source: u32, bytes: usize, flight: &mut Flight) -> Result<usize> {
        assert!(bytes <= MESSAGE_BYTES_MAX, "messages are cut into chunks before they come here");
        let mut buffer = vec![0_u8; bytes].into_boxed_slice();
        let mut request = consts::request_null();
        // SAFETY: the buffer is valid for writing for its length, which fits an int; its heap block is moved into the
        // flight below (the address stays), which drops it only after completion and else leaks it.
        let status = unsafe {
            ffi::MPI_Irecv(
                buffer.as_mut_ptr().cast::<c_void>(),
                bytes as c_int,
                consts::byte(),
                self.rank_in_comm(source),
                self.tag,
                self.comm,
                &raw mut request,
            )
        };
        check("MPI_Irecv", status)?;
        flight.parts.push(Part { request, memory: Memory::Received { buffer }, received_bytes: 0 });
        Ok(flight.parts.len() - 1)
    }

    /// Receives one message of at most `bytes` bytes; waits for it.
    pub(crate) fn receive(&self, source: u32, bytes: usize) -> Result<Vec<u8>> {
        let mut flight = Flight::default();
        let index = self.start_receive(source, bytes, &mut flight)?;
        flight.land(self.counters)?;
        Ok(flight.take(index))
    }

    /// Sends one message and waits until its buffer is free again.
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
}

// SAFETY: the request is a handle, which any thread may use that the thread level allows to call MPI at all (MPI-4.0 section
// 11.6); the buffers are owned.
unsafe impl Send for Part {}

impl Part {
    fn is_done(&self) -> bool {
        self.request == consts::request_null()
    }

    /// Tests the request once; counts what arrived.
    fn test(&mut self, counters: &Counters) -> Result<()> {
        let mut done: c_int = 0;
        let mut status = mem::MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: the request is active (not null, checked by the caller) and owned by this part; MPI_Test writes the
        // flag, and the status if the flag is set (MPI-4.0 section 3.7.3).
        let code = unsafe { ffi::MPI_Test(&raw mut self.request, &raw mut done, status.as_mut_ptr()) };
        check("MPI_Test", code)?;
        if done != 0
            && let Memory::Received { .. } = self.memory
        {
            let mut count: c_int = 0;
            // SAFETY: the receive has completed, so MPI_Test has initialized the status.
            let code = unsafe { ffi::MPI_Get_count(status.as_ptr(), consts::byte(), &raw mut count) };
            check("MPI_Get_count", code)?;
            self.received_bytes = usize::try_from(count).unwrap_or(0);
            counters.count_received(self.received_bytes);
        }
        Ok(())
    }
}

/// Messages under way. Land it; a flight that is dropped before leaks its buffers.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    parts: SmallVec<[Part; 4]>,
}

impl Flight {
    /// Waits until everything has arrived or has been sent: tests, and sleeps in between.
    pub(crate) fn land(&mut self, counters: &Counters) -> Result<()> {
        let mut backoff = Backoff::new();
        while !self.test(counters)? {
            backoff.pause();
            work::advance();
        }
        Ok(())
    }

    /// Whether everything has arrived or has been sent. Does not wait.
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

    /// As [`Flight::test`], and lets go of what is done. For flights of sends alone: places in it change.
    pub(crate) fn sweep(&mut self, counters: &Counters) -> Result<bool> {
        let is_over = self.test(counters)?;
        self.parts.retain(|part| !part.is_done());
        Ok(is_over)
    }

    /// Takes the bytes of a receive that has landed.
    pub(crate) fn take(&mut self, index: usize) -> Vec<u8> {
        let part = &mut self.parts[index];
        assert!(part.is_done(), "the flight has landed");
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
                tracing::error!("a message under way is given up; its buffer is leaked");
                mem::forget(part.memory);
            }
        }
    }
}
