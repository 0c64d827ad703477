//! Wake-ups between ranks: messages that say nothing.

use std::ffi::c_int;
use std::sync::Arc;

use crate::error::Result;
use crate::group::Group;
use crate::message::{Counters, Flight, Wire};
use crate::work::Still;

/// One rank's end of the wake-ups of a channel.
#[derive(Debug)]
pub struct Wakes {
    group: Arc<Group>,
    counters: Arc<Counters>,
    tag: c_int,
    sent: Flight,
    /// One that has come and is not all here.
    arriving: Option<Flight>,
}

impl Wakes {
    /// Messages of this tag are wake-ups, and no others have it.
    pub(crate) fn new(group: Arc<Group>, counters: Arc<Counters>, tag: c_int) -> Self {
        Self { group, counters, tag, sent: Flight::default(), arriving: None }
    }

    fn wire(&self) -> Wire<'_> {
        self.group.wire(self.tag, &self.counters)
    }

    /// Leaves a wake-up at a rank. Does not wait.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn wake(&mut self, rank: u32) -> Result<()> {
        let _still = Still::new();
        let mut sent = std::mem::take(&mut self.sent);
        let started = self.wire().start_send_owned(rank, Vec::new(), &mut sent);
        self.sent = sent;
        started.and(self.is_sent().map(drop))
    }

    /// Takes a wake-up, if there is one. Does not wait.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn try_take(&mut self) -> Result<bool> {
        // MPI may call us back inside, and what goes on then may be the lock that asks.
        let _still = Still::new();
        self.is_sent()?;
        // An MPI that finds nothing lets messages go on, and finds what has come then when it is asked again.
        for _ in 0..2 {
            if self.arriving.is_none() {
                self.arriving = self.wire().start_receive_any()?.map(|(_, flight)| flight);
            }
        }
        let Some(flight) = &mut self.arriving else { return Ok(false) };
        let is_here = flight.test(&self.counters)?;
        if is_here {
            self.arriving = None;
        }
        Ok(is_here)
    }

    /// Whether all that were left are on their way for good. To be asked until it is true before this is dropped.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn is_sent(&mut self) -> Result<bool> {
        let _still = Still::new();
        self.sent.sweep(&self.counters)
    }
}
