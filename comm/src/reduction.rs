//! A reduction over all ranks of a tag, as a value that can be polled. The values go up the binomial tree,
//! and the result goes down.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::agree::ReduceOp;
use crate::error::Result;
use crate::lanes::{bytes_of, check_lanes, words_of};
use crate::message::{Flight, Wire};
use crate::tree;

/// The stage of a reduction on this rank. A number is the index of a receive in the flight.
#[derive(Debug)]
enum Stage {
    /// This rank waits for the values of its children.
    Up(SmallVec<[usize; 8]>),
    /// This rank sends its combined values to its parent, and waits for the result.
    AtParent(usize),
    /// This rank has the result and sends it to its children.
    Down,
}

/// The part of one rank in a reduction. The caller must pass the same wire to all calls. A reduction that
/// is dropped before its end leaks the buffers of its messages in flight, and its parent and its children
/// wait without end.
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

    /// Advances the reduction as far as possible without waiting. True when the part of this rank is
    /// complete.
    pub(crate) fn poll(&mut self, wire: Wire<'_>) -> Result<bool> {
        while self.flight.test(wire.counters)? {
            match std::mem::replace(&mut self.stage, Stage::Down) {
                Stage::Up(arrivals) => {
                    for index in arrivals {
                        self.combine(index)?;
                    }
                    self.send_up(wire)?;
                }
                Stage::AtParent(index) => {
                    self.lanes = words_of(&self.flight.take(index), self.lanes.len())?;
                    self.send_down(wire)?;
                }
                Stage::Down => return Ok(true),
            }
        }
        Ok(false)
    }

    /// The result, after [`Reduction::poll`] has returned true.
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

    /// Sends the combined values of the subtree of this rank to the parent. The root has no parent: its
    /// values are the result, which it sends down.
    fn send_up(&mut self, wire: Wire<'_>) -> Result<()> {
        self.flight = Flight::default();
        let Some(parent) = tree::parent(wire.rank) else { return self.send_down(wire) };
        let index = wire.start_receive(parent, size_of_val(self.lanes.as_slice()), &mut self.flight)?;
        wire.start_send(parent, Arc::from(bytes_of(&self.lanes)), &mut self.flight)?;
        self.stage = Stage::AtParent(index);
        Ok(())
    }

    /// Sends the result to the children. The child with the largest subtree comes first, because its
    /// subtree is the deepest.
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
