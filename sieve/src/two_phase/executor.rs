//! The operation as a value that can be polled. It waits for the ranks of the node or for the other
//! nodes, or is over.

use std::sync::Arc;

use capulet_comm::{Backoff, Barriers, Error, work};
use capulet_drivers::Direction;

use super::NodeGroup;
use super::collective_buffer::RankPart;
use super::internode::{Exchange, LeaderValues, Outgoing, Step, Survey, is_direct, status_of_values};
use super::replay::ReplayStep;
use super::round_status::{
    RoundStatus, combined_status, first_buffer_index, publish, status_of, store_buffer_index,
};
use super::rounds::{Filled, Read};
use crate::access::Access;
use crate::counters::Counters;
use crate::{Failure, KnownOutcome, Target, Transferred};

/// The work of the ranks between the last barrier and the barrier that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The nodes find out whether they have bytes for each other.
    Survey {
        /// The first offset of this node. Set at the leader.
        own_first: u64,
    },
    /// A round: buffers are filled (write), or marked and read (read).
    Round,
    /// The overlap replay: ranks fill the buffers of a round again, one after the other.
    Replay(ReplayStep),
    /// The operation is over.
    Done,
}

/// The barrier or the leaders that an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Nothing: the operation is over.
    Nothing,
    /// The ranks of the node.
    Node(Barriers),
    /// The ranks of the node. After them the leader takes a step with the other leaders.
    NodeThenLeaders(Barriers),
    /// The other leaders. Only a leader waits for them.
    Leaders,
    /// The leader of the node.
    Leader(Barriers),
}

/// One rank's part of a collective access, in flight.
///
/// Between two barriers, a write writes the buffers of one round while those of the next are filled. A
/// read copies buffers out while those of the next round are read, and the units of the round after that
/// are marked. Maps and buffers have an index, 0 or 1. A round with index `t` marks the maps of index
/// `t`, and a write fills the buffers of index `t`; a read later fills the buffers of the other index. So
/// the memory in use after a barrier is never the memory that the next access fills first, and no barrier
/// is needed between accesses.
///
/// Among several nodes the ranks of a node come to one barrier, their leader exchanges with the other
/// leaders, and all ranks come to a second barrier, at which the leader publishes the combined status.
pub struct Operation {
    pub(super) target: Target,
    pub(super) group: NodeGroup,
    pub(super) direction: Direction,
    pub(super) part: RankPart,
    pub(super) phase: Phase,
    awaited: Awaited,
    /// Whether the nodes exchange bytes.
    pub(super) is_exchanging: bool,
    /// The message fragments of this rank for other nodes.
    pub(super) outgoing: Option<Outgoing>,
    /// The leader's exchange with the other leaders. At leaders only.
    exchange: Option<Box<Exchange>>,
    /// The index of the buffers that are filled or marked.
    pub(super) buffer_index: usize,
    /// The file offset at which the latest round begins.
    pub(super) round: Option<u64>,
    /// The round that was marked (and for a write filled) before the barrier that is waited for.
    pub(super) filled: Option<Filled>,
    /// The round that was read before that barrier. Reads only.
    pub(super) read: Option<Read>,
    /// Used bytes of this rank's area.
    pub(super) packed_bytes: usize,
    /// Bytes of the access, from its start, that were marked or packed.
    pub(super) marked_bytes: u64,
    /// Bytes of the access, from its start, that went through collective buffers.
    pub(super) placed_bytes: u64,
    moved_bytes: u64,
    pub(super) good_end: u64,
    pub(super) overlap: bool,
    pub(super) error: Option<Failure>,
    /// The outcome on all ranks, from the status at the last barrier of all ranks.
    outcome: KnownOutcome,
}

impl Operation {
    /// Begins the operation without waiting for other ranks. See [`super::run`] for the arguments.
    ///
    /// # Panics
    /// If `access` is not monotone.
    ///
    /// # Safety
    /// As [`super::run`], until the operation is over on all ranks.
    pub unsafe fn start(
        target: Target,
        group: NodeGroup,
        access: Access,
        direction: Direction,
        first: u64,
    ) -> Self {
        assert!(access.is_monotone(), "two-phase needs offsets that never decrease");
        let buffer_index = first_buffer_index(group.shared.as_ref());
        let mut operation = Self {
            target,
            group,
            direction,
            part: RankPart::new(access, direction),
            phase: Phase::Done,
            awaited: Awaited::Nothing,
            is_exchanging: false,
            outgoing: None,
            exchange: None,
            buffer_index,
            round: None,
            filled: None,
            read: None,
            packed_bytes: 0,
            marked_bytes: 0,
            placed_bytes: 0,
            moved_bytes: 0,
            good_end: u64::MAX,
            overlap: false,
            error: None,
            outcome: KnownOutcome::Unknown,
        };
        if first != u64::MAX {
            operation.begin(first);
        }
        operation
    }

    fn begin(&mut self, first: u64) {
        let Some(internode) = self.group.internode.clone() else {
            self.phase = Phase::Round;
            self.begin_round(first);
            return self.arrive();
        };
        let leaders = internode.leaders.as_ref().filter(|_| self.group.shared.place() == 0);
        self.exchange = leaders
            .map(|leaders| Box::new(Exchange::new(Arc::clone(leaders), internode.operation, self.direction)));
        self.is_exchanging = true;
        if let Some(surveyed) = internode.surveyed {
            return self.after_survey(self.surveyed_status(surveyed.own_first, surveyed.all));
        }
        self.phase = Phase::Survey { own_first: u64::MAX };
        let span = self.part.access.span();
        let first = if span.is_empty() { u64::MAX } else { span.start };
        // The status combines this lane by minimum. The largest end has the smallest complement.
        self.arrive_at_all(RoundStatus { next: first, good_end: !span.end, ..RoundStatus::NEUTRAL });
    }

    /// Does all that is possible without waiting for other ranks. Does not block, apart from the storage.
    /// True when the operation is over.
    pub fn poll(&mut self) -> bool {
        loop {
            let is_over = match self.awaited {
                Awaited::Nothing => return true,
                Awaited::Leaders => Ok(self.poll_leaders()),
                Awaited::Node(barrier) | Awaited::NodeThenLeaders(barrier) | Awaited::Leader(barrier) => {
                    self.poll_barrier(barrier)
                }
            };
            match is_over {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => self.fail(error.into()),
            }
        }
    }

    /// Carries the operation to its end. Blocks for the other ranks.
    pub fn wait(mut self) -> Transferred {
        // The ranks of all nodes wait behind a leader.
        let (mut backoff, mut seen) = (Backoff::brisk(), 0);
        while !self.poll() {
            match self.awaited {
                Awaited::Nothing => {}
                Awaited::Leaders => {
                    let received = self.exchange.as_ref().map_or(0, |exchange| exchange.messages_received());
                    if std::mem::replace(&mut seen, received) != received {
                        backoff.reset();
                    }
                    backoff.pause();
                    work::advance();
                }
                Awaited::Node(barrier) | Awaited::NodeThenLeaders(barrier) | Awaited::Leader(barrier) => {
                    backoff.reset();
                    if let Err(error) = self.group.shared.wait(barrier) {
                        self.fail(error.into());
                    }
                }
            }
        }
        self.take_outcome()
    }

    /// Returns the outcome of an operation that is over. To be called once: the error moves out.
    pub fn take_outcome(&mut self) -> Transferred {
        debug_assert!(self.phase == Phase::Done, "the operation is over");
        Transferred { bytes: self.moved_bytes, error: self.error.take(), outcome: self.outcome }
    }

    /// Returns whether all ranks of the node have come to the barrier. If so, does the work that follows
    /// it.
    fn poll_barrier(&mut self, barrier: Barriers) -> capulet_comm::Result<bool> {
        let is_over = self.group.shared.is_over(barrier)?;
        if is_over {
            self.after_barrier(barrier);
        }
        Ok(is_over)
    }

    /// Continues after the barrier that was waited for.
    fn after_barrier(&mut self, barrier: Barriers) {
        let shared = self.group.shared.as_ref();
        match std::mem::replace(&mut self.awaited, Awaited::Nothing) {
            Awaited::Node(_) => self.step(combined_status(shared, barrier), barrier),
            Awaited::Leader(_) => self.step(status_of(shared, barrier, 0), barrier),
            Awaited::NodeThenLeaders(_) if self.exchange.is_some() => self.begin_leader_step(barrier),
            Awaited::NodeThenLeaders(_) => {
                let arrived = shared.arrive();
                self.await_barrier(arrived, Awaited::Leader);
            }
            Awaited::Nothing | Awaited::Leaders => {}
        }
    }

    /// At the leader: begins a step with the other leaders.
    fn begin_leader_step(&mut self, barrier: Barriers) {
        let status = combined_status(self.group.shared.as_ref(), barrier);
        let Some(exchange) = &mut self.exchange else { return };
        self.awaited = Awaited::Leaders;
        if matches!(self.phase, Phase::Survey { .. }) {
            self.phase = Phase::Survey { own_first: status.next };
            let (first, end) = (status.next, if status.next == u64::MAX { 0 } else { !status.good_end });
            let internode = self.group.internode.as_ref();
            let able = internode.is_some_and(|internode| internode.may_exchange);
            let unit_bytes = internode.map_or(1, |internode| internode.unit_bytes);
            let survey = Survey { first, end, shared: Some(0), able }.in_units_of(unit_bytes);
            return exchange.begin_survey(survey);
        }
        let step = Step {
            status,
            parity: barrier.parity(),
            marked: self.filled.map(|filled| (filled.base, filled.buffer_index)),
            read: self.read.map(|read| (read.base, read.buffer_index)),
            overwrites: matches!(self.phase, Phase::Replay(_)),
        };
        if let Err(error) = exchange.begin(&self.group, step, &self.target.counters) {
            self.abort_exchange(error);
        }
    }

    /// At the leader: polls the step with the other leaders. True when the ranks of the node have been
    /// told its result.
    fn poll_leaders(&mut self) -> bool {
        let Some(exchange) = &mut self.exchange else { return false };
        match exchange.poll(&self.group) {
            Ok(None) => return false,
            Ok(Some(values)) => self.publish_leader_result(values),
            Err(error) => self.abort_exchange(error),
        }
        true
    }

    /// Tells the ranks of the node the values that the leaders combined.
    fn publish_leader_result(&mut self, values: LeaderValues) {
        let status = match self.phase {
            Phase::Survey { own_first } => self.surveyed_status(own_first, values),
            _ => status_of_values(values),
        };
        if let Some(reason) = self.exchange.as_mut().and_then(|exchange| exchange.take_refused()) {
            tracing::error!(reason, "refused a malformed message of another node");
            let failure = Failure::Team(Error::Disagreement { what: reason });
            self.error = self.error.take().or(Some(failure));
        }
        self.publish(status, Awaited::Leader);
    }

    /// At the leader: ends the operation after an error between the nodes, and tells the other leaders.
    fn abort_exchange(&mut self, error: Error) {
        tracing::error!(%error, "the exchange between nodes failed");
        if let Some(exchange) = &mut self.exchange {
            exchange.abort();
        }
        self.error = self.error.take().or(Some(error.into()));
        let status = RoundStatus { good_end: 0, class: self.class(), ..RoundStatus::NEUTRAL };
        self.publish(status, Awaited::Leader);
    }

    /// Continues after all ranks, or all nodes if they exchange, have combined their status.
    fn step(&mut self, mut status: RoundStatus, barrier: Barriers) {
        self.outcome = self.known_outcome(status);
        if status.is_refused {
            status.good_end = status.good_end.min(self.refused_base());
        }
        match (self.phase, self.direction) {
            (Phase::Survey { .. }, _) => self.after_survey(status),
            (Phase::Replay(replay), _) => self.after_replay_step(replay, status, barrier),
            (Phase::Round, Direction::Read) => self.after_mark(status),
            (Phase::Round, Direction::Write) if status.good_end == u64::MAX && status.overlap => {
                self.begin_block(0, status);
            }
            (Phase::Round, Direction::Write) if status.good_end == u64::MAX && status.more => {
                self.pack();
                self.arrive();
            }
            (Phase::Round, Direction::Write) => self.after_fill(status),
            (Phase::Done, _) => {}
        }
    }

    /// The outcome that all ranks know from this status. Nodes that do not exchange do not know of each other.
    /// If the survey is a step of the operation, one leader may fail in the survey and another in the next step.
    /// The two cannot know of each other whether nodes gather on their own, so the ranks always agree then.
    fn known_outcome(&self, status: RoundStatus) -> KnownOutcome {
        match &self.group.internode {
            Some(internode) if self.is_exchanging && internode.surveyed.is_some() => status.outcome(),
            None if status.good_end == u64::MAX => KnownOutcome::Good,
            _ => KnownOutcome::Unknown,
        }
    }

    /// The first byte that is not moved if a node refused a message.
    fn refused_base(&self) -> u64 {
        let is_late = self.direction == Direction::Read && is_direct(self.group.nodes());
        let read = self.read.filter(|_| is_late).map(|read| read.base);
        read.or(self.filled.map(|filled| filled.base)).unwrap_or(u64::MAX)
    }

    /// The result of the survey. `more` is true if the nodes exchange.
    fn surveyed_status(&self, own_first: u64, values: LeaderValues) -> RoundStatus {
        let survey = Survey::of_lanes(values);
        let is_exchanging = survey.needs_exchange(self.direction, self.group.has_idle_nodes());
        let next = if is_exchanging { survey.first } else { own_first };
        RoundStatus { next, more: is_exchanging, ..RoundStatus::NEUTRAL }
    }

    fn after_survey(&mut self, status: RoundStatus) {
        self.is_exchanging = status.more;
        if status.next == u64::MAX || status.good_end != u64::MAX {
            return self.finish(status.good_end);
        }
        if self.is_exchanging {
            self.group.cover_all_nodes();
            self.outgoing = Some(Outgoing::new(&self.part.access, self.direction, &self.group));
        } else {
            self.exchange = None;
        }
        self.phase = Phase::Round;
        self.begin_round(status.next);
        self.arrive();
    }

    /// After a fill or a mark: publishes the status of this rank and arrives at the next barrier.
    pub(super) fn arrive(&mut self) {
        let more = self.has_more();
        let next = match self.filled {
            None => u64::MAX,
            // The next round of a read takes the rest of this round.
            Some(filled) if more && self.direction == Direction::Read => filled.base,
            Some(_) => self.part.offset_of(self.marked_bytes),
        };
        let overlap = std::mem::take(&mut self.overlap);
        let (good_end, class) = (self.good_end, self.class());
        let status = RoundStatus { next, good_end, overlap, more, class, ..RoundStatus::NEUTRAL };
        if self.is_exchanging { self.arrive_at_all(status) } else { self.arrive_at_node(status) }
    }

    /// The wire number of the error class of this rank, 0 without an error.
    fn class(&self) -> u64 {
        self.error.as_ref().map_or(0, |failure| failure.class().to_wire())
    }

    /// Arrives at a barrier of the ranks of the node.
    pub(super) fn arrive_at_node(&mut self, status: RoundStatus) {
        self.publish(status, Awaited::Node);
    }

    /// Arrives at a barrier after which the leaders combine the status of all nodes.
    pub(super) fn arrive_at_all(&mut self, status: RoundStatus) {
        self.publish(status, Awaited::NodeThenLeaders);
    }

    fn publish(&mut self, status: RoundStatus, awaited: fn(Barriers) -> Awaited) {
        // The leader collects packed bytes only when it takes a step with the other leaders.
        let packed_bytes = match awaited(self.group.shared.barriers()) {
            Awaited::NodeThenLeaders(_) => std::mem::take(&mut self.packed_bytes),
            _ => 0,
        };
        let arrived = publish(self.group.shared.as_ref(), status, packed_bytes);
        self.await_barrier(arrived, awaited);
    }

    fn await_barrier(&mut self, arrived: capulet_comm::Result<Barriers>, awaited: fn(Barriers) -> Awaited) {
        Counters::add(&self.target.counters.barriers, 1);
        match arrived {
            Ok(barrier) => self.awaited = awaited(barrier),
            Err(error) => self.fail(error.into()),
        }
    }

    /// Ends the operation. All ranks know that it is over, and up to which offset its bytes are good.
    pub(super) fn finish(&mut self, good_end: u64) {
        self.moved_bytes = match good_end {
            u64::MAX => self.placed_bytes,
            end => self.part.access.bytes_below(end).min(self.placed_bytes),
        };
        store_buffer_index(self.group.shared.as_ref(), 1 - self.buffer_index);
        self.phase = Phase::Done;
    }

    /// Ends the operation after the barrier of the node failed: no further round is possible.
    fn fail(&mut self, failure: Failure) {
        self.awaited = Awaited::Nothing;
        self.outcome = KnownOutcome::Unknown;
        if let Some(exchange) = &mut self.exchange {
            exchange.abort();
        }
        self.error = self.error.take().or(Some(failure));
        self.finish(0);
    }
}
