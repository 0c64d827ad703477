//! Messages between leaders that a third party changes or breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capulet_comm::Leaders;
use capulet_comm::local::LocalLeaders;

/// The fault.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MessageFault {
    /// Request number `at` is changed: one of its bytes, or its length.
    Request { at: usize, place: usize, with: u8 },
    /// The messages of these numbers cannot be sent. Messages that end the operation always arrive: a leader
    /// that cannot be told waits forever.
    Break { at: [usize; 2] },
}

/// One leader's end of a channel with a fault.
#[derive(Debug)]
pub(crate) struct FaultyLeaders {
    pub(crate) end: Arc<LocalLeaders>,
    pub(crate) seen: Arc<AtomicUsize>,
    pub(crate) fault: MessageFault,
}

impl Leaders for FaultyLeaders {
    fn node(&self) -> usize {
        self.end.node()
    }

    fn nodes(&self) -> usize {
        self.end.nodes()
    }

    fn send(&self, node: usize, mut message: Vec<u8>) -> capulet_comm::Result<()> {
        const HEAD_BYTES: usize = 12;
        const REQUEST: u8 = 3;
        const ABORT: u8 = 6;
        match self.fault {
            MessageFault::Break { .. } if message[8] == ABORT => {}
            MessageFault::Break { at } => {
                if at.contains(&self.seen.fetch_add(1, Ordering::Relaxed)) {
                    return Err(capulet_comm::Error::Disagreement { what: "a message that a test breaks" });
                }
            }
            MessageFault::Request { at, place, with }
                if message[8] == REQUEST && message.len() > HEAD_BYTES =>
            {
                if self.seen.fetch_add(1, Ordering::Relaxed) == at {
                    let place = HEAD_BYTES + place % (message.len() - HEAD_BYTES);
                    if with % 5 == 0 { message.truncate(place) } else { message[place] ^= with }
                }
            }
            MessageFault::Request { .. } => {}
        }
        self.end.send(node, message)
    }

    fn try_receive(&self) -> capulet_comm::Result<Option<(usize, Vec<u8>)>> {
        self.end.try_receive()
    }

    fn is_sent(&self) -> capulet_comm::Result<bool> {
        self.end.is_sent()
    }
}
