//! The file: open, views, pointers, hints, consistency (MPI 4.1, chapter 14). Knows no concrete driver.
//!
//! [`File`] is the public Rust API; the C ABI is a thin coat on the same type.
//!
//! ```no_run
//! use capulet_adio::{AccessMode, Context, File};
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let context = Context::new(capulet_drivers::Registry::standard());
//! let mode = AccessMode::CREATE | AccessMode::READ_WRITE;
//! let file = File::open(&world, "squares.bin", mode, &context)?;
//! let mine = [i64::from(world.rank()).pow(2)];
//! file.write_at_all(8 * i64::from(world.rank()), &mine[..])?;
//! file.close()?;
//! # Ok::<(), capulet_adio::Error>(())
//! ```
//!
//! # Collective calls
//! A collective call must be made by all ranks of the file's communicator. It agrees on its outcome before it returns: if a
//! rank fails, at an argument, in the storage or in MPI, all ranks return an error of one class
//! ([`Error::class`]), and none waits for a rank that has left. Waits sleep and keep MPI progressing.

mod agree;
mod atomicity;
mod collective;
mod context;
mod error;
mod file;
mod gathering;
mod hints;
mod leaders;
mod manage;
mod mode;
mod on_demand;
mod one_run;
mod open;
mod pointer;
mod shared;
mod stats;
mod transfer;
mod typed;
mod view;

pub use capulet_plan::aggregators::{ConfigList, NoConfigList, aggregators_by_node};
pub use collective::Request;
pub use context::Context;
pub use error::{Error, Result, class_of_kind};
pub use file::File;
pub use hints::{Hints, WINDOW_BYTES, WINDOW_BYTES_MAX};
pub use mode::AccessMode;
pub use open::OpenRequest;
pub use pointer::Whence;
pub use transfer::{Coordination, Outcome, Position, UserMemory};
pub use view::FileView;
