//! The only door to MPI: communicators, nodes, shared windows, datatype import, error classes. Knows no files.
//!
//! No function here blocks inside MPI where it waits for other ranks, apart from the making of communicators and windows,
//! which is rare: waits test, yield, and sleep (see [`Backoff`]).

mod agree;
mod backoff;
mod cgroup;
mod channel;
mod class;
mod collective;
mod consts;
mod error;
mod futex;
mod group;
pub mod info;
mod leaders;
pub mod local;
mod meeting;
mod members;
mod memory;
mod message;
mod node;
mod node_memory;
mod pool;
mod process;
mod progress;
mod rank;
mod reduction;
mod registry;
pub mod request;
mod segment;
pub mod status;
pub mod tree;
mod types;
mod user_comm;
mod wakes;
mod window;
mod words;
pub mod work;
mod world;

pub use mpi;
pub use mpi::ffi;

pub use agree::{Agree, Pending, ReduceOp, Track};
pub use backoff::Backoff;
pub use channel::Channel;
pub use class::ErrorClass;
pub use error::{Error, Result};
pub use group::Group;
pub use leaders::Leaders;
pub use message::Counters;
pub use node::{NODES_VARIABLE, Node};
pub use process::prepare;
pub use progress::progress;
pub use rank::Rank;
#[doc(hidden)]
pub use registry::census;
pub use types::MpiType;
pub use wakes::Wakes;
pub use window::{Barriers, NodeShared, NodeWindow};
pub use words::{NodeWords, WordMemory};
pub use world::{Epochs, WorldWords};

/// Which MPI this crate was built for.
pub mod build {
    /// `openmpi` or `mpich` (and its relatives).
    pub const FAMILY: &str = env!("CAPULET_MPI_FAMILY");

    /// The `mpiexec` that belongs to it, as a name or a path. For tests.
    #[doc(hidden)]
    pub const LAUNCHER: &str = env!("CAPULET_MPI_LAUNCHER");
}
