//! Rows of measurements: the form in which the bench of one MPI prints them, and how the rows of several
//! MPIs become one table. This crate must not know MPI or what is measured.
//!
//! | step | type | by |
//! |---|---|---|
//! | one MPI | [`Line`]: [`Start`], then one [`Measured`] for each row | the benches, linked to that MPI |
//! | all MPIs | [`Row`]: Capulet against the best MPI of the row | [`merge`], in the command |
//! | for people | [`table`], [`summary`] | the command |
//!
//! A ratio always tells *how many times faster Capulet is*: the other's time divided by Capulet's, as the
//! median over samples that were taken side by side, in one process if one process can run both.
//!
//! ```
//! use capulet_bench_report::{Measured, Other, Peer, Times, Unit, merge};
//!
//! let times = |seconds| Times { median: seconds, best: seconds };
//! let measured = Measured {
//!     suite: "table1".into(),
//!     case: "Vector".into(),
//!     element: "double".into(),
//!     op: "pack".into(),
//!     unit: Unit::GigabytesPerSecond,
//!     bytes: 2_000_000_000,
//!     count: 1,
//!     ours: times(1.0),
//!     others: vec![Other { peer: Peer::Mpi, times: times(4.0), ratio: 4.0 }],
//! };
//! let rows = merge(&[("mpich".to_owned(), vec![measured])]);
//! assert_eq!((rows[0].ours, rows[0].ratio), (2.0, Some(4.0)));
//! ```
//!
//! The module [`files`] does the same for file layers. Each layer runs in processes of its own, so
//! samples are paired that were taken one after the other. [`LockRow`] is a row of the bench of locks.

pub mod files;
mod locks;
mod measured;
mod merge;
mod summary;
mod table;

pub use locks::LockRow;
pub use measured::{Line, Measured, Other, Peer, Start, Times, Unit};
pub use merge::{Competitor, Row, merge};
pub use summary::summary;
pub use table::table;
