//! A channel: one tag of a group's private communicator, so that two files never take each other's messages.
//!
//! Ids are the smallest that are free on all ranks. Opens and closes come in the same order on all ranks unless threads
//! race, so ranks propose the same id and one allreduce settles it; else they try the next that may be free on all. What the
//! opener of a channel has to agree on first goes with that allreduce.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use capulet_agreement::Ids;

use crate::agree::{Agree, Pending, ReduceOp, Track};
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result};
use crate::group::{Group, SHARED_WINDOW};
use crate::leaders::{ChannelLeaders, Leaders};
use crate::message::{Counters, Wire};
use crate::node_memory::{self, Slot};
use crate::pool::{Choice, PoolLot};
use crate::rank::Rank;
use crate::reduction::Reduction;
use crate::wakes::Wakes;
use crate::window::NodeWindow;
use crate::words::NodeWords;
use crate::world::{self, Epochs, WorldMemory, WorldWords};

/// Those of the channels of all shared groups: no two of them have the same on any rank, because processes of several groups share words
/// by the number of the channel.
static SHARED_IDS: Mutex<Ids> = Mutex::new(Ids::new());

fn locked(ids: &Mutex<Ids>) -> MutexGuard<'_, Ids> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The smallest id from `from` on that a channel of this group can have, as far as this rank knows.
fn free_from(group: &Group, from: u32) -> u32 {
    locked(if group.is_shared() { &SHARED_IDS } else { group.ids() }).first_free(from)
}

/// A private line between the ranks of a group. Its methods are those of [`Agree`].
///
/// Dropping it frees its id and, if its window is its own, its window. Local.
#[derive(Debug)]
pub struct Channel {
    group: Arc<Group>,
    id: u32,
    counters: Arc<Counters>,
    /// Its part of the memory of the node; `None` on all ranks where there is none.
    slot: Option<Slot>,
    /// With standing epochs, and with exclusive ones.
    world_lots: [Lot<WorldMemory>; 2],
}

/// Words of a pool that a channel has, once they were asked for.
#[derive(Debug)]
struct Lot<M>(OnceLock<Option<Arc<PoolLot<M>>>>);

impl<M> Lot<M> {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn get_or_take(
        &self,
        take: impl FnOnce() -> Result<Option<PoolLot<M>>>,
    ) -> Result<Option<Arc<PoolLot<M>>>> {
        if let Some(lot) = self.0.get() {
            return Ok(lot.clone());
        }
        // One thread at a time is in a collective call on a channel.
        let lot = take()?.map(Arc::new);
        Ok(self.0.get_or_init(|| lot).clone())
    }
}

impl Channel {
    /// See [`Group::channel_with`].
    pub(crate) fn open(group: Arc<Group>, values: &mut [u64], value_ops: &[ReduceOp]) -> Result<Self> {
        group.check_open()?;
        collective::check_lanes(values, value_ops)?;
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
            Ok(Channel { group, id, counters: Arc::default(), slot, world_lots: [Lot::new(), Lot::new()] })
        } else {
            Err(Error::invalid(ErrorClass::Other, "every message tag is taken by an open file"))
        }
    }

    /// The number of this channel in its group: the same on all ranks, unique among the channels that are open.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// What this rank sent and received on this channel.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Shared memory of this node for collective operations on this channel, with at least `bytes` bytes of data per rank, ready for use
    /// by all ranks of the node. All channels of a shared group use one, for operations follow one another there; with
    /// `MPI_THREAD_MULTIPLE` each channel has its own, which is freed with the channel. Collective over the node: all its ranks call the
    /// function with the same size. Local if the memory is ready already. `None` on all ranks if one of them has no memory for it.
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub fn node_window(&self, bytes: usize) -> Result<Option<Arc<NodeWindow>>> {
        self.group.check_open()?;
        let Some(slot) = &self.slot else { return Ok(None) };
        self.group.windows().get(&self.group, slot, self.window_number(), bytes)
    }

    /// Makes what [`Channel::node_window`] returns without taking memory for it: an operation that cannot wait for other ranks finds it
    /// then by [`Channel::existing_window`]. Collective over the node as [`Channel::node_window`].
    ///
    /// # Errors
    /// If ranks are in different calls.
    pub fn reserve_window(&self, bytes: usize) -> Result<()> {
        self.group.check_open()?;
        let Some(slot) = &self.slot else { return Ok(()) };
        self.group.windows().reserve(slot, self.window_number(), bytes)
    }

    /// The shared memory of this node for collective operations, if it was made and this rank has memory for its part. Local: the caller
    /// finds out whether all ranks have it.
    pub fn existing_window(&self) -> Option<Arc<NodeWindow>> {
        self.group.windows().existing(&self.group, self.window_number())
    }

    /// Whether this rank has used the shared memory for collective operations already. Local.
    pub fn has_used_window(&self) -> bool {
        self.group.windows().is_prepared(self.window_number())
    }

    /// Words that each rank of a node has for a channel.
    pub const WORDS: usize = node_memory::WORDS;

    /// `count` of these words, from `first` on, for what the ranks of this node share besides data. Zero when their memory is new,
    /// and later what another channel left there. Local. `None` on all ranks if the node has no shared memory.
    ///
    /// # Panics
    /// If there are no such words.
    pub fn node_words(&self, first: usize, count: usize) -> Option<NodeWords> {
        assert!(first + count <= Self::WORDS, "a channel has no such words");
        let slot = self.slot.clone()?;
        let place = slot.place();
        Some(NodeWords::new(Arc::new(slot), place, first, count))
    }

    /// Words that all ranks reach, in a window with such epochs. Zero when the window is new, and then what was left there. Collective
    /// when it is called for the first time on a channel, and local then. `None` if there is no such window to be had.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn world_words(&self, epochs: Epochs) -> Result<Option<WorldWords>> {
        let lot = self.world_lots[usize::from(epochs == Epochs::Exclusive)].get_or_take(|| {
            self.group.check_open()?;
            let wire = self.wire();
            let make = || WorldMemory::allocate(wire, epochs, self.group.is_one_machine());
            world::pools(epochs).of(wire.comm)?.take(wire, self.group.stamp(), self.choice(), make)
        })?;
        Ok(lot.map(WorldWords::new))
    }

    /// Who says which lot of shared words is this channel's.
    fn choice(&self) -> Choice {
        if self.group.is_shared() { Choice::Known(self.id) } else { Choice::First }
    }

    /// Wake-ups between the ranks of this channel. Local; not to be had twice at a time.
    pub fn wakes(&self) -> Wakes {
        Wakes::new(Arc::clone(&self.group), Arc::clone(&self.counters), self.tag_of(Track::WAKES))
    }

    /// What those above keep with the window of this channel's operations: the same value for all channels that share the
    /// window, while one of them holds it. Local.
    ///
    /// # Panics
    /// If it was asked for as another type.
    pub fn kept<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.group.kept(self.window_number(), make)
    }

    /// The number of the window that operations on this channel use.
    fn window_number(&self) -> u32 {
        if self.group.is_shared() { SHARED_WINDOW } else { self.id }
    }

    fn wire(&self) -> Wire<'_> {
        self.group.wire(self.id as c_int, &self.counters)
    }

    fn tag_of(&self, track: Track) -> c_int {
        (self.id + (track.0 * self.group.channels_max())) as c_int
    }

    /// The line between the leaders of the nodes: at the leader of a node, `None` at the others. Local. One operation at a time
    /// can use it on a channel.
    pub fn leaders(&self) -> Option<Arc<dyn Leaders>> {
        self.line_of(Track::LEADERS)
    }

    /// A line between the leaders beside the first, on which they tell each other the order of operations. Local. Not to be had
    /// twice at a time on a channel.
    pub fn turns(&self) -> Option<Arc<dyn Leaders>> {
        self.line_of(Track::TURNS)
    }

    fn line_of(&self, track: Track) -> Option<Arc<dyn Leaders>> {
        let is_leader = self.group.node().is_leader();
        is_leader.then(|| {
            let (group, counters) = (Arc::clone(&self.group), Arc::clone(&self.counters));
            Arc::new(ChannelLeaders::new(group, counters, self.tag_of(track))) as Arc<dyn Leaders>
        })
    }
}

/// Tags have at least 15 bits (MPI-4.0 section 9.1.2): 3 say which track of a channel, the others which channel.
pub(crate) const TRACK_BITS: u32 = (Track::WAKES.0 + 1).ilog2();

/// A reduction on a channel.
#[derive(Debug)]
struct ChannelReduction {
    group: Arc<Group>,
    counters: Arc<Counters>,
    tag: c_int,
    /// Taken when it is over.
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
            self.group.windows().forget(self.id);
        }
        locked(self.group.ids()).give_back(self.id);
        if self.group.is_shared() {
            locked(&SHARED_IDS).give_back(self.id);
        }
    }
}
