//! The exchange between nodes in a collective access. The collective buffers of a round belong to
//! aggregators of all nodes, so all bytes for one place of the file meet in one buffer, whichever rank
//! they come from.
//!
//! A rank copies the bytes that lie in collective buffers of its own node there, as on a single node. It
//! packs the bytes for buffers of another node into its area ([`outgoing`]), as message fragments that
//! tell where the bytes go ([`fragment`]). The leaders exchange the fragments ([`exchange`]), and put the
//! bytes of remote ranks into the buffers ([`remote_ranks`]). They do so in common steps, each of which
//! ends with a reduction over all leaders ([`mod@leader_reduction`]).

mod exchange;
mod fragment;
mod leader_reduction;
mod nodes;
mod outgoing;
mod remote_ranks;
mod survey;

use std::sync::Arc;

use capulet_comm::wait_until;

pub(super) use exchange::{Exchange, Step};
pub(super) use leader_reduction::{LeaderValues, is_direct};
pub use nodes::{NodeExchange, Nodes};
pub(super) use outgoing::{Area, Outgoing};
pub use survey::Surveyed;
pub(super) use survey::{Survey, status_of_values};

use crate::{Direction, Failure};

/// Tells the other nodes that this node has no shared memory. Then the nodes do not exchange, and each
/// node that has shared memory gathers on its own. Called by the leader of such a node instead of an
/// [`Operation`](super::Operation). Blocks until the other leaders have taken the step too.
///
/// # Errors
/// If MPI fails.
pub fn decline_exchange(internode: &NodeExchange) -> Result<(), Failure> {
    let Some(leaders) = &internode.leaders else { return Ok(()) };
    let mut exchange = Exchange::new(Arc::clone(leaders), internode.operation, Direction::Write);
    exchange.begin_survey(Survey::UNABLE);
    wait_until(|| {
        if exchange.reduction.receive()?.is_some() {
            return Err(leader_reduction::DISAGREE.into());
        }
        Ok(exchange.reduction.advance(true)?.is_some())
    })
}
