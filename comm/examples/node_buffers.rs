//! Test program: the node buffers. Checks memory, barriers, growth and refusal, and that a rank that
//! sleeps in a barrier still moves its messages.

#[path = "support/mod.rs"]
mod support;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use capulet_comm::{Agree, Channel, NodeBuffer, NodeShared, ReduceOp, ffi};
use support::group_of;

fn main() {
    let (rank, size) = support::init();
    let group = group_of(support::world()).expect("a group");
    let channel = group.channel().expect("a channel");
    let buffer = channel.node_buffer(100_000).expect("MPI works").expect("there is memory");
    assert_eq!((buffer.ranks(), buffer.place()), (group.node().size(), group.node().place));
    memory(&*buffer);
    published(&*buffer);
    growth(&channel);
    refusal(&channel);
    many_barriers(&*buffer);
    agreements(&channel);
    asleep_with_a_message(rank, size, &buffer);
    channel.barrier().expect("a barrier");
    drop(buffer);
    drop(channel);
    support::finish("node_buffers");
}

/// Every rank writes a share of the bytes of each part, and reads all bytes of all parts.
fn memory(buffer: &dyn NodeShared) {
    let (me, ranks) = (buffer.place(), buffer.ranks());
    assert!(buffer.bytes() >= 100_000 && buffer.bytes().is_power_of_two());
    for owner in 0..ranks {
        assert!(buffer.map(owner).iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }
    buffer.barrier().expect("a barrier");
    let value = |owner: usize, at: usize| (owner * 31 + at * 7) as u8;
    for owner in 0..ranks {
        assert_eq!(buffer.data(owner).addr() % 4096, 0);
        assert_eq!(buffer.map(owner).len() * 64, buffer.bytes());
        for at in (me..buffer.bytes()).step_by(ranks) {
            // SAFETY: the byte lies inside of the part. Only this rank accesses it before the barrier.
            unsafe { buffer.data(owner).add(at).write(value(owner, at)) };
            if at % 3 == 0 {
                buffer.map(owner)[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
            }
        }
    }
    buffer.barrier().expect("a barrier");
    for owner in 0..ranks {
        for at in 0..buffer.bytes() {
            // SAFETY: the byte lies inside of the part. No rank writes between the two barriers.
            let found = unsafe { buffer.data(owner).add(at).read() };
            assert_eq!(found, value(owner, at), "byte {at} of part {owner}");
            let marked = buffer.map(owner)[at / 64].load(Ordering::Relaxed) >> (at % 64) & 1 == 1;
            assert_eq!(marked, at % 3 == 0);
        }
    }
    buffer.barrier().expect("a barrier");
}

fn published(buffer: &dyn NodeShared) {
    let me = buffer.place();
    for round in 1..500_u64 {
        for (index, slot) in buffer.published(me).iter().enumerate() {
            slot.store(round * 1000 + index as u64, Ordering::Release);
        }
        buffer.barrier().expect("a barrier");
        for rank in 0..buffer.ranks() {
            assert!(buffer.published(rank).len() >= 8);
            for (index, slot) in buffer.published(rank).iter().enumerate() {
                assert_eq!(slot.load(Ordering::Acquire), round * 1000 + index as u64);
            }
        }
        buffer.barrier().expect("a barrier");
    }
}

/// A channel keeps its buffer while the buffer is large enough, and gets a larger one on demand.
fn growth(channel: &Channel) {
    let get = |bytes| channel.node_buffer(bytes).expect("MPI works").expect("there is memory");
    let small = get(100_000);
    assert_eq!(get(5_000).data(0), small.data(0));
    assert_eq!(get(131_072).data(0), small.data(0), "the size of the buffer is enough");
    let large = get(1 << 20);
    assert_ne!(large.data(0), small.data(0));
    assert_eq!(get(10).data(0), large.data(0));
    // The small buffer stays usable for its holders.
    small.published(small.place())[0].store(1, Ordering::Release);
    small.barrier().expect("a barrier");
    assert!((0..small.ranks()).all(|rank| small.published(rank)[0].load(Ordering::Acquire) == 1));
}

/// A size for which there is no memory is refused on all ranks, without a crash. An existing buffer stays
/// usable. A reserved buffer takes no memory before its first use.
fn refusal(channel: &Channel) {
    for bytes in [1 << 42, usize::MAX, usize::MAX / 2] {
        assert!(channel.node_buffer(bytes).expect("MPI works").is_none());
    }
    assert!(channel.node_buffer(4096).expect("MPI works").is_some());
    channel.reserve_buffer(4 << 20).expect("MPI works");
    assert!(!channel.has_used_buffer());
    assert!(channel.existing_buffer().is_some_and(|buffer| buffer.bytes() == 4 << 20));
    assert!(channel.has_used_buffer());
}

fn many_barriers(buffer: &dyn NodeShared) {
    for _ in 0..2000 {
        buffer.barrier().expect("a barrier");
    }
}

/// Rank 0 posts a large message and enters a barrier of this crate. The receiver blocks inside MPI before
/// it enters the barrier. If a large message needs the sender's progress, a barrier that only sleeps
/// would never end (MPI-4.0 section 3.5: a posted send completes after it is matched, whatever the sender
/// does).
fn asleep_with_a_message(rank: u32, size: u32, buffer: &Arc<NodeBuffer>) {
    if size < 2 {
        return;
    }
    for bytes in [64 << 10, 1 << 20, 8 << 20] {
        for receiver in 1..size {
            if rank == 0 {
                let message = vec![receiver as u8; bytes];
                // SAFETY: the buffer lives until MPI_Wait has returned.
                unsafe {
                    let mut request = ffi::RSMPI_REQUEST_NULL;
                    let start = message.as_ptr().cast::<c_void>();
                    let (count, target) = (bytes as i32, receiver as i32);
                    let byte = ffi::RSMPI_UINT8_T;
                    ffi::MPI_Isend(start, count, byte, target, 3, support::world(), &raw mut request);
                    buffer.barrier().expect("a barrier");
                    ffi::MPI_Wait(&raw mut request, ffi::RSMPI_STATUS_IGNORE);
                }
            } else {
                if rank == receiver {
                    // This is long enough for rank 0 to fall asleep in the barrier.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    let mut message = vec![0_u8; bytes];
                    // SAFETY: the buffer is `bytes` bytes long.
                    unsafe {
                        let start = message.as_mut_ptr().cast::<c_void>();
                        let status = ffi::RSMPI_STATUS_IGNORE;
                        let byte = ffi::RSMPI_UINT8_T;
                        ffi::MPI_Recv(start, bytes as i32, byte, 0, 3, support::world(), status);
                    }
                    assert!(message.iter().all(|byte| *byte == receiver as u8));
                }
                buffer.barrier().expect("a barrier");
            }
        }
    }
}

/// On one node the ranks agree through shared memory, without messages, also between the barriers of the
/// buffer.
fn agreements(channel: &Channel) {
    let (me, size) = (u64::from(channel.rank().0), u64::from(channel.size()));
    let is_one_node = channel.group().node().node_count() == 1;
    let before = channel.counters().messages_sent();
    for round in 0..300_u64 {
        if round % 5 == 0 && round / 5 % size == me {
            // The other ranks fall asleep. This rank arrives at the next agreement before they have seen
            // the end of the current one.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut lanes = [me + round, me, u64::MAX - me, 1 << me, !(1 << me), me];
        let ops =
            [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::BitOr, ReduceOp::BitAnd, ReduceOp::Sum];
        channel.allreduce(&mut lanes, &ops).expect("a reduction");
        let (sum, all) = (size * (size - 1) / 2, (1 << size) - 1);
        assert_eq!(
            lanes,
            [sum + size * round, size - 1, u64::MAX - (size - 1), all, !all, sum],
            "round {round}"
        );
        // These are more lanes than a slot holds.
        let mut many = vec![me + round; 40];
        if round % 50 == 0 {
            channel.allreduce(&mut many, &[ReduceOp::Max; 40]).expect("a reduction");
            assert!(many.iter().all(|lane| *lane == size - 1 + round));
        }
    }
    let by_messages = 6 * 2 * (size - 1);
    let sent = channel.counters().messages_sent() - before;
    assert!(!is_one_node || sent <= by_messages, "{sent} messages");
    assert!(channel.allreduce(&mut [1, 2], &[ReduceOp::Max]).is_err());
}
