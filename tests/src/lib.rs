//! The tests that need processes: MPI programs, faults, libraries above MPI-IO, and the demo. Of
//! Capulet's crates this crate may know only `capulet-job`, because the tests examine the built library
//! as a program meets it.
//!
//! ```no_run
//! use capulet_tests::{Job, Mpi, compile};
//!
//! let mpi = Mpi::chosen();
//! let program = compile::c(mpi, "views");
//! Job::new(mpi, 4, program).run().expect_checks("views on 4 ranks");
//! ```
//!
//! The programs in `mpi/`, `fortran/`, `libraries/` and `mpi4py/` are compiled with the wrapper of an MPI
//! and run under the launcher of this MPI on Capulet. Only one job runs at a time, whatever the number of
//! test threads, because the ranks of one job outnumber the cores already.
//!
//! | module | |
//! |---|---|
//! | [`compile`] | compiles the programs |
//! | [`launch`] | runs a program on several ranks with a time limit |
//! | [`mpi`] | the MPIs, their tools, and Capulet's libraries for them |
//! | [`nodes`] | several real nodes on one machine |
//!
//! Two environment variables choose the run. `CAPULET_TEST_MPI` is `openmpi` or `mpich`.
//! `CAPULET_TEST_IO=native` runs the same programs on the MPI's own I/O, to show whether a fault lies in
//! the test; many programs fail there because of known faults of the peers.

pub mod compile;
pub mod launch;
pub mod mpi;
pub mod nodes;
mod slots;

pub use launch::{Job, Outcome, Through};
pub use mpi::Mpi;
pub use nodes::Nodes;

/// Whether this is a long run (`make test-long`): more random cases and more ranks.
pub fn is_long() -> bool {
    std::env::var_os("CAPULET_TEST_LONG").is_some()
}

/// The numbers of ranks with which every program runs.
pub const RANKS: [usize; 5] = [1, 2, 3, 4, 7];
