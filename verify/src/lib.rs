//! Whether accesses that overlapped can have happened one after the other.
//!
//! The program in `program/` makes such accesses by MPI-IO, of any MPI, and writes down for each which cells of the file it touched,
//! and whose it read ([`history`]). [`order`] finds an order of them in which each would have read what it did, or shows
//! that there is none. That is what atomic mode promises of the accesses of one open file (MPI 4.1, 14.6.1): any order, as long as
//! each rank's own accesses keep theirs.

pub mod history;
pub mod order;

pub use history::{Access, Round, Run};
pub use order::{Verdict, judge};
