//! The only door to MPI of this project: communicators, nodes, shared memory, words for one-sided
//! operations, datatypes, requests and error classes. The crate must not know files.
//!
//! A [`Group`] has the processes of a user's communicator. A [`Channel`] of the group is a private
//! connection of its ranks, for example for one file. Code that agrees with other ranks takes an
//! [`Agree`], and code that shares memory on a node takes a [`NodeShared`]. So it also runs with threads
//! as ranks ([`local`]), without MPI.
//!
//! No function blocks inside MPI while it waits for other ranks: it tests, yields and sleeps
//! ([`Backoff`]), and drives the progress of MPI. There are two exceptions. The creation of groups and of
//! MPI windows, and the end of MPI windows, may block; they are rare. The operations of [`WorldWords`]
//! wait inside MPI until they are complete.
//!
//! # Example
//! Under MPI:
//! ```no_run
//! use capulet_comm::mpi::raw::AsRaw;
//! use capulet_comm::{Agree, Error, Group, ReduceOp, mpi};
//!
//! fn largest(ranks: &dyn Agree, own: u64) -> Result<u64, Error> {
//!     let mut lanes = [own];
//!     ranks.allreduce(&mut lanes, &[ReduceOp::Max])?;
//!     Ok(lanes[0])
//! }
//!
//! let universe = mpi::initialize().expect("MPI can be initialized once");
//! let world = universe.world();
//! // SAFETY: the communicator is valid until `universe` is dropped.
//! let group = unsafe { Group::of(world.as_raw()) }?;
//! let channel = group.channel()?;
//! assert_eq!(largest(&channel, u64::from(channel.rank().0))?, u64::from(channel.size()) - 1);
//! # Ok::<(), Error>(())
//! ```
//! The same function with threads as ranks:
//! ```
//! use std::thread;
//!
//! use capulet_comm::local::LocalChannel;
//! # use capulet_comm::{Agree, Error, ReduceOp};
//! # fn largest(ranks: &dyn Agree, own: u64) -> Result<u64, Error> {
//! #     let mut lanes = [own];
//! #     ranks.allreduce(&mut lanes, &[ReduceOp::Max])?;
//! #     Ok(lanes[0])
//! # }
//!
//! thread::scope(|scope| {
//!     for channel in LocalChannel::team(3) {
//!         scope.spawn(move || {
//!             let found = largest(&channel, u64::from(channel.rank().0));
//!             assert_eq!(found.expect("every rank takes part"), 2);
//!         });
//!     }
//! });
//! ```
//!
//! # Modules
//! The modules of each row use only each other and the rows above.
//!
//! | modules | content |
//! |---|---|
//! | `consts`, `class`, `error`, `rank`, [`tree`] | [`Error`], [`ErrorClass`], [`Rank`], constants of MPI |
//! | `agree` | [`Agree`]: barriers, reductions and broadcasts as a trait |
//! | `backoff`, `wait`, `futex`, `cgroup`, `segment` | waits, and shared memory of the operating system |
//! | `lifetime`, `still`, `service` | the phases of MPI, code that is not reentered, and answers to other ranks |
//! | `progress`, `process` | the progress of MPI, and the hook of `MPI_Finalize` |
//! | [`work`], [`request`], [`info`], [`status`] | nonblocking work, and the small objects of MPI |
//! | `attribute_key`, `types` | [`MpiType`]: conversion of datatypes, and their attributes |
//! | `message`, `lanes`, `reduction`, `collective` | the operations of [`Agree`] by messages of one tag |
//! | `members`, `user_comm` | the processes of a communicator |
//! | `meeting`, `words`, `node_memory` | agreements and [`NodeWords`] in the memory of a node |
//! | `node`, `job` | [`Node`]: the ranks that share memory, and whether the job has other nodes |
//! | `node_reduction` | reductions over several nodes |
//! | `memory`, `node_shared`, `buffer_table` | [`NodeShared`]: memory for collective operations |
//! | `pool`, `world` | [`WorldWords`]: words that ranks of all nodes reach: in MPI windows, by word servers, or by messages |
//! | `remains`, `group`, `registry` | [`Group`]: the processes of a user's communicator |
//! | `node_buffer`, `leaders`, `notifier`, `channel` | [`Channel`]: one tag of a group; [`NodeBuffer`] |
//! | [`local`] | [`Agree`], [`NodeShared`] and [`Leaders`] for threads as ranks |

mod agree;
mod attribute_key;
mod backoff;
mod buffer_table;
mod cgroup;
mod channel;
mod class;
mod collective;
mod consts;
mod error;
mod futex;
mod group;
pub mod info;
mod job;
mod lanes;
mod leaders;
mod lifetime;
pub mod local;
mod meeting;
mod members;
mod memory;
mod message;
mod node;
mod node_buffer;
mod node_memory;
mod node_reduction;
mod node_shared;
mod notifier;
mod pool;
mod process;
mod progress;
mod rank;
mod reduction;
mod registry;
mod remains;
pub mod request;
mod segment;
mod service;
pub mod status;
mod still;
pub mod tree;
mod types;
mod user_comm;
mod wait;
mod words;
pub mod work;
mod world;

pub use mpi;
pub use mpi::ffi;

pub use agree::{Agree, CombinedOfNodes, Join, NODE_LANES, NodeValues, Pending, ReduceOp, Track};
pub use backoff::Backoff;
pub use channel::Channel;
pub use class::ErrorClass;
pub use error::{Error, Result};
pub use group::Group;
pub use job::is_on_one_machine;
pub use leaders::Leaders;
pub use message::Counters;
pub use node::{NODES_VARIABLE, Node};
pub use node_buffer::NodeBuffer;
pub use node_shared::{Barriers, NodeShared};
pub use notifier::Notifier;
pub use process::prepare;
pub use progress::progress;
pub use rank::Rank;
#[doc(hidden)]
pub use registry::census;
pub use types::MpiType;
pub use wait::wait_until;
pub use words::{NodeWords, WordMemory};
pub use world::{Epochs, Mechanism, WorldWords};

/// The MPI library that this crate is built for.
pub mod build {
    /// `openmpi`, or `mpich` for MPICH and its relatives.
    pub const FAMILY: &str = env!("CAPULET_MPI_FAMILY");

    /// The `mpiexec` that belongs to the library, as a name or a path. For tests.
    #[doc(hidden)]
    pub const LAUNCHER: &str = env!("CAPULET_MPI_LAUNCHER");
}
