//! Wake-up messages between ranks. They carry no payload.

use std::ffi::c_int;
use std::sync::Arc;

use crate::error::Result;
use crate::group::Group;
use crate::message::{Counters, Flight, Wire};
use crate::service;
use crate::still::Still;

/// The endpoint of one rank for the wake-ups of a channel.
#[derive(Debug)]
pub struct Notifier {
    group: Arc<Group>,
    counters: Arc<Counters>,
    tag: c_int,
    sent: Flight,
    /// A wake-up that is being received.
    arriving: Option<Flight>,
}

impl Notifier {
    /// The endpoint of this rank. Exactly the wake-ups have the tag `tag`.
    pub(crate) fn new(group: Arc<Group>, counters: Arc<Counters>, tag: c_int) -> Self {
        Self { group, counters, tag, sent: Flight::default(), arriving: None }
    }

    fn wire(&self) -> Wire<'_> {
        self.group.wire(self.tag, &self.counters)
    }

    /// Sends a wake-up to a rank. Does not wait.
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

    /// Takes a wake-up. False if none has arrived. Does not wait.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn try_take(&mut self) -> Result<bool> {
        // MPI may call back into this crate during these calls. The callback must not advance work, because
        // the work may use the lock that calls this function.
        let _still = Still::new();
        self.is_sent()?;
        // A probe that finds no message makes progress. The second probe finds a message that arrived
        // meanwhile.
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

    /// Whether all wake-ups of this rank are sent. Answers requests of other ranks, so that a rank that
    /// polls for a wake-up delays none of them. The caller calls this until it returns true before it
    /// drops this value: a drop before that leaks the unfinished sends.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn is_sent(&mut self) -> Result<bool> {
        let _still = Still::new();
        service::answer();
        self.sent.sweep(&self.counters)
    }
}
