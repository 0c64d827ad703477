//! Node leaders as threads. A seed determines the order in which messages arrive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::class::ErrorClass;
use crate::error::{Error, Result};
use crate::leaders::Leaders;

/// The endpoint of one node leader, which is a thread. Messages of one sender keep their order. The seed
/// determines the sender of the next message, and the number of attempts to receive that find no message.
#[derive(Debug)]
pub struct LocalLeaders {
    exchange: Arc<Mutex<Exchange>>,
    node: usize,
    nodes: usize,
}

/// The exchange between the leaders: the messages in flight.
#[derive(Debug)]
struct Exchange {
    /// Indexed by receiver, then by sender.
    queues: Vec<Vec<VecDeque<Vec<u8>>>>,
    gone: bool,
    random: u64,
    sent: u64,
}

impl Exchange {
    /// The next random number below `bound` (splitmix64: Steele, Lea, Flood, OOPSLA 2014).
    fn draw(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

impl LocalLeaders {
    /// One endpoint per node.
    pub fn team(nodes: usize, seed: u64) -> Vec<LocalLeaders> {
        let queues = vec![vec![VecDeque::new(); nodes]; nodes];
        let exchange = Arc::new(Mutex::new(Exchange { queues, gone: false, random: seed, sent: 0 }));
        (0..nodes).map(|node| LocalLeaders { exchange: Arc::clone(&exchange), node, nodes }).collect()
    }

    /// The number of messages that all leaders have sent.
    pub fn messages_sent(&self) -> u64 {
        self.lock().sent
    }

    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaders for LocalLeaders {
    fn node(&self) -> usize {
        self.node
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn send(&self, node: usize, message: Vec<u8>) -> Result<()> {
        let mut exchange = self.lock();
        exchange.sent += 1;
        exchange.queues[node][self.node].push_back(message);
        Ok(())
    }

    fn try_receive(&self) -> Result<Option<(usize, Vec<u8>)>> {
        let mut exchange = self.lock();
        let waiting: Vec<usize> =
            (0..self.nodes).filter(|from| !exchange.queues[self.node][*from].is_empty()).collect();
        if waiting.is_empty() {
            return if exchange.gone { Err(Error::Elsewhere { class: ErrorClass::Other }) } else { Ok(None) };
        }
        // About one attempt in three receives nothing.
        let drawn = exchange.draw(waiting.len() * 3 / 2 + 1);
        let Some(from) = waiting.get(drawn).copied() else { return Ok(None) };
        Ok(exchange.queues[self.node][from].pop_front().map(|message| (from, message)))
    }

    fn is_sent(&self) -> Result<bool> {
        Ok(true)
    }
}

impl Drop for LocalLeaders {
    fn drop(&mut self) {
        self.lock().gone = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_sender_keep_their_order_and_senders_interleave() {
        let mut orders = Vec::new();
        for seed in 0..20 {
            let ends = LocalLeaders::team(3, seed);
            for number in 0..10 {
                ends[0].send(2, vec![0, number]).expect("sent");
                ends[1].send(2, vec![1, number]).expect("sent");
            }
            let mut got: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
            let mut order = Vec::new();
            while got.iter().any(|numbers| numbers.len() < 10) {
                if let Some((from, message)) = ends[2].try_receive().expect("no leader is gone") {
                    assert_eq!(from, usize::from(message[0]));
                    got[from].push(message[1]);
                    order.push(from);
                }
            }
            assert!(got.iter().all(|numbers| numbers.is_sorted()));
            orders.push(order);
        }
        orders.sort();
        orders.dedup();
        assert!(orders.len() > 10, "different seeds give different orders");
        let ends = LocalLeaders::team(2, 0);
        assert_eq!(ends[0].try_receive().expect("no leader is gone"), None);
    }

    #[test]
    fn dropped_leader_is_an_error_after_its_messages_are_read() {
        let mut ends = LocalLeaders::team(2, 7);
        let other = ends.pop().expect("two endpoints");
        other.send(0, vec![1]).expect("sent");
        drop(other);
        let first = loop {
            match ends[0].try_receive() {
                Ok(Some((_, message))) => break message,
                Ok(None) => {}
                Err(error) => panic!("the message is not received: {error}"),
            }
        };
        assert_eq!(first, [1]);
        assert!(ends[0].try_receive().is_err());
    }
}
