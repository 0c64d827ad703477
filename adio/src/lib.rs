//! The file layer of MPI-IO (MPI 4.1, chapter 14): open and close, views, file pointers, hints, data access,
//! consistency and requests. [`File`] is the public Rust API, and the C ABI is a thin layer on the same
//! type. The crate plans and moves no bytes itself; that is the task of `capulet-sieve`. It must not know any
//! concrete driver: it works with `Driver` and `DriverFile`, and a [`Context`] supplies the drivers.
//!
//! Each rank writes one number, collectively:
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
//! All ranks of the communicator of the file must make a collective call. The call agrees on its outcome
//! before it returns: if a rank fails, in an argument, in the storage or in MPI, all ranks return an error of
//! one class ([`Error::class`]), and no rank waits for a rank that has left the call. A wait sleeps and
//! keeps MPI progressing.
//!
//! # Modules
//! All modules are private. The crate exports their public items at its root.
//!
//! | module | content |
//! |---|---|
//! | `open` | opening, closing and deleting; [`OpenRequest`] |
//! | `on_demand` | a file that a rank opens only when it first needs it |
//! | `file` | [`File`] and its state |
//! | `context` | [`Context`]: drivers, hints and statistics of a process |
//! | `mode` | [`AccessMode`] |
//! | `hints` | [`Hints`] |
//! | `view` | [`FileView`] |
//! | `manage` | size, preallocation, sync, changes of view and hints |
//! | `pointer` | the individual file pointer |
//! | `shared_pointer`, `shared` | the words of the shared file pointer; the calls at it |
//! | `outcome` | [`Outcome`] of an access |
//! | `transfer` | data access: checks, and independent accesses |
//! | `one_run` | independent accesses of one run of the file and of memory |
//! | `typed` | data access with Rust buffers |
//! | `collective` | collective data access: blocking, nonblocking and split; [`Request`] |
//! | `aggregator_layout` | the aggregators of collective accesses |
//! | `atomicity` | atomic mode: which lock, and what each access locks |
//! | `agree` | agreements of the ranks of a file |
//! | `leaders` | data of the node leaders for all ranks |
//! | `calls`, `stats` | counts of accesses; the table of `CAPULET_STATS` |
//! | `error` | [`Error`] and its MPI error class |

mod aggregator_layout;
mod agree;
mod atomicity;
mod calls;
mod collective;
mod context;
mod error;
mod file;
mod hints;
mod leaders;
mod manage;
mod mode;
mod on_demand;
mod one_run;
mod open;
mod outcome;
mod pointer;
mod shared;
mod shared_pointer;
mod stats;
mod transfer;
mod typed;
mod view;

pub use capulet_plan::aggregators::{ConfigList, NoConfigList, aggregators_by_node};
pub use collective::Request;
pub use context::Context;
pub use error::{Error, Result};
pub use file::File;
pub use hints::{COLLECTIVE_BUFFER_BYTES, COLLECTIVE_BUFFER_BYTES_MAX, Hints};
pub use mode::AccessMode;
pub use open::OpenRequest;
pub use outcome::Outcome;
pub use pointer::Whence;
pub use transfer::{Coordination, Position, UserMemory};
pub use view::FileView;
