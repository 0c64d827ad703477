//! Locks of a file among ranks of several nodes, in words that are reached by MPI's one-sided operations.

use std::sync::Arc;
use std::time::Duration;

use capulet_comm::{Notifier, Rank, WorldWords};
use capulet_protocol::{Effect, Event, Place, Queue, Ranges, SLOT_WORDS, Space, WaitList};

use crate::lock::ByteLock;
use crate::perform::Memory;
use crate::{Error, FileLock};

/// The number of each rank's own words that are reserved for locks, from the first word on.
pub const WORLD_LOCK_WORDS: usize = 4;
/// The first word of a queue.
const QUEUE_WORD: u32 = 0;
/// The counter of the wake-ups that are left by one-sided operations.
const WAKES_WORD: usize = 2;
const _: () = assert!(SLOT_WORDS as usize <= WorldWords::ENTRY_WORDS && WAKES_WORD < WORLD_LOCK_WORDS);

/// The kind of a lock of several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldProtocol {
    /// Ranges of bytes. Requests are stored in the table of the home rank. Wake-ups are messages.
    Ranges,
    /// The whole file, by a queue (Mellor-Crummey and Scott). Wake-ups are messages.
    Queue,
    /// The whole file, by the paper's wait list, with messages as wake-ups: the paper's hybrid lock.
    Hybrid,
    /// The whole file, by the paper's wait list, with a polled word as wake-ups: the paper's one-sided
    /// lock.
    OneSided,
}

impl WorldProtocol {
    /// Whether the lock is in the table of the home rank.
    pub fn uses_table(self) -> bool {
        self != Self::Queue
    }
}

/// A lock in `words`, among all ranks of them. Ranges and the wait list ([`WorldProtocol::uses_table`]) are
/// in the table of `exclusive`, or in the table of `words` if `exclusive` is `None`. The table must be one
/// that changes atomically ([`WorldWords::is_exclusive`]). A wait that lasts longer than `time_limit` is
/// given up with [`Error::TimedOut`]; without a limit waits have no end. `progress` is called during a wait,
/// at least once a millisecond. Local.
///
/// # Panics
/// In the first access, if the table does not change atomically.
pub fn world_lock(
    protocol: WorldProtocol,
    words: WorldWords,
    exclusive: Option<WorldWords>,
    notifier: Notifier,
    time_limit: Option<Duration>,
    progress: fn(),
) -> Arc<dyn FileLock> {
    let (me, ranks, home) = (words.rank(), words.ranks(), words.home());
    let table_home = exclusive.as_ref().map_or(home, WorldWords::home);
    let notifier = if protocol == WorldProtocol::OneSided { None } else { Some(notifier) };
    let memory = WorldMemory { exclusive, ..WorldMemory::new(words, notifier) };
    let all: Vec<Rank> = (0..ranks).map(Rank).collect();
    match protocol {
        WorldProtocol::Ranges => {
            ByteLock::of(Ranges::new(table_home, me, ranks), memory, all, time_limit, progress)
        }
        WorldProtocol::Queue => {
            let queue = Queue::new(Space::World, QUEUE_WORD, home, me);
            ByteLock::of(queue, memory, all, time_limit, progress)
        }
        WorldProtocol::Hybrid | WorldProtocol::OneSided => {
            ByteLock::of(WaitList::new(table_home, me, ranks), memory, all, time_limit, progress)
        }
    }
}

/// The memory of a lock of several nodes.
#[derive(Debug)]
pub(crate) struct WorldMemory {
    words: WorldWords,
    /// The words whose table the lock uses. `None` if these are `words`.
    exclusive: Option<WorldWords>,
    /// `None` if wake-ups are words that are polled.
    notifier: Option<Notifier>,
    /// The words that were fetched last.
    fetched: Vec<u64>,
}

impl WorldMemory {
    /// Memory with one set of words. If `notifier` is `None`, a wake-up is a word that is polled.
    pub(crate) fn new(words: WorldWords, notifier: Option<Notifier>) -> Self {
        Self { words, exclusive: None, notifier, fetched: Vec::new() }
    }

    fn table(&self) -> &WorldWords {
        self.exclusive.as_ref().unwrap_or(&self.words)
    }

    fn wake(&mut self, rank: u32) -> Result<(), Error> {
        match &mut self.notifier {
            Some(notifier) => notifier.wake(rank)?,
            None => drop(self.words.add(rank, WAKES_WORD, 1_u32)?),
        }
        Ok(())
    }

    fn take_wake(&mut self) -> Result<bool, Error> {
        if let Some(notifier) = &mut self.notifier {
            return Ok(notifier.try_take()?);
        }
        let me = self.words.rank();
        let is_there = self.words.load::<u32>(me, WAKES_WORD)? > 0;
        if is_there {
            // Subtracts 1, because the addition wraps.
            self.words.add(me, WAKES_WORD, u32::MAX)?;
        }
        Ok(is_there)
    }
}

/// The value of a mutex protocol as 32 bits. These protocols store numbers of ranks.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("a mutex protocol stores numbers of ranks, which have 32 bits")
}

impl Memory for WorldMemory {
    fn perform(&mut self, effect: &Effect) -> Result<Option<Event<'_>>, Error> {
        let words = &self.words;
        let word = |place: Place| (place.rank, place.word as usize);
        Ok(Some(match *effect {
            Effect::Swap(place, value) => {
                let (rank, at) = word(place);
                Event::Value(words.swap(rank, at, narrow(value))?.into())
            }
            Effect::CompareSwap(place, expected, value) => {
                let (rank, at) = word(place);
                Event::Value(words.compare_swap(rank, at, narrow(expected), narrow(value))?.into())
            }
            Effect::Load(place) => {
                let (rank, at) = word(place);
                Event::Value(words.load::<u32>(rank, at)?.into())
            }
            Effect::Store(place, value) => {
                let (rank, at) = word(place);
                words.swap(rank, at, narrow(value))?;
                Event::Done
            }
            Effect::AwaitChange(place, value) => {
                let (rank, at) = word(place);
                if u64::from(words.load::<u32>(rank, at)?) == value {
                    return Ok(None);
                }
                Event::Done
            }
            Effect::Exchange { first, ref put, words: count } => {
                self.fetched = self.table().exchange(first.word as usize, put, count as usize)?;
                Event::Words(&self.fetched)
            }
            Effect::ClaimIfNone { place, value, words: count } => {
                self.fetched = self.table().claim_if_none(place.word as usize, value, count as usize)?;
                Event::Words(&self.fetched)
            }
            Effect::Wake(_, rank) => {
                self.wake(rank)?;
                Event::Done
            }
            Effect::AwaitWake(_) if self.take_wake()? => Event::Done,
            Effect::AwaitWake(_) => return Ok(None),
            Effect::Put { .. } | Effect::Fetch { .. } | Effect::SetBits(..) | Effect::ClearBits(..) => {
                unreachable!("no lock of several nodes has this effect")
            }
            Effect::Held | Effect::Free => unreachable!("the effect needs no operation"),
        }))
    }

    fn leave(&mut self) -> Result<bool, Error> {
        Ok(self.notifier.as_mut().map_or(Ok(true), Notifier::is_sent)?)
    }
}
