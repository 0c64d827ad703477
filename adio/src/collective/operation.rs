//! One rank's part of a collective data access as a value that can be polled: the ranks agree on the
//! access, move the bytes, and agree on the outcome. No function of this module waits for another rank.

use std::fmt;
use std::mem;
use std::sync::Arc;

use capulet_comm::{Agree, Leaders, NodeShared, ReduceOp, Track};
use capulet_sieve::{
    Access, Agreed, Direction, Plan, PlanHints, Resources, Summary, Target, Transferred, choose, independent,
    two_phase,
};

use crate::agree::{AgreedValues, Agreement, PendingAgreement};
use crate::calls::Calls;
use crate::error::{Error, Result};
use crate::outcome::Outcome;

/// The context of an operation: the open file, and the settings in force when the operation began.
#[derive(Clone)]
pub(crate) struct OperationContext {
    pub(crate) agree: Arc<dyn Agree>,
    /// The id of the file's channel, which tells apart the files whose operations use the same shared
    /// memory. Never 0.
    pub(crate) file_id: u32,
    /// Returns the current shared memory of the node, if there is any.
    pub(crate) shared_memory: Arc<dyn Fn() -> Option<Arc<dyn NodeShared>> + Send + Sync>,
    pub(crate) target: Target,
    pub(crate) hints: PlanHints,
    /// Whether the storage is memory, as seen by this rank.
    pub(crate) in_memory: bool,
    pub(crate) collective_buffer_bytes: u64,
    pub(crate) stripe_bytes: u64,
    pub(crate) aggregators: usize,
    /// How to reach the ranks of other nodes. `None` if there is only one node.
    pub(crate) internode: Option<two_phase::NodeExchange>,
    /// The messages in which the node leaders tell each other which operation comes next. At the leaders
    /// of several nodes only.
    pub(crate) order: Option<Arc<dyn Leaders>>,
}

impl fmt::Debug for OperationContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OperationContext").field("file_id", &self.file_id).finish_non_exhaustive()
    }
}

impl OperationContext {
    /// The group of the ranks of this node on shared memory, which exchanges with other nodes if there are
    /// any.
    pub(crate) fn node_group(
        &self,
        shared_memory: Arc<dyn NodeShared>,
        agreed: &Agreed,
    ) -> two_phase::NodeGroup {
        let (collective_buffer_bytes, stripe_bytes) = (self.collective_buffer_bytes, self.stripe_bytes);
        let group = match &self.internode {
            None => two_phase::NodeGroup::new(
                shared_memory,
                self.aggregators,
                collective_buffer_bytes,
                stripe_bytes,
                agreed.grain,
            ),
            Some(internode) => two_phase::NodeGroup::among(
                internode.clone(),
                shared_memory,
                collective_buffer_bytes,
                stripe_bytes,
                agreed.grain,
            ),
        };
        group.ending_at(agreed.end)
    }
}

/// The first agreement of a data access: extent and amounts of the access, common resources, and errors
/// so far.
pub(crate) fn access_agreement(direction: Direction, access: Option<&Access>, own: Resources) -> Agreement {
    let mine = Agreed::of(&[access.map_or_else(Summary::empty, Summary::of)]);
    // A rank that reads while the others write would take part in rounds of another kind.
    Agreement::new()
        .same("direction of the access", direction as u64)
        .reduce(mine.first, ReduceOp::Min)
        .reduce(mine.end, ReduceOp::Max)
        .reduce(mine.bytes, ReduceOp::Sum)
        .reduce(mine.runs, ReduceOp::Sum)
        .reduce(mine.active_ranks, ReduceOp::Sum)
        .reduce(u64::from(mine.monotone), ReduceOp::Min)
        .reduce(mine.grain, ReduceOp::BitOr)
        .reduce(u64::from(own.shared_memory), ReduceOp::Min)
        .reduce(u64::from(own.in_memory), ReduceOp::Min)
}

/// Result of [`access_agreement`]: the combined access and the common resources.
pub(crate) fn agreed_access(values: &mut AgreedValues) -> (Agreed, Resources) {
    let agreed = Agreed {
        first: values.take(),
        end: values.take(),
        bytes: values.take(),
        runs: values.take(),
        active_ranks: values.take(),
        monotone: values.take() == 1,
        grain: values.take(),
    };
    (agreed, Resources { shared_memory: values.take() == 1, in_memory: values.take() == 1 })
}

/// The stage of an operation.
enum Stage {
    /// An earlier operation of the file still uses the track of this one.
    WaitingForTrack(Result<Access>),
    /// The ranks agree on the access.
    AgreeingOnAccess(PendingAgreement, Result<Access>),
    /// All ranks have begun the operation. It waits until it may use the shared memory.
    Queued(Access, Agreed),
    /// In atomic mode: waits until other accesses to its bytes are over. It has no place among the
    /// waiting accesses, so others may pass it.
    Entering(Access, Box<independent::LockEntry>),
    Moving(Box<two_phase::Operation>),
    /// The ranks agree on the outcome.
    AgreeingOnOutcome(PendingAgreement, u64, Result<()>),
    Done(Outcome),
}

pub(crate) struct CollectiveOperation {
    context: OperationContext,
    number: u64,
    /// The track of its agreements.
    track: Track,
    direction: Direction,
    /// Counts the bytes moved when the operation is over. `None` if the caller counts them.
    calls: Option<Arc<Calls>>,
    stage: Stage,
}

impl fmt::Debug for CollectiveOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CollectiveOperation").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl CollectiveOperation {
    /// Operation `number` of its file. Sends nothing yet.
    pub(crate) fn new(
        context: OperationContext,
        number: u64,
        direction: Direction,
        access: Result<Access>,
    ) -> Self {
        let track = Track::of(number);
        Self { context, number, track, direction, calls: None, stage: Stage::WaitingForTrack(access) }
    }

    /// An operation on which the ranks have already agreed, in a blocking call. Operations in progress
    /// may use any of the tracks of nonblocking operations at that time. This operation may end before
    /// them on one rank and after them on another. So it uses the track of blocking calls.
    pub(crate) fn already_agreed(
        context: OperationContext,
        number: u64,
        direction: Direction,
        access: Access,
        (agreed, resources): (Agreed, Resources),
    ) -> Self {
        let (track, stage) = (Track::WAITING, Stage::Done(Outcome::default()));
        let mut operation = Self { context, number, track, direction, calls: None, stage };
        operation.stage = operation.plan(access, agreed, resources);
        operation
    }

    /// The same operation, with its bytes counted when it is over.
    pub(crate) fn counted(self, calls: Arc<Calls>) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// The key by which the ranks of the node know the operation. Never 0, and different for all
    /// operations in progress.
    pub(crate) fn key(&self) -> u64 {
        u64::from(self.context.file_id) << 32 | u64::from(self.number as u32)
    }

    /// The file, and the track of its agreements. Operations for which both are equal follow one another.
    pub(crate) fn track(&self) -> (u32, Track) {
        (self.context.file_id, self.track)
    }

    pub(crate) fn shared_memory(&self) -> Option<Arc<dyn NodeShared>> {
        (self.context.shared_memory)()
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(..))
    }

    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Moving(_))
    }

    pub(crate) fn is_agreeing_on_outcome(&self) -> bool {
        matches!(self.stage, Stage::AgreeingOnOutcome(..))
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// The messages in which the node leaders tell each other which operation comes next.
    pub(crate) fn order(&self) -> Option<&Arc<dyn Leaders>> {
        self.context.order.as_ref()
    }

    /// Whether the operation is done and none of its messages is in progress any more.
    pub(crate) fn is_over(&self) -> bool {
        // After an error a message cannot be sent any more, so the operation does not wait for it.
        self.is_done() && self.order().is_none_or(|order| order.is_sent().unwrap_or(true))
    }

    /// The outcome of an operation that is done.
    pub(crate) fn outcome(self) -> Outcome {
        match self.stage {
            Stage::Done(outcome) => {
                if let Some(calls) = self.calls {
                    calls.moved(self.direction, outcome.bytes);
                }
                if let Some(error) = &outcome.error {
                    tracing::debug!(%error, number = self.number, "access failed");
                }
                outcome
            }
            _ => Outcome::failed(Error::Unsupported { what: "the outcome of an operation in progress" }),
        }
    }

    /// Advances the operation as far as possible without waiting. True if its stage changed. `has_track`:
    /// no earlier operation uses its track.
    pub(crate) fn advance(&mut self, has_track: bool) -> bool {
        let next = match &mut self.stage {
            Stage::WaitingForTrack(access) if has_track => {
                let access = mem::replace(
                    access,
                    Err(Error::Unsupported { what: "an access that was already taken" }),
                );
                self.agree_on_access(access)
            }
            Stage::AgreeingOnAccess(pending, access) => match pending.poll() {
                Ok(None) => return false,
                Ok(Some(values)) => {
                    let access = mem::replace(
                        access,
                        Err(Error::Unsupported { what: "an access that was already taken" }),
                    );
                    match values.outcome(access) {
                        Ok((access, mut values)) => {
                            let (agreed, resources) = agreed_access(&mut values);
                            self.plan(access, agreed, resources)
                        }
                        Err(error) => Stage::Done(Outcome::failed(error)),
                    }
                }
                Err(error) => Stage::Done(Outcome::failed(error)),
            },
            Stage::Entering(access, entry) => {
                match independent::try_run(&self.context.target, access, self.direction, entry) {
                    None => return false,
                    Some(done) => self.agree_on_outcome(done),
                }
            }
            Stage::Moving(operation) => {
                if !operation.poll() {
                    return false;
                }
                let done = operation.take_outcome();
                self.agree_on_outcome(done)
            }
            Stage::AgreeingOnOutcome(pending, bytes, own) => match pending.poll() {
                Ok(None) => return false,
                Ok(Some(values)) => {
                    let error = values.outcome(mem::replace(own, Ok(()))).err();
                    Stage::Done(Outcome { bytes: *bytes, error })
                }
                Err(error) => Stage::Done(Outcome { bytes: *bytes, error: Some(error) }),
            },
            Stage::WaitingForTrack(_) | Stage::Queued(..) | Stage::Done(_) => return false,
        };
        self.stage = next;
        true
    }

    /// Admits the operation to the shared memory, and starts to move its bytes.
    pub(crate) fn admit(&mut self, shared_memory: Arc<dyn NodeShared>) {
        let stage = mem::replace(&mut self.stage, Stage::Done(Outcome::default()));
        self.stage = match stage {
            Stage::Queued(access, agreed) => {
                let group = self.context.node_group(shared_memory, &agreed);
                let target = Target { holes: self.context.hints.holes, ..self.context.target.clone() };
                let (direction, first) = (self.direction, agreed.first);
                // The node groups are made from the agreed values, the number of the operation and hints,
                // which are equal on all ranks, and from the stripes of the storage. The storage must report
                // equal stripes on all nodes. The queue admits one operation at a time to the memory, the
                // same on all ranks of the node.
                // SAFETY: `# Safety` of `two_phase::Operation::start`. The first reduction made direction, first
                // byte and groups equal on all ranks.
                let moving = unsafe { two_phase::Operation::start(target, group, access, direction, first) };
                Stage::Moving(Box::new(moving))
            }
            other => other,
        };
    }

    fn agree_on_access(&self, access: Result<Access>) -> Stage {
        let own =
            Resources { shared_memory: self.shared_memory().is_some(), in_memory: self.context.in_memory };
        let agreement = access_agreement(self.direction, access.as_ref().ok(), own);
        match agreement.start(self.context.agree.as_ref(), self.track, access.as_ref().err()) {
            Ok(pending) => Stage::AgreeingOnAccess(pending, access),
            Err(error) => Stage::Done(Outcome::failed(error)),
        }
    }

    fn plan(&self, access: Access, agreed: Agreed, resources: Resources) -> Stage {
        // No node can wait here for another that has no shared memory. Shared memory is made only while
        // no operation is in progress.
        let plan = choose(self.direction, &agreed, self.context.hints, resources);
        tracing::debug!(?plan, ?agreed, number = self.number, "planned");
        match plan {
            Plan::Nothing => self.agree_on_outcome(Transferred::default()),
            // One lock for all ranks would be held while a rank is outside of MPI, and the others could
            // not continue.
            _ if self.context.target.isolation.is_some() => {
                let entry = Box::new(independent::LockEntry::new(&access, self.direction));
                Stage::Entering(access, entry)
            }
            Plan::TwoPhase(_) => Stage::Queued(access, agreed),
            Plan::Independent(_) => {
                self.agree_on_outcome(independent::run(&self.context.target, &access, self.direction))
            }
        }
    }

    fn agree_on_outcome(&self, done: Transferred) -> Stage {
        let own = done.error.map_or(Ok(()), |failure| Err(Error::from(failure)));
        match Agreement::new().start(self.context.agree.as_ref(), self.track, own.as_ref().err()) {
            Ok(pending) => Stage::AgreeingOnOutcome(pending, done.bytes, own),
            Err(error) => Stage::Done(Outcome { bytes: done.bytes, error: Some(error) }),
        }
    }
}
