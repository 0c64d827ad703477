//! Rows of measurements: what a bench of one MPI prints, and how those of several MPIs become one table.
//!
//! | step | type | by |
//! |---|---|---|
//! | one MPI, one line each | [`Line`]: [`Start`], then a [`Measured`] per row | the benches, linked with that MPI |
//! | all MPIs | [`Row`]: ours against the best MPI of the row | [`merge`], in the command |
//! | to be read | [`table`], [`summary`] | the command |
//!
//! [`files`] does the same for file layers, each of which runs in processes of its own: there, samples are paired that were taken one
//! after the other.
//!
//! A ratio is always *how many times faster we are*: the other's time by ours, as the median over samples that were taken
//! side by side, in one process where both can be in one.

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
