//! A client's side of a connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use crate::contact::Contact;
use crate::error::{Error, Result, errno_of};
use crate::interfaces::{interfaces, sort_by_reach};
use crate::pace::{Pace, Stopped};
use crate::socket;
use crate::wire::{
    REPLY_BYTES, ReplyHead, Request, Status, WELCOME_BYTES, WORD_BYTES, extend_with_words, hello, welcome,
    words_of,
};

/// The time limit of an attempt to connect to one address, the handshake included.
const ATTEMPT_TIME: Duration = Duration::from_secs(5);

/// The words of a reply that are received together with its head.
const FIRST_WORDS: u64 = 1 << 13;

/// A connection that the server has admitted.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    address: SocketAddr,
    /// The end and the length of the current step. `None` after the handshake.
    step: Option<(Instant, Duration)>,
    /// The number of requests that were sent.
    sent: u64,
}

/// Connects to the first address that leads to the server of `contact`.
pub(crate) fn connect(contact: &Contact, pace: &mut Pace<'_>) -> Result<Link> {
    let mut addresses = contact.ips().to_vec();
    match interfaces() {
        Ok(own) => sort_by_reach(&mut addresses, &own),
        Err(error) => tracing::debug!(%error, "tries the addresses of a word server in the given order"),
    }
    let mut attempts = Vec::new();
    for address in addresses {
        // A limit that is over ends the call, not only this attempt.
        if let Err(stopped) = pace.turn() {
            return Err(stopped_at("connect", None, stopped));
        }
        let address = SocketAddr::new(address, contact.port());
        match Link::open(address, contact, pace) {
            Ok(link) => {
                tracing::debug!(%address, "connected to a word server");
                return Ok(link);
            }
            Err(error) => {
                tracing::debug!(%error, "an address does not lead to the word server");
                attempts.push(error);
            }
        }
    }
    Err(Error::Unreachable { attempts })
}

fn stopped_at(action: &'static str, address: Option<SocketAddr>, stopped: Stopped) -> Error {
    match (stopped, address) {
        (Stopped::Late(limit), address) => Error::TimedOut { action, address, limit },
        (Stopped::System(errno), Some(address)) => Error::Connection { action, address, errno },
        (Stopped::System(errno), None) => Error::System { action, errno },
    }
}

impl Link {
    fn open(address: SocketAddr, contact: &Contact, pace: &mut Pace<'_>) -> Result<Self> {
        let connection = |errno| Error::Connection { action: "connect to", address, errno };
        let step = Some((Instant::now() + ATTEMPT_TIME, ATTEMPT_TIME));
        let stream = socket::begin_connect(address).map_err(connection)?;
        let mut link = Self { stream, address, step, sent: 0 };
        link.until_ready(PollFlags::POLLOUT, "connect to", pace)?;
        // An asynchronous error of `connect` is found here.
        if let Some(error) = link.stream.take_error().map_err(|error| connection(errno_of(&error)))? {
            return Err(connection(errno_of(&error)));
        }
        link.send(&hello(contact.secret()), pace)?;
        let mut answer = [0; WELCOME_BYTES];
        link.receive(&mut answer, pace)?;
        if answer != welcome() {
            return Err(link.protocol("the welcome"));
        }
        link.step = None;
        Ok(link)
    }

    /// Sends one request and waits for its reply: one round trip. The outer error breaks the connection.
    /// The inner error is the server's refusal, after which no word has changed.
    pub(crate) fn call(
        &mut self,
        request: Request,
        put: &[u64],
        pace: &mut Pace<'_>,
    ) -> Result<std::result::Result<Vec<u64>, Status>> {
        let number = self.sent;
        self.sent += 1;
        let mut bytes = request.encode(put.len() as u32, number).to_vec();
        extend_with_words(&mut bytes, put);
        self.send(&bytes, pace)?;
        // The length of the expected reply, so that a reply needs one system call. A server refuses a request
        // for more words than it has, so the length is limited until the reply confirms it.
        let first_bytes = request.reply_words().min(FIRST_WORDS) as usize * WORD_BYTES;
        let mut reply = vec![0; REPLY_BYTES + first_bytes];
        let mut filled = 0;
        while filled < REPLY_BYTES {
            filled += self.receive_some(&mut reply[filled..], pace)?;
        }
        let head: [u8; REPLY_BYTES] = std::array::from_fn(|at| reply[at]);
        let head = ReplyHead::decode(&head).ok_or_else(|| self.protocol("the head of a reply"))?;
        if head.number != number {
            return Err(self.protocol("the number of a reply"));
        }
        let expected = if head.status == Status::Done { request.reply_words() } else { 0 };
        if u64::from(head.words) != expected {
            return Err(self.protocol("the length of a reply"));
        }
        let reply_bytes = REPLY_BYTES + head.words as usize * WORD_BYTES;
        if filled > reply_bytes {
            return Err(self.protocol("bytes after a reply"));
        }
        reply.resize(reply_bytes, 0);
        self.receive(&mut reply[filled..], pace)?;
        let words = &reply[REPLY_BYTES..];
        Ok(if head.status == Status::Done { Ok(words_of(words)) } else { Err(head.status) })
    }

    fn protocol(&self, detail: &'static str) -> Error {
        Error::Protocol { address: self.address, detail }
    }

    fn until_ready(&self, events: PollFlags, action: &'static str, pace: &mut Pace<'_>) -> Result<()> {
        pace.until_ready(&self.stream, events, self.step)
            .map_err(|stopped| stopped_at(action, Some(self.address), stopped))
    }

    fn send(&mut self, bytes: &[u8], pace: &mut Pace<'_>) -> Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.until_ready(PollFlags::POLLOUT, "send to", pace)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.connection("send to", &error)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, target: &mut [u8], pace: &mut Pace<'_>) -> Result<()> {
        let mut filled = 0;
        while filled < target.len() {
            filled += self.receive_some(&mut target[filled..], pace)?;
        }
        Ok(())
    }

    /// Waits for bytes, and receives at least one.
    fn receive_some(&mut self, target: &mut [u8], pace: &mut Pace<'_>) -> Result<usize> {
        loop {
            self.until_ready(PollFlags::POLLIN, "receive from", pace)?;
            match self.stream.read(target) {
                Ok(0) => {
                    let action = if self.step.is_some() { "handshake" } else { "wait for a reply" };
                    return Err(Error::Closed { action, address: self.address });
                }
                Ok(count) => return Ok(count),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(self.connection("receive from", &error)),
            }
        }
    }

    fn connection(&self, action: &'static str, error: &std::io::Error) -> Error {
        Error::Connection { action, address: self.address, errno: errno_of(error) }
    }
}
