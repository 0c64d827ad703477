//! Test program: words that their home rank answers for, by messages.

#[path = "support/mod.rs"]
mod support;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::thread;
use std::time::Duration;

use capulet_comm::{Agree, Channel, Epochs, Mechanism, WorldWords, ffi};
use support::group_of;

/// The argument `in-mpi` asserts that a rank answers while it waits in MPI.
fn main() {
    let answers_in_mpi = std::env::args().any(|argument| argument == "in-mpi");
    support::init();
    let group = group_of(support::world()).expect("a group");
    let channel = group.channel().expect("a channel");
    let words = channel.world_words(Epochs::Standing, Mechanism::Messages);
    let words = words.expect("MPI works").expect("words");
    counted(&words, &channel);
    crossed(&words, &channel);
    if answers_in_mpi {
        blocked_in_receive(&words);
        blocked_in_barrier(&words, &channel);
    }
    channel.barrier().expect("a barrier");
    drop((words, channel));
    support::finish("messages");
}

/// An operation is one message and one reply, whatever its length, and none at home.
fn counted(words: &WorldWords, channel: &Channel) {
    const OPERATIONS: u64 = 10;
    let (me, ranks, home) = (words.rank(), words.ranks(), words.home());
    let messages = || words.messages().expect("the mechanism sends messages");
    let entry = WorldWords::ENTRY_WORDS;
    channel.barrier().expect("a barrier");
    let before = messages();
    // No rank begins before the home rank has counted.
    channel.barrier().expect("a barrier");
    for _ in 0..OPERATIONS {
        words.add(home, 0, 1_u64).expect("MPI works");
        let put = [1; WorldWords::ENTRY_WORDS];
        words.exchange(me as usize * entry, &put, ranks as usize * entry).expect("MPI works");
    }
    channel.barrier().expect("a barrier");
    let (after, each) = (messages(), 2 * OPERATIONS);
    channel.barrier().expect("a barrier");
    let expected = if me == home { each * u64::from(ranks - 1) } else { each };
    assert_eq!([0, 1].map(|at| after[at] - before[at]), [expected; 2]);
    assert_eq!(words.load::<u64>(home, 0).expect("MPI works"), OPERATIONS * u64::from(ranks));
    channel.barrier().expect("a barrier");
}

/// All ranks ask all others at the same time. A rank that waits for a reply answers.
fn crossed(words: &WorldWords, channel: &Channel) {
    let (me, ranks) = (words.rank(), words.ranks());
    for round in 0..300 {
        let target = (me + 1 + round % ranks) % ranks;
        words.add(target, 1, 1_u32).expect("MPI works");
    }
    channel.barrier().expect("a barrier");
    let all: u32 = (0..ranks).map(|rank| words.load::<u32>(rank, 1).expect("MPI works")).sum();
    assert_eq!(all, 300 * ranks);
    channel.barrier().expect("a barrier");
}

/// The home rank is in `MPI_Recv` until another rank has changed a word of the home rank.
fn blocked_in_receive(words: &WorldWords) {
    const TAG: c_int = 7;
    let (home, mut byte) = (words.home(), 0_u8);
    let other = (home + 1) % words.ranks();
    let mut status = MaybeUninit::uninit();
    // SAFETY: the handles are valid. The byte and the status live until the call ends.
    unsafe {
        let (data, comm) = ((&raw mut byte).cast(), support::world());
        if words.rank() == home {
            ffi::MPI_Recv(data, 1, ffi::RSMPI_UINT8_T, other as c_int, TAG, comm, status.as_mut_ptr());
        } else if words.rank() == other {
            // The home rank is in its receive by then.
            thread::sleep(Duration::from_millis(20));
            words.add(home, 2, 1_u32).expect("MPI works");
            ffi::MPI_Send(data, 1, ffi::RSMPI_UINT8_T, home as c_int, TAG, comm);
        }
    }
    if words.rank() == home {
        assert_eq!(words.load::<u32>(home, 2).expect("MPI works"), 1);
    }
}

/// The other ranks are in `MPI_Barrier` until rank 0 has changed a word of each of them.
fn blocked_in_barrier(words: &WorldWords, channel: &Channel) {
    channel.barrier().expect("a barrier");
    if words.rank() == 0 {
        thread::sleep(Duration::from_millis(20));
        for target in 1..words.ranks() {
            words.add(target, 3, 1_u32).expect("MPI works");
        }
    }
    // SAFETY: all ranks call this function, and the communicator is valid.
    unsafe { ffi::MPI_Barrier(support::world()) };
    let found = words.load::<u32>(words.rank(), 3).expect("MPI works");
    assert_eq!(found, u32::from(words.rank() != 0));
}
