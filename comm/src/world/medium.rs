//! What the words of a set of ranks are made of.

use std::fmt::Debug;

use crate::error::Result;

/// The operation of [`Medium::fetch_and`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchOp {
    /// Leaves the word.
    Load,
    /// Stores the value.
    Swap,
    /// Adds the value. The sum wraps.
    Add,
}

/// The width of a word. A word is always used with the same width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

/// The place of an own word: the rank, and the number of the word in the part of this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// The rank that holds the word.
    pub(crate) rank: u32,
    /// The number of the word.
    pub(crate) word: usize,
}

/// Words that all ranks of a set reach. Each operation is complete at its rank when the function returns.
pub(crate) trait Medium: Debug + Send + Sync {
    /// Fetches a word and applies the operation to it, atomically.
    fn fetch_and(&self, op: FetchOp, value: u64, width: Width, at: At) -> Result<u64>;

    /// Stores `value` in a word of 32 bits if the word is `expected`, atomically. Returns the word before.
    fn compare_swap(&self, expected: u32, value: u32, at: At) -> Result<u32>;

    /// Stores `put` from word `table.word + first` on, and returns `words` words from `table.word` on,
    /// including the stored ones. `put` lies inside of these words, and has at most
    /// [`WorldWords::ENTRY_WORDS`] words. Only if [`Medium::is_exclusive`].
    ///
    /// [`WorldWords::ENTRY_WORDS`]: super::WorldWords::ENTRY_WORDS
    fn exchange(&self, table: At, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>>;

    /// Fetches `words` words from `table.word` on. If all of them are zero, stores `value` in word
    /// `table.word + at`. Returns the words before the store. Only if [`Medium::is_exclusive`].
    fn claim_if_none(&self, table: At, at: usize, value: u64, words: usize) -> Result<Vec<u64>>;

    /// Whether an operation on several words is one atomic step.
    fn is_exclusive(&self) -> bool;

    /// Whether operations complete while their target makes no MPI call, if this is known without a
    /// measurement.
    fn is_passive(&self) -> Option<bool>;

    /// What an operation may have to wait for, as a sentence for the user.
    fn guarantee(&self) -> &'static str;

    /// Whether [`Medium::close`] itself waits for the other ranks, so that the caller need not.
    fn waits_at_close(&self) -> bool {
        false
    }

    /// The messages that this rank has sent and received for operations on the words, its own and those of
    /// other ranks. `None` if operations are not made of messages of this crate.
    fn messages(&self) -> Option<[u64; 2]> {
        None
    }

    /// Ends the use of the words in `MPI_Finalize`. Called once, by all ranks that reach it. `all_departed`
    /// is false if some rank did not get there.
    fn close(&self, all_departed: bool);
}
