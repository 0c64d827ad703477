//! The shared file pointer (MPI 4.1, 14.4.4): a word that all ranks reach, in memory that the ranks of a
//! node share, or that all nodes reach. It needs no hidden file and no lock.
//!
//! There are two words, and one of them is the pointer. An operation that sets the pointer for all ranks
//! (a view or a seek) makes the other word the pointer. One rank stores the new value there before the
//! ranks agree. So no rank finds the new value before the agreement, and none finds the old value after
//! it. This costs only the store. For an ordered access the first rank takes the places of all ranks in
//! one step.

use std::sync::atomic::{AtomicU64, Ordering};

use capulet_atomic::{NODE_LOCK_WORDS, WORLD_LOCK_WORDS};
use capulet_comm::{Channel, Epochs, Mechanism, Node, NodeWords, WorldWords};

use crate::error::Result;
use crate::view::FileView;

/// Words of the pointer among the words of a file that the ranks of a node share, after the words of the
/// lock: two words that can be the pointer, and one that counts wake-ups. They fill the words of a slot.
const POINTER_WORDS: usize = 3;
const _: () = assert!(NODE_LOCK_WORDS + POINTER_WORDS <= Channel::WORDS);
/// The first word of the pointer among the words that all nodes reach.
const WORLD_WORD: usize = WORLD_LOCK_WORDS;
const _: () = assert!(WORLD_LOCK_WORDS + 2 <= WorldWords::OWN_WORDS);

/// The words of the pointer of one file.
#[derive(Debug)]
pub(crate) enum SharedPointer {
    /// In node memory, in the words of the first rank of the node.
    Node(NodeWords),
    /// In words that all nodes reach, at the home rank.
    World {
        words: WorldWords,
        /// The last position that this rank has seen: a guess of how near the end is. `u64::MAX` if this
        /// rank has not seen the pointer since a rank set it.
        seen_bytes: AtomicU64,
    },
}

/// Which of the two words is the pointer, and the position in bytes that its value 0 stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointerWord {
    index: usize,
    base_bytes: u64,
}

impl PointerWord {
    /// The first word, for a file that was just opened with its pointer at `base_bytes`.
    pub(crate) fn first(base_bytes: u64) -> Self {
        Self { index: 0, base_bytes }
    }

    pub(crate) fn other(self) -> Self {
        Self { index: 1 - self.index, base_bytes: 0 }
    }
}

impl SharedPointer {
    /// The pointer in the words of a channel, with both words set to 0. Collective. `None` if the ranks
    /// have no common words. The ranks must agree on something before one of them uses the pointer.
    pub(crate) fn on(channel: &Channel, node: &Node, mechanism: Mechanism) -> Option<Self> {
        Self::make(channel, node, mechanism).unwrap_or_else(|error| {
            tracing::warn!(%error, "the file has no shared file pointer");
            None
        })
    }

    fn make(channel: &Channel, node: &Node, mechanism: Mechanism) -> Result<Option<Self>> {
        let node_pointer = if node.node_count() == 1 {
            channel.node_words(NODE_LOCK_WORDS, POINTER_WORDS).map(Self::Node)
        } else {
            None
        };
        let pointer = match node_pointer {
            Some(node_pointer) => node_pointer,
            None => match channel.world_words(Epochs::Standing, mechanism)? {
                Some(words) => Self::World { words, seen_bytes: AtomicU64::new(u64::MAX) },
                None => return Ok(None),
            },
        };
        if pointer.sets_words() {
            // Clears the values that another file has left in these words.
            pointer.store_other(PointerWord::first(0), 0)?;
            pointer.store_other(PointerWord::first(0).other(), 0)?;
        }
        Ok(Some(pointer))
    }

    /// How the words are reached. `None` on one node.
    pub(crate) fn mechanism(&self) -> Option<Mechanism> {
        match self {
            Self::Node(_) => None,
            Self::World { words, .. } => Some(words.mechanism()),
        }
    }

    /// Whether this rank sets the words for all ranks: the words are in its memory.
    pub(crate) fn sets_words(&self) -> bool {
        match self {
            Self::Node(words) => words.place() == 0,
            Self::World { words, .. } => words.rank() == words.home(),
        }
    }

    /// The position of the pointer, in bytes of the data stream of the view.
    pub(crate) fn load(&self, active: PointerWord) -> Result<u64> {
        let bytes = match self {
            Self::Node(words) => words.word(0, active.index).load(Ordering::SeqCst),
            Self::World { words, .. } => words.load(words.home(), WORLD_WORD + active.index)?,
        };
        Ok(active.base_bytes + bytes)
    }

    /// Advances the pointer by `bytes`, and returns its old position. Returns `None` and leaves the
    /// pointer where it is if the view does not have that many bytes there.
    pub(crate) fn advance(&self, active: PointerWord, bytes: u64, view: &FileView) -> Result<Option<u64>> {
        let largest = view.tiled().size().saturating_sub(active.base_bytes);
        let moved = |at: u64| at.checked_add(bytes).filter(|end| bytes == 0 || *end <= largest);
        let before = match self {
            Self::Node(words) => {
                let word = words.word(0, active.index);
                word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved).ok()
            }
            Self::World { words, seen_bytes } => {
                let (home, word) = (words.home(), WORLD_WORD + active.index);
                // Far from the end of the view one operation is enough. Near the end, an addition that fails
                // would make smaller ones of other ranks fail until it is undone.
                let is_far = seen_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= largest / 2;
                if !is_far && moved(words.load(home, word)?).is_none() {
                    return Ok(None);
                }
                let before = words.add(home, word, bytes)?;
                seen_bytes.store(before, Ordering::Relaxed);
                if moved(before).is_none() {
                    // Other ranks took the last bytes in the meantime. Undoes the addition: the negated
                    // number wraps.
                    words.add(home, word, bytes.wrapping_neg())?;
                }
                moved(before).map(|_| before)
            }
        };
        Ok(before.map(|before| active.base_bytes + before))
    }

    /// To be called on all ranks when the other word becomes the pointer: its position is unknown.
    pub(crate) fn forget_position(&self) {
        if let Self::World { seen_bytes, .. } = self {
            seen_bytes.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Stores the value that the pointer gets when the other word becomes the pointer. Called on one
    /// rank, before the ranks agree on the change.
    pub(crate) fn store_other(&self, active: PointerWord, bytes: u64) -> Result<()> {
        let index = active.other().index;
        match self {
            Self::Node(words) => words.word(0, index).store(bytes, Ordering::SeqCst),
            Self::World { words, .. } => drop(words.swap(words.home(), WORLD_WORD + index, bytes)?),
        }
        Ok(())
    }
}
