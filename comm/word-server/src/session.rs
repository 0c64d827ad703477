//! The server's side of a connection: first a newcomer, then an admitted client. No call in this module
//! blocks.

use std::hint::black_box;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::wire::{self, HELLO_BYTES, REQUEST_BYTES, RequestHead, Status, WORD_BYTES, welcome, words_of};
use crate::words::Words;

/// The bytes that one event receives at most, so that a client with long requests delays others little.
const PIECE_BYTES: u64 = 64 << 10;

/// The connection is to be closed: by the peer, by an error, or because the peer broke the rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Close;

/// A connection whose handshake is not complete. It holds at most [`HELLO_BYTES`] bytes.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) stream: TcpStream,
    pub(crate) since: Instant,
    hello: [u8; HELLO_BYTES],
    filled: usize,
}

impl Newcomer {
    pub(crate) fn new(stream: TcpStream, since: Instant) -> Self {
        Self { stream, since, hello: [0; HELLO_BYTES], filled: 0 }
    }

    /// Receives bytes of the hello. True when the hello is complete and equals `expected`. Nothing is read
    /// beyond the hello. A wrong hello is an error only when it is complete, and compared in constant time,
    /// so the peer cannot find out which byte is wrong.
    pub(crate) fn receive(&mut self, expected: &[u8; HELLO_BYTES]) -> Result<bool, Close> {
        self.filled += receive(&self.stream, &mut self.hello[self.filled..])?;
        if self.filled < HELLO_BYTES {
            return Ok(false);
        }
        let differences = self.hello.iter().zip(expected).fold(0, |sum, (a, b)| black_box(sum | (a ^ b)));
        if differences == 0 { Ok(true) } else { Err(Close) }
    }

    /// Turns the connection into a session of an admitted client. The next bytes to send are the welcome.
    pub(crate) fn admit(self) -> Session {
        Session { stream: self.stream, input: Input::default(), output: welcome().to_vec(), sent: 0 }
    }
}

/// The connection of an admitted client. It holds at most one request and one reply, so at most two times
/// the words of the server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    input: Input,
    /// The reply or welcome that is sent. While bytes of it are left, no request is read.
    output: Vec<u8>,
    sent: usize,
}

/// The request that is received.
#[derive(Debug)]
struct Input {
    head: [u8; REQUEST_BYTES],
    filled: usize,
    put: Vec<u8>,
    /// The bytes of `put` that have arrived but were discarded, because the request is invalid.
    discarded: u64,
}

impl Default for Input {
    fn default() -> Self {
        Self { head: [0; REQUEST_BYTES], filled: 0, put: Vec::new(), discarded: 0 }
    }
}

impl Input {
    /// Receives bytes of one request, at most [`PIECE_BYTES`] of its words. Returns the head when the
    /// request is complete.
    fn receive(&mut self, stream: &TcpStream, words: &Words) -> Result<Option<RequestHead>, Close> {
        if self.filled < REQUEST_BYTES {
            self.filled += receive(stream, &mut self.head[self.filled..])?;
            if self.filled < REQUEST_BYTES {
                return Ok(None);
            }
        }
        let head = RequestHead::decode(&self.head);
        let total = u64::from(head.put) * WORD_BYTES as u64;
        let left = total - self.discarded - self.put.len() as u64;
        if left == 0 {
            return Ok(Some(head));
        }
        let count = if head.request.is_some() && u64::from(head.put) <= words.count() as u64 {
            let filled = self.put.len();
            self.put.resize(filled + left.min(PIECE_BYTES) as usize, 0);
            let count = receive(stream, &mut self.put[filled..])?;
            self.put.truncate(filled + count);
            count
        } else {
            let mut scrap = [0; 4096];
            let count = receive(stream, &mut scrap[..left.min(4096) as usize])?;
            self.discarded += count as u64;
            count
        };
        Ok((count as u64 == left).then_some(head))
    }
}

impl Session {
    /// Receives what has arrived, carries out a request that is complete, and sends what the socket takes.
    /// At most one request, so that other clients come in between. Counts it in `requests`.
    pub(crate) fn advance(&mut self, words: &Words, requests: &AtomicU64) -> Result<(), Close> {
        if self.is_sending() {
            return self.send();
        }
        let Some(head) = self.input.receive(&self.stream, words)? else { return Ok(()) };
        self.answer(head, words);
        // Before the reply, so that the client finds its request counted.
        requests.fetch_add(1, Ordering::Relaxed);
        self.send()
    }

    /// Whether bytes of a reply wait until the socket takes them.
    pub(crate) fn is_sending(&self) -> bool {
        !self.output.is_empty()
    }

    /// Carries out the complete request in `input`, and makes its reply the output.
    fn answer(&mut self, head: RequestHead, words: &Words) {
        let input = std::mem::take(&mut self.input);
        self.output = if input.discarded > 0 && head.request.is_some() {
            wire::reply(head.number, Err(Status::OutOfRange))
        } else {
            head.answer(&words_of(&input.put), words)
        };
    }

    pub(crate) fn send(&mut self) -> Result<(), Close> {
        while self.sent < self.output.len() {
            match (&self.stream).write(&self.output[self.sent..]) {
                Ok(0) => return Err(Close),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(close(&error)),
            }
        }
        // A long reply gives its memory back.
        self.output = Vec::new();
        self.sent = 0;
        Ok(())
    }
}

/// Receives bytes without blocking, at most once. 0 if none have arrived.
fn receive(mut stream: &TcpStream, target: &mut [u8]) -> Result<usize, Close> {
    match stream.read(target) {
        Ok(0) => Err(Close),
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        Err(error) => Err(close(&error)),
    }
}

fn close(error: &io::Error) -> Close {
    tracing::debug!(%error, "a connection to the word server ended");
    Close
}
