//! Which plan an access is carried out by, and what carrying it out will take. Pure: no MPI, no file, no clock.
//!
//! What decides is here: where the bytes of a rank lie ([`FileSide`]), how ranks sum that up and choose ([`choice`]), how one rank
//! alone goes about it ([`way`]), who holds windows ([`mod@aggregators`]), how a round's windows lie in the file ([`Grid`]) and which units of them are asked for ([`marks`]), how another node is told ([`wire`]).
//! [`outline()`](outline::outline) puts it together: what an access will take, before it is carried out.
//! The executors of `capulet-sieve` call this crate, and so does the command, which links to no MPI.

pub mod aggregators;
pub mod choice;
pub mod grid;
pub mod marks;
pub mod outline;
pub mod side;
pub mod way;
pub mod wire;

pub use capulet_drivers::Direction;
pub use choice::{Agreed, CollectiveMode, Means, Plan, PlanHints, Reason, Summary, choose};
pub use grid::Grid;
pub use side::{BeyondLargestOffset, FileSide};
pub use way::{Heat, Holes, Way};
