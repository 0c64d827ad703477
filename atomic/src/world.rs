//! Locks of a file among ranks of several nodes, in words that MPI's one-sided operations reach.

use std::sync::Arc;
use std::time::Duration;

use capulet_comm::{Rank, Wakes, WorldWords};
use capulet_protocol::{Effect, Event, Place, Queue, Ranges, SLOT_WORDS, Space, WaitList};

use crate::lock::ByteLock;
use crate::perform::Memory;
use crate::{Error, FileLock};

/// Words of each rank that locks take, from the first on.
pub const WORLD_LOCK_WORDS: usize = 4;
/// Of a queue, or of the gate of ranges.
const QUEUE_WORD: u32 = 0;
/// Wake-ups that are left by one-sided operations.
const WAKES_WORD: usize = 2;
/// Where the home rank's table begins, for a lock: behind all words that are a rank's own.
const TABLE_WORD: u32 = WorldWords::OWN_WORDS as u32;
const _: () = assert!(SLOT_WORDS as usize <= WorldWords::ENTRY_WORDS && WAKES_WORD < WORLD_LOCK_WORDS);

/// Which lock it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldProtocol {
    /// Ranges of bytes, told at the home rank behind a queue. Messages wake.
    Ranges,
    /// The whole file, by a queue (Mellor-Crummey and Scott). Messages wake.
    Queue,
    /// The whole file, by the paper's wait list. Messages wake: its hybrid lock.
    Hybrid,
    /// The same, with words that are polled in place of messages: its one-sided lock.
    OneSided,
}

/// A lock on these words, among all their ranks; the wait list needs a second lot, with exclusive epochs. A wait that lasts longer than
/// `time_limit` is given up. `progress` is called while it waits, at least once a millisecond.
///
/// # Panics
/// If a wait list has no second lot.
pub fn world_lock(
    protocol: WorldProtocol,
    words: WorldWords,
    exclusive: Option<WorldWords>,
    wakes: Wakes,
    time_limit: Option<Duration>,
    progress: fn(),
) -> Arc<dyn FileLock> {
    let (me, ranks, home) = (words.rank(), words.ranks(), words.home());
    let list_home = exclusive.as_ref().map(WorldWords::home);
    let wakes = if protocol == WorldProtocol::OneSided { None } else { Some(wakes) };
    let memory = WorldMemory { exclusive, ..WorldMemory::new(words, wakes) };
    let all: Vec<Rank> = (0..ranks).map(Rank).collect();
    let queue = || Queue::new(Space::World, QUEUE_WORD, home, me);
    match protocol {
        WorldProtocol::Ranges => {
            let ranges = Ranges::new(queue(), Space::World, TABLE_WORD, home, me, ranks);
            ByteLock::of(ranges, memory, all, time_limit, progress)
        }
        WorldProtocol::Queue => ByteLock::of(queue(), memory, all, time_limit, progress),
        WorldProtocol::Hybrid | WorldProtocol::OneSided => {
            let home = list_home.expect("a wait list has exclusive epochs");
            ByteLock::of(WaitList::new(home, me, ranks), memory, all, time_limit, progress)
        }
    }
}

/// What they are performed on.
#[derive(Debug)]
pub(crate) struct WorldMemory {
    words: WorldWords,
    /// For lists that change in epochs which exclude all others.
    exclusive: Option<WorldWords>,
    /// None where wake-ups are words.
    wakes: Option<Wakes>,
    /// What was fetched last.
    fetched: Vec<u64>,
}

impl WorldMemory {
    /// Without a list. Where there are no messages for wake-ups, words are polled.
    pub(crate) fn new(words: WorldWords, wakes: Option<Wakes>) -> Self {
        Self { words, exclusive: None, wakes, fetched: Vec::new() }
    }

    fn list(&self) -> &WorldWords {
        self.exclusive.as_ref().expect("a wait list has exclusive epochs")
    }

    fn wake(&mut self, rank: u32) -> Result<(), Error> {
        match &mut self.wakes {
            Some(wakes) => wakes.wake(rank)?,
            None => drop(self.words.add(rank, WAKES_WORD, 1_u32)?),
        }
        Ok(())
    }

    fn take_wake(&mut self) -> Result<bool, Error> {
        if let Some(wakes) = &mut self.wakes {
            return Ok(wakes.try_take()?);
        }
        let me = self.words.rank();
        let is_there = self.words.load::<u32>(me, WAKES_WORD)? > 0;
        if is_there {
            // One less: it wraps.
            self.words.add(me, WAKES_WORD, u32::MAX)?;
        }
        Ok(is_there)
    }
}

/// Values of locks for one at a time: numbers of ranks.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("a lock for one at a time stores numbers of ranks")
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
            Effect::Exchange { first, ref put, words: count, is_exclusive: false } => {
                // What lies before the table is not asked for.
                let table =
                    words.exchange((first.word - TABLE_WORD) as usize, put, (count - TABLE_WORD) as usize)?;
                self.fetched.clear();
                self.fetched.resize(TABLE_WORD as usize, 0);
                self.fetched.extend(table);
                Event::Words(&self.fetched)
            }
            Effect::Exchange { first, ref put, words: count, .. } => {
                self.fetched = self.list().exchange(first.word as usize, put, count as usize)?;
                Event::Words(&self.fetched)
            }
            Effect::ClaimIfNone { place, value, words: count } => {
                self.fetched = self.list().claim_if_none(place.word as usize, value, count as usize)?;
                Event::Words(&self.fetched)
            }
            Effect::Wake(_, rank) => {
                self.wake(rank)?;
                Event::Done
            }
            Effect::AwaitWake(_) if self.take_wake()? => Event::Done,
            Effect::AwaitWake(_) => return Ok(None),
            Effect::Put { .. } | Effect::Fetch { .. } | Effect::SetBits(..) | Effect::ClearBits(..) => {
                unreachable!("no lock of several nodes does that")
            }
            Effect::Held | Effect::Free => unreachable!("there is nothing to perform"),
        }))
    }

    fn leave(&mut self) -> Result<bool, Error> {
        Ok(self.wakes.as_mut().map_or(Ok(true), Wakes::is_sent)?)
    }
}
