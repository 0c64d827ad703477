//! Test program: the results and the message counts of the collective operations of a channel.

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;

use capulet_comm::{Agree, Channel, ErrorClass, Group, Rank, ReduceOp, tree};
use support::{Random, group_of};

fn main() {
    let (rank, size) = support::init();
    let group = group_of(support::world()).expect("a group");
    assert_eq!((group.rank(), group.size()), (Rank(rank), size));
    let channel = group.channel().expect("a channel");
    assert_eq!(channel.id(), 1, "the first id is 1");

    if std::env::args().nth(1).as_deref() == Some("huge") {
        huge_broadcast(&channel);
        drop(channel);
        support::finish("channels");
        return;
    }
    reductions(&channel);
    outcomes(&channel);
    broadcasts(&channel);
    gathers(&channel);
    barriers(&channel);
    bad_arguments(&channel);
    costs(&group);
    // More than have a slot in shared memory.
    many_at_once(&group, 4500);
    drop(channel);
    support::finish("channels");
}

/// Compares reductions with results that each rank computes itself: the values of a rank depend only on the
/// seed and the rank.
fn reductions(channel: &Channel) {
    const OPS: [ReduceOp; 5] =
        [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::BitOr, ReduceOp::BitAnd];
    for seed in 1..100 {
        let lanes_of = |rank: u32| {
            let mut random = Random(seed * 1000 + u64::from(rank) + 1);
            (0..seed as usize % 23).map(|_| random.next()).collect::<Vec<u64>>()
        };
        let ops: Vec<ReduceOp> = (0..seed as usize % 23).map(|lane| OPS[lane % OPS.len()]).collect();
        let mut expected = lanes_of(0);
        for rank in 1..channel.size() {
            for ((lane, value), op) in expected.iter_mut().zip(lanes_of(rank)).zip(&ops) {
                *lane = op.apply(*lane, value);
            }
        }
        let mut lanes = lanes_of(channel.rank().0);
        channel.allreduce(&mut lanes, &ops).expect("a reduction");
        assert_eq!(lanes, expected, "seed {seed}");
    }
}

fn outcomes(channel: &Channel) {
    assert_eq!(channel.agree_on_outcome(None).expect("agreement"), None);
    for failing in 0..channel.size() {
        let mine = (channel.rank().0 == failing).then_some(ErrorClass::NoSpace);
        assert_eq!(channel.agree_on_outcome(mine).expect("agreement"), Some(ErrorClass::NoSpace));
    }
}

fn broadcasts(channel: &Channel) {
    // Sizes around the limit of one message and around the size of a chunk, and some MiB.
    for bytes in [0, 1, 8, 4095, 4096, 4097, 1 << 20, (1 << 20) + 4096, (5 << 20) + 77] {
        for root in 0..channel.size() {
            let content = |at: usize| (at as u32).wrapping_mul(2_654_435_761).wrapping_add(root) as u8;
            let mut data: Vec<u8> = if channel.rank().0 == root {
                (0..bytes).map(content).collect()
            } else {
                vec![0xAA; channel.rank().index()]
            };
            channel.broadcast(Rank(root), &mut data).expect("a broadcast");
            assert_eq!(data.len(), bytes);
            assert!(data.iter().enumerate().all(|(at, byte)| *byte == content(at)));
        }
    }
}

/// A broadcast of more bytes than an `int` can count.
fn huge_broadcast(channel: &Channel) {
    const BYTES: usize = (1 << 31) + 12_345;
    let mut data = Vec::new();
    if channel.rank() == Rank(0) {
        data = vec![0x5A; BYTES];
        data[BYTES - 1] = 7;
        data[1 << 31] = 9;
    }
    channel.broadcast(Rank(0), &mut data).expect("a broadcast");
    assert_eq!((data.len(), data[0], data[1 << 31], data[BYTES - 1]), (BYTES, 0x5A, 9, 7));
}

fn gathers(channel: &Channel) {
    let size = channel.size();
    let all = channel.allgather(u64::from(channel.rank().0) * 3 + 1).expect("an allgather");
    assert_eq!(all, (0..u64::from(size)).map(|rank| rank * 3 + 1).collect::<Vec<_>>());
    let part_of = |rank: u32| vec![rank as u8; rank as usize * 1000 % 2500];
    let parts = channel.gather(&part_of(channel.rank().0)).expect("a gather");
    match parts {
        Some(parts) => {
            assert_eq!(channel.rank(), Rank(0));
            assert_eq!(parts, (0..size).map(part_of).collect::<Vec<_>>());
        }
        None => assert_ne!(channel.rank(), Rank(0)),
    }
}

fn barriers(channel: &Channel) {
    for _ in 0..200 {
        channel.barrier().expect("a barrier");
    }
}

/// Invalid arguments are errors and leave the channel usable.
fn bad_arguments(channel: &Channel) {
    let error = channel
        .allreduce(&mut [1, 2], &[ReduceOp::Max])
        .expect_err("two lanes with one operation are refused");
    assert_eq!(error.class(), ErrorClass::Arg);
    let error =
        channel.broadcast(Rank(channel.size()), &mut Vec::new()).expect_err("an invalid root is refused");
    assert_eq!(error.class(), ErrorClass::Root);
    channel.barrier().expect("a barrier");
}

/// A short allreduce takes only messages between the node leaders: with k nodes k (k - 1) messages for up to
/// four leaders, else 2 (k - 1). With many lanes the ranks of each node exchange messages too: 2 (N - 1) on
/// one node, 3 (N - 1) on each of several. A short broadcast takes P - 1 messages. With one rank there are
/// none.
fn costs(group: &Arc<Group>) {
    let measured = group.channel().expect("a channel");
    let counting = group.channel().expect("a channel");
    let mut before = 0;
    let mut spent = || {
        let mut lanes = [measured.counters().messages_sent(), measured.counters().messages_received()];
        counting.allreduce(&mut lanes, &[ReduceOp::Sum, ReduceOp::Sum]).expect("a reduction");
        assert_eq!(lanes[0], lanes[1], "every sent message is received");
        let messages = lanes[0] - before;
        before = lanes[0];
        messages
    };
    let others = u64::from(group.size() - 1);
    let nodes = group.node().node_count() as u64;
    let is_direct = nodes <= u64::from(tree::DIRECT_MAX);
    let among_nodes = if is_direct { nodes * (nodes - 1) } else { 2 * (nodes - 1) };
    let on_nodes = (u64::from(group.size()) - nodes) * if nodes == 1 { 2 } else { 3 };
    measured.allreduce(&mut [1, 2, 3], &[ReduceOp::Sum; 3]).expect("a reduction");
    assert_eq!(spent(), among_nodes);
    measured.barrier().expect("a barrier");
    assert_eq!(spent(), among_nodes);
    measured.allreduce(&mut [1; 32], &[ReduceOp::Sum; 32]).expect("a reduction");
    assert_eq!(spent(), among_nodes + on_nodes);
    measured.broadcast(Rank(0), &mut vec![7; 4096]).expect("a broadcast");
    assert_eq!(spent(), others);
    measured.broadcast(Rank(0), &mut vec![7; 4096 + (3 << 20)]).expect("a broadcast");
    assert_eq!(spent(), 4 * others);
}

/// Thousands of channels need no communicator of their own, and a dropped channel's id is reused.
fn many_at_once(group: &Arc<Group>, count: u32) {
    let first = group.channel().expect("a channel");
    let base = first.id();
    let mut channels: Vec<Channel> = (1..count).map(|_| group.channel().expect("a channel")).collect();
    for (index, channel) in channels.iter().enumerate() {
        assert_eq!(channel.id(), base + 1 + index as u32);
    }
    for channel in channels.iter().step_by(97) {
        let mut lanes = [u64::from(channel.id())];
        channel.allreduce(&mut lanes, &[ReduceOp::Max]).expect("a reduction");
        assert_eq!(lanes[0], u64::from(channel.id()), "channels do not mix their messages");
    }
    drop(channels.remove(100));
    let reused = group.channel().expect("a channel");
    assert_eq!(reused.id(), base + 101, "a new channel gets the smallest free id");
}
