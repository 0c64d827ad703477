//! The shared file pointer (MPI 4.1, 14.4.4): a word that all ranks reach, in memory that the ranks of a node share or in a window of
//! MPI's. No hidden file, and no lock.
//!
//! There are two words, by turns. What sets the pointer for all ranks together (a view, a seek) makes the other one the pointer: one
//! rank stores there before the ranks agree, so that after it none of them finds the old value, and before it
//! none the new one, at no cost but the store. An ordered access takes the places of all ranks in one step, as the first rank does for them.

use std::sync::atomic::Ordering;

use capulet_atomic::{NODE_LOCK_WORDS, WORLD_LOCK_WORDS};
use capulet_comm::{Channel, Epochs, ErrorClass, Node, NodeWords, Rank, WorldWords};
use capulet_sieve::Direction;

use crate::agree::{Ballot, outcome};
use crate::error::{Error, Result};
use crate::file::File;
use crate::pointer::Whence;
use crate::transfer::{Checked, Prepared, UserMemory};
use crate::view::FileView;

/// Words of a file that the ranks of a node share: for its locks, and after them for its pointer, with those that count wake-ups.
const POINTER_WORDS: usize = 3;
const _: () = assert!(NODE_LOCK_WORDS + POINTER_WORDS <= Channel::WORDS);
/// The first of the pointer's words among those that all nodes reach.
const FAR_WORD: usize = WORLD_LOCK_WORDS;
const _: () = assert!(WORLD_LOCK_WORDS + 2 <= WorldWords::OWN_WORDS);

/// The words of one file's pointer.
#[derive(Debug)]
pub(crate) enum SharedPointer {
    /// At the first rank of the node.
    Near(NodeWords),
    /// At the home rank.
    Far(WorldWords),
}

/// Which of the words is the pointer, and where it counts from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    number: usize,
    base_bytes: u64,
}

impl Turn {
    /// That of a file that was just opened, with its pointer there.
    pub(crate) fn first(base_bytes: u64) -> Self {
        Self { number: 0, base_bytes }
    }

    pub(crate) fn next(self) -> Self {
        Self { number: 1 - self.number, base_bytes: 0 }
    }
}

impl SharedPointer {
    /// On the words of a channel, with the pointer at its start. Collective; `None` if ranks have no words to share. They
    /// must agree on something before one of them uses it.
    pub(crate) fn on(channel: &Channel, node: &Node) -> Option<Self> {
        Self::make(channel, node).unwrap_or_else(|error| {
            tracing::warn!(%error, "no shared file pointer");
            None
        })
    }

    fn make(channel: &Channel, node: &Node) -> Result<Option<Self>> {
        let near = if node.node_count() == 1 {
            channel.node_words(NODE_LOCK_WORDS, POINTER_WORDS).map(Self::Near)
        } else {
            None
        };
        let pointer = match near {
            Some(near) => near,
            None => match channel.world_words(Epochs::Standing)? {
                Some(words) => Self::Far(words),
                None => return Ok(None),
            },
        };
        if pointer.is_keeper() {
            // What another file on these words has left.
            pointer.prepare_next(Turn::first(0), 0)?;
            pointer.prepare_next(Turn::first(0).next(), 0)?;
        }
        Ok(Some(pointer))
    }

    /// Whether this rank has the words at hand.
    fn is_keeper(&self) -> bool {
        match self {
            Self::Near(words) => words.place() == 0,
            Self::Far(words) => words.rank() == words.home(),
        }
    }

    /// Bytes of the view's stream.
    fn load(&self, turn: Turn) -> Result<u64> {
        let bytes = match self {
            Self::Near(words) => words.word(0, turn.number).load(Ordering::SeqCst),
            Self::Far(words) => words.load(words.home(), FAR_WORD + turn.number)?,
        };
        Ok(turn.base_bytes + bytes)
    }

    /// Moves it on, and returns where it was. `None`, and it stays, where the view has no such bytes.
    fn advance(&self, turn: Turn, bytes: u64, view: &FileView) -> Result<Option<u64>> {
        let largest = view.tiled().size().saturating_sub(turn.base_bytes);
        let moved = |at: u64| at.checked_add(bytes).filter(|end| bytes == 0 || *end <= largest);
        let before = match self {
            Self::Near(words) => {
                let word = words.word(0, turn.number);
                word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved).ok()
            }
            Self::Far(words) => {
                let (home, word) = (words.home(), FAR_WORD + turn.number);
                if moved(words.load(home, word)?).is_none() {
                    return Ok(None);
                }
                let before = words.add(home, word, bytes)?;
                if moved(before).is_none() {
                    // Others took the last bytes in between. Back again: it wraps.
                    words.add(home, word, bytes.wrapping_neg())?;
                }
                moved(before).map(|_| before)
            }
        };
        Ok(before.map(|before| turn.base_bytes + before))
    }

    /// What the pointer is in the next turn, if there is one. At one rank, before the ranks agree on the turn.
    fn prepare_next(&self, turn: Turn, bytes: u64) -> Result<()> {
        let number = turn.next().number;
        match self {
            Self::Near(words) => words.word(0, number).store(bytes, Ordering::SeqCst),
            Self::Far(words) => drop(words.swap(words.home(), FAR_WORD + number, bytes)?),
        }
        Ok(())
    }
}

/// Instead of bytes: a rank's arguments are wrong. Instead of a place: some rank's are.
const FAILED: u64 = u64::MAX;
/// Instead of a place: there is none.
const BEYOND: u64 = u64::MAX - 1;

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.as_chunks::<8>().0.get(at).map(|word| u64::from_le_bytes(*word))
}

impl File {
    pub(crate) fn shared(&self) -> Result<&SharedPointer> {
        let without = "a shared file pointer without memory that all ranks reach";
        self.shared.as_ref().ok_or(Error::Unsupported { what: without })
    }

    /// Takes the next bytes at the pointer for an access of this rank, and returns where they begin.
    pub(crate) fn take_shared(&self, turn: Turn, bytes: u64, view: &FileView) -> Result<u64> {
        self.shared()?.advance(turn, bytes, view)?.ok_or_else(beyond)
    }

    /// Moves the shared file pointer to `offset` etypes from `whence`, which all ranks pass alike (`MPI_File_seek_shared`). Collective;
    /// blocks until all ranks have come.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if arguments differ; `MPI_ERR_ARG` if the target is negative or beyond the largest offset;
    /// `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode, and where ranks share no pointer. It stays where it was then.
    pub fn seek_shared(&self, offset: i64, whence: Result<Whence>) -> Result<()> {
        let own =
            self.refuse_sequential("seek the shared file pointer").and_then(|()| self.shared()).and(whence);
        let which = own.as_ref().map_or(0, |whence| *whence as u64);
        let ballot = Ballot::new().same("offset", offset as u64).same("whence", which);
        let (whence, _) = ballot.vote(self.agree(), own)?;
        let is_first = self.group.rank().0 == 0;
        outcome(self.agree(), if is_first { self.prepare_seek(offset, whence) } else { Ok(()) })?;
        self.next_turn();
        Ok(())
    }

    fn prepare_seek(&self, offset: i64, whence: Whence) -> Result<()> {
        let end_bytes = if whence == Whence::End { self.storage.len()? } else { 0 };
        let (view, turn) = {
            let state = self.state();
            (state.view.clone(), state.shared_turn)
        };
        let pointer = self.shared()?;
        let target = view.seek_bytes(offset, whence, pointer.load(turn)?, end_bytes)?;
        pointer.prepare_next(turn, target)
    }

    /// The shared file pointer, in etypes of the view (`MPI_File_get_position_shared`). Local.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode, and where ranks share no pointer.
    pub fn position_shared(&self) -> Result<i64> {
        self.refuse_sequential("get the shared file pointer")?;
        let state = self.state();
        Ok((self.shared()?.load(state.shared_turn)? / state.view.etype_bytes()) as i64)
    }

    /// Where in the file the pointer is.
    pub(crate) fn shared_byte(&self) -> Result<u64> {
        let (view, turn) = {
            let state = self.state();
            (state.view.clone(), state.shared_turn)
        };
        view.file_offset(self.shared()?.load(turn)?)
    }

    /// Before the ranks agree on a view: the pointer is at its start then.
    pub(crate) fn prepare_shared_start(&self) -> Result<()> {
        let turn = self.state().shared_turn;
        let shared = self.shared.as_ref().filter(|shared| shared.is_keeper());
        shared.map_or(Ok(()), |shared| shared.prepare_next(turn, 0))
    }

    fn next_turn(&self) {
        let mut state = self.state();
        state.shared_turn = state.shared_turn.next();
    }

    /// Checks an ordered access, and gives each rank its place after those of lower rank. Collective, blocks: all ranks must come,
    /// with the error of their arguments if they have one; then nothing is taken, and the access must fail on all of them.
    ///
    /// # Safety
    /// As [`File::access`].
    pub(crate) unsafe fn prepare_ordered(
        &self,
        direction: Direction,
        memory: Result<UserMemory>,
    ) -> Result<Prepared> {
        // SAFETY: passed on to the caller.
        let checked = memory.and_then(|memory| unsafe { self.check_shared(direction, &memory) });
        let bytes = checked.as_ref().map_or(FAILED, Checked::bytes);
        let gathered = self.agree().gather(&bytes.to_le_bytes())?;
        let mut places = gathered.map_or_else(Vec::new, |all| self.places(&all, checked.as_ref().ok()));
        self.agree().broadcast(Rank(0), &mut places)?;
        let checked = checked?;
        match word_at(&places, self.group.rank().0 as usize) {
            Some(BEYOND) => Err(beyond()),
            // Whichever place: the ranks that failed end it for all.
            None | Some(FAILED) => checked.at(0),
            Some(start) => checked.at(start),
        }
    }

    /// Takes the places of all ranks, at the first one: where each begins, or why there are none.
    fn places(&self, all: &[Vec<u8>], own: Option<&Checked>) -> Vec<u8> {
        let bytes: Vec<u64> = all.iter().map(|bytes| word_at(bytes, 0).unwrap_or(FAILED)).collect();
        let turn = self.state().shared_turn;
        let starts = match own {
            Some(own) if !bytes.contains(&FAILED) => {
                let total = bytes.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
                let first = total.and_then(|total| self.take_shared(turn, total, own.view()).ok());
                let start = |at: usize, first: u64| first + bytes[..at].iter().sum::<u64>();
                (0..bytes.len()).map(|at| first.map_or(BEYOND, |first| start(at, first))).collect()
            }
            _ => vec![FAILED; bytes.len()],
        };
        starts.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// # Safety
    /// As [`File::access`].
    unsafe fn check_shared(&self, direction: Direction, memory: &UserMemory) -> Result<Checked> {
        self.shared()?;
        let view = self.state().view.clone();
        // SAFETY: passed on to the caller.
        unsafe { self.check(direction, view, memory) }
    }
}

fn beyond() -> Error {
    Error::argument(
        ErrorClass::Arg,
        "the view has no bytes there for the shared file pointer, or the file no offset",
    )
}
