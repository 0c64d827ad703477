//! Test program: groups are found again by attribute and by their processes, leak no communicators and do
//! not hang.

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;

use capulet_comm::{Agree, ErrorClass, Group, NodeShared, Rank, ReduceOp, census, ffi};
use support::group_of;

fn main() {
    let (rank, size) = support::init();
    if std::env::args().nth(1).as_deref() == Some("wrong-nodes") {
        let error = group_of(support::world()).expect_err("an invalid number of nodes is refused");
        assert!(error.to_string().contains(capulet_comm::NODES_VARIABLE), "{error}");
        support::finish("groups");
        return;
    }
    // As a library that opens files on fresh duplicates only. MPI has far fewer than 3,000 free
    // communicators. With many more ranks than cores, an MPI library that spins takes 13 ms for each
    // cycle.
    let first = fresh_duplicates(if size <= 4 { 3000 } else { 200 });
    let world = group_of(support::world()).expect("a group");
    assert_eq!(Arc::as_ptr(&world), first, "the same processes have the same group");
    shared_by_duplicates(&world);
    outlives_its_communicator();
    order_matters(rank, size);
    bad_communicators(rank, size);
    nodes(&world);
    many_subsets(rank, size);
    histories_may_differ(rank, size);
    let own = group_of(own_communicator()).expect("a group of one");
    assert_eq!((own.size(), own.node().size(), own.node().node_count()), (1, 1, 1));
    support::finish("groups");
}

fn own_communicator() -> ffi::MPI_Comm {
    // SAFETY: mpi-sys defines this constant, which is never written.
    unsafe { ffi::RSMPI_COMM_SELF }
}

fn fresh_duplicates(cycles: u32) -> *const Group {
    let mut known = std::ptr::null();
    for cycle in 0..cycles {
        let comm = support::duplicate(support::world());
        let group = group_of(comm).expect("a group");
        let channel = group.channel().expect("a channel");
        if cycle == 0 {
            known = Arc::as_ptr(&group);
        }
        assert_eq!(Arc::as_ptr(&group), known, "cycle {cycle} created a new group");
        assert_eq!(channel.id(), 1);
        drop(channel);
        support::free(comm);
    }
    assert_eq!(census(), (1, 0));
    known
}

fn shared_by_duplicates(world: &Arc<Group>) {
    let copy = support::duplicate(support::world());
    let second = support::duplicate(copy);
    for comm in [copy, second] {
        assert!(Arc::ptr_eq(world, &group_of(comm).expect("a group")));
        support::free(comm);
    }
}

/// MPI-4.0 section 14.2.1: a program may free the communicator while the file is open.
fn outlives_its_communicator() {
    let comm = support::split(support::world(), 0, support::size_of(support::world()));
    let channel = group_of(comm).expect("a group").channel().expect("a channel");
    support::free(comm);
    channel.barrier().expect("a barrier");
    drop(channel);
}

/// The same processes in another order are another group.
fn order_matters(rank: u32, size: u32) {
    let comm = support::split(support::world(), 0, size - rank);
    let group = group_of(comm).expect("a group");
    assert_eq!(group.rank(), Rank(size - 1 - rank));
    let channel = group.channel().expect("a channel");
    let mut name = group.rank().0.to_string().into_bytes();
    channel.broadcast(Rank(size - 1), &mut name).expect("a broadcast");
    assert_eq!(name, (size - 1).to_string().into_bytes());
    drop(channel);
    support::free(comm);
}

fn bad_communicators(rank: u32, size: u32) {
    // SAFETY: mpi-sys defines this constant, which is never written.
    let null = unsafe { ffi::RSMPI_COMM_NULL };
    assert_eq!(group_of(null).expect_err("the null communicator is refused").class(), ErrorClass::Comm);
    if size < 2 {
        return;
    }
    let side = support::split(support::world(), u32::from(rank == 0), rank);
    let mut bridge = null;
    // SAFETY: both communicators are valid, and all ranks of the world call this function. MPI writes one
    // handle.
    let status = unsafe {
        let remote_leader = i32::from(rank == 0);
        ffi::MPI_Intercomm_create(side, 0, support::world(), remote_leader, 5, &raw mut bridge)
    };
    assert_eq!(status, 0);
    assert_eq!(group_of(bridge).expect_err("an inter-communicator is refused").class(), ErrorClass::Comm);
    support::free(bridge);
    support::free(side);
}

fn nodes(world: &Arc<Group>) {
    let node = world.node();
    let simulated =
        std::env::var(capulet_comm::NODES_VARIABLE).ok().and_then(|text| text.parse::<u64>().ok());
    let size = u64::from(world.size());
    let parts = simulated.unwrap_or(1).min(size);
    let color = |rank: Rank| u64::from(rank.0) * parts / size;
    let expected: Vec<Rank> =
        (0..world.size()).map(Rank).filter(|rank| color(*rank) == color(world.rank())).collect();
    assert_eq!(node.ranks, expected);
    assert_eq!(node.ranks[node.place], world.rank());
    assert_eq!((node.leader(), node.is_leader()), (expected[0], expected[0] == world.rank()));
    assert_eq!(node.node_count() as u64, parts);
    assert_eq!(node.leaders[node.index], node.leader());
}

/// A rank that has been in more groups has dropped an idle group that another rank still keeps. Both
/// ranks must get the same group.
fn histories_may_differ(rank: u32, size: u32) {
    if size < 4 {
        return;
    }
    // All ranks, in an order that no other test of this program uses. Only the registry keeps this group
    // alive.
    let all_ranks = || support::split(support::world(), 0, (rank + 2) % size);
    let comm = all_ranks();
    let first = group_of(comm).expect("a group").node().leaders.clone();
    support::free(comm);
    // Ranks 0 and 1 and each other rank, in every order. So ranks 0 and 1 are in many groups, and the
    // other ranks in few.
    for other in 2..size {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            // In the last round all three ranks are members.
            for skipped in 0..4 {
                let members = [0, 1, other];
                let place =
                    members.iter().position(|member| *member == rank).filter(|place| *place != skipped);
                let comm = support::split(
                    support::world(),
                    u32::from(place.is_none()),
                    place.map_or(rank, |p| order[p]),
                );
                if place.is_some() {
                    let expected = if skipped < 3 { 2 } else { 3 };
                    assert_eq!(group_of(comm).expect("a group").size(), expected);
                }
                support::free(comm);
            }
        }
    }
    let comm = all_ranks();
    let group = group_of(comm).expect("a group");
    assert_eq!((group.size(), &group.node().leaders), (size, &first));
    group.channel().expect("a channel").barrier().expect("a barrier");
    support::free(comm);
}

/// Every prefix of the ranks, and the ranks after it, get a group with a buffer. Each rank drops its idle
/// groups at a different time.
fn many_subsets(rank: u32, size: u32) {
    for round in 0..40 / size + 2 {
        for last in 0..size {
            let inside = rank <= last;
            let comm = support::split(support::world(), u32::from(inside), (rank * (round + 1)) % (size + 1));
            let group = group_of(comm).expect("a group");
            let channel = group.channel().expect("a channel");
            let buffer = channel.node_buffer(100_000).expect("MPI works").expect("there is memory");
            buffer.barrier().expect("a barrier");
            let mut lanes = [1];
            channel.allreduce(&mut lanes, &[ReduceOp::Sum]).expect("a reduction");
            assert_eq!(lanes[0], u64::from(if inside { last + 1 } else { size - 1 - last }));
            drop(buffer);
            drop(channel);
            support::free(comm);
        }
    }
    assert!(census().0 <= 11, "{:?} groups are kept", census());
}
