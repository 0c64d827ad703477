//! The server: the words of one process, and the thread that serves them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};

use crate::contact::{Contact, SECRET_BYTES};
use crate::error::{Error, Result, errno_of};
use crate::interfaces::interfaces;
use crate::serve::{Loop, Shared};
use crate::words::{Word, WordOp, Words};
use crate::{socket, wire};

/// The name of the thread, as `/proc` and debuggers show it.
pub const THREAD_NAME: &str = "capulet-words";

/// The words of one process, zero at start, and the thread that serves them over TCP on all interfaces. The
/// thread blocks all signals and sleeps while no client sends a request. The methods operate on the words
/// directly, atomically with respect to the operations of clients. They do not wait for the thread. Drop
/// ends the thread and waits for its end; clients get an error then.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    contact: Contact,
    /// `None` only during the drop.
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
}

impl Server {
    /// Starts a server of `words` words.
    ///
    /// # Errors
    /// If the host has no network address, if a system call fails, or if there are more than `u32::MAX`
    /// words.
    pub fn start(words: usize) -> Result<Self> {
        if u32::try_from(words).is_err() {
            let detail = format!("{words} words, of at most {}", u32::MAX);
            return Err(Error::OutOfRange { operation: "start", detail });
        }
        let system = |action| move |errno| Error::System { action, errno };
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| {
            let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
            system("make a random secret")(errno)
        })?;
        let (listener, has_v6) = socket::listener().map_err(system("listen on a TCP port"))?;
        let port = listener
            .local_addr()
            .map_err(|error| system("find the port of a socket")(errno_of(&error)))?
            .port();
        let addresses = interfaces()?.into_iter().map(|interface| interface.address);
        let addresses: Vec<_> = addresses.filter(|address| has_v6 || address.is_ipv4()).collect();
        if addresses.is_empty() {
            return Err(Error::NoAddress);
        }
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let stop = EventFd::from_flags(flags).map_err(system("make an eventfd"))?;
        let shared = Arc::new(Shared { words: Words::new(words), requests: AtomicU64::new(0), stop });
        let served = Loop::new(Arc::clone(&shared), listener, wire::hello(&secret));
        let thread = spawn(served.map_err(system("make an epoll set"))?)?;
        let contact = Contact::new(addresses, port, secret);
        tracing::debug!(?contact, words, "serves words over TCP");
        Ok(Self { shared, contact, thread: Some(thread), process: std::process::id() })
    }

    /// What a client needs to reach this server: the addresses of the interfaces that are up (loopback
    /// last), the port, and the secret. The addresses are those at the start.
    pub fn addresses(&self) -> Contact {
        self.contact.clone()
    }

    /// The number of words.
    pub fn words(&self) -> usize {
        self.shared.words.count()
    }

    /// The number of requests that clients sent and the thread has answered. Operations of the owner do not
    /// count.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    fn update<W: Word>(&self, op: WordOp, at: usize) -> Result<W> {
        self.shared.words.update(op, W::MASK, at as u64).map(W::narrow)
    }

    /// Fetches a word.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the word does not exist.
    pub fn load<W: Word>(&self, at: usize) -> Result<W> {
        self.update(WordOp::Load, at)
    }

    /// Stores a word and returns its previous value.
    ///
    /// # Errors
    /// As [`Server::load`].
    pub fn swap<W: Word>(&self, at: usize, value: W) -> Result<W> {
        self.update(WordOp::Swap { value: value.widen() }, at)
    }

    /// Adds to a word and returns its previous value. The sum wraps.
    ///
    /// # Errors
    /// As [`Server::load`].
    pub fn add<W: Word>(&self, at: usize, value: W) -> Result<W> {
        self.update(WordOp::Add { value: value.widen() }, at)
    }

    /// Stores `value` in a word of 32 bits if the word has the value `expected`, and returns its previous
    /// value.
    ///
    /// # Errors
    /// As [`Server::load`].
    pub fn compare_swap(&self, at: usize, expected: u32, value: u32) -> Result<u32> {
        self.update(WordOp::CompareSwap { expected: expected.into(), value: value.into() }, at)
    }

    /// Stores `put` from word `base + first` on, and returns the `words` words from word `base` on,
    /// including the stored ones.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if a word does not exist, or if `put` does not lie inside of the returned words.
    pub fn exchange(&self, base: usize, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        self.shared.words.exchange(base as u64, first as u64, put, words as u64)
    }

    /// Fetches the `words` words from word `base` on and, if all of them are zero, stores `value` in word
    /// `base + at`. Returns the words before the store.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if a word does not exist, or if `at` is not below `words`.
    pub fn claim_if_none(&self, base: usize, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        self.shared.words.claim_if_none(base as u64, at as u64, value, words as u64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A forked child has no such thread, and shares the eventfd with the thread of its parent.
        if std::process::id() != self.process {
            return;
        }
        if let Err(errno) = self.shared.stop.write(1) {
            tracing::error!(%errno, "cannot stop the thread of the word server; it is leaked");
            return;
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the word server has panicked");
        }
    }
}

/// Starts the thread with all signals blocked: a handler of the program never runs on it.
fn spawn(served: Loop) -> Result<JoinHandle<()>> {
    let system = |errno| Error::System { action: "block signals", errno };
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(system)?;
    let spawned = thread::Builder::new().name(THREAD_NAME.into()).spawn(move || served.run());
    before.thread_set_mask().map_err(system)?;
    spawned.map_err(|error| Error::System {
        action: "start the thread of the word server",
        errno: errno_of(&error),
    })
}
