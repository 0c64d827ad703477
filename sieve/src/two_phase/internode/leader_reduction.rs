//! The steps that leaders take together: messages with a step and a kind, and in each step one reduction
//! over all leaders.
//!
//! Up to [`tree::DIRECT_MAX`] leaders reduce directly: each sends its values to each other, k (k - 1)
//! messages, none after another. Messages of one sender keep their order. So a leader that has the values of
//! all others has all their earlier messages of the step too.
//!
//! More leaders reduce along the binomial tree: 2 (k - 1) messages, at a depth of 2 ceil(log2 k). A leader
//! enters the reduction when all requests that it sent in the step are answered.
//!
//! Either way no message of the step is in flight when the reduction is over, however many leaders met.

use std::sync::Arc;

use capulet_comm::{Error, ErrorClass, Leaders, Result, tree};

/// The values of a reduction.
pub(in crate::two_phase) type LeaderValues = [u64; 3];

const VALUES_BYTES: usize = size_of::<LeaderValues>();
/// Bytes of a message before its body.
pub(super) const HEAD_BYTES: usize = 12;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Towards the root of the tree: the combined values of a subtree. In a direct reduction: the values of a
    /// leader.
    Up = 1,
    /// Away from the root: the combined values of all leaders.
    Down = 2,
    /// Fragments whose bytes the receiver puts into its buffers, or reads.
    Request = 3,
    /// The result of a request.
    Receipt = 4,
    /// The bytes that the request of the last step asked for.
    Reply = 5,
    /// The sender ends the operation.
    Abort = 6,
}

#[derive(Debug)]
struct Message {
    from: usize,
    kind: Kind,
    /// The message with its head.
    bytes: Vec<u8>,
}

/// A request, a receipt or a reply of this step.
#[derive(Debug)]
pub(super) struct PeerMessage {
    pub(super) from: usize,
    pub(super) kind: Kind,
    bytes: Vec<u8>,
}

impl PeerMessage {
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[HEAD_BYTES..]
    }
}

/// Combines the values of two neighboring ranges of nodes, the lower nodes on the left. Associative.
pub(super) type Combine = fn(LeaderValues, LeaderValues) -> LeaderValues;

/// One leader's part of the steps of one operation.
#[derive(Debug)]
pub(super) struct LeaderReduction {
    leaders: Arc<dyn Leaders>,
    operation: u32,
    step: u32,
    /// Messages from leaders that are a step ahead.
    early: Vec<Message>,
    own: LeaderValues,
    combine: Combine,
    /// Whether the leaders send their values directly to each other.
    pub(super) is_direct: bool,
    /// The nodes that send their values to this one, in order, with the values: those directly below this one
    /// in the tree, or all others.
    children: Vec<(usize, Option<LeaderValues>)>,
    is_up: bool,
    result: Option<LeaderValues>,
    /// Whether a leader has ended the operation, and has told all others.
    is_aborted: bool,
    pub(super) messages_received: u64,
}

impl LeaderReduction {
    pub(super) fn new(leaders: Arc<dyn Leaders>, operation: u32) -> Self {
        let (node, nodes) = (leaders.node() as u32, leaders.nodes() as u32);
        let is_direct = is_direct(leaders.nodes());
        let senders: Vec<u32> = if is_direct {
            (0..nodes).filter(|other| *other != node).collect()
        } else {
            tree::children(node, nodes).collect()
        };
        let children = senders.into_iter().map(|sender| (sender as usize, None)).collect();
        Self {
            leaders,
            operation,
            step: 0,
            early: Vec::new(),
            own: LeaderValues::default(),
            combine: |left, _| left,
            is_direct,
            children,
            is_up: true,
            result: None,
            is_aborted: false,
            messages_received: 0,
        }
    }

    /// Begins the next step.
    pub(super) fn begin(&mut self, own: LeaderValues, combine: Combine) {
        self.step += 1;
        (self.own, self.combine) = (own, combine);
        self.children.iter_mut().for_each(|(_, values)| *values = None);
        (self.is_up, self.result) = (false, None);
    }

    /// This leader's values in the reduction. Only to be used before the leader enters it.
    pub(super) fn own(&mut self) -> &mut LeaderValues {
        debug_assert!(!self.is_up, "the reduction is not entered yet");
        &mut self.own
    }

    /// The head of a message, to which the caller adds a body for [`LeaderReduction::send`].
    pub(super) fn message(&self, kind: Kind) -> Vec<u8> {
        let head = [self.operation, self.step, kind as u32];
        head.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(super) fn send(&self, node: usize, message: Vec<u8>) -> Result<()> {
        self.leaders.send(node, message)
    }

    /// Returns the next request, receipt or reply of this step that has arrived. Takes part in the
    /// reduction meanwhile.
    pub(super) fn receive(&mut self) -> Result<Option<PeerMessage>> {
        loop {
            let Some(message) = self.next()? else { return Ok(None) };
            let body = &message.bytes[HEAD_BYTES..];
            match message.kind {
                Kind::Up => {
                    let values = values_of(body)?;
                    let child = self.children.iter_mut().find(|(child, _)| *child == message.from);
                    let empty = child.filter(|(_, values)| values.is_none());
                    empty.ok_or(DISAGREE)?.1 = Some(values);
                }
                Kind::Down => {
                    let values = values_of(body)?;
                    let parent = tree::parent(self.leaders.node() as u32);
                    if self.is_direct
                        || parent != Some(message.from as u32)
                        || !self.is_up
                        || self.result.is_some()
                    {
                        return Err(DISAGREE);
                    }
                    self.send_down(values)?;
                }
                Kind::Abort => {
                    self.is_aborted = true;
                    return Err(Error::Elsewhere { class: ErrorClass::Other });
                }
                Kind::Request | Kind::Receipt | Kind::Reply => {
                    return Ok(Some(PeerMessage {
                        from: message.from,
                        kind: message.kind,
                        bytes: message.bytes,
                    }));
                }
            }
        }
    }

    /// Returns the next message of this step that has arrived.
    fn next(&mut self) -> Result<Option<Message>> {
        let step = self.step;
        if let Some(index) = self.early.iter().position(|message| step_of(&message.bytes) == step) {
            return Ok(Some(self.early.remove(index)));
        }
        while let Some((from, bytes)) = self.leaders.try_receive()? {
            self.messages_received += 1;
            let kind = kind_of(&bytes).ok_or(DISAGREE)?;
            if word(&bytes, 0) != self.operation {
                // The message belongs to an operation that was given up.
                continue;
            }
            let message = Message { from, kind, bytes };
            match step_of(&message.bytes) {
                _ if message.kind == Kind::Abort => return Ok(Some(message)),
                theirs if theirs == step => return Ok(Some(message)),
                theirs if theirs == step + 1 => self.early.push(message),
                _ => return Err(DISAGREE),
            }
        }
        Ok(None)
    }

    /// Returns the combined values of all leaders, when they are known and all messages of this leader
    /// are sent. `ready` is whether this leader may enter the reduction: among leaders in a tree, all
    /// requests that it sent in this step are answered.
    pub(super) fn advance(&mut self, ready: bool) -> Result<Option<LeaderValues>> {
        if self.is_direct {
            self.advance_direct(ready)?;
        } else if ready && !self.is_up && self.children.iter().all(|(_, values)| values.is_some()) {
            let below = self.children.iter().filter_map(|(_, values)| *values);
            let values = below.fold(self.own, self.combine);
            self.is_up = true;
            match tree::parent(self.leaders.node() as u32) {
                None => self.send_down(values)?,
                Some(parent) => self.send_values(Kind::Up, parent as usize, values)?,
            }
        }
        let gone = self.leaders.is_sent()?;
        Ok(self.result.filter(|_| gone))
    }

    fn advance_direct(&mut self, ready: bool) -> Result<()> {
        if ready && !self.is_up {
            self.is_up = true;
            for (other, _) in &self.children {
                self.send_values(Kind::Up, *other, self.own)?;
            }
        }
        if self.is_up && self.result.is_none() && self.children.iter().all(|(_, values)| values.is_some()) {
            let own = (self.leaders.node(), Some(self.own));
            let before = self.children.partition_point(|(other, _)| *other < own.0);
            let (lower, higher) = self.children.split_at(before);
            let all = lower.iter().chain([&own]).chain(higher).filter_map(|(_, values)| *values);
            self.result = all.reduce(self.combine);
        }
        Ok(())
    }

    fn send_down(&mut self, values: LeaderValues) -> Result<()> {
        self.result = Some(values);
        // The largest subtree comes first, because it is the deepest.
        for index in (0..self.children.len()).rev() {
            self.send_values(Kind::Down, self.children[index].0, values)?;
        }
        Ok(())
    }

    fn send_values(&self, kind: Kind, node: usize, values: LeaderValues) -> Result<()> {
        let mut message = self.message(kind);
        message.extend(values.iter().flat_map(|lane| lane.to_le_bytes()));
        self.send(node, message)
    }

    /// The other nodes.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.leaders.node();
        (0..self.leaders.nodes()).filter(move |node| *node != own)
    }

    /// Tells all leaders that this one ends the operation. They end it too, whatever step they are in.
    pub(super) fn abort(&mut self) {
        if std::mem::replace(&mut self.is_aborted, true) {
            return;
        }
        for node in self.others() {
            // A leader that cannot be reached has failed already.
            let _ = self.leaders.send(node, self.message(Kind::Abort));
        }
    }
}

const _: () = assert!(tree::DIRECT_MAX as u64 == capulet_plan::wire::DIRECT_NODES_MAX);

/// Whether the leaders of so many nodes reduce directly.
pub(in crate::two_phase) fn is_direct(nodes: usize) -> bool {
    nodes <= tree::DIRECT_MAX as usize
}

pub(super) const DISAGREE: Error = Error::Disagreement { what: "the messages between nodes" };

fn word(message: &[u8], index: usize) -> u32 {
    let bytes = message.get(index * 4..index * 4 + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

fn step_of(message: &[u8]) -> u32 {
    word(message, 1)
}

fn kind_of(message: &[u8]) -> Option<Kind> {
    let kinds = [Kind::Up, Kind::Down, Kind::Request, Kind::Receipt, Kind::Reply, Kind::Abort];
    kinds.into_iter().find(|kind| word(message, 2) == *kind as u32)
}

fn values_of(body: &[u8]) -> Result<LeaderValues> {
    let (words, rest) = body.as_chunks::<8>();
    if body.len() != VALUES_BYTES || !rest.is_empty() {
        return Err(DISAGREE);
    }
    let mut values = LeaderValues::default();
    for (lane, word) in values.iter_mut().zip(words) {
        *lane = u64::from_le_bytes(*word);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use capulet_comm::local::LocalLeaders;

    use super::*;

    /// Value 0 is the sum; values 1 and 2 are the first and the last node, to check that the parts come in
    /// order.
    fn join(left: LeaderValues, right: LeaderValues) -> LeaderValues {
        assert_eq!(left[2] + 1, right[1], "the parts are neighbors, with the lower nodes on the left");
        [left[0] + right[0], left[1], right[2]]
    }

    #[test]
    fn every_leader_gets_the_combined_values_in_each_step() {
        for nodes in 1..12 {
            let ends: Vec<Arc<LocalLeaders>> =
                LocalLeaders::team(nodes, nodes as u64).into_iter().map(Arc::new).collect();
            let mut reductions: Vec<_> =
                ends.iter().map(|end| LeaderReduction::new(end.clone(), 5)).collect();
            let mut steps = vec![0_u64; nodes];
            let begin = |reduction: &mut LeaderReduction, node: usize, step: u64| {
                reduction.begin([step * 100 + node as u64, node as u64, node as u64], join);
            };
            reductions.iter_mut().enumerate().for_each(|(node, reduction)| begin(reduction, node, 0));
            let mut order = (0..nodes).cycle();
            while steps.iter().any(|step| *step < 20) {
                let node = order.next().expect("the cycle has no end");
                if steps[node] == 20 {
                    continue;
                }
                assert!(reductions[node].receive().expect("the messages are valid").is_none());
                if let Some(values) = reductions[node].advance(true).expect("the messages are valid") {
                    let all = nodes as u64;
                    let sum = steps[node] * 100 * all + all * (all - 1) / 2;
                    assert_eq!(values, [sum, 0, all - 1]);
                    steps[node] += 1;
                    begin(&mut reductions[node], node, steps[node]);
                }
            }
            let of_step = if is_direct(nodes) { nodes * (nodes - 1) } else { 2 * (nodes - 1) };
            assert_eq!(ends[0].messages_sent(), 20 * of_step as u64);
        }
    }

    #[test]
    fn unready_leader_delays_all_and_an_abort_ends_all() {
        let ends: Vec<Arc<LocalLeaders>> = LocalLeaders::team(3, 1).into_iter().map(Arc::new).collect();
        let mut reductions: Vec<_> = ends.iter().map(|end| LeaderReduction::new(end.clone(), 0)).collect();
        for reduction in &mut reductions {
            reduction.begin([0; 3], |left, _| left);
        }
        for _ in 0..100 {
            for (node, reduction) in reductions.iter_mut().enumerate() {
                assert!(reduction.receive().expect("the messages are valid").is_none());
                assert_eq!(reduction.advance(node != 2).expect("the messages are valid"), None);
            }
        }
        reductions[2].abort();
        for reduction in &mut reductions[..2] {
            assert!((0..100).any(|_| reduction.receive().is_err()));
        }
    }

    #[test]
    fn malformed_messages_are_errors() {
        let whole = |words: [u32; 3], body: &[u8]| {
            let head = words.iter().flat_map(|word| word.to_le_bytes());
            head.chain(body.iter().copied()).collect::<Vec<u8>>()
        };
        let values = [0; VALUES_BYTES];
        let bad = [
            vec![],
            whole([9, 1, 1], &values)[..HEAD_BYTES - 1].to_vec(),
            whole([9, 1, 99], &[]),
            whole([9, 1, 1], &values[1..]),
            whole([9, 1, 2], &values),
            whole([9, 0, 1], &values),
            whole([9, 3, 1], &values),
        ];
        for message in bad {
            let ends: Vec<Arc<LocalLeaders>> = LocalLeaders::team(2, 1).into_iter().map(Arc::new).collect();
            let mut reduction = LeaderReduction::new(ends[0].clone(), 9);
            reduction.begin([0; 3], |left, _| left);
            ends[1].send(0, message.clone()).expect("the message is sent");
            assert!((0..100).any(|_| reduction.receive().is_err()), "{message:?}");
        }
        let ends: Vec<Arc<LocalLeaders>> = LocalLeaders::team(2, 1).into_iter().map(Arc::new).collect();
        let mut reduction = LeaderReduction::new(ends[0].clone(), 9);
        reduction.begin([0; 3], |left, _| left);
        // A message of an operation that is over; then a value that the same child sends twice.
        ends[1].send(0, whole([8, 1, 6], &[])).expect("the message is sent");
        ends[1].send(0, whole([9, 1, 1], &values)).expect("the message is sent");
        assert!((0..100).all(|_| reduction.receive().is_ok()));
        ends[1].send(0, whole([9, 1, 1], &values)).expect("the message is sent");
        assert!((0..100).any(|_| reduction.receive().is_err()));
    }
}
