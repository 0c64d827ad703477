//! Two-phase access: all ranks of a node gather their bytes in collective buffers in shared memory, and
//! aggregators move full buffers between memory and file. If the bytes of several nodes interleave, the
//! nodes exchange the bytes that belong in each other's collective buffers (`internode`).
//!
//! A round covers `aggregators x W` bytes of the file, for collective buffers of `W` bytes
//! (`collective_buffer_bytes`), from the lowest byte that any rank of the node still needs. Each aggregator
//! has two collective buffers and uses them alternately: ranks fill one while the aggregator writes the
//! other.
//!
//! * Write: every rank marks its bytes in the collective buffers of a round, and copies them there
//!   straight from user memory. Barrier. Each aggregator writes the marked runs of its buffer, while all
//!   ranks fill the buffers of the next round. Barrier.
//! * Read: every rank marks the units that it wants. Barrier. Each aggregator reads them into its buffer,
//!   while all ranks mark the units of the next round. Barrier. Every rank copies its bytes straight to
//!   user memory, and so on.
//!
//! So there is one barrier for each round, and one more. No rank leaves early: an aggregator that fails
//! publishes the offset up to which its buffer is good, and all ranks leave at the same barrier. No rank
//! waits in MPI: the barrier belongs to the shared memory, and [`Operation`] can be polled.
//!
//! If several ranks write the same bytes in one operation, the bytes of the highest rank stand. A rank
//! that finds one of its units marked already does not copy into that buffer, and reports the overlap. If
//! any rank reports one, the ranks fill the buffers of that round again, one rank after the other (the
//! overlap replay). The replay costs one barrier for each rank, and takes place only where ranks overlap.
//!
//! Among several nodes a round covers the collective buffers of all nodes, and there is a second barrier
//! in each round. Between the two barriers the leaders of the nodes exchange what their ranks have packed
//! for other nodes, and combine the round status of all ranks.

mod collective_buffer;
mod executor;
mod internode;
mod io;
mod node_group;
mod replay;
mod round_status;
mod rounds;

use crate::access::Access;
use crate::{Direction, Target, Transferred};

pub use capulet_plan::grid::PAGE_BYTES;

pub use executor::Operation;
pub use internode::{NodeExchange, Nodes, Surveyed, decline_exchange};
pub use node_group::NodeGroup;
pub use round_status::OPERATION_SLOT;

/// Carries out one rank's part of a collective access, together with all ranks of its node. Collective:
/// every rank of the node must call it, also a rank without bytes to move. `first` is the lowest file
/// offset that any rank of the node needs (among several nodes: any rank of any node), `u64::MAX` if none
/// needs one. It must be the same on all these ranks. Blocks for the storage and the other ranks, and
/// keeps MPI progressing while it waits.
///
/// # Panics
/// If `access` is not monotone. The planner never chooses two-phase for such an access.
///
/// # Safety
/// All ranks of the node, and of all nodes that exchange, are in the same operation: they pass the same
/// `direction`, the same `first`, and node groups made from the same values on the same memory. No other
/// operation uses the memory meanwhile. Ranks that disagree copy to and from the collective buffers at the
/// same time, which is a data race.
pub unsafe fn run(
    target: Target,
    group: NodeGroup,
    access: Access,
    direction: Direction,
    first: u64,
) -> Transferred {
    // SAFETY: the contract of `start` is the contract of this function.
    unsafe { Operation::start(target, group, access, direction, first) }.wait()
}
