//! A lock of a whole file. Each node keeps it for a limited number of its own ranks in a row, and then
//! hands it to the next node.

use std::sync::Arc;
use std::time::Duration;

use capulet_comm::{NodeWords, Notifier, Rank, WorldWords};
use capulet_protocol::{Effect, Event, Place, Space, TwoLevel};

use crate::lock::ByteLock;
use crate::node::{LOCK_WORD, NodeLockMemory};
use crate::perform::Memory;
use crate::world::WorldMemory;
use crate::{Error, FileLock};

/// The number of words of a rank in the memory of its node, with the counter of its wake-ups.
pub const NODE_PART_WORDS: usize = (1 + LOCK_WORD + TwoLevel::NODE_WORDS) as usize;
/// A lock of the whole file, among all ranks of `words`. The ranks of a node queue in the memory of the
/// node, and nodes queue in `words`, with messages as wake-ups. `node` has [`NODE_PART_WORDS`] words, and
/// `node_ranks` are the ranks that share it, in their order there. A wait that lasts longer than
/// `time_limit` is given up with [`Error::TimedOut`]; without a limit waits have no end. `progress` is
/// called during a wait, at least once a millisecond. Local, but no rank may use the lock before all
/// ranks have it.
pub fn two_level_lock(
    words: WorldWords,
    notifier: Notifier,
    node: NodeWords,
    node_ranks: Vec<Rank>,
    time_limit: Option<Duration>,
    progress: fn(),
) -> Arc<dyn FileLock> {
    // Every rank of the node gets the lock once in a row. So, once its node has joined the queue of
    // nodes, a rank waits for at most twice as many ranks as there are.
    let passes_max = node_ranks.len() as u64;
    let lock = TwoLevel::new(words.home(), node_ranks[0].0, words.rank(), passes_max);
    let all = (0..words.ranks()).map(Rank).collect();
    let node = NodeLockMemory::new(node, node_ranks.len() as u32);
    // Another lock that used these words before may have left values in them.
    node.clear(TwoLevel::NODE_WORDS);
    let memory = TwoLevelMemory { node, node_ranks, world: WorldMemory::new(words, Some(notifier)) };
    ByteLock::of(lock, memory, all, time_limit, progress)
}

/// The memory of the lock: words and wake-ups of the node, and of all nodes.
#[derive(Debug)]
struct TwoLevelMemory {
    node: NodeLockMemory,
    /// Ascending.
    node_ranks: Vec<Rank>,
    world: WorldMemory,
}

impl TwoLevelMemory {
    /// The number of a rank on this node. The rank must be on this node.
    fn on_node(&self, rank: u32) -> u32 {
        self.node_ranks.binary_search(&Rank(rank)).expect("the rank is on this node") as u32
    }

    /// The address in the node's memory that the protocol's address stands for.
    fn near(&self, place: Place) -> Place {
        Place { rank: self.on_node(place.rank), word: LOCK_WORD + place.word, ..place }
    }

    /// The same effect on the node's memory. `None` if the effect is not for the node's memory.
    fn for_node(&self, effect: &Effect) -> Option<Effect> {
        let near = |place: Place| (place.space == Space::Node).then(|| self.near(place));
        Some(match *effect {
            Effect::Swap(place, value) => Effect::Swap(near(place)?, value),
            Effect::CompareSwap(place, expected, value) => Effect::CompareSwap(near(place)?, expected, value),
            Effect::Load(place) => Effect::Load(near(place)?),
            Effect::Store(place, value) => Effect::Store(near(place)?, value),
            Effect::AwaitChange(place, value) => Effect::AwaitChange(near(place)?, value),
            Effect::Wake(Space::Node, rank) => Effect::Wake(Space::Node, self.on_node(rank)),
            Effect::AwaitWake(Space::Node) => Effect::AwaitWake(Space::Node),
            _ => return None,
        })
    }
}

impl Memory for TwoLevelMemory {
    fn perform(&mut self, effect: &Effect) -> Result<Option<Event<'_>>, Error> {
        match self.for_node(effect) {
            Some(effect) => self.node.perform(&effect),
            None => self.world.perform(effect),
        }
    }

    fn bed(&self, space: Space) -> Option<NodeWords> {
        if space == Space::Node { self.node.bed(space) } else { None }
    }

    fn dead(&self) -> Option<usize> {
        self.node.dead().map(|place| self.node_ranks[place].0 as usize)
    }

    fn leave(&mut self) -> Result<bool, Error> {
        let is_sent = self.world.leave()?;
        Ok(is_sent && self.node.leave()?)
    }
}
