//! Measures the datatype engine and the locks of atomic mode on the MPI with which this crate is built.
//! One build for each MPI gives one measuring program for each MPI. The program compares Capulet with
//! that MPI alone and prints rows, which `capulet bench` merges. This crate must not know of the other
//! MPIs, of tables or of figures.
//!
//! Every row comes from one process: Capulet and the others move the same bytes between the same buffers
//! in turn. Their images are compared byte by byte before the timing starts. The MPI makes the types, and
//! Capulet imports them.
//!
//! ```no_run
//! use capulet_benches::{Bench, Effort, Mpi, Plan};
//!
//! let plan = Plan::new(Bench::Datatype, Some("FLASH-1v-10b"));
//! let effort = Effort { rounds: 3, sample_seconds: 2e-4 };
//! plan.run(&Mpi::start(), effort, &mut std::io::stdout())?;
//! # Ok::<(), capulet_benches::BenchError>(())
//! ```
//!
//! | module | |
//! |---|---|
//! | [`plan`](Plan) | the rows that are measured, and their order |
//! | `cases`, `spec` | the types that are measured |
//! | `moves`, `encode`, `transpack`, `calls` | rows of packing, encoding, typed copies and single calls |
//! | `hand`, `lines`, `mpi_side` | the peers: loops, touched cache lines, the MPI |
//! | `sample`, `clock`, `stage`, `random` | samples, time, memory, random numbers |
//! | [`locks`] | the locks of atomic mode |

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
