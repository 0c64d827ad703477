//! Judges whether accesses that overlapped in time can have happened one after the other. The crate is
//! pure: it must not know Capulet, MPI or files.
//!
//! The program in `program/` makes such accesses by MPI-IO, with any MPI. For each access it records the
//! cells of the file that the access touched, and the writer of each cell that it read ([`history`]).
//! [`order`] finds a serial order in which each access reads what it has read, or shows that no such
//! order exists. Atomic mode promises such an order for the accesses of one open file (MPI 4.1, 14.6.1):
//! any order, as long as each rank's own accesses keep theirs.
//!
//! # Example
//! ```
//! use capulet_verify::history::NOBODY;
//! use capulet_verify::{Access, Round, Run, Verdict, judge};
//!
//! let cell = |start, writer| Run { start, cells: 1, writer };
//! let access = |rank, writes, runs| Access { rank, index: 0, group: 0, writes, call: 0, runs };
//!
//! // Rank 0 writes two cells. Rank 1 reads the new value of the first and the old value of the second.
//! let write = access(0, true, vec![cell(0, 1), cell(1, 1)]);
//! let read = access(1, false, vec![cell(0, 1), cell(1, NOBODY)]);
//! let round = Round { accesses: vec![write.clone(), read], last: None };
//! assert!(matches!(judge(&round), Verdict::Circle(_)));
//!
//! // If it finds both old values, the read was before the write.
//! let read = access(1, false, vec![cell(0, NOBODY), cell(1, NOBODY)]);
//! let round = Round { accesses: vec![write, read], last: None };
//! assert_eq!(judge(&round), Verdict::Serial(vec![1, 0]));
//! ```
//!
//! # Modules
//! | module | content |
//! |---|---|
//! | [`history`] | the accesses of a round, and their form as bytes |
//! | [`order`] | the search for an order |
//!
//! Beside the crate, `program/main.c` makes the accesses, `program/history.c` records them, and
//! `program/delay.c` is a library to be preloaded, which cuts system calls into parts.

pub mod history;
pub mod order;

pub use history::{Access, Round, Run};
pub use order::{Verdict, judge};
