//! A reduction over the ranks of a tag as a value that can be polled: up the binomial tree, and down again.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::agree::ReduceOp;
use crate::collective::{bytes_of, check_lanes, words_of};
use crate::error::Result;
use crate::message::{Flight, Wire};
use crate::tree;

/// Where a reduction stands on this rank.
#[derive(Debug)]
enum Stage {
    /// The children's values are awaited, each at a place in the flight.
    Up(SmallVec<[usize; 8]>),
    /// The result is awaited, at a place in the flight; what was sent to the parent is under way.
    Turn(usize),
    /// The result is here and under way to the children.
    Down,
}

/// One rank's part of a reduction. All calls must be with the same wire. One that is given up before its end leaks what is
/// under way, and the ranks above and below wait.
#[derive(Debug)]
pub(crate) struct Reduction {
    lanes: Vec<u64>,
    ops: Vec<ReduceOp>,
    stage: Stage,
    flight: Flight,
}

impl Reduction {
    pub(crate) fn start(wire: Wire<'_>, lanes: &[u64], ops: &[ReduceOp]) -> Result<Self> {
        check_lanes(lanes, ops)?;
        let mut flight = Flight::default();
        let mut arrivals = SmallVec::new();
        for child in tree::children(wire.rank, wire.size) {
            arrivals.push(wire.start_receive(child, size_of_val(lanes), &mut flight)?);
        }
        Ok(Self { lanes: lanes.to_vec(), ops: ops.to_vec(), stage: Stage::Up(arrivals), flight })
    }

    /// Goes on as far as it can. True when this rank's part is over.
    pub(crate) fn poll(&mut self, wire: Wire<'_>) -> Result<bool> {
        while self.flight.test(wire.counters)? {
            match std::mem::replace(&mut self.stage, Stage::Down) {
                Stage::Up(arrivals) => {
                    for index in arrivals {
                        self.combine(index)?;
                    }
                    self.turn(wire)?;
                }
                Stage::Turn(index) => {
                    self.lanes = words_of(&self.flight.take(index), self.lanes.len())?;
                    self.send_down(wire)?;
                }
                Stage::Down => return Ok(true),
            }
        }
        Ok(false)
    }

    /// What came of it, once it is over.
    pub(crate) fn result(self) -> Vec<u64> {
        self.lanes
    }

    fn combine(&mut self, index: usize) -> Result<()> {
        let theirs = words_of(&self.flight.take(index), self.lanes.len())?;
        for ((lane, op), value) in self.lanes.iter_mut().zip(&self.ops).zip(theirs) {
            *lane = op.apply(*lane, value);
        }
        Ok(())
    }

    /// The values of this rank and of all below it are known.
    fn turn(&mut self, wire: Wire<'_>) -> Result<()> {
        self.flight = Flight::default();
        let Some(parent) = tree::parent(wire.rank) else { return self.send_down(wire) };
        let index = wire.start_receive(parent, size_of_val(self.lanes.as_slice()), &mut self.flight)?;
        wire.start_send(parent, Arc::from(bytes_of(&self.lanes)), &mut self.flight)?;
        self.stage = Stage::Turn(index);
        Ok(())
    }

    /// The largest subtree first: it has the longest way.
    fn send_down(&mut self, wire: Wire<'_>) -> Result<()> {
        self.flight = Flight::default();
        let bytes: Arc<[u8]> = Arc::from(bytes_of(&self.lanes));
        for child in tree::children(wire.rank, wire.size).rev() {
            wire.start_send(child, Arc::clone(&bytes), &mut self.flight)?;
        }
        self.stage = Stage::Down;
        Ok(())
    }
}
