//! The rings of tests that need processes: MPI programs, faults, libraries on top, the demo.
//!
//! The programs under `mpi/`, `fortran/`, `libraries/` and `mpi4py/` are compiled with the wrapper of an MPI ([`compile`]) and run under that
//! MPI's launcher on Capulet ([`launch`]). One job runs at a time, whatever the number of test threads: ranks outnumber the cores
//! already.
//!
//! The environment chooses: `CAPULET_TEST_MPI` (`openmpi` or `mpich`), and `CAPULET_TEST_IO=native` runs the same programs on the MPI's own
//! I/O, to see what is a fault of the test; many fail there for known faults of the peers.

pub mod compile;
pub mod launch;
pub mod mpi;

pub use launch::{Job, Outcome, Through};
pub use mpi::Mpi;

/// The numbers of ranks that every program is run with.
pub const RANKS: [usize; 5] = [1, 2, 3, 4, 7];
