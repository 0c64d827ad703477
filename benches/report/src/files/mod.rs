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

/// The interval that contains the median of the distribution of the values with a probability of at least
/// 95 %: the k-th smallest and the k-th largest value, for the largest such k. The number of values below the
/// median has the binomial distribution of n fair throws. `None` for fewer than 6 values. Sorts the values.
fn median_interval(values: &mut [f64]) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    // `tail` is the probability of at most k values below the median. The interval from the k-th smallest
    // value to the k-th largest one misses the median if at most k - 1 values lie on one side of it.
    let (mut term, mut tail, mut dropped) = (0.5_f64.powi(i32::try_from(count).ok()?), 0.0, 0);
    loop {
        tail += term;
        if 2.0 * tail > 0.05 {
            break;
        }
        dropped += 1;
        term *= (count + 1 - dropped) as f64 / dropped as f64;
    }
    (dropped > 0).then(|| (values[dropped - 1], values[count - dropped]))
}

#[cfg(test)]
mod canned;

#[cfg(test)]
mod tests {
    use super::median_interval;

    /// Table of the sign test: of n values, the k-th smallest and the k-th largest one.
    #[test]
    fn interval_of_the_median_has_the_ranks_of_the_sign_test() {
        for (count, k) in [(6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (25, 8), (50, 18)] {
            let mut values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let expected = (f64::from(k), f64::from(count + 1 - k));
            assert_eq!(median_interval(&mut values), Some(expected), "{count} values");
        }
        assert_eq!(median_interval(&mut [1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(median_interval(&mut []), None);
    }
}
