//! One step of an operation between the nodes, at a leader.
//!
//! A leader sends one request to each node that its ranks meet. The request has what the ranks packed for
//! this node. The leader processes the requests that arrive. In a read it also answers the requests of the
//! last step, for which the aggregators have read the buffers meanwhile. Each step ends with a reduction:
//!
//! * Few leaders reduce directly. In a write each sends a request to each other, even if it is empty, and
//!   enters the reduction when it has processed the requests of all others: two messages, one after the
//!   other. In a read it enters the reduction at once, because the marks of other ranks change nothing for
//!   the requester: one message time. It reports a malformed request in the next step.
//! * More leaders send a receipt for each request. A leader enters the reduction when all receipts and
//!   replies have arrived.

use std::collections::BTreeMap;
use std::sync::Arc;

use capulet_comm::{Leaders, Result};
use capulet_drivers::Direction;

use super::fragment::{Fragments, HEADER_BYTES, Header, Malformed};
use super::leader_reduction::{DISAGREE, HEAD_BYTES, Kind, LeaderReduction, LeaderValues, PeerMessage};
use super::outgoing::ENTRY_BYTES;
use super::remote_ranks::{Domain, RemoteRanks, RequestMode, RequestResult};
use super::survey::{Survey, join_status, status_of_values};
use crate::counters::Counters;
use crate::two_phase::NodeGroup;
use crate::two_phase::round_status::{RoundStatus, packed_bytes_of};

/// The input of a step.
#[derive(Debug, Clone, Copy)]
pub(in crate::two_phase) struct Step {
    /// The combined round status of the ranks of this node.
    pub(in crate::two_phase) status: RoundStatus,
    /// The parity of the slots in which the ranks published it.
    pub(in crate::two_phase) parity: usize,
    /// The round whose buffers are filled or marked (its base), and the buffer index.
    pub(in crate::two_phase) marked: Option<(u64, usize)>,
    /// The round whose buffers have been read (its base), and the index of the maps in which it was
    /// marked. The data lie in the buffers of the other index.
    pub(in crate::two_phase) read: Option<(u64, usize)>,
    /// Whether bytes overwrite earlier ones without an overlap report, as in the overlap replay.
    pub(in crate::two_phase) overwrites: bool,
}

/// The place in an area for requested bytes.
#[derive(Debug, Clone, Copy)]
struct Destination {
    place: usize,
    at: usize,
    bytes: usize,
}

/// A leader's part of the steps of one operation.
#[derive(Debug)]
pub(in crate::two_phase) struct Exchange {
    pub(super) reduction: LeaderReduction,
    remote_ranks: RemoteRanks,
    direction: Direction,
    step: Option<Step>,
    /// Receipts that are still to come, of more than a few leaders.
    receipts_due: usize,
    /// Requests that are still to come before this leader enters the reduction, of few leaders that write.
    requests_due: usize,
    replies_due: usize,
    /// The bytes requested in the last step (`requested`) and in this one (`requesting`), by node.
    requested: BTreeMap<usize, Vec<Destination>>,
    requesting: BTreeMap<usize, Vec<Destination>>,
    /// Requests that are answered in the next step.
    pending_requests: Vec<PeerMessage>,
    /// The part of another node's message that was malformed.
    refused: Option<&'static str>,
    /// Whether the malformed message is still to be reported to the other nodes.
    reports_refused: bool,
}

impl Exchange {
    pub(in crate::two_phase) fn new(leaders: Arc<dyn Leaders>, operation: u32, direction: Direction) -> Self {
        Self {
            reduction: LeaderReduction::new(leaders, operation),
            remote_ranks: RemoteRanks::new(),
            direction,
            step: None,
            receipts_due: 0,
            requests_due: 0,
            replies_due: 0,
            requested: BTreeMap::new(),
            requesting: BTreeMap::new(),
            pending_requests: Vec::new(),
            refused: None,
            reports_refused: false,
        }
    }

    /// Begins the next step. All ranks of the node have come to a barrier, and wait until this leader
    /// publishes the result.
    pub(in crate::two_phase) fn begin(
        &mut self,
        group: &NodeGroup,
        step: Step,
        counters: &Counters,
    ) -> Result<()> {
        let is_refused = step.status.is_refused || std::mem::take(&mut self.reports_refused);
        let status = RoundStatus { is_refused, ..step.status };
        self.reduction.begin([status.next, status.good_end, status.flags()], join_status);
        self.step = Some(step);
        self.requested = std::mem::take(&mut self.requesting);
        self.replies_due = self.requested.len();
        self.answer_pending_requests(group, step, counters)?;
        let mut messages = self.collect(group, step)?;
        if self.reduction.is_direct && self.direction == Direction::Write && step.marked.is_some() {
            for node in self.reduction.others() {
                messages.entry(node).or_insert_with(|| self.reduction.message(Kind::Request));
                self.requests_due += 1;
            }
        }
        for (node, message) in messages {
            if message.len() > HEAD_BYTES {
                Counters::add(&counters.exchanged_bytes, (message.len() - HEAD_BYTES) as u64);
                Counters::add(&counters.exchange_messages, 1);
            }
            self.receipts_due += usize::from(!self.reduction.is_direct);
            self.reduction.send(node, message)?;
        }
        Ok(())
    }

    /// Answers the requests of the last step.
    fn answer_pending_requests(&mut self, group: &NodeGroup, step: Step, counters: &Counters) -> Result<()> {
        for request in std::mem::take(&mut self.pending_requests) {
            let (base, buffer_index) = step.read.ok_or(DISAGREE)?;
            let domain = Domain { group, base, data_index: 1 - buffer_index, map_index: buffer_index };
            let mut reply = self.reduction.message(Kind::Reply);
            reply.reserve_exact(requested_bytes(request.body())?);
            let answered = self.remote_ranks.append_reply(domain, request.from, request.body(), &mut reply);
            answered.map_err(|_| DISAGREE)?;
            Counters::add(&counters.exchanged_bytes, (reply.len() - HEAD_BYTES) as u64);
            Counters::add(&counters.exchange_messages, 1);
            self.reduction.send(request.from, reply)?;
        }
        Ok(())
    }

    /// The fragments that the ranks of this node packed, by the node to which they go, in the order of
    /// the ranks.
    fn collect(&mut self, group: &NodeGroup, step: Step) -> Result<BTreeMap<usize, Vec<u8>>> {
        let (reduction, requesting) = (&self.reduction, &mut self.requesting);
        // The lengths come first, so that each message is allocated once.
        let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
        for_each_entry(group, step, self.direction, |entry| {
            *lengths.entry(entry.node).or_default() += entry.fragment.len();
            Ok(())
        })?;
        let message = |(node, bytes): (usize, usize)| {
            let mut message = reduction.message(Kind::Request);
            message.reserve_exact(bytes);
            (node, message)
        };
        let mut messages: BTreeMap<usize, Vec<u8>> = lengths.into_iter().map(message).collect();
        for_each_entry(group, step, self.direction, |entry| {
            messages.entry(entry.node).or_default().extend_from_slice(entry.fragment);
            if let Some(destination) = entry.destination {
                requesting.entry(entry.node).or_default().push(destination);
            }
            Ok(())
        })?;
        Ok(messages)
    }

    /// Does all that is possible without waiting. Returns the combined values of all nodes when the step
    /// is over.
    pub(in crate::two_phase) fn poll(&mut self, group: &NodeGroup) -> Result<Option<LeaderValues>> {
        while let Some(message) = self.reduction.receive()? {
            match message.kind {
                Kind::Request => self.receive_request(group, message)?,
                Kind::Receipt => self.receive_receipt(&message)?,
                Kind::Reply => self.receive_reply(group, &message)?,
                Kind::Up | Kind::Down | Kind::Abort => return Err(DISAGREE),
            }
        }
        let ready = if self.reduction.is_direct {
            self.requests_due == 0
        } else {
            self.receipts_due == 0 && self.replies_due == 0
        };
        let values = self.reduction.advance(ready)?;
        // The replies come before the values of their senders, unless a request was refused.
        let is_refused = values.is_some_and(|values| status_of_values(values).is_refused);
        if values.is_some() && self.replies_due > 0 && !is_refused {
            return Err(DISAGREE);
        }
        Ok(values)
    }

    /// Processes the request of another node. A malformed request ends the operation on all ranks.
    fn receive_request(&mut self, group: &NodeGroup, message: PeerMessage) -> Result<()> {
        let step = self.step.ok_or(DISAGREE)?;
        let mode = match self.direction {
            Direction::Write if step.overwrites => RequestMode::Overwrite,
            Direction::Write => RequestMode::Fill,
            Direction::Read => RequestMode::Mark { unit_bytes: group.read_unit_bytes() },
        };
        let taken = step.marked.map(|(base, buffer_index)| {
            let domain = Domain { group, base, data_index: buffer_index, map_index: buffer_index };
            self.remote_ranks.process(domain, message.from, message.body(), mode)
        });
        let status = match taken {
            Some(Ok(RequestResult::Complete)) => RoundStatus::NEUTRAL,
            Some(Ok(RequestResult::Overlap)) => RoundStatus { overlap: true, ..RoundStatus::NEUTRAL },
            Some(Err(Malformed(reason))) => {
                self.refused = Some(reason);
                RoundStatus { is_refused: true, ..RoundStatus::NEUTRAL }
            }
            None => {
                self.refused = Some("a request without a round");
                RoundStatus { is_refused: true, ..RoundStatus::NEUTRAL }
            }
        };
        if !self.reduction.is_direct {
            let mut receipt = self.reduction.message(Kind::Receipt);
            receipt.push(status.flags() as u8);
            self.reduction.send(message.from, receipt)?;
        } else if self.direction == Direction::Write {
            self.requests_due = self.requests_due.checked_sub(1).ok_or(DISAGREE)?;
            let [_, _, own] = self.reduction.own();
            *own |= status.flags();
        } else {
            self.reports_refused |= status.is_refused;
        }
        if self.direction == Direction::Read && !status.is_refused {
            self.pending_requests.push(message);
        }
        Ok(())
    }

    fn receive_receipt(&mut self, message: &PeerMessage) -> Result<()> {
        let [flags] = message.body() else { return Err(DISAGREE) };
        self.receipts_due = self.receipts_due.checked_sub(1).ok_or(DISAGREE)?;
        let status = RoundStatus::new(u64::MAX, u64::MAX, u64::from(*flags));
        let status = RoundStatus { more: false, ..status };
        let [_, _, own] = self.reduction.own();
        *own |= status.flags();
        Ok(())
    }

    fn receive_reply(&mut self, group: &NodeGroup, message: &PeerMessage) -> Result<()> {
        let (_, buffer_index) = self.step.and_then(|step| step.read).ok_or(DISAGREE)?;
        let destinations = self.requested.remove(&message.from).ok_or(DISAGREE)?;
        let mut rest = message.body();
        for destination in destinations {
            let (bytes, left) = rest.split_at_checked(destination.bytes).ok_or(DISAGREE)?;
            rest = left;
            let area = group.area(destination.place, buffer_index, self.direction);
            assert!(destination.at + destination.bytes <= area.bytes, "the requested bytes fit in the area");
            // SAFETY: the assertion keeps the bytes within the area. Its rank does not touch the area,
            // because it waits for this leader.
            unsafe { area.start.add(destination.at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        if !rest.is_empty() {
            return Err(DISAGREE);
        }
        self.replies_due -= 1;
        Ok(())
    }

    /// Begins the first step, the survey: where the bytes of the nodes lie.
    pub(in crate::two_phase) fn begin_survey(&mut self, survey: Survey) {
        self.reduction.begin(survey.values(), Survey::join);
    }

    /// How many messages have arrived so far.
    pub(in crate::two_phase) fn messages_received(&self) -> u64 {
        self.reduction.messages_received
    }

    /// The part of another node's message that was malformed in this step, if any.
    pub(in crate::two_phase) fn take_refused(&mut self) -> Option<&'static str> {
        self.refused.take()
    }

    /// Ends the operation for all nodes.
    pub(in crate::two_phase) fn abort(&mut self) {
        self.reduction.abort();
    }
}

/// How many bytes a request asks for.
fn requested_bytes(request: &[u8]) -> Result<usize> {
    let mut bytes = 0_u64;
    for fragment in Fragments::new(request, false) {
        bytes = bytes.saturating_add(fragment.map_err(|_| DISAGREE)?.header.bytes);
    }
    Ok(bytes.min(isize::MAX as u64) as usize)
}

/// A fragment that a rank has packed for a node.
struct BufferEntry<'a> {
    node: usize,
    fragment: &'a [u8],
    /// Where the requested bytes go. Of a read only.
    destination: Option<Destination>,
}

/// Calls `call` with each fragment that the ranks of this node have packed, in the order of the ranks.
fn for_each_entry(
    group: &NodeGroup,
    step: Step,
    direction: Direction,
    mut call: impl FnMut(BufferEntry<'_>) -> Result<()>,
) -> Result<()> {
    for place in 0..group.shared.ranks() {
        let used = packed_bytes_of(group.shared.as_ref(), place, step.parity) as usize;
        let Some((_, buffer_index)) = step.marked.filter(|_| used > 0) else { continue };
        let area = group.area(place, buffer_index, direction);
        let used = used.min(area.bytes);
        // SAFETY: the area has at least `used` bytes. Its rank does not touch it, because it has come to
        // the barrier and waits for this leader.
        let entries = unsafe { std::slice::from_raw_parts(area.start, used) };
        let mut at = 0;
        while at < used {
            let (node, fragment) = entry_at(entries, at).ok_or(DISAGREE)?;
            at += ENTRY_BYTES + fragment.len();
            let mut destination = None;
            if direction == Direction::Read {
                let header = fragment.first_chunk::<HEADER_BYTES>().ok_or(DISAGREE)?;
                let bytes = Header::decode(header).map_err(|_| DISAGREE)?.bytes as usize;
                destination = Some(Destination { place, at, bytes });
                at += bytes;
            }
            call(BufferEntry { node, fragment, destination })?;
        }
    }
    Ok(())
}

/// The node and the fragment of an entry.
fn entry_at(entries: &[u8], at: usize) -> Option<(usize, &[u8])> {
    let (node, rest) = entries[at..].split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_first_chunk::<4>()?;
    let fragment = rest.get(..u32::from_le_bytes(*bytes) as usize)?;
    Some((u32::from_le_bytes(*node) as usize, fragment))
}
