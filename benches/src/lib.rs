//! Measurements, ours and against peers. One build for each MPI; each is one process that measures itself against that MPI
//! alone, and prints rows that `capulet bench` puts together.
//!
//! Every row is of one process: ours and the others move the same bytes between the same buffers, by turns, and their images
//! are compared byte by byte before anything is timed. Types are made by the MPI and imported from it.

mod calls;
mod cases;
mod clock;
mod encode;
mod error;
mod hand;
mod lines;
pub mod locks;
mod moves;
mod mpi_side;
mod plan;
mod random;
mod sample;
mod spec;
mod stage;
mod transpack;

pub use error::BenchError;
pub use mpi_side::Mpi;
pub use plan::{Bench, Plan};
pub use sample::Effort;
