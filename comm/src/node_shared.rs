//! The memory that the ranks of a node share for collective operations, as a trait. Code on top of the trait
//! also runs with threads as ranks.
//!
//! Memory ordering: a rank may read what another rank wrote only after a [`NodeShared::barrier`], or after
//! an acquiring load of a published number that the writer stored with release ordering.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;

use crate::error::Result;

/// Memory that the ranks of a node share: for each rank a data part, a map with one bit per byte of data,
/// and some published numbers.
///
/// Ranks are numbered within the node, from 0. Methods with a rank as argument panic if there is no such
/// rank on the node.
///
/// # Safety
/// `data(rank)` returns the same address at every call. It is page-aligned, valid for reads and writes of
/// `bytes()` bytes while `self` lives, and refers to the same memory at every rank of the node. The parts
/// of different ranks do not overlap. `map(rank)` has `bytes() / 64` words. `ranks()`, `place()` and
/// `bytes()` do not change. A barrier is over only when all `ranks()` ranks have arrived, and then every
/// rank sees the stores that any rank made before it arrived. Unsafe code relies on all of these
/// properties.
pub unsafe trait NodeShared: Debug + Send + Sync {
    /// The number of this rank on the node.
    fn place(&self) -> usize;

    /// The number of ranks that share the buffer.
    fn ranks(&self) -> usize;

    /// The number of bytes in the data part of each rank: a power of two, and at least the number that
    /// was requested.
    fn bytes(&self) -> usize;

    /// The data part of a rank, page-aligned, at its address in this process. Valid as long as the
    /// buffer.
    ///
    /// The caller must justify each access: no two ranks may access a byte at the same time if one of
    /// them writes.
    fn data(&self, rank: usize) -> *mut u8;

    /// The map of a rank: bit `i % 64` of word `i / 64` belongs to byte `i` of its data part. All bits of
    /// a new buffer are zero.
    fn map(&self, rank: usize) -> &[AtomicU64];

    /// The numbers that a rank publishes, at least 16. All numbers of a new buffer are zero.
    fn published(&self, rank: usize) -> &[AtomicU64];

    /// The number of completed barriers of this buffer. It is the same on all ranks that are between the
    /// same two barriers. A rank must not call this method between [`NodeShared::arrive`] and the end of
    /// that barrier.
    fn barriers(&self) -> Barriers;

    /// Arrives at the next barrier, without waiting. After the barrier every rank sees the stores that
    /// this rank made before the call. Each rank arrives once at a barrier, and arrives at the next
    /// barrier only when the last one is over.
    ///
    /// # Errors
    /// If another rank is known to have failed (simulated ranks only).
    fn arrive(&self) -> Result<Barriers>;

    /// Whether the barrier that [`NodeShared::arrive`] returned is over: all ranks of the node have
    /// arrived. Does not block.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn is_over(&self, barrier: Barriers) -> Result<bool>;

    /// Waits until the barrier that [`NodeShared::arrive`] returned is over. Sleeps while it waits, at
    /// most 1 ms at a time, and drives MPI after every sleep.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn wait(&self, barrier: Barriers) -> Result<()>;

    /// Returns when all ranks of the node have called this method.
    ///
    /// # Errors
    /// As [`NodeShared::arrive`].
    fn barrier(&self) -> Result<()> {
        self.wait(self.arrive()?)
    }
}

/// The number of completed barriers. It also names the next barrier. It wraps at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barriers(pub(crate) u32);

impl Barriers {
    /// 0 or 1. The value alternates from barrier to barrier.
    pub fn parity(self) -> usize {
        (self.0 % 2) as usize
    }
}
