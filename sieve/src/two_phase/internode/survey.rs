//! The values that the leaders combine: the survey of the nodes, and the round status.

use std::ops::Range;

use capulet_comm::{CombinedOfNodes, NodeValues, ReduceOp};
use capulet_drivers::Direction;
use capulet_plan::grid::{gathers_per_node, shared_bytes};

use super::leader_reduction::LeaderValues;
use crate::two_phase::round_status::RoundStatus;

/// Summary of where the bytes of a range of nodes lie. It tells whether the nodes have bytes for each
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::two_phase) struct Survey {
    /// The first offset, `u64::MAX` if there are no bytes.
    pub(in crate::two_phase) first: u64,
    /// The offset after the last.
    pub(in crate::two_phase) end: u64,
    /// The bytes in the spans of two neighboring nodes, summed over the nodes; `None` if the nodes have no
    /// order ([`shared_bytes`]).
    pub(in crate::two_phase) shared: Option<u64>,
    /// Whether every node has collective buffers and may exchange.
    pub(in crate::two_phase) able: bool,
}

/// A survey that the ranks took together with an agreement, before the access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surveyed {
    pub(in crate::two_phase) own_first: u64,
    pub(in crate::two_phase) all: LeaderValues,
}

/// Set in the flags of a survey: every node knows whether it has collective buffers.
const IS_KNOWN: u64 = 4;
/// The shared bytes come above the flags.
const SHARED_SHIFT: u32 = 3;

impl Surveyed {
    /// The values of one rank, for the agreement. `span` is its part of the file, `None` if it has none.
    /// `may_exchange` and `unit_bytes` have the meaning of the fields of
    /// [`NodeExchange`](super::NodeExchange). `is_known` is whether this rank has used collective buffers that
    /// are large enough.
    pub fn values(
        span: Option<Range<u64>>,
        may_exchange: bool,
        is_known: bool,
        unit_bytes: u64,
    ) -> NodeValues {
        let span = span.filter(|span| !span.is_empty());
        let (first, end) = span.map_or((u64::MAX, 0), |span| (span.start, span.end));
        let survey = Survey { first, end, shared: Some(0), able: may_exchange };
        let [first, end, flags] = survey.in_units_of(unit_bytes).values();
        NodeValues {
            values: [first, end, flags | if is_known { IS_KNOWN } else { 0 }],
            ops: [ReduceOp::Min, ReduceOp::Max, ReduceOp::BitAnd],
            join: Survey::join,
        }
    }

    /// The result of the agreement: `None` if some node does not know yet whether it has collective buffers.
    /// Then the survey is the first step of the access.
    pub fn of(combined: CombinedOfNodes) -> Option<Self> {
        let is_known = combined.all[2] & IS_KNOWN != 0;
        is_known.then_some(Self { own_first: combined.own[0], all: combined.all })
    }
}

impl Survey {
    /// The summary of a node that has no shared memory.
    pub(super) const UNABLE: Self = Self { first: u64::MAX, end: 0, shared: Some(0), able: false };

    /// The summary of all units that have bytes of this one.
    pub(in crate::two_phase) fn in_units_of(self, unit_bytes: u64) -> Self {
        if self.first >= self.end {
            return self;
        }
        let end = self.end.checked_next_multiple_of(unit_bytes).unwrap_or(u64::MAX);
        Self { first: self.first - self.first % unit_bytes, end, ..self }
    }

    pub(super) fn values(self) -> LeaderValues {
        let shared = self.shared.unwrap_or(0).min(u64::MAX >> SHARED_SHIFT);
        let flags = u64::from(self.shared.is_some()) | u64::from(self.able) << 1;
        [self.first, self.end, flags | shared << SHARED_SHIFT]
    }

    pub(in crate::two_phase) fn of_lanes([first, end, flags]: LeaderValues) -> Self {
        let shared = (flags & 1 != 0).then_some(flags >> SHARED_SHIFT);
        Self { first, end, shared, able: flags & 2 != 0 }
    }

    /// Combines the summaries of two neighboring ranges of nodes, the lower nodes on the left.
    pub(super) fn join(left: LeaderValues, right: LeaderValues) -> LeaderValues {
        let known = left[2] & right[2] & IS_KNOWN;
        let (left, right) = (Self::of_lanes(left), Self::of_lanes(right));
        let between = shared_bytes(&(left.first..left.end), &(right.first..right.end));
        let shared = [left.shared, right.shared, between].into_iter();
        let joined = Self {
            first: left.first.min(right.first),
            end: left.end.max(right.end),
            shared: shared.reduce(|sum, more| Some(sum?.saturating_add(more?))).flatten(),
            able: left.able && right.able,
        };
        let [first, end, flags] = joined.values();
        [first, end, flags | known]
    }

    /// Whether the nodes exchange: they have bytes for each other, and collective buffers to put them in.
    /// `has_idle` is the result of [`Nodes::has_idle`].
    pub(in crate::two_phase) fn needs_exchange(self, direction: Direction, has_idle: bool) -> bool {
        let span_bytes = self.end.saturating_sub(self.first);
        self.able && (has_idle || !gathers_per_node(direction, self.shared, span_bytes))
    }
}

pub(in crate::two_phase) fn status_of_values([next, good_end, flags]: LeaderValues) -> RoundStatus {
    RoundStatus::new(next, good_end, flags)
}

pub(super) fn join_status(left: LeaderValues, right: LeaderValues) -> LeaderValues {
    let status = status_of_values(left).combine(status_of_values(right));
    [status.next, status.good_end, status.flags()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Direction = Direction::Write;

    fn survey(first: u64, end: u64) -> LeaderValues {
        Survey { first, end, shared: Some(0), able: true }.values()
    }

    #[test]
    fn nodes_with_bytes_in_one_unit_exchange() {
        let joined = |unit_bytes: u64| {
            let parts = [(0, 10), (10, 20)].map(|(first, end)| {
                let part = Survey { first, end, shared: Some(0), able: true };
                part.in_units_of(unit_bytes).values()
            });
            Survey::of_lanes(Survey::join(parts[0], parts[1])).needs_exchange(WRITE, false)
        };
        assert_eq!([1, 2, 5, 4, 8, 64].map(joined), [false, false, false, true, true, true]);
        let none = Survey { first: u64::MAX, end: 0, shared: Some(0), able: true };
        assert_eq!(none.in_units_of(8), none);
    }

    #[test]
    fn nodes_with_consecutive_bytes_do_not_exchange() {
        let none = survey(u64::MAX, 0);
        let joined = |all: &[LeaderValues]| {
            let whole = all.iter().copied().reduce(Survey::join).expect("there is a node");
            // the result does not depend on the grouping
            for cut in 1..all.len() {
                let part = |part: &[LeaderValues]| {
                    part.iter().copied().reduce(Survey::join).expect("there is a node")
                };
                assert_eq!(Survey::join(part(&all[..cut]), part(&all[cut..])), whole);
            }
            Survey::of_lanes(whole)
        };
        let ascending = joined(&[survey(0, 10), survey(10, 20), none, survey(25, 30)]);
        assert!(!ascending.needs_exchange(WRITE, false) && ascending.needs_exchange(WRITE, true));
        assert!(!joined(&[none, survey(3, 9), none]).needs_exchange(WRITE, false));
        assert!(joined(&[survey(0, 11), survey(10, 20)]).needs_exchange(WRITE, false));
        assert!(joined(&[survey(10, 20), none, survey(0, 10)]).needs_exchange(WRITE, false));
        let ghosts = joined(&[survey(0, 11), survey(10, 21), survey(20, 31)]);
        assert!(!ghosts.needs_exchange(Direction::Read, false) && ghosts.needs_exchange(WRITE, false));
        assert!(joined(&[survey(0, 16), survey(10, 20)]).needs_exchange(Direction::Read, false));
        let unable = joined(&[survey(0, 11), Survey::UNABLE.values(), survey(10, 20)]);
        assert!(!unable.needs_exchange(WRITE, false) && !unable.needs_exchange(WRITE, true));
        assert_eq!(joined(&[survey(4, 11), survey(2, 20)]).first, 2);
    }
}
