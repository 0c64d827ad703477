//! The overlap replay: ranks fill the buffers of a round again, one after the other.

use std::ops::Range;

use capulet_comm::Barriers;

use super::executor::{Operation, Phase};
use super::round_status::{RoundStatus, status_of};

/// A place in the overlap replay: the rank that fills next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplayStep {
    /// The block (consecutive ranks of one node). All nodes go through the blocks in step.
    block: u32,
    /// The place of the rank on this node, if the node has ranks in the block.
    place: usize,
    /// How many times the block was gone through before. It is repeated if a rank could not pack all
    /// bytes for other nodes.
    pass: u32,
    /// Whether an earlier rank of the block could not pack all its bytes.
    is_held: bool,
    /// The combined round status with which the replay began.
    status: RoundStatus,
}

impl Operation {
    /// The places on this node of the ranks of a block.
    fn places_in(&self, block: u32) -> Range<usize> {
        match self.group.internode.as_ref().filter(|_| self.is_exchanging) {
            Some(internode) => internode.nodes.places_in(block),
            None => 0..self.group.shared.ranks(),
        }
    }

    fn block_count(&self) -> u32 {
        let internode = self.group.internode.as_ref().filter(|_| self.is_exchanging);
        internode.map_or(1, |internode| internode.nodes.block_count())
    }

    /// Begins a block, or ends the replay. The blocks with the highest ranks come last.
    pub(super) fn begin_block(&mut self, block: u32, status: RoundStatus) {
        if block == self.block_count() {
            self.phase = Phase::Round;
            return self.after_fill(status);
        }
        let place = self.places_in(block).start;
        self.begin_replay_step(ReplayStep { block, place, pass: 0, is_held: false, status });
    }

    fn begin_replay_step(&mut self, replay: ReplayStep) {
        let places = self.places_in(replay.block);
        let me = self.group.shared.place();
        let is_in_block = places.contains(&me);
        if is_in_block && replay.place == me {
            self.refill(replay.pass == 0, replay.is_held);
        }
        self.phase = Phase::Replay(replay);
        // For a rank whose turn is still to come, `has_more` is about the first fill. The rank begins the
        // round anew in its turn.
        let status = RoundStatus { more: is_in_block && self.has_more(), ..RoundStatus::NEUTRAL };
        let is_last = replay.place + 1 >= places.end;
        if is_last && self.is_exchanging { self.arrive_at_all(status) } else { self.arrive_at_node(status) }
    }

    pub(super) fn after_replay_step(&mut self, replay: ReplayStep, status: RoundStatus, barrier: Barriers) {
        if status.good_end != u64::MAX {
            self.phase = Phase::Round;
            return self.after_fill(status);
        }
        let places = self.places_in(replay.block);
        if replay.place + 1 < places.end {
            let is_held = replay.is_held || status_of(self.group.shared.as_ref(), barrier, replay.place).more;
            self.begin_replay_step(ReplayStep { place: replay.place + 1, is_held, ..replay });
        } else if status.more {
            self.begin_replay_step(ReplayStep {
                place: places.start,
                pass: replay.pass + 1,
                is_held: false,
                ..replay
            });
        } else {
            self.begin_block(replay.block + 1, replay.status);
        }
    }
}
