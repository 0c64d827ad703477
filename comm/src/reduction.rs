//! A reduction over all ranks of a wire, as a value that can be polled.
//!
//! * Along the tree: the values go up the binomial tree, and the result goes down. 2 (P - 1) messages, of
//!   which at most 2 ceil(log2 P) follow one another.
//! * Direct: every rank sends its values to every other rank. P (P - 1) messages, none after another.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::agree::{Join, NODE_LANES, ReduceOp};
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
    /// This rank waits for the values of all other ranks, in their order.
    Direct(SmallVec<[(u32, usize); 4]>),
}

/// The part of one rank in a reduction. The caller must pass the same wire to all calls. A reduction that
/// is dropped before its end leaks the buffers of its messages in flight, and its parent and its children
/// wait without end.
#[derive(Debug)]
pub(crate) struct Reduction {
    lanes: Vec<u64>,
    ops: Vec<ReduceOp>,
    /// Combines the last lanes, instead of their operations.
    join: Option<Join>,
    stage: Stage,
    flight: Flight,
}

impl Reduction {
    /// Starts a reduction between the leaders of the nodes: direct if there are few of them, else along the
    /// tree. `join` combines the last [`NODE_LANES`] lanes, in the order of the ranks.
    pub(crate) fn start_among_leaders(
        wire: Wire<'_>,
        lanes: &[u64],
        ops: &[ReduceOp],
        join: Option<Join>,
    ) -> Result<Self> {
        if wire.size > tree::DIRECT_MAX {
            return Ok(Self { join, ..Self::start(wire, lanes, ops)? });
        }
        check_lanes(lanes, ops)?;
        let mut flight = Flight::default();
        let mut arrivals = SmallVec::new();
        let bytes: Arc<[u8]> = Arc::from(bytes_of(lanes));
        for other in (0..wire.size).filter(|other| *other != wire.rank) {
            arrivals.push((other, wire.start_receive(other, size_of_val(lanes), &mut flight)?));
            wire.start_send(other, Arc::clone(&bytes), &mut flight)?;
        }
        let stage = Stage::Direct(arrivals);
        Ok(Self { lanes: lanes.to_vec(), ops: ops.to_vec(), join, stage, flight })
    }

    /// Starts a reduction along the tree.
    pub(crate) fn start(wire: Wire<'_>, lanes: &[u64], ops: &[ReduceOp]) -> Result<Self> {
        check_lanes(lanes, ops)?;
        let mut flight = Flight::default();
        let mut arrivals = SmallVec::new();
        for child in tree::children(wire.rank, wire.size) {
            arrivals.push(wire.start_receive(child, size_of_val(lanes), &mut flight)?);
        }
        Ok(Self { lanes: lanes.to_vec(), ops: ops.to_vec(), join: None, stage: Stage::Up(arrivals), flight })
    }

    /// Advances the reduction as far as possible without waiting. True when the part of this rank is
    /// complete.
    pub(crate) fn poll(&mut self, wire: Wire<'_>) -> Result<bool> {
        while self.flight.test(wire.counters)? {
            match std::mem::replace(&mut self.stage, Stage::Down) {
                Stage::Up(arrivals) => {
                    for index in arrivals {
                        let theirs = words_of(&self.flight.take(index), self.lanes.len())?;
                        self.combine(&theirs);
                    }
                    self.send_up(wire)?;
                }
                Stage::AtParent(index) => {
                    self.lanes = words_of(&self.flight.take(index), self.lanes.len())?;
                    self.send_down(wire)?;
                }
                Stage::Direct(arrivals) => self.combine_all(wire.rank, &arrivals)?,
                Stage::Down => return Ok(true),
            }
        }
        Ok(false)
    }

    /// The result, after [`Reduction::poll`] has returned true.
    pub(crate) fn result(self) -> Vec<u64> {
        self.lanes
    }

    /// Combines the values of all ranks in their order. They are in the flight, except for those of `own`.
    fn combine_all(&mut self, own: u32, arrivals: &[(u32, usize)]) -> Result<()> {
        let mine = std::mem::take(&mut self.lanes);
        let lanes = mine.len();
        let before = arrivals.partition_point(|(rank, _)| *rank < own);
        let mut all = Vec::with_capacity(arrivals.len() + 1);
        for (_, index) in arrivals {
            all.push(words_of(&self.flight.take(*index), lanes)?);
        }
        all.insert(before, mine);
        let mut rest = all.into_iter();
        self.lanes = rest.next().unwrap_or_default();
        rest.for_each(|theirs| self.combine(&theirs));
        self.flight = Flight::default();
        Ok(())
    }

    /// Combines the values so far with those of the ranks behind them.
    fn combine(&mut self, theirs: &[u64]) {
        let joined = self.join.and_then(|join| {
            Some(join(*self.lanes.last_chunk::<NODE_LANES>()?, *theirs.last_chunk::<NODE_LANES>()?))
        });
        for ((lane, op), value) in self.lanes.iter_mut().zip(&self.ops).zip(theirs) {
            *lane = op.apply(*lane, *value);
        }
        if let (Some(joined), Some(last)) = (joined, self.lanes.last_chunk_mut::<NODE_LANES>()) {
            *last = joined;
        }
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
