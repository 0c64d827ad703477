//! Messages between the node leaders, as a trait. Code on top of the trait also runs with threads as nodes.

use std::ffi::c_int;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::group::Group;
use crate::message::{Counters, Flight, Wire};

/// The endpoint of one node leader for messages between the leaders of all nodes of a group. Messages from
/// one leader to another arrive in the order of their sending. Messages of different leaders arrive in any
/// order. No method waits.
pub trait Leaders: Debug + Send + Sync {
    /// The index of this node, from 0.
    fn node(&self) -> usize;

    /// The number of nodes.
    fn nodes(&self) -> usize;

    /// Starts to send a message of less than 1 GiB to the leader of another node. The endpoint keeps the
    /// message until the send is complete.
    ///
    /// # Errors
    /// If MPI fails, or if the other leader is known to be gone (simulated nodes only).
    fn send(&self, node: usize, message: Vec<u8>) -> Result<()>;

    /// Takes a message that has arrived, with the index of the node that sent it. `None` if no message has
    /// arrived.
    ///
    /// # Errors
    /// If MPI fails, or if no message can arrive any more because a leader is gone (simulated nodes only).
    fn try_receive(&self) -> Result<Option<(usize, Vec<u8>)>>;

    /// Advances the sends. Whether all of them are complete.
    ///
    /// # Errors
    /// If MPI fails.
    fn is_sent(&self) -> Result<bool>;
}

/// The messages between the leaders of the nodes of a channel, over MPI.
#[derive(Debug)]
pub(crate) struct ChannelLeaders {
    group: Arc<Group>,
    counters: Arc<Counters>,
    tag: c_int,
    under_way: Mutex<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    sent: Flight,
    /// A message that is being received, and the index of the node that sent it.
    arriving: Option<(usize, Flight)>,
}

impl ChannelLeaders {
    /// The endpoint of this rank, which is a node leader. Exactly the messages between these endpoints have
    /// the tag `tag`.
    pub(crate) fn new(group: Arc<Group>, counters: Arc<Counters>, tag: c_int) -> Self {
        Self { group, counters, tag, under_way: Mutex::default() }
    }

    fn wire(&self) -> Wire<'_> {
        self.group.wire(self.tag, &self.counters)
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of the node whose leader is `rank`.
    fn node_of(&self, rank: u32) -> Result<usize> {
        let leaders = &self.group.node().leaders;
        let found = leaders.binary_search_by_key(&rank, |leader| leader.0);
        found.map_err(|_| Error::Disagreement { what: "the leader of a node" })
    }
}

impl Leaders for ChannelLeaders {
    fn node(&self) -> usize {
        self.group.node().index
    }

    fn nodes(&self) -> usize {
        self.group.node().node_count()
    }

    fn send(&self, node: usize, message: Vec<u8>) -> Result<()> {
        let target = self.group.node().leaders[node];
        self.wire().start_send_owned(target.0, message, &mut self.lock().sent)
    }

    fn try_receive(&self) -> Result<Option<(usize, Vec<u8>)>> {
        let mut under_way = self.lock();
        if under_way.arriving.is_none() {
            let Some((rank, flight)) = self.wire().start_receive_any()? else { return Ok(None) };
            under_way.arriving = Some((self.node_of(rank)?, flight));
        }
        let Some((_, flight)) = &mut under_way.arriving else { return Ok(None) };
        if !flight.test(&self.counters)? {
            return Ok(None);
        }
        Ok(under_way.arriving.take().map(|(node, mut flight)| (node, flight.take(0))))
    }

    fn is_sent(&self) -> Result<bool> {
        self.lock().sent.sweep(&self.counters)
    }
}
