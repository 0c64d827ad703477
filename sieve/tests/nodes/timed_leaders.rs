//! Counts the messages that follow one another: the time of an operation if each message takes one unit of
//! time, and nothing else takes time.

use std::sync::{Arc, Mutex, PoisonError};

use capulet_comm::Leaders;
use capulet_comm::local::LocalLeaders;

/// So many attempts to receive that find nothing, one after another, show that no leader can go on.
const ATTEMPTS: usize = 1000;

/// The time of all leaders.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: u64,
    attempts: usize,
}

/// One leader's end of a channel with a clock. Each message carries the time at which it arrives. The time
/// goes on when no leader can go on.
#[derive(Debug)]
pub(crate) struct TimedLeaders {
    end: Arc<LocalLeaders>,
    clock: Arc<Mutex<Clock>>,
    /// Messages that arrive later, each after its time.
    later: Mutex<Vec<(u64, usize, Vec<u8>)>>,
}

impl TimedLeaders {
    pub(crate) fn new(end: Arc<LocalLeaders>, clock: Arc<Mutex<Clock>>) -> Self {
        Self { end, clock, later: Mutex::default() }
    }
}

impl Leaders for TimedLeaders {
    fn node(&self) -> usize {
        self.end.node()
    }

    fn nodes(&self) -> usize {
        self.end.nodes()
    }

    fn send(&self, node: usize, mut message: Vec<u8>) -> capulet_comm::Result<()> {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.attempts = 0;
        message.extend((clock.now + 1).to_le_bytes());
        self.end.send(node, message)
    }

    fn try_receive(&self) -> capulet_comm::Result<Option<(usize, Vec<u8>)>> {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((from, mut message)) = self.end.try_receive()? {
            let time = *message.last_chunk::<8>().expect("each message ends with its time");
            message.truncate(message.len() - time.len());
            later.push((u64::from_le_bytes(time), from, message));
        }
        let arrived = later.iter().position(|(time, ..)| *time <= clock.now);
        let arrived = arrived.map(|at| later.remove(at));
        clock.attempts = if arrived.is_some() { 0 } else { clock.attempts + 1 };
        if clock.attempts > ATTEMPTS && !later.is_empty() {
            *clock = Clock { now: clock.now + 1, attempts: 0 };
        }
        Ok(arrived.map(|(_, from, message)| (from, message)))
    }

    fn is_sent(&self) -> capulet_comm::Result<bool> {
        self.end.is_sent()
    }
}
