//! Words in memory of each process, which a thread of the process serves over TCP (`capulet-word-server`).
//! The thread makes no MPI call, so no operation waits for the rank that holds the words.
//!
//! Cost of an operation: one round trip over TCP, and nothing for words of this rank. Memory: the words of
//! this rank, and one connection for each rank that this rank has reached.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use capulet_word_server::{Client, Contact, Server, Wait};

use super::medium::{At, FetchOp, Medium, Width};
use crate::collective;
use crate::error::{Error, Result};
use crate::message::Wire;
use crate::progress::progress;
use crate::still::Still;

/// The words of all ranks of a group.
#[derive(Debug)]
pub(super) struct Served {
    rank: u32,
    /// The words of this rank. `None` after the end: dropping the server ends its thread.
    server: Mutex<Option<Server>>,
    /// The clients of the servers of all ranks. The client of this rank is not used.
    clients: Vec<Client>,
}

impl Served {
    /// Starts the server of this rank, with `words` words, and learns how to reach the servers of the others.
    /// Collective over the communicator. The caller must tell the other ranks about an error.
    pub(super) fn make(wire: Wire<'_>, words: usize) -> Result<Self> {
        let server = Server::start(words);
        // A rank without a server passes no bytes. The other ranks then find a malformed contact.
        let own = server.as_ref().map_or_else(|_| Vec::new(), |server| server.addresses().to_bytes());
        let contacts = of_all(wire, &own)?;
        let server = server?;
        let client = |bytes: &Vec<u8>| Ok(Client::new(Contact::from_bytes(bytes)?));
        let clients = contacts.iter().map(client).collect::<Result<Vec<_>>>()?;
        if clients.len() != wire.size as usize {
            return Err(Error::Disagreement { what: "the contacts of the word servers" });
        }
        let served = Self { rank: wire.rank, server: Mutex::new(Some(server)), clients };
        served.reach_neighbor(wire.size)?;
        Ok(served)
    }

    /// Connects to the server of the next rank, so that a network without connections between the nodes is an
    /// error of all ranks at once, and not of one rank at its first lock.
    fn reach_neighbor(&self, ranks: u32) -> Result<()> {
        const LIMIT: Duration = Duration::from_secs(30);
        let neighbor = (self.rank + 1) % ranks;
        if neighbor != self.rank {
            let _still = Still::new();
            self.clients[neighbor as usize].connect(Wait::new(&progress).within(LIMIT))?;
        }
        Ok(())
    }

    /// Runs an operation on the words of a rank: `own` on the server of this rank, else `other` on the client
    /// of that rank. The client drives MPI while it waits, but no work of this crate, because the work may
    /// need another operation on the same client.
    fn on<R>(
        &self,
        rank: u32,
        own: impl FnOnce(&Server) -> capulet_word_server::Result<R>,
        other: impl FnOnce(&Client, Wait<'_>) -> capulet_word_server::Result<R>,
    ) -> Result<R> {
        if rank != self.rank {
            let _still = Still::new();
            return Ok(other(&self.clients[rank as usize], Wait::new(&progress))?);
        }
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(own(server.as_ref().ok_or(Error::Finalized)?)?)
    }
}

impl Medium for Served {
    fn fetch_and(&self, op: FetchOp, value: u64, width: Width, At { rank, word }: At) -> Result<u64> {
        let narrow = value as u32;
        match (op, width) {
            (FetchOp::Load, Width::W32) => self
                .on(rank, |server| server.load::<u32>(word), |client, wait| client.load::<u32>(word, wait))
                .map(u64::from),
            (FetchOp::Load, Width::W64) => {
                self.on(rank, |server| server.load(word), |client, wait| client.load(word, wait))
            }
            (FetchOp::Swap, Width::W32) => self
                .on(rank, |server| server.swap(word, narrow), |client, wait| client.swap(word, narrow, wait))
                .map(u64::from),
            (FetchOp::Swap, Width::W64) => self.on(
                rank,
                |server| server.swap(word, value),
                |client, wait| client.swap(word, value, wait),
            ),
            (FetchOp::Add, Width::W32) => self
                .on(rank, |server| server.add(word, narrow), |client, wait| client.add(word, narrow, wait))
                .map(u64::from),
            (FetchOp::Add, Width::W64) => {
                self.on(rank, |server| server.add(word, value), |client, wait| client.add(word, value, wait))
            }
        }
    }

    fn compare_swap(&self, expected: u32, value: u32, At { rank, word }: At) -> Result<u32> {
        self.on(
            rank,
            |server| server.compare_swap(word, expected, value),
            |client, wait| client.compare_swap(word, expected, value, wait),
        )
    }

    fn exchange(&self, table: At, first: usize, put: &[u64], words: usize) -> Result<Vec<u64>> {
        self.on(
            table.rank,
            |server| server.exchange(table.word, first, put, words),
            |client, wait| client.exchange(table.word, first, put, words, wait),
        )
    }

    fn claim_if_none(&self, table: At, at: usize, value: u64, words: usize) -> Result<Vec<u64>> {
        self.on(
            table.rank,
            |server| server.claim_if_none(table.word, at, value, words),
            |client, wait| client.claim_if_none(table.word, at, value, words, wait),
        )
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn is_passive(&self) -> Option<bool> {
        Some(true)
    }

    fn guarantee(&self) -> &'static str {
        "an operation needs no MPI call of its target"
    }

    fn close(&self, _all_departed: bool) {
        drop(self.server.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The bytes of all ranks. Collective over the communicator.
fn of_all(wire: Wire<'_>, own: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut packed = Vec::new();
    for part in collective::gather(wire, own)?.unwrap_or_default() {
        packed.extend((part.len() as u32).to_le_bytes());
        packed.extend(part);
    }
    collective::broadcast(wire, 0, &mut packed)?;
    let malformed = || Error::Disagreement { what: "the contacts of the word servers" };
    let (mut parts, mut rest) = (Vec::new(), packed.as_slice());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (part, after) =
            after.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(malformed)?;
        parts.push(part.to_vec());
        rest = after;
    }
    Ok(parts)
}
