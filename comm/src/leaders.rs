//! Messages between the leaders of nodes, as a trait, so that what is built on it also runs with nodes as threads.

use std::ffi::c_int;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::group::Group;
use crate::message::{Counters, Flight, Wire};

/// One leader's end of the line between the leaders of all nodes of a group. Messages from one leader to another come in
/// their order; those of several leaders in any. Nothing here waits.
pub trait Leaders: Debug + Send + Sync {
    /// The number of this node, from 0.
    fn node(&self) -> usize;

    /// How many nodes there are.
    fn nodes(&self) -> usize;

    /// Starts to send a message, of less than 1 GiB, to the leader of another node. The message is kept until it is gone.
    ///
    /// # Errors
    /// If MPI fails, or the other leader is known to be gone (simulated nodes only).
    fn send(&self, node: usize, message: Vec<u8>) -> Result<()>;

    /// A message that has arrived, and the node that it is from.
    ///
    /// # Errors
    /// If MPI fails, or no message can come any more because a leader is gone (simulated nodes only).
    fn try_receive(&self) -> Result<Option<(usize, Vec<u8>)>>;

    /// Whether all that was sent is gone. Moves it on.
    ///
    /// # Errors
    /// If MPI fails.
    fn is_sent(&self) -> Result<bool>;
}

/// The line between the leaders of a channel's nodes, over MPI.
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
    /// A message that has come and is not all here, and whom it is from.
    arriving: Option<(usize, Flight)>,
}

impl ChannelLeaders {
    /// Of a leader. Messages of this line, and no others, have the tag.
    pub(crate) fn new(group: Arc<Group>, counters: Arc<Counters>, tag: c_int) -> Self {
        Self { group, counters, tag, under_way: Mutex::default() }
    }

    fn wire(&self) -> Wire<'_> {
        self.group.wire(self.tag, &self.counters)
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node whose leader has this rank.
    fn node_of(&self, rank: u32) -> Result<usize> {
        let leaders = &self.group.node().leaders;
        let found = leaders.binary_search_by_key(&rank, |leader| leader.0);
        found.map_err(|_| Error::Disagreement { what: "who leads a node" })
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
