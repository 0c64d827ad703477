//! The loop of the server's thread. The thread sleeps in `epoll_wait` only.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;

use crate::session::{Close, Newcomer, Session};
use crate::socket;
use crate::wire::HELLO_BYTES;
use crate::words::Words;

/// The time limit of a handshake. A client sends its hello as soon as it is connected.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// The number of connections whose handshake is not complete. Further connections wait in the kernel.
const MAX_NEWCOMERS: usize = 128;
/// When all places of newcomers are taken, one of this age gives its place to the next connection. So
/// silent connections delay a client, but do not keep it out.
const GRACE: Duration = Duration::from_millis(200);
/// The pause after `accept` failed, mostly because the process has no free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The connections that are accepted before clients are served again.
const ACCEPTS: usize = 16;

const STOP: u64 = 0;
const LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// What the thread shares with the [`crate::Server`].
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) words: Words,
    /// The requests that clients sent and the thread has answered.
    pub(crate) requests: AtomicU64,
    pub(crate) stop: EventFd,
}

/// The state of the thread.
#[derive(Debug)]
pub(crate) struct Loop {
    shared: Arc<Shared>,
    epoll: Epoll,
    listener: TcpListener,
    expected: [u8; HELLO_BYTES],
    /// By key. Keys grow, so the first newcomer is the oldest one.
    newcomers: BTreeMap<u64, Newcomer>,
    sessions: HashMap<u64, Session>,
    next_key: u64,
    /// Whether the listener is in the epoll set.
    is_listening: bool,
    /// No connection is accepted before this time.
    pause_until: Option<Instant>,
}

impl Loop {
    pub(crate) fn new(
        shared: Arc<Shared>,
        listener: TcpListener,
        expected: [u8; HELLO_BYTES],
    ) -> Result<Self, Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&shared.stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        Ok(Self {
            shared,
            epoll,
            listener,
            expected,
            newcomers: BTreeMap::new(),
            sessions: HashMap::new(),
            next_key: FIRST_CONNECTION,
            is_listening: true,
            pause_until: None,
        })
    }

    /// Serves until `stop` is signaled. After an error all connections are closed, so that no client waits.
    pub(crate) fn run(mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let count = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => {
                    tracing::error!(%errno, "the word server ends: epoll_wait failed");
                    return;
                }
            };
            let mut is_accepting = false;
            for event in &events[..count] {
                match event.data() {
                    STOP => return,
                    LISTENER => is_accepting = true,
                    key => self.serve(key),
                }
            }
            self.expire();
            if is_accepting {
                self.accept();
            }
            if let Err(errno) = self.listen_if_possible() {
                tracing::error!(%errno, "the word server ends: epoll_ctl failed");
                return;
            }
        }
    }

    /// The time until a newcomer expires, or until connections are accepted again.
    fn timeout(&self) -> EpollTimeout {
        let oldest = self.newcomers.values().next().map(|newcomer| newcomer.since);
        let limit = self.newcomer_limit();
        let Some(wake) = oldest.map(|since| since + limit).into_iter().chain(self.pause_until).min() else {
            return EpollTimeout::NONE;
        };
        // Rounded up to whole milliseconds: an early wake-up would find nothing to do.
        let wait = wake.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::MAX)
    }

    fn is_full(&self) -> bool {
        self.newcomers.len() >= MAX_NEWCOMERS
    }

    /// How long the oldest newcomer may stay.
    fn newcomer_limit(&self) -> Duration {
        if self.is_full() { GRACE } else { HANDSHAKE_TIME }
    }

    /// Closes newcomers whose time is over.
    fn expire(&mut self) {
        let now = Instant::now();
        if self.pause_until.is_some_and(|until| until <= now) {
            self.pause_until = None;
        }
        loop {
            let limit = self.newcomer_limit();
            let Some(oldest) = self.newcomers.first_entry() else { return };
            if now.saturating_duration_since(oldest.get().since) < limit {
                return;
            }
            oldest.remove();
        }
    }

    /// Takes the listener out of the epoll set while no connection may be accepted, and back in afterwards.
    fn listen_if_possible(&mut self) -> Result<(), Errno> {
        let is_possible = !self.is_full() && self.pause_until.is_none();
        if is_possible != self.is_listening {
            let events = if is_possible { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
            self.epoll.modify(&self.listener, &mut EpollEvent::new(events, LISTENER))?;
            self.is_listening = is_possible;
        }
        Ok(())
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            if self.is_full() {
                return;
            }
            // The standard library accepts with SOCK_CLOEXEC.
            match self.listener.accept() {
                Ok((stream, _)) => self.welcome_newcomer(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    tracing::warn!(%error, "the word server cannot accept a connection");
                    // Gives a descriptor back, if connections without a handshake hold some.
                    self.newcomers.pop_first();
                    self.pause_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn welcome_newcomer(&mut self, stream: TcpStream) {
        let key = self.next_key;
        self.next_key += 1;
        let ready = socket::configure_served(&stream).is_ok()
            && self.epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, key)).is_ok();
        if ready {
            self.newcomers.insert(key, Newcomer::new(stream, Instant::now()));
            // The hello has mostly arrived already.
            self.serve(key);
        }
    }

    /// Advances one connection. A closed connection leaves the epoll set with its only descriptor.
    fn serve(&mut self, key: u64) {
        if let Some(newcomer) = self.newcomers.get_mut(&key) {
            match newcomer.receive(&self.expected) {
                Ok(false) => {}
                Ok(true) => self.admit(key),
                Err(Close) => drop(self.newcomers.remove(&key)),
            }
        } else if let Some(session) = self.sessions.get_mut(&key) {
            let was_sending = session.is_sending();
            let advanced = session.advance(&self.shared.words, &self.shared.requests);
            let is_sending = session.is_sending();
            let watched = advanced.is_ok()
                && (is_sending == was_sending
                    || watch(&self.epoll, &session.stream, key, is_sending).is_ok());
            if !watched {
                self.sessions.remove(&key);
            }
        }
    }

    fn admit(&mut self, key: u64) {
        let Some(newcomer) = self.newcomers.remove(&key) else { return };
        let mut session = newcomer.admit();
        let sent = session.send();
        let is_sending = session.is_sending();
        if sent.is_ok() && (!is_sending || watch(&self.epoll, &session.stream, key, true).is_ok()) {
            self.sessions.insert(key, session);
        }
    }
}

/// Waits for space to send if `is_sending`, otherwise for bytes to receive.
fn watch(epoll: &Epoll, stream: impl AsFd, key: u64, is_sending: bool) -> Result<(), Errno> {
    let events = if is_sending { EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
    epoll.modify(stream, &mut EpollEvent::new(events, key))
}
