//! A channel: one tag of a group's private communicator, so that two files never take each other's messages.
//!
//! Ids are the smallest that are free on all ranks. Opens and closes come in the same order on all ranks unless threads
//! race, so ranks propose the same id and one allreduce settles it; else they try the next that may be free on all. What the
//! opener of a channel has to agree on first goes with that allreduce.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::agree::{Agree, Pending, ReduceOp, Track};
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result};
use crate::group::{Group, SHARED_SLOT};
use crate::leaders::{ChannelLeaders, Leaders};
use crate::memory::{self, Memory};
use crate::message::{Counters, Wire};
use crate::pool::{Choice, LOTS, PoolLot};
use crate::rank::Rank;
use crate::reduction::Reduction;
use crate::wakes::Wakes;
use crate::window::NodeWindow;
use crate::words::NodeWords;
use crate::world::{self, Epochs, WorldMemory, WorldWords};

/// The ids in use on this rank. Id 0 is never given: its tag belongs to the opening of channels.
#[derive(Debug)]
pub(crate) struct Ids {
    words: Vec<u64>,
    count: usize,
}

impl Ids {
    pub(crate) const fn new() -> Self {
        Ids { words: Vec::new(), count: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn holds(&self, id: u32) -> bool {
        self.words.get(id as usize / 64).is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// The smallest free id that is at least `from`, and at least 1.
    pub(crate) fn first_free(&self, from: u32) -> u32 {
        let start = from.max(1);
        let mut index = start as usize / 64;
        let mut word = self.words.get(index).copied().unwrap_or(0) | ((1 << (start % 64)) - 1);
        while word == u64::MAX {
            index += 1;
            word = self.words.get(index).copied().unwrap_or(0);
        }
        index as u32 * 64 + word.trailing_ones()
    }

    pub(crate) fn take(&mut self, id: u32) {
        let index = id as usize / 64;
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        self.words[index] |= 1 << (id % 64);
        self.count += 1;
    }

    pub(crate) fn give_back(&mut self, id: u32) {
        if self.holds(id) {
            self.words[id as usize / 64] &= !(1 << (id % 64));
            self.count -= 1;
        }
    }
}

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
/// Dropping it frees its id and, if its windows are its own, its windows. A drop is collective then: all ranks drop their
/// ends, in the same order among the collective operations on this channel.
#[derive(Debug)]
pub struct Channel {
    group: Arc<Group>,
    id: u32,
    counters: Arc<Counters>,
    node_lot: Lot<Memory>,
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
        let id = loop {
            let candidate = free_from(&group, wanted);
            let mut lanes = [&[u64::from(candidate); 2], &values[..with]].concat();
            let ops = [&[ReduceOp::Min, ReduceOp::Max], &value_ops[..with]].concat();
            group.agree_on_opening(&mut lanes, &ops)?;
            values[..with].copy_from_slice(&lanes[2..]);
            with = 0;
            if lanes[0] == lanes[1] {
                break candidate;
            }
            wanted = lanes[1] as u32;
        };
        if id < group.channels_max() {
            locked(group.ids()).take(id);
            if group.is_shared() {
                locked(&SHARED_IDS).take(id);
            }
            Ok(Channel {
                group,
                id,
                counters: Arc::default(),
                node_lot: Lot::new(),
                world_lots: [Lot::new(), Lot::new()],
            })
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

    /// A shared window of this node for a collective operation on this channel, with at least `bytes` bytes of data per
    /// rank; see [`Group::node_window`]. All channels of a shared group share one window, for there operations follow one
    /// another; with `MPI_THREAD_MULTIPLE` each channel has its own, which is freed with it.
    ///
    /// # Errors
    /// As [`Group::node_window`].
    pub fn node_window(&self, bytes: usize) -> Result<Option<Arc<NodeWindow>>> {
        self.group.node_window(self.slot(), bytes)
    }

    /// As [`Channel::node_window`], but only if the window is there already. Local.
    pub fn existing_window(&self) -> Option<Arc<NodeWindow>> {
        self.group.existing_window(self.slot())
    }

    /// Words that each rank of a node has for a channel.
    pub const WORDS: usize = 32;

    /// `count` of these words, from `first` on, for what the ranks of this node share besides data. Zero when their memory is new,
    /// and then what was left there. Collective over the node when it is called for the first time on a channel, and local
    /// then. `None` if shared memory could not be had.
    ///
    /// # Panics
    /// If there are no such words.
    ///
    /// # Errors
    /// As [`Group::node_window`].
    pub fn node_words(&self, first: usize, count: usize) -> Result<Option<NodeWords>> {
        assert!(first + count <= Self::WORDS, "a channel has no such words");
        let lot = self.node_lot.get_or_take(|| {
            self.group.check_open()?;
            let bytes = Memory::bytes_for_words(LOTS as usize * Self::WORDS);
            // Beyond the tags of the windows of all channels.
            let wire = self.group.node_wire((self.group.channels_max() + 1 + self.id) as c_int);
            let make = || Memory::allocate(wire.comm, wire, bytes);
            memory::POOLS.of(wire.comm)?.take(wire, self.group.stamp(), self.choice(), make)
        })?;
        let place = self.group.node().place;
        let words = |lot: Arc<PoolLot<Memory>>| {
            NodeWords::new(Arc::clone(&lot.memory) as _, place, lot.number * Self::WORDS + first, count)
        };
        Ok(lot.map(words))
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
        self.group.kept(self.slot(), make)
    }

    /// The number of the window that operations on this channel use.
    fn slot(&self) -> u32 {
        if self.group.is_shared() { SHARED_SLOT } else { self.id }
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
        self.group.allreduce(self.slot(), self.wire(), lanes, ops)
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
            self.group.windows().free_slot(self.id);
        }
        locked(self.group.ids()).give_back(self.id);
        if self.group.is_shared() {
            locked(&SHARED_IDS).give_back(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_smallest_free_ones_and_never_zero() {
        let mut ids = Ids::new();
        for expected in 1..=200 {
            let id = ids.first_free(0);
            assert_eq!(id, expected);
            ids.take(id);
        }
        ids.give_back(64);
        ids.give_back(130);
        assert_eq!(ids.first_free(0), 64);
        assert_eq!(ids.first_free(65), 130);
        assert_eq!(ids.first_free(131), 201);
        assert_eq!(ids.first_free(64 * 9), 64 * 9);
    }

    #[test]
    fn an_empty_set_is_known_as_empty() {
        let mut ids = Ids::new();
        ids.take(5);
        ids.take(70);
        ids.give_back(5);
        ids.give_back(5);
        assert!(!ids.is_empty());
        ids.give_back(70);
        assert!(ids.is_empty());
    }
}
