//! Collective data access (MPI 4.1, 14.4): blocking, nonblocking and split. All three kinds are an
//! [operation](operation::CollectiveOperation).
//!
//! A blocking access does not use the [queue](queue::Queue) if no rank has an operation in progress: it
//! waits in the agreements and at the barriers of the ranks. Otherwise it takes its place in the queue
//! like any other operation.

mod operation;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use capulet_atomic::{Guard, Isolation as _};
use capulet_comm::work::{self, Work};
use capulet_comm::{Channel, Group, NodeBuffer, NodeShared, NodeValues, ReduceOp};
use capulet_drivers::Caps;
use capulet_sieve::two_phase::{NodeExchange, Surveyed};
use capulet_sieve::{
    Access, Agreed, Direction, KnownOutcome, Plan, PlanHints, Resources, Target, Transferred, choose,
    independent, two_phase,
};

use crate::agree::{agree_on_outcome, error_of_class};
use crate::error::{Error, Result};
use crate::file::File;
use crate::outcome::Outcome;
use crate::transfer::{Position, PreparedAccess, UserMemory};
use crate::view::FileView;

use operation::{CollectiveOperation, OperationContext};
pub(crate) use queue::Queue;
pub use queue::Request;

/// The queue of the operations on the shared memory of a channel.
pub(crate) fn queue_of(channel: &Channel) -> Arc<Queue> {
    let mut is_new = false;
    let queue = channel.kept(|| new_queue(&mut is_new));
    registered(queue, is_new)
}

/// The queue of the operations on the shared memory that all channels of a group share. `None` if each
/// channel has its own.
pub(crate) fn shared_queue(group: &Group) -> Option<Arc<Queue>> {
    let mut is_new = false;
    let queue = group.kept_by_channels(|| new_queue(&mut is_new))?;
    Some(registered(queue, is_new))
}

fn new_queue(is_new: &mut bool) -> Queue {
    *is_new = true;
    Queue::default()
}

fn registered(queue: Arc<Queue>, is_new: bool) -> Arc<Queue> {
    if is_new {
        let work: Arc<dyn Work> = queue.clone();
        work::register(Arc::downgrade(&work));
    }
    queue
}

impl File {
    /// Starts a collective read or write (`MPI_File_iread_all`, `MPI_File_iwrite_at_all` and similar
    /// functions, and the first half of a split collective). Collective, but waits for no other rank,
    /// except at the shared file pointer, where all ranks must come. The individual file pointer moves on
    /// at once (MPI 4.1, 14.4.5).
    ///
    /// The caller may wait for operations in any order. They advance in every call of this crate that
    /// waits, in every call of the C ABI, and in calls of MPI where MPI allows it
    /// ([`capulet_comm::request`]). The outcome on all ranks contains the error if any rank fails, also
    /// if an argument of one rank is wrong.
    ///
    /// # Safety
    /// As [`File::access`], until the operation is over.
    pub unsafe fn start(
        &self,
        direction: Direction,
        position: Position,
        memory: Result<UserMemory>,
    ) -> Request {
        self.calls.count(direction);
        let prepared = if position == Position::Shared {
            // SAFETY: `# Safety` of `prepare_ordered` is `# Safety` of this function.
            unsafe { self.prepare_ordered(direction, memory) }
        } else {
            // SAFETY: `# Safety` of `prepare` is `# Safety` of this function.
            memory.and_then(|memory| unsafe { self.prepare(direction, position, true, &memory) })
        };
        let number = self.next_number();
        let access = prepared.map(|prepared| prepared.access);
        let operation = CollectiveOperation::new(self.operation_context(number), number, direction, access);
        self.queue.push(operation.counted(Arc::clone(&self.calls)))
    }

    pub(crate) fn collective(
        &self,
        direction: Direction,
        position: Position,
        prepared: Result<PreparedAccess>,
    ) -> Outcome {
        let number = self.next_number();
        let access = prepared.as_ref().ok().map(|prepared| &prepared.access);
        // The value of `shared_memory` matters only if operations are in progress. These operations have
        // populated the memory.
        let own = Resources { shared_memory: self.channel.has_used_buffer(), in_memory: self.is_in_memory() };
        let agreement = operation::access_agreement(direction, access, own)
            .reduce(u64::from(self.queue.is_busy()), ReduceOp::Max);
        let of_nodes = self.survey_values(access);
        let (prepared, mut values, combined) =
            match agreement.agree_with_nodes(self.agree(), prepared, of_nodes) {
                Ok(agreed) => agreed,
                Err(error) => return Outcome::failed(error),
            };
        let surveyed = combined.and_then(Surveyed::of);
        let agreed = operation::agreed_access(&mut values);
        if position == Position::Individual {
            self.advance_pointer(&prepared.view, prepared.end_bytes);
        }
        let is_busy = values.take() == 1;
        if is_busy {
            let operation = CollectiveOperation::already_agreed(
                self.operation_context(number),
                number,
                direction,
                prepared.access,
                agreed,
            );
            return self.queue.push(operation).wait();
        }
        let (agreed, resources) = agreed;
        let mut context = self.operation_context(number);
        if let Some(internode) = &mut context.internode {
            internode.surveyed = surveyed;
        }
        let done = self.carry_out(direction, prepared.access, (&agreed, resources.in_memory), &context);
        let (done, guard) = match done {
            Ok(done) => done,
            // All ranks know the error, and no rank has moved anything.
            Err(error) => return Outcome::failed(error),
        };
        let (bytes, own) = (done.bytes, done.error.map(Error::from));
        let error = match done.outcome {
            KnownOutcome::Good if guard.is_none() => None,
            KnownOutcome::Failed(class) if guard.is_none() => Some(error_of_class(class, own)),
            _ => agree_on_outcome(self.agree(), own.map_or(Ok(()), Err)).err(),
        };
        Outcome { bytes, error }
    }

    /// Moves the bytes of this rank. If a guard is returned, the bytes of the access are locked for all
    /// ranks, and some ranks may still move bytes.
    fn carry_out(
        &self,
        direction: Direction,
        access: Access,
        (agreed, in_memory): (&Agreed, bool),
        context: &OperationContext,
    ) -> Result<(Transferred, Option<Guard<'_>>)> {
        let plan_with = |shared_memory: bool| {
            choose(direction, agreed, context.hints, Resources { shared_memory, in_memory })
        };
        // The plan may assume shared memory, because it can still be made here.
        let mut plan = plan_with(true);
        let mut shared_memory = None;
        let is_two_phase = matches!(plan, Plan::TwoPhase(_));
        if is_two_phase {
            shared_memory = self.make_shared_memory(context.collective_buffer_bytes);
        }
        let mut guard = None;
        let mut target = context.target.clone();
        if is_two_phase && target.isolation.is_some() {
            guard = self.lock_collective(direction, agreed, shared_memory.is_some())?;
            match guard {
                Some(_) => target = target.isolated(),
                // Some node has no shared memory: each rank moves its own bytes, with a lock of its own.
                None => shared_memory = None,
            }
        } else if is_two_phase && shared_memory.is_none() {
            // The other nodes must learn that this node has no shared memory: then the nodes exchange
            // nothing.
            let declined = context.internode.as_ref().map_or(Ok(()), two_phase::decline_exchange);
            if let Err(error) = declined {
                return Ok((Transferred::failed(error), None));
            }
        }
        if is_two_phase && shared_memory.is_none() {
            plan = plan_with(false);
        }
        tracing::debug!(?plan, ?agreed, "planned");
        let done = match (plan, shared_memory) {
            (Plan::TwoPhase(_), Some(shared_memory)) => {
                self.refresh_node()?;
                let group = context.node_group(shared_memory, agreed);
                let target = Target { holes: context.hints.holes, ..target };
                // The node groups are made from the agreed values, the number of the access and hints, which
                // are equal on all ranks, and from the stripes of the storage. The storage must report equal
                // stripes on all nodes.
                // SAFETY: `# Safety` of `two_phase::run`. The reduction made direction, first byte and groups
                // equal on all ranks. No rank has an operation in progress on the memory.
                let done = unsafe { two_phase::run(target, group, access, direction, agreed.first) };
                let done = self.publish_for_node(direction, done);
                if context.internode.is_none() {
                    // The operation ends at a barrier of the node, so all ranks have moved their bytes.
                    guard = None;
                }
                done
            }
            (Plan::Nothing, _) => Transferred { outcome: KnownOutcome::Good, ..Transferred::default() },
            _ => independent::run(&target, &access, direction),
        };
        Ok((done, guard))
    }

    /// Discards the pages of the file that this node has cached, before ranks of the node move bytes for other
    /// nodes. Collective if nodes cache the file. Otherwise the call does nothing.
    fn refresh_node(&self) -> Result<()> {
        let Some(pages) = self.pages.get() else { return Ok(()) };
        let leads = self.group.node().is_leader();
        let done = if leads { pages.refresh().map_err(Error::from) } else { Ok(()) };
        agree_on_outcome(self.agree(), done)
    }

    /// Sends the pages that the ranks of this node have written to the storage, after a two-phase access. The
    /// leader acts for its node. Local.
    fn publish_for_node(&self, direction: Direction, done: Transferred) -> Transferred {
        let leads = direction == Direction::Write && self.group.node().is_leader();
        let published = self.pages.get().filter(|_| leads).map_or(Ok(()), |pages| pages.publish());
        match published {
            Ok(()) => done,
            Err(error) => Transferred { error: done.error.or(Some(error.into())), ..Transferred::default() },
        }
    }

    /// What this rank contributes to the survey of the nodes. `None` if there is only one node.
    fn survey_values(&self, access: Option<&Access>) -> Option<NodeValues> {
        if self.group.node().node_count() == 1 {
            return None;
        }
        let bytes = self.shared_bytes(self.state().hints.collective_buffer_bytes);
        let is_known = self.channel.has_used_buffer_of(bytes);
        Some(Surveyed::values(access.map(Access::span), self.may_exchange(), is_known, self.unit_bytes()))
    }

    /// Whether this node may move bytes of the file for other nodes. If nodes cache pages and no lock keeps their
    /// pages apart, they do not exchange: a node then reads back what its own ranks wrote, and only bytes of its
    /// own ranks come to its pages.
    fn may_exchange(&self) -> bool {
        self.pages.get().is_some()
            || self.common_caps.contains(Caps::BYTE_WRITES | Caps::IMMEDIATE_VISIBILITY)
    }

    /// The unit of the file to which two nodes must not write at the same time, in bytes.
    fn unit_bytes(&self) -> u64 {
        self.pages.get().map_or(1, |pages| pages.page_bytes())
    }

    fn is_in_memory(&self) -> bool {
        self.storage.caps().contains(Caps::IN_MEMORY)
    }

    /// How the ranks of this node reach the ranks of other nodes in operation `number`. `None` if there
    /// is only one node.
    fn internode(&self, number: u64) -> Option<NodeExchange> {
        let nodes = self.state().aggregator_layout.nodes.clone()?;
        Some(NodeExchange {
            nodes,
            leaders: self.channel.leaders(),
            may_exchange: self.may_exchange(),
            unit_bytes: self.unit_bytes(),
            operation: number as u32,
            surveyed: None,
        })
    }

    /// The size of the shared memory for collective access, in bytes per rank.
    fn shared_bytes(&self, collective_buffer_bytes: u64) -> usize {
        // Each aggregator has two collective buffers: one is filled while the other is written. Several
        // nodes need the same amount again for the data that ranks send and receive.
        let buffers = if self.group.node().node_count() > 1 { 4 } else { 2 };
        collective_buffer_bytes.saturating_mul(buffers) as usize
    }

    /// Creates the shared memory of this node, for nonblocking accesses to find, without populating it.
    /// Collective over the node. No operation may be in progress on the memory.
    pub(crate) fn reserve_shared_memory(&self, collective_buffer_bytes: u64) {
        if let Err(error) = self.channel.reserve_buffer(self.shared_bytes(collective_buffer_bytes)) {
            tracing::warn!(%error, "no shared memory for collective access");
        }
    }

    /// The shared memory of this node, populated. `None` if it cannot be had. Collective over the node.
    /// No operation may be in progress on the memory.
    fn make_shared_memory(&self, collective_buffer_bytes: u64) -> Option<Arc<NodeBuffer>> {
        self.channel.node_buffer(self.shared_bytes(collective_buffer_bytes)).unwrap_or_else(|error| {
            tracing::warn!(%error, "no shared memory for collective access");
            None
        })
    }

    fn operation_context(&self, number: u64) -> OperationContext {
        let (hints, aggregators) = {
            let state = self.state();
            (state.hints.clone(), state.aggregator_layout.own_aggregators)
        };
        let channel = Arc::clone(&self.channel);
        // No collective buffer of a node has a part of a page.
        let page_bytes = self.pages.get().map_or(1, |pages| pages.page_bytes());
        let stripe_bytes = hints.stripe_bytes(&self.storage.layout());
        let stripe_bytes = stripe_bytes.filter(|bytes| bytes.is_multiple_of(page_bytes));
        OperationContext {
            agree: self.channel.clone(),
            file_id: self.channel.id(),
            shared_memory: Arc::new(move || {
                channel.existing_buffer().map(|buffer| buffer as Arc<dyn NodeShared>)
            }),
            target: self.collective_target(),
            hints: PlanHints { holes: self.holes(), ..hints.plan() },
            in_memory: self.is_in_memory(),
            collective_buffer_bytes: hints.collective_buffer_bytes.next_multiple_of(page_bytes),
            stripe_bytes: stripe_bytes.unwrap_or(if page_bytes > 1 { page_bytes } else { 0 }),
            aggregators,
            internode: self.internode(number),
            order: self.order.clone(),
        }
    }

    /// The number of the next collective access. It is the same on all ranks, because they begin these
    /// accesses in the same order.
    fn next_number(&self) -> u64 {
        self.operations.fetch_add(1, Ordering::Relaxed)
    }

    /// Moves the individual file pointer by the bytes requested, even if fewer could be read (MPI 4.1,
    /// 14.4.1).
    fn advance_pointer(&self, view: &Arc<FileView>, end_bytes: u64) {
        let mut state = self.state();
        if Arc::ptr_eq(&state.view, view) {
            state.pointer_bytes = end_bytes;
        }
    }
}
