//! Test program: a group that contains a process that was spawned later is not confused with another
//! group. The counters of the two processes have the same values, so numbers that are made of counters
//! only would repeat.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use capulet_comm::{Agree, Group, ReduceOp, census, ffi};
use support::group_of;

/// The number of groups that the spawned process creates before the common group.
const EARLIER: usize = 5;

fn main() {
    let (rank, size) = support::init_multiple();
    assert_eq!((rank, size), (0, 1), "the program runs as one process");
    let mut parent = null();
    // SAFETY: MPI is initialized. MPI writes one handle.
    unsafe { ffi::MPI_Comm_get_parent(&raw mut parent) };
    if parent == null() {
        original();
        support::finish("spawned");
    } else {
        spawned(parent);
        support::finish("the spawned process");
    }
}

fn null() -> ffi::MPI_Comm {
    // SAFETY: mpi-sys defines this constant, which is never written.
    unsafe { ffi::RSMPI_COMM_NULL }
}

/// Groups on fresh duplicates of the communicator of this process. At this thread level communicators do
/// not share groups.
fn groups(count: usize) -> Vec<(ffi::MPI_Comm, Arc<Group>)> {
    let group = |_| {
        let copy = support::duplicate(support::world());
        (copy, group_of(copy).expect("a group"))
    };
    (0..count).map(group).collect()
}

fn merged(between: ffi::MPI_Comm, high: c_int) -> ffi::MPI_Comm {
    let mut all = null();
    // SAFETY: the inter-communicator is valid, and both sides call this function. MPI writes one handle.
    unsafe { ffi::MPI_Intercomm_merge(between, high, &raw mut all) };
    all
}

fn agree(group: &Arc<Group>) {
    let channel = group.channel().expect("a channel");
    let mut lanes = [1];
    channel.allreduce(&mut lanes, &[ReduceOp::Sum]).expect("a reduction");
    assert_eq!(lanes, [u64::from(group.size())]);
}

fn original() {
    let program = std::env::current_exe().expect("the program has a path");
    let program =
        CString::new(program.to_str().expect("the path is UTF-8")).expect("the path has no zero byte");
    let mut between = null();
    // SAFETY: the strings outlive the call, and the other arguments are predefined. MPI writes one
    // handle.
    unsafe {
        let arguments = std::ptr::null_mut::<*mut c_char>();
        let (info, codes) = (ffi::RSMPI_INFO_NULL, std::ptr::null_mut::<c_int>());
        let world = support::world();
        ffi::MPI_Comm_spawn(program.as_ptr(), arguments, 1, info, 0, world, &raw mut between, codes);
    }
    let all = merged(between, 0);
    let common = group_of(all).expect("a group");
    assert_eq!(common.size(), 2);
    agree(&common);
    let own = groups(EARLIER + 1);
    let before = census().0;
    drop(common);
    support::free(all);
    assert_eq!(census().0, before - 1, "the end of one group removes no other group");
    for (copy, group) in own {
        agree(&group);
        drop(group);
        support::free(copy);
    }
    disconnect(between);
}

fn spawned(parent: ffi::MPI_Comm) {
    let own = groups(EARLIER);
    let all = merged(parent, 1);
    let common = group_of(all).expect("a group");
    agree(&common);
    drop(common);
    support::free(all);
    for (copy, group) in own {
        drop(group);
        support::free(copy);
    }
    disconnect(parent);
}

fn disconnect(mut between: ffi::MPI_Comm) {
    // SAFETY: the inter-communicator is valid, and no operation is in progress on it.
    unsafe { ffi::MPI_Comm_disconnect(&raw mut between) };
}
