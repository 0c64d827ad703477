//! Test program: with `MPI_THREAD_MULTIPLE`, threads on communicators of their own never get messages of
//! other threads, whatever the order in which they open, create buffers and close.

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use capulet_comm::{Agree, Group, NodeShared, Rank, ReduceOp, census, ffi};
use support::{Random, group_of};

const THREADS: u64 = 3;

/// A handle that can be sent to another thread.
#[derive(Clone, Copy)]
struct Comm(ffi::MPI_Comm);

// SAFETY: MPI was initialized with MPI_THREAD_MULTIPLE, so every thread may use the handle (MPI-4.0
// section 11.6).
unsafe impl Send for Comm {}

fn main() {
    let (rank, _) = support::init_multiple();
    let comms: Vec<Comm> = (0..THREADS).map(|_| Comm(support::duplicate(support::world()))).collect();
    own_groups(&comms);
    thread::scope(|scope| {
        for (number, comm) in comms.iter().enumerate() {
            let comm = *comm;
            scope.spawn(move || one_thread(comm, number as u64, rank));
        }
    });
    one_group_two_threads();
    for comm in comms {
        support::free(comm.0);
    }
    fresh_duplicates(40);
    support::finish("threads");
}

/// With `MPI_THREAD_MULTIPLE` communicators share nothing.
fn own_groups(comms: &[Comm]) {
    let first = group_of(comms[0].0).expect("a group");
    let copy = support::duplicate(comms[0].0);
    let second = group_of(copy).expect("a group");
    assert!(!first.is_shared() && !Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&first, &group_of(comms[0].0).expect("a group")));
    drop(second);
    support::free(copy);
}

/// Opens, agrees and closes. Each rank pauses at different places, so that the threads meet in every
/// order.
fn one_thread(comm: Comm, number: u64, rank: u32) {
    let mut random = Random((number + 1) * 7919 + u64::from(rank) * 104_729);
    for round in 0..15 {
        let dawdle = random.below(4);
        if dawdle > 0 {
            thread::sleep(Duration::from_micros(dawdle * 100));
        }
        let group = group_of(comm.0).expect("a group");
        let channel = group.channel().expect("a channel");
        let word = number * 1000 + round;
        let mut lanes = [word, word];
        channel.allreduce(&mut lanes, &[ReduceOp::Min, ReduceOp::Max]).expect("a reduction");
        assert_eq!(lanes, [word, word], "a value of another thread was received");
        let mut data = word.to_ne_bytes().to_vec();
        channel.broadcast(Rank(round as u32 % group.size()), &mut data).expect("a broadcast");
        assert_eq!(data, word.to_ne_bytes());
        if round % 5 == 0 {
            let buffer = channel.node_buffer(8192).expect("MPI works").expect("there is memory");
            buffer.published(buffer.place())[0].store(word, Ordering::Release);
            buffer.barrier().expect("a barrier");
            assert!(
                (0..buffer.ranks()).all(|rank| buffer.published(rank)[0].load(Ordering::Acquire) == word)
            );
        }
    }
}

/// Two files of one communicator in two threads: their operations run in any order, and each file has a
/// node buffer of its own.
fn one_group_two_threads() {
    let group = group_of(support::world()).expect("a group");
    let channels: Vec<_> = (0..2).map(|_| group.channel().expect("a channel")).collect();
    let me = group.rank().0;
    thread::scope(|scope| {
        for (number, channel) in channels.into_iter().enumerate() {
            scope.spawn(move || {
                for round in 0..20_u64 {
                    if (me as usize + number).is_multiple_of(2) {
                        thread::sleep(Duration::from_micros(300));
                    }
                    let word = round * 2 + number as u64;
                    let mut lanes = [word, word];
                    channel.allreduce(&mut lanes, &[ReduceOp::Min, ReduceOp::Max]).expect("a reduction");
                    assert_eq!(lanes, [word, word]);
                    let buffer = channel
                        .node_buffer(4096 << round.min(4))
                        .expect("MPI works")
                        .expect("there is memory");
                    buffer.published(buffer.place())[1].store(word, Ordering::Release);
                    buffer.barrier().expect("a barrier");
                    let seen = |rank: usize| buffer.published(rank)[1].load(Ordering::Acquire);
                    assert!((0..buffer.ranks()).all(|rank| seen(rank) == word));
                    buffer.barrier().expect("a barrier");
                }
            });
        }
    });
}

/// The number of memory mappings of this process.
fn mapping_count() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("Linux has this file").lines().count()
}

/// Opens one file per fresh duplicate. Everything that was created for a file must be freed with the
/// file.
fn fresh_duplicates(cycles: u32) {
    let (before, mappings) = (census(), mapping_count());
    for _ in 0..cycles {
        let comm = support::duplicate(support::world());
        let group: Arc<Group> = group_of(comm).expect("a group");
        let channel = group.channel().expect("a channel");
        let buffer = channel.node_buffer(1 << 20).expect("MPI works").expect("there is memory");
        buffer.barrier().expect("a barrier");
        drop(buffer);
        drop(channel);
        drop(group);
        support::free(comm);
    }
    let grown = mapping_count().saturating_sub(mappings);
    assert!(grown < cycles as usize / 2, "{grown} more mappings: windows leak");
    let after = census();
    assert!(after.0 <= before.0 && after.1 <= before.1 + 1, "{before:?} became {after:?}");
}
