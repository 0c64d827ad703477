//! A channel: one tag of the private communicator of a group, so that the messages of two files never
//! mix.
//!
//! The id of a channel is the smallest number that is free on all ranks. All ranks open and close
//! channels in the same order, unless threads race. So all ranks usually propose the same id, and one
//! allreduce confirms the id. Otherwise the ranks repeat the allreduce with the largest proposal as the
//! lower bound. The first allreduce also carries the values on which the caller of the open must agree.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use capulet_agreement::Ids;

use crate::agree::{Agree, CombinedOfNodes, NODE_LANES, NodeValues, Pending, ReduceOp, Track};
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result};
use crate::group::{Group, SHARED_BUFFER};
use crate::lanes::check_lanes;
use crate::leaders::{ChannelLeaders, Leaders};
use crate::memory::Memory;
use crate::message::{Counters, Wire};
use crate::node_buffer::NodeBuffer;
use crate::node_memory::{self, Slot};
use crate::node_reduction::{self, Ways};
use crate::notifier::Notifier;
use crate::pool::{Choice, PoolSlot};
use crate::rank::Rank;
use crate::reduction::Reduction;
use crate::words::NodeWords;
use crate::world::{self, Epochs, Mechanism, WorldMemory, WorldWords};

/// The ids of the open channels of all shared groups of this process. Two such channels never have the
/// same id on a rank: groups of the same processes share the words of one pool, and the id of a channel
/// selects its part of the pool.
static SHARED_IDS: Mutex<Ids> = Mutex::new(Ids::new());

fn locked(ids: &Mutex<Ids>) -> MutexGuard<'_, Ids> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The smallest id from `from` on that is free for a channel of this group, as far as this rank knows.
fn free_from(group: &Group, from: u32) -> u32 {
    locked(if group.is_shared() { &SHARED_IDS } else { group.ids() }).first_free(from)
}

/// A private connection between the ranks of a group. The collective operations are those of [`Agree`].
///
/// Dropping the channel frees its id. If the channel has a node buffer of its own, that buffer is freed
/// too. Local.
#[derive(Debug)]
pub struct Channel {
    group: Arc<Group>,
    id: u32,
    counters: Arc<Counters>,
    /// The part of this channel in the memory of the node. `None` on all ranks of the node if there is
    /// none.
    slot: Option<Slot>,
    /// The words with standing epochs, and those with exclusive epochs.
    world_slots: [LazySlot<WorldMemory>; 2],
}

/// The words of a pool that a channel has. Unset until the first request for them.
#[derive(Debug)]
struct LazySlot<M>(OnceLock<Option<Arc<PoolSlot<M>>>>);

impl<M> LazySlot<M> {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn get_or_take(
        &self,
        take: impl FnOnce() -> Result<Option<PoolSlot<M>>>,
    ) -> Result<Option<Arc<PoolSlot<M>>>> {
        if let Some(slot) = self.0.get() {
            return Ok(slot.clone());
        }
        // At most one thread of a rank is in a collective call on a channel.
        let slot = take()?.map(Arc::new);
        Ok(self.0.get_or_init(|| slot).clone())
    }
}

impl Group {
    /// Opens a channel. Collective over the group. At most one thread may open a channel of a group at a
    /// time.
    ///
    /// # Errors
    /// If MPI fails, or if no tag is free.
    pub fn channel(self: &Arc<Self>) -> Result<Channel> {
        self.channel_with(&mut [], &[])
    }

    /// Opens a channel as [`Group::channel`], and reduces `lanes` in the same allreduce, as
    /// [`Agree::allreduce`] does.
    ///
    /// # Errors
    /// If MPI fails, if no tag is free, or if the numbers of operations and lanes differ.
    pub fn channel_with(self: &Arc<Self>, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<Channel> {
        Channel::open(Arc::clone(self), lanes, ops)
    }
}

impl Channel {
    /// See [`Group::channel_with`].
    pub(crate) fn open(group: Arc<Group>, values: &mut [u64], value_ops: &[ReduceOp]) -> Result<Self> {
        group.check_open()?;
        check_lanes(values, value_ops)?;
        let mut wanted = 0;
        let mut with = values.len();
        let (id, has_slot) = loop {
            let candidate = free_from(&group, wanted);
            let has_slot = u64::from(group.prepare_slot(candidate));
            let mut lanes =
                [&[u64::from(candidate), u64::from(candidate), has_slot], &values[..with]].concat();
            let ops = [&[ReduceOp::Min, ReduceOp::Max, ReduceOp::Min], &value_ops[..with]].concat();
            group.agree_on_opening(&mut lanes, &ops)?;
            values[..with].copy_from_slice(&lanes[3..]);
            with = 0;
            if lanes[0] == lanes[1] {
                break (candidate, lanes[2] == 1);
            }
            wanted = lanes[1] as u32;
        };
        if id < group.channels_max() {
            locked(group.ids()).take(id);
            if group.is_shared() {
                locked(&SHARED_IDS).take(id);
            }
            let slot = if has_slot { group.slot(id) } else { None };
            Ok(Channel {
                group,
                id,
                counters: Arc::default(),
                slot,
                world_slots: [LazySlot::new(), LazySlot::new()],
            })
        } else {
            Err(Error::invalid(ErrorClass::Other, "every message tag is taken by an open file"))
        }
    }

    /// The number of this channel in its group. It is the same on all ranks, and no other open channel of
    /// the group has it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The group of this channel.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The counts of the messages that this rank has sent and received on this channel.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The node buffer of this channel: shared memory of the ranks of this node for collective
    /// operations, with at least `bytes` bytes of data per rank, ready for use by all ranks of the node.
    ///
    /// All channels of a shared group use one node buffer, because their operations follow one another.
    /// With `MPI_THREAD_MULTIPLE` each channel has a node buffer of its own, which is freed with the
    /// channel.
    ///
    /// Collective over the node: all ranks of the node call this function with the same size. Local if
    /// the buffer is already ready. `None` on all ranks if one of them has no memory for the buffer.
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub fn node_buffer(&self, bytes: usize) -> Result<Option<Arc<NodeBuffer>>> {
        self.group.check_open()?;
        let Some(slot) = &self.slot else { return Ok(None) };
        let memory = self.group.buffers().get(slot, self.buffer_number(), bytes)?;
        Ok(memory.map(|memory| self.buffer_in(memory)))
    }

    /// Makes the buffer that [`Channel::node_buffer`] returns, but takes no memory for its data. An
    /// operation that must not wait for other ranks then gets the buffer by [`Channel::existing_buffer`].
    /// Collective over the node, as [`Channel::node_buffer`].
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub fn reserve_buffer(&self, bytes: usize) -> Result<()> {
        self.group.check_open()?;
        let Some(slot) = &self.slot else { return Ok(()) };
        self.group.buffers().reserve(slot, self.buffer_number(), bytes)
    }

    /// The node buffer, if the buffer exists and this rank has memory for its part. Local, so other ranks
    /// may have no buffer: the caller accesses the part of another rank only after the ranks have agreed
    /// that all of them have the buffer.
    pub fn existing_buffer(&self) -> Option<Arc<NodeBuffer>> {
        let memory = self.group.buffers().existing(self.buffer_number())?;
        Some(self.buffer_in(memory))
    }

    fn buffer_in(&self, memory: Arc<Memory>) -> Arc<NodeBuffer> {
        Arc::new(NodeBuffer::new(memory, Arc::clone(&self.group)))
    }

    /// Whether this rank has already used the node buffer. Local.
    pub fn has_used_buffer(&self) -> bool {
        self.group.buffers().is_prepared(self.buffer_number())
    }

    /// Whether this rank has already used a node buffer of at least `bytes` bytes per rank. Local.
    pub fn has_used_buffer_of(&self, bytes: usize) -> bool {
        self.group.buffers().is_prepared_for(self.buffer_number(), bytes)
    }

    /// The number of words that each rank of a node has per channel.
    pub const WORDS: usize = node_memory::WORDS;

    /// `count` of these words, from word `first` on, for data that the ranks of this node share outside
    /// of the node buffer. The words are zero when their memory is new. Later they have the values that a
    /// previous channel has stored. Local. `None` on all ranks of the node if the node has no shared
    /// memory.
    ///
    /// # Panics
    /// If `first + count` is larger than [`Channel::WORDS`].
    pub fn node_words(&self, first: usize, count: usize) -> Option<NodeWords> {
        assert!(first + count <= Self::WORDS, "a channel has fewer words");
        let slot = self.slot.clone()?;
        let place = slot.place();
        Some(NodeWords::new(Arc::new(slot), place, first, count))
    }

    /// The words of this channel that all ranks of the group can access, by a mechanism, with the given
    /// epochs. The words are zero when they are new. Later they have the values that a previous
    /// channel has stored. The first call on a channel is collective over the group. Later calls are
    /// local, and must pass the same mechanism. `None` if the words cannot be created.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn world_words(&self, epochs: Epochs, mechanism: Mechanism) -> Result<Option<WorldWords>> {
        let slot = self.world_slots[usize::from(epochs == Epochs::Exclusive)].get_or_take(|| {
            self.group.check_open()?;
            let wire = self.wire();
            let is_one_machine = self.group.is_one_machine();
            let make = || WorldMemory::allocate(wire, mechanism, epochs, is_one_machine);
            world::pools(mechanism, epochs).of(wire.comm)?.take(wire, self.group.stamp(), self.choice(), make)
        })?;
        Ok(slot.map(|slot| WorldWords::new(slot, Arc::clone(&self.counters))))
    }

    /// The way in which the part of this channel in the pools of words is chosen.
    fn choice(&self) -> Choice {
        if self.group.is_shared() { Choice::Known(self.id) } else { Choice::First }
    }

    /// The endpoint of this rank for wake-ups between the ranks of this channel. Local. A channel must
    /// not have two such endpoints at the same time.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(Arc::clone(&self.group), Arc::clone(&self.counters), self.tag_of(Track::WAKE_UPS))
    }

    /// The value that the caller keeps with the node buffer of this channel. All channels that share the
    /// buffer get the same value, as long as a caller holds it. Otherwise `make` creates a new value.
    /// Local.
    ///
    /// # Panics
    /// If the existing value has another type.
    pub fn kept<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.group.kept(self.buffer_number(), make)
    }

    /// The number of the node buffer that operations on this channel use.
    fn buffer_number(&self) -> u32 {
        if self.group.is_shared() { SHARED_BUFFER } else { self.id }
    }

    fn wire(&self) -> Wire<'_> {
        self.group.wire(self.id as c_int, &self.counters)
    }

    fn tag_of(&self, track: Track) -> c_int {
        (self.id + (track.0 * self.group.channels_max())) as c_int
    }

    /// The endpoint for messages between the node leaders, if this rank is the leader of its node, else
    /// `None`. Local. At most one operation at a time may use the endpoint of a channel.
    pub fn leaders(&self) -> Option<Arc<dyn Leaders>> {
        self.leaders_on(Track::LEADERS)
    }

    /// A second endpoint for messages between the node leaders, on which the leader of node 0 announces
    /// the order of the operations. Local. A channel must not have two such endpoints at the same time.
    pub fn operation_order(&self) -> Option<Arc<dyn Leaders>> {
        self.leaders_on(Track::OPERATION_ORDER)
    }

    fn leaders_on(&self, track: Track) -> Option<Arc<dyn Leaders>> {
        let is_leader = self.group.node().is_leader();
        is_leader.then(|| {
            let (group, counters) = (Arc::clone(&self.group), Arc::clone(&self.counters));
            Arc::new(ChannelLeaders::new(group, counters, self.tag_of(track))) as Arc<dyn Leaders>
        })
    }
}

/// A reduction on a channel.
#[derive(Debug)]
struct ChannelReduction {
    group: Arc<Group>,
    counters: Arc<Counters>,
    tag: c_int,
    /// `None` after the result has been taken.
    reduction: Option<Reduction>,
}

impl Pending for ChannelReduction {
    fn poll(&mut self) -> Result<Option<Vec<u64>>> {
        let wire = self.group.wire(self.tag, &self.counters);
        let Some(reduction) = &mut self.reduction else { return Ok(None) };
        if !reduction.poll(wire)? {
            return Ok(None);
        }
        Ok(self.reduction.take().map(Reduction::result))
    }
}

impl Agree for Channel {
    fn rank(&self) -> Rank {
        self.group.rank()
    }

    fn size(&self) -> u32 {
        self.group.size()
    }

    fn barrier(&self) -> Result<()> {
        self.allreduce(&mut [], &[])
    }

    fn allreduce(&self, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()> {
        self.counters.count_collective();
        self.group.allreduce(self.slot.as_ref(), self.wire(), lanes, ops)
    }

    fn allreduce_with_nodes(
        &self,
        lanes: &mut [u64],
        ops: &[ReduceOp],
        of_nodes: NodeValues,
    ) -> Result<Option<CombinedOfNodes>> {
        let node = self.group.node();
        if node.node_count() == 1 {
            self.allreduce(lanes, ops)?;
            return Ok(None);
        }
        check_lanes(lanes, ops)?;
        self.counters.count_collective();
        let mut all = [&*lanes, &of_nodes.values].concat();
        let all_ops = [ops, &of_nodes.ops].concat();
        let ways = Ways { node, slot: self.slot.as_ref(), wire: self.wire() };
        let of_node = node_reduction::allreduce(ways, &mut all, &all_ops, Some(of_nodes.join))?;
        lanes.copy_from_slice(&all[..lanes.len()]);
        let last = |values: &[u64]| values.last_chunk::<NODE_LANES>().copied().unwrap_or_default();
        Ok(Some(CombinedOfNodes { own: last(&of_node), all: last(&all) }))
    }

    fn start_allreduce(&self, track: Track, lanes: &[u64], ops: &[ReduceOp]) -> Result<Box<dyn Pending>> {
        self.counters.count_collective();
        let tag = self.tag_of(track);
        let wire = self.group.wire(tag, &self.counters);
        let reduction = Some(Reduction::start(wire, lanes, ops)?);
        let (group, counters) = (Arc::clone(&self.group), Arc::clone(&self.counters));
        Ok(Box::new(ChannelReduction { group, counters, tag, reduction }))
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        self.counters.count_collective();
        collective::broadcast(self.wire(), root.0, data)
    }

    fn allgather(&self, value: u64) -> Result<Vec<u64>> {
        self.counters.count_collective();
        collective::allgather(self.wire(), value)
    }

    fn gather(&self, data: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        self.counters.count_collective();
        collective::gather(self.wire(), data)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !self.group.is_shared() {
            self.group.buffers().forget(self.id);
        }
        locked(self.group.ids()).give_back(self.id);
        if self.group.is_shared() {
            locked(&SHARED_IDS).give_back(self.id);
        }
    }
}
