//! The time of one message between nodes, measured when a group is made.

use std::time::{Duration, Instant};

use crate::agree::ReduceOp;
use crate::error::Result;
use crate::group::Group;
use crate::tree;

/// Measures the time of one message between the leaders of the nodes: the shortest of a few agreements, on
/// the slowest rank. Zero if all ranks are on one machine. The same on all ranks. Collective over the group.
///
/// The first agreement is slower, because it may open connections.
pub(super) fn measured(group: &Group) -> Result<Duration> {
    const SAMPLES: usize = 4;
    let nodes = group.node().node_count();
    if nodes == 1 || group.is_one_machine() {
        return Ok(Duration::ZERO);
    }
    let mut shortest = Duration::MAX;
    for _ in 0..SAMPLES {
        let start = Instant::now();
        group.agree_on_opening(&mut [0], &[ReduceOp::Max])?;
        shortest = shortest.min(start.elapsed());
    }
    let mut lanes = [shortest.as_nanos() as u64 / tree::message_times(nodes as u32)];
    group.agree_on_opening(&mut lanes, &[ReduceOp::Max])?;
    let time = Duration::from_nanos(lanes[0]);
    if group.rank().0 == 0 {
        tracing::info!(message_us = time.as_micros() as u64, nodes, "measured a message between nodes");
    }
    Ok(time)
}
