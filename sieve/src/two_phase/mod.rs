//! Two-phase on one node: all ranks of the node gather in shared windows, and aggregators move full windows.
//!
//! A round covers `aggregators x window` bytes of the file, from the lowest byte that any rank of the node still needs. Each
//! aggregator has two windows, used by turns, so that the ranks fill one while the other is being written:
//!
//! * Write: every rank marks its bytes in the windows of a round and copies them there straight from user memory. Barrier. Each
//!   aggregator writes the marked runs of its window, and all ranks fill the windows of the next round. Barrier.
//! * Read: every rank marks the units that it wants. Barrier. Each aggregator reads them into its window, and all ranks mark
//!   those of the next round. Barrier. Every rank copies its bytes straight to user memory, and so on.
//!
//! So there is one barrier a round, and one more. A rank never leaves early: an aggregator that fails publishes the offset up to
//! which its window is good, and all ranks leave at the same barrier. No rank waits in MPI: the barrier belongs to the window,
//! and [`Operation`] can be polled.
//!
//! Bytes that several ranks write in one operation are those of the highest rank. Whoever finds a byte marked already leaves
//! the window alone and says so; if any rank did, the ranks fill the windows of that round again, one after the other
//! by turns. That costs one barrier for each rank, and only where ranks overlap.

mod executor;
mod io;
mod slots;
mod window;

use std::sync::Arc;

use capulet_comm::NodeShared;

use crate::access::Access;
use crate::{Direction, Target, Transferred};

pub use executor::Operation;
pub use slots::TURN_SLOT;

/// Windows begin at multiples of this many bytes of the file, or of a stripe.
pub const PAGE_BYTES: u64 = 4096;

/// The ranks of a node and how they share the work.
#[derive(Debug, Clone)]
pub struct NodeTeam {
    shared: Arc<dyn NodeShared>,
    aggregators: usize,
    window_bytes: u64,
    align_bytes: u64,
    unit_bytes: u64,
}

impl NodeTeam {
    /// A team on `shared`, with at most `aggregators` of its ranks as aggregators, windows of at most `window_bytes` (two of
    /// them must fit in `shared`), and windows that begin at whole stripes where a window holds whole stripes. `grain` has
    /// every bit that any rank's file offsets or run lengths have: it tells in which units bytes can be marked. All ranks
    /// of the node must pass the same values.
    pub fn new(
        shared: Arc<dyn NodeShared>,
        aggregators: usize,
        window_bytes: u64,
        stripe_bytes: u64,
        grain: u64,
    ) -> Self {
        let largest = (shared.bytes() as u64 / 2).max(1);
        let window_bytes = window_bytes.clamp(1, largest);
        let window_bytes = if window_bytes < PAGE_BYTES {
            1 << window_bytes.ilog2()
        } else {
            window_bytes - window_bytes % PAGE_BYTES
        };
        let whole = stripe_bytes > 0 && window_bytes.is_multiple_of(stripe_bytes);
        let align_bytes = if whole { stripe_bytes } else { PAGE_BYTES.min(window_bytes) };
        // Windows begin at whole units, so that a unit is in one window.
        let unit_bytes =
            (1_u64 << (grain | align_bytes | PAGE_BYTES | window_bytes).trailing_zeros()).min(window_bytes);
        Self {
            aggregators: aggregators.clamp(1, shared.ranks()),
            shared,
            window_bytes,
            align_bytes,
            unit_bytes,
        }
    }

    /// The rank of the node that is aggregator `index`.
    fn rank_of(&self, index: usize) -> usize {
        index * self.shared.ranks() / self.aggregators
    }

    /// Which aggregator this rank is, if it is one.
    fn own_index(&self) -> Option<usize> {
        (0..self.aggregators).find(|index| self.rank_of(*index) == self.shared.place())
    }

    /// Bytes of the file that one round covers.
    fn round_bytes(&self) -> u64 {
        self.window_bytes * self.aggregators as u64
    }
}

/// Carries out one rank's part of a collective access, together with all ranks of its node. Every rank of the node
/// must call it, those with nothing to move too. `first` is the lowest file offset that any rank of the node needs,
/// `u64::MAX` if none does, the same on all of them. Blocks for the storage and the other ranks, and keeps MPI
/// progressing while it waits.
///
/// # Panics
/// If `access` is not monotone: the planner never lets one come here.
pub fn run(target: Target, team: NodeTeam, access: Access, direction: Direction, first: u64) -> Transferred {
    Operation::start(target, team, access, direction, first).wait()
}
