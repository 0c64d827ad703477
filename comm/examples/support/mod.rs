//! What the test programs share: a world whose failure on one rank ends all ranks.

// Each program uses a part of this.
#![allow(dead_code)]

pub(crate) mod construct;
pub(crate) mod packing;
pub(crate) mod spec;

use std::ffi::c_int;
use std::panic;
use std::ptr;

use capulet_comm::ffi;

/// `MPI_COMM_WORLD`.
pub(crate) fn world() -> ffi::MPI_Comm {
    // SAFETY: a constant of mpi-sys.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

/// Initializes MPI. A panic on one rank ends the program on all ranks, instead of leaving the others waiting.
pub(crate) fn init() -> (u32, u32) {
    // SAFETY: called once, first.
    init_with(unsafe { ffi::RSMPI_THREAD_SINGLE })
}

/// Initializes MPI so that several threads may be inside it at once.
pub(crate) fn init_multiple() -> (u32, u32) {
    // SAFETY: a constant of mpi-sys.
    init_with(unsafe { ffi::RSMPI_THREAD_MULTIPLE })
}

fn init_with(level: c_int) -> (u32, u32) {
    let mut granted = 0;
    // SAFETY: called once, before any other MPI call; no arguments are passed.
    let status = unsafe { ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), level, &raw mut granted) };
    assert!(status == 0 && granted >= level, "MPI grants thread level {granted} of {level}");
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        // SAFETY: MPI is initialized; this does not return.
        unsafe { ffi::MPI_Abort(world(), 1) };
    }));
    (rank_of(world()), size_of(world()))
}

/// Finalizes MPI, and says so: the launcher looks for the words of every rank.
pub(crate) fn finish(program: &str) {
    // SAFETY: MPI is initialized and no request of ours is open.
    let status = unsafe { ffi::MPI_Finalize() };
    assert_eq!(status, 0);
    println!("{program} passed");
}

pub(crate) fn rank_of(comm: ffi::MPI_Comm) -> u32 {
    let mut rank = 0;
    // SAFETY: the communicator is valid.
    unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) };
    rank as u32
}

pub(crate) fn size_of(comm: ffi::MPI_Comm) -> u32 {
    let mut size = 0;
    // SAFETY: the communicator is valid.
    unsafe { ffi::MPI_Comm_size(comm, &raw mut size) };
    size as u32
}

/// Yields while it waits: a blocking duplicate of MPICH spins, which takes seconds with more ranks than cores.
pub(crate) fn duplicate(comm: ffi::MPI_Comm) -> ffi::MPI_Comm {
    let mut copy = comm;
    // SAFETY: the communicator is valid; collective; `copy` and the request live until the request is done.
    unsafe {
        let mut request = ffi::RSMPI_REQUEST_NULL;
        assert_eq!(ffi::MPI_Comm_idup(comm, &raw mut copy, &raw mut request), 0);
        let mut done = 0;
        while done == 0 {
            assert_eq!(ffi::MPI_Test(&raw mut request, &raw mut done, ffi::RSMPI_STATUS_IGNORE), 0);
            std::thread::yield_now();
        }
    }
    copy
}

pub(crate) fn split(comm: ffi::MPI_Comm, color: u32, key: u32) -> ffi::MPI_Comm {
    let mut part = comm;
    // SAFETY: the communicator is valid; collective.
    assert_eq!(unsafe { ffi::MPI_Comm_split(comm, color as c_int, key as c_int, &raw mut part) }, 0);
    part
}

pub(crate) fn free(mut comm: ffi::MPI_Comm) {
    // SAFETY: the communicator is the caller's and not used again.
    assert_eq!(unsafe { ffi::MPI_Comm_free(&raw mut comm) }, 0);
}

/// A small generator of random numbers (xorshift), the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// The group of a communicator of the program's.
pub(crate) fn group_of(comm: ffi::MPI_Comm) -> capulet_comm::Result<std::sync::Arc<capulet_comm::Group>> {
    // SAFETY: the programs pass valid communicators, or the null one.
    unsafe { capulet_comm::Group::of(comm) }
}

/// Makes errors of calls without a communicator return, instead of ending the program.
pub(crate) fn return_errors() {
    // SAFETY: MPI is initialized; constants of mpi-sys.
    unsafe {
        for comm in [ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF] {
            assert_eq!(ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN), 0);
        }
    }
}
