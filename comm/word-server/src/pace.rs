//! Waits of a client: for its turn and for its socket, with calls of the progress function in between.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

/// The wait before the first call of the progress function. Most replies arrive within this time.
const FIRST: Duration = Duration::from_micros(100);
/// The time between calls of the progress function.
const EACH: Duration = Duration::from_millis(1);

/// How a call of a client waits.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    progress: &'a dyn Fn(),
    limit: Option<Duration>,
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<'a> Wait<'a> {
    /// A wait without a time limit. `progress` is called about once per millisecond, first after 100 us. It
    /// must not call the same client.
    pub fn new(progress: &'a dyn Fn()) -> Self {
        Self { progress, limit: None }
    }

    /// The same wait with a time limit for the whole call, the connection included.
    pub fn within(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub(crate) fn start(self) -> Pace<'a> {
        let now = Instant::now();
        Pace {
            progress: self.progress,
            next: now + FIRST,
            limit: self.limit,
            // A limit that no clock reaches is no limit.
            end: self.limit.and_then(|limit| now.checked_add(limit)),
        }
    }
}

/// The waits of one call.
pub(crate) struct Pace<'a> {
    progress: &'a dyn Fn(),
    /// The time of the next call of the progress function.
    next: Instant,
    limit: Option<Duration>,
    end: Option<Instant>,
}

/// Why a wait for a socket ended without the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The limit of the call or the given limit has passed.
    Late(Duration),
    System(Errno),
}

impl Pace<'_> {
    /// Calls the progress function if its time has come. Returns the time until the next call or until the
    /// limit, whichever is earlier.
    pub(crate) fn turn(&mut self) -> Result<Duration, Stopped> {
        let mut now = Instant::now();
        if let (Some(end), Some(limit)) = (self.end, self.limit)
            && now >= end
        {
            return Err(Stopped::Late(limit));
        }
        if now >= self.next {
            (self.progress)();
            now = Instant::now();
            self.next = now + EACH;
        }
        let wake = self.end.map_or(self.next, |end| end.min(self.next));
        Ok(wake.saturating_duration_since(now))
    }

    /// Waits until `socket` is ready for `events` or broken, at most until the time `step` as well, which is
    /// the end of a step of `step_limit`.
    pub(crate) fn until_ready(
        &mut self,
        socket: impl AsFd,
        events: PollFlags,
        step: Option<(Instant, Duration)>,
    ) -> Result<(), Stopped> {
        loop {
            let wait = self.turn()?;
            if let Some((end, limit)) = step
                && Instant::now() >= end
            {
                return Err(Stopped::Late(limit));
            }
            let mut polled = [PollFd::new(socket.as_fd(), events)];
            match ppoll(&mut polled, Some(TimeSpec::from(wait)), None) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(Stopped::System(errno)),
            }
        }
    }
}
