//! A reduction over the ranks of several nodes: over the ranks of each node, between the node leaders, and
//! back to the ranks of each node.
//!
//! Between k nodes the leaders send k (k - 1) messages, none after another, if they are at most
//! [`tree::DIRECT_MAX`](crate::tree::DIRECT_MAX), else 2 (k - 1) messages along the tree. The ranks of a node
//! meet twice in their shared memory. On a node without shared memory they send each other 3 (N - 1)
//! messages.

use capulet_agreement::LANES;

use crate::agree::{Join, ReduceOp};
use crate::backoff::Backoff;
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result};
use crate::lanes::{bytes_of, words_of};
use crate::message::Wire;
use crate::node::Node;
use crate::node_memory::Slot;
use crate::reduction::Reduction;
use crate::wait::wait_with;

/// Added to the name of a reduction in a slot: the second meeting, at which the leader tells the result.
const RESULT: u64 = 1 << 31;

/// The ways between the ranks of a group: through a slot on this node if there is one, else by messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) node: &'a Node,
    pub(crate) slot: Option<&'a Slot>,
    pub(crate) wire: Wire<'a>,
}

/// Reduces each lane over all ranks. `join` combines the last lanes of the nodes, in the order of the nodes.
/// Returns the values of this node. Waits.
pub(crate) fn allreduce(
    ways: Ways<'_>,
    lanes: &mut [u64],
    ops: &[ReduceOp],
    join: Option<Join>,
) -> Result<Vec<u64>> {
    let Ways { node, slot, wire } = ways;
    let slot = slot.filter(|_| lanes.len() + 1 < LANES);
    let name = (wire.tag as u64) << 32 | lanes.len() as u64;
    let within =
        Wire { rank: node.place as u32, size: node.size() as u32, members: Some(&node.ranks), ..wire };
    let reduced = match slot {
        Some(slot) => slot.reduce(name, lanes, ops).map(|_| ()),
        None => collective::allreduce(within, lanes, ops),
    };
    // The first value tells whether the reduction failed on some node.
    let mut result = [&[0], &*lanes].concat();
    let of_node = lanes.to_vec();
    if node.is_leader() {
        result[0] = u64::from(reduced.is_err());
        let among = among_leaders(ways, &mut result, ops, join);
        reduced?;
        if among.is_err() {
            result[0] = 1;
        }
        publish(slot, within, name, &mut result)?;
        among?;
    } else {
        // Every rank of the node sees the error, so no rank waits for the result.
        reduced?;
        publish(slot, within, name, &mut result)?;
    }
    if result[0] != 0 {
        return Err(Error::Elsewhere { class: ErrorClass::Other });
    }
    lanes.copy_from_slice(&result[1..]);
    Ok(of_node)
}

/// Reduces the values of the nodes between their leaders.
fn among_leaders(
    Ways { node, wire, .. }: Ways<'_>,
    values: &mut [u64],
    ops: &[ReduceOp],
    join: Option<Join>,
) -> Result<()> {
    let (rank, size) = (node.index as u32, node.node_count() as u32);
    let wire = Wire { rank, size, members: Some(&node.leaders), ..wire };
    let ops = [&[ReduceOp::Max], ops].concat();
    let mut reduction = Reduction::start_among_leaders(wire, values, &ops, join)?;
    // The other ranks of the node wait behind this wait.
    wait_with(Backoff::brisk(), || reduction.poll(wire))?;
    values.copy_from_slice(&reduction.result());
    Ok(())
}

/// Every rank of the node gets the values of the leader.
fn publish(slot: Option<&Slot>, within: Wire<'_>, name: u64, values: &mut [u64]) -> Result<()> {
    if let Some(slot) = slot {
        return slot.broadcast(name | RESULT, values);
    }
    let mut bytes = bytes_of(values);
    collective::broadcast(within, 0, &mut bytes)?;
    values.copy_from_slice(&words_of(&bytes, values.len())?);
    Ok(())
}
