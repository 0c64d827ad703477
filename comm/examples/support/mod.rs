//! Helpers of the test programs. A failure of one rank ends the program on all ranks.

// Each program uses some of these helpers.
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
    // SAFETY: mpi-sys defines this constant, which is never written.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

/// Initializes MPI, and returns rank and size. A panic of one rank then ends the program on all ranks, so
/// that no rank waits for the failed one.
pub(crate) fn init() -> (u32, u32) {
    // SAFETY: mpi-sys defines this constant, which is never written.
    init_with(unsafe { ffi::RSMPI_THREAD_SINGLE })
}

/// As [`init`], with `MPI_THREAD_MULTIPLE`.
pub(crate) fn init_multiple() -> (u32, u32) {
    // SAFETY: mpi-sys defines this constant, which is never written.
    init_with(unsafe { ffi::RSMPI_THREAD_MULTIPLE })
}

fn init_with(level: c_int) -> (u32, u32) {
    let mut granted = 0;
    // SAFETY: each program calls this function once, before any other MPI call. MPI accepts null pointers
    // for the arguments (MPI-4.0 section 11.2.1), and writes one int.
    let status = unsafe { ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), level, &raw mut granted) };
    assert!(status == 0 && granted >= level, "MPI grants thread level {granted} of {level}");
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        // SAFETY: MPI is initialized, and the communicator is valid. MPI_Abort does not return.
        unsafe { ffi::MPI_Abort(world(), 1) };
    }));
    (rank_of(world()), size_of(world()))
}

/// Finalizes MPI and prints that the program passed. The test that launches the program looks for this line
/// of each rank.
pub(crate) fn finish(program: &str) {
    // SAFETY: MPI is initialized, and the program has no pending request.
    let status = unsafe { ffi::MPI_Finalize() };
    assert_eq!(status, 0);
    println!("{program} passed");
}

pub(crate) fn rank_of(comm: ffi::MPI_Comm) -> u32 {
    let mut rank = 0;
    // SAFETY: the callers pass a valid communicator. MPI writes one int.
    unsafe { ffi::MPI_Comm_rank(comm, &raw mut rank) };
    rank as u32
}

pub(crate) fn size_of(comm: ffi::MPI_Comm) -> u32 {
    let mut size = 0;
    // SAFETY: the callers pass a valid communicator. MPI writes one int.
    unsafe { ffi::MPI_Comm_size(comm, &raw mut size) };
    size as u32
}

/// Duplicates a communicator. Collective. Yields the processor while it waits: MPICH spins in a blocking
/// duplication, which takes seconds with more ranks than cores.
pub(crate) fn duplicate(comm: ffi::MPI_Comm) -> ffi::MPI_Comm {
    let mut copy = comm;
    // SAFETY: all ranks of the valid communicator call this function. `copy` and `request` live until the
    // request completes.
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
    // SAFETY: all ranks of the valid communicator call this function. MPI writes one handle.
    assert_eq!(unsafe { ffi::MPI_Comm_split(comm, color as c_int, key as c_int, &raw mut part) }, 0);
    part
}

pub(crate) fn free(mut comm: ffi::MPI_Comm) {
    // SAFETY: the caller owns the communicator and does not use it again.
    assert_eq!(unsafe { ffi::MPI_Comm_free(&raw mut comm) }, 0);
}

/// A small random number generator (xorshift). It gives the same numbers on every machine.
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

/// The group of a communicator of the program.
pub(crate) fn group_of(comm: ffi::MPI_Comm) -> capulet_comm::Result<std::sync::Arc<capulet_comm::Group>> {
    // SAFETY: `# Safety` of `Group::of`: the programs pass a valid communicator or MPI_COMM_NULL.
    unsafe { capulet_comm::Group::of(comm) }
}

/// Sets `MPI_ERRORS_RETURN` on the communicators whose error handlers MPI calls for functions without a
/// communicator, so that an error does not end the program.
pub(crate) fn return_errors() {
    // SAFETY: MPI is initialized, and the handles are constants of mpi-sys.
    unsafe {
        for comm in [ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF] {
            assert_eq!(ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN), 0);
        }
    }
}
