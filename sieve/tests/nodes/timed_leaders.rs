//! Counts the messages that follow one another: the time of an operation if each message takes one unit of
//! time, and nothing else takes time.

use std::sync::{Arc, Mutex, PoisonError};

use capulet_comm::Leaders;
use capulet_comm::local::LocalLeaders;
use capulet_drivers::Direction;
use capulet_drivers::mem::MemDriver;

use crate::rows;
use crate::scenario::{FILE_BYTES, Scenario, contents, expected, file_of, run};

/// So many attempts to receive that find nothing, one after another, show that no leader can go on.
const ATTEMPTS: usize = 1000;

/// The time of all leaders.
#[derive(Debug, Default)]
struct Clock {
    now: u64,
    attempts: usize,
}

/// One leader's end of a channel with a clock. Each message carries the time at which it arrives. The clock
/// advances when no leader can take a step.
#[derive(Debug)]
struct TimedLeaders {
    end: Arc<LocalLeaders>,
    clock: Arc<Mutex<Clock>>,
    /// Messages that arrive later, each after its time.
    later: Mutex<Vec<(u64, usize, Vec<u8>)>>,
}

impl TimedLeaders {
    fn new(end: Arc<LocalLeaders>, clock: Arc<Mutex<Clock>>) -> Self {
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

/// Between few nodes a write of R rounds takes 2 R + 1 message times, and a read R + 1. The survey takes one
/// more if it is a step. Between many nodes each reduction goes along the tree.
#[test]
fn rounds_take_a_constant_number_of_message_times() {
    for nodes in 2..=5 {
        for (direction, is_surveyed) in [Direction::Write, Direction::Read]
            .into_iter()
            .flat_map(|direction| [false, true].map(|is_surveyed| (direction, is_surveyed)))
        {
            for rounds in 1..=(FILE_BYTES / (nodes * 4096)) as u64 {
                let placement: Vec<usize> = (0..nodes).collect();
                let scenario = Scenario {
                    is_surveyed,
                    // All collective buffers of a round are full. The areas suffice for a round.
                    collective_buffer_bytes: 4096,
                    ..rows(placement, direction, rounds as usize * 4096 / 8)
                };
                let file = file_of(&MemDriver::new());
                let (mut buffers, after, expected) = expected(&scenario);
                let clock = Arc::new(Mutex::new(Clock::default()));
                let wrap = |end: Arc<LocalLeaders>| -> Arc<dyn Leaders> {
                    Arc::new(TimedLeaders::new(end, clock.clone()))
                };
                run(&scenario, &vec![file.clone(); nodes], &mut buffers, &wrap);
                assert!(contents(file.as_ref()) == expected && buffers == after);
                let survey = u64::from(!is_surveyed);
                let times = clock.lock().expect("no rank has panicked").now;
                if nodes <= 4 {
                    let of_round = if direction == Direction::Write { 2 } else { 1 };
                    assert_eq!(times, survey + of_round * rounds + 1, "{nodes} nodes, {direction:?}");
                } else {
                    // A request, a receipt, and the way up and down a tree of depth 2.
                    assert!(times <= (survey + rounds + 1) * 4 + rounds * 2, "{nodes} nodes, {direction:?}");
                }
            }
        }
    }
}
