//! Rows about files: the output of a launch of the measuring program, and how the launches of all
//! contenders become rows.
//!
//! The program measures every row once in a launch. The contenders take turns, launch by launch, so that
//! a *run* is one launch of each contender. Ratios are made of times of one run.

mod line;
mod merge;
mod rank;
mod summary;
mod table;

pub use line::{Head, Line, Sample, Start};
pub use merge::{Contender, Counts, Group, Lost, PeerRow, Row, merge};
pub use rank::hopeless;
pub use summary::summary;
pub use table::table;

/// The median of the values. `None` if there are none. Sorts the values.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod canned;
