//! Collective operations by messages of one tag.
//!
//! All operations use a binomial tree. Cost with P ranks:
//! * `allreduce`: 2 (P - 1) messages in total, in a chain of at most 2 ceil(log2 P) messages.
//! * `broadcast`: P - 1 messages for up to [`INLINE_BYTES`] bytes, and P - 1 more for each further MiB or
//!   part of a MiB.
//! * `gather`: 2 (P - 1) messages, a length and the bytes per rank, and those of one `allreduce`.
//! * With one rank: no messages.
//!
//! No function blocks inside MPI.

use std::sync::Arc;

use crate::agree::ReduceOp;
use crate::class::ErrorClass;
use crate::error::{Error, Result};
use crate::lanes::{bytes_of, words_of};
use crate::message::{Flight, MESSAGE_BYTES_MAX, Wire};
use crate::reduction::Reduction;
use crate::tree;
use crate::wait::wait_until;

/// A broadcast of at most this many bytes takes one message per rank.
const INLINE_BYTES: usize = 4096;
/// Size of the chunks of longer broadcasts. A rank forwards the first chunk before it has received the last
/// one.
const CHUNK_BYTES: usize = 1 << 20;
const LENGTH_BYTES: usize = size_of::<u64>();
/// In place of a length: the sender could not allocate the memory, and no data follows.
const NO_MEMORY: u64 = u64::MAX;

/// Reduces each lane over all ranks with the operation of that lane. Every rank gets the result. Waits.
pub(crate) fn allreduce(wire: Wire<'_>, lanes: &mut [u64], ops: &[ReduceOp]) -> Result<()> {
    let mut reduction = Reduction::start(wire, lanes, ops)?;
    wait_until(|| reduction.poll(wire))?;
    lanes.copy_from_slice(&reduction.result());
    Ok(())
}

/// Every rank gets the bytes of `root` in `data`. Waits.
pub(crate) fn broadcast(wire: Wire<'_>, root: u32, data: &mut Vec<u8>) -> Result<()> {
    if root >= wire.size {
        return Err(Error::invalid(ErrorClass::Root, format!("root {root} of {} ranks", wire.size)));
    }
    let place = place_of(wire, root);
    match tree::parent(place) {
        None => broadcast_root(wire, root, data),
        Some(parent) => broadcast_below(wire, root, rank_at(wire, root, parent), data),
    }
}

/// The place of this rank in the tree whose root is `root`.
fn place_of(wire: Wire<'_>, root: u32) -> u32 {
    let ahead = u64::from(wire.rank) + u64::from(wire.size) - u64::from(root);
    (ahead % u64::from(wire.size)) as u32
}

fn rank_at(wire: Wire<'_>, root: u32, place: u32) -> u32 {
    ((u64::from(place) + u64::from(root)) % u64::from(wire.size)) as u32
}

fn send_to_children(wire: Wire<'_>, root: u32, bytes: &Arc<[u8]>) -> Result<()> {
    let mut flight = Flight::default();
    // The child with the largest subtree comes first, because its subtree is the deepest.
    for child in tree::children(place_of(wire, root), wire.size).rev() {
        wire.start_send(rank_at(wire, root, child), Arc::clone(bytes), &mut flight)?;
    }
    flight.land(wire.counters)
}

fn broadcast_root(wire: Wire<'_>, root: u32, data: &[u8]) -> Result<()> {
    let inline = &data[..data.len().min(INLINE_BYTES)];
    let head: Vec<u8> = (data.len() as u64).to_ne_bytes().iter().chain(inline).copied().collect();
    send_to_children(wire, root, &Arc::from(head))?;
    for chunk in data[inline.len()..].chunks(CHUNK_BYTES) {
        send_to_children(wire, root, &Arc::from(chunk))?;
    }
    Ok(())
}

fn broadcast_below(wire: Wire<'_>, root: u32, parent: u32, data: &mut Vec<u8>) -> Result<()> {
    data.clear();
    let head = wire.receive(parent, LENGTH_BYTES + INLINE_BYTES)?;
    let Some((length, inline)) = head.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(Error::Disagreement { what: "the format of a message" });
    };
    let length = u64::from_ne_bytes(*length);
    let room = usize::try_from(length).ok().filter(|_| length != NO_MEMORY);
    let reserved = room.is_some_and(|bytes| data.try_reserve_exact(bytes).is_ok());
    if !reserved {
        // The children must not wait for chunks, and the chunks that the parent sends must still be
        // received.
        send_to_children(wire, root, &Arc::from(NO_MEMORY.to_ne_bytes().as_slice()))?;
        return drain(wire, parent, length, inline.len());
    }
    data.extend_from_slice(inline);
    send_to_children(wire, root, &Arc::from(head.as_slice()))?;
    while (data.len() as u64) < length {
        let left = length - data.len() as u64;
        let chunk: Arc<[u8]> = Arc::from(wire.receive(parent, CHUNK_BYTES.min(left as usize))?);
        data.extend_from_slice(&chunk);
        send_to_children(wire, root, &chunk)?;
    }
    Ok(())
}

/// Receives and drops the chunks of a broadcast for which there is no memory.
fn drain(wire: Wire<'_>, parent: u32, length: u64, inline_bytes: usize) -> Result<()> {
    if length != NO_MEMORY {
        let mut left = length.saturating_sub(inline_bytes as u64);
        while left > 0 {
            left -= wire.receive(parent, left.min(CHUNK_BYTES as u64) as usize)?.len() as u64;
        }
    }
    Err(Error::Memory { bytes: usize::try_from(length).unwrap_or(usize::MAX), purpose: "a broadcast" })
}

/// Rank 0 gets the bytes of every rank, in the order of ranks. The other ranks get `None`. Waits. The bytes
/// of each rank, and the total of each subtree below the root, must stay below 1 GiB. A rank with more
/// sends none, and every rank gets an error.
pub(crate) fn gather(wire: Wire<'_>, data: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    let mut parcel = Vec::with_capacity(LENGTH_BYTES + data.len());
    parcel.extend_from_slice(&(data.len() as u64).to_ne_bytes());
    parcel.extend_from_slice(data);
    let mut failed = 0_u64;
    for child in tree::children(wire.rank, wire.size) {
        let head = words_of(&wire.receive(child, LENGTH_BYTES)?, 1)?[0];
        if head == NO_MEMORY {
            failed = 1;
        } else {
            parcel.extend_from_slice(&wire.receive(child, head as usize)?);
        }
    }
    if let Some(parent) = tree::parent(wire.rank) {
        if failed == 1 || parcel.len() > MESSAGE_BYTES_MAX {
            wire.send(parent, &NO_MEMORY.to_ne_bytes())?;
            failed = 1;
        } else {
            wire.send(parent, &(parcel.len() as u64).to_ne_bytes())?;
            wire.send(parent, &parcel)?;
        }
    }
    let mut lanes = [failed];
    allreduce(wire, &mut lanes, &[ReduceOp::Max])?;
    if lanes[0] != 0 {
        return Err(Error::Memory { bytes: MESSAGE_BYTES_MAX, purpose: "a gather" });
    }
    if wire.rank == 0 { unpack(&parcel, wire.size).map(Some) } else { Ok(None) }
}

fn unpack(mut parcel: &[u8], size: u32) -> Result<Vec<Vec<u8>>> {
    let torn = Error::Disagreement { what: "the length of a gathered part" };
    let mut parts = Vec::with_capacity(size as usize);
    for _ in 0..size {
        let (length, rest) = parcel.split_first_chunk::<LENGTH_BYTES>().ok_or_else(|| torn.clone())?;
        let length = u64::from_ne_bytes(*length) as usize;
        let (part, rest) = rest.split_at_checked(length).ok_or_else(|| torn.clone())?;
        parts.push(part.to_vec());
        parcel = rest;
    }
    Ok(parts)
}

/// Every rank gets the value of every rank, in the order of ranks. Waits.
pub(crate) fn allgather(wire: Wire<'_>, value: u64) -> Result<Vec<u64>> {
    let mut values = vec![value];
    for child in tree::children(wire.rank, wire.size) {
        let below = (tree::subtree_end(child, wire.size) - child) as usize;
        values.extend(words_of(&wire.receive(child, below * LENGTH_BYTES)?, below)?);
    }
    if let Some(parent) = tree::parent(wire.rank) {
        wire.send(parent, &bytes_of(&values))?;
    }
    let mut all = bytes_of(&values);
    broadcast(wire, 0, &mut all)?;
    words_of(&all, wire.size as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpack_separates_gathered_parts() {
        let mut parcel = Vec::new();
        for part in [&b"one"[..], b"", b"three"] {
            parcel.extend_from_slice(&(part.len() as u64).to_ne_bytes());
            parcel.extend_from_slice(part);
        }
        let parts = unpack(&parcel, 3).expect("well formed");
        assert_eq!(parts, [b"one".to_vec(), Vec::new(), b"three".to_vec()]);
    }

    #[test]
    fn truncated_parcel_is_an_error() {
        let mut parcel = 5_u64.to_ne_bytes().to_vec();
        parcel.extend_from_slice(b"four");
        assert!(unpack(&parcel, 1).is_err());
        assert!(unpack(&parcel[..4], 1).is_err());
    }
}
