//! The verdict on two builds of the library: in which rows this build is slower than the other one.

use std::io::{self, Write};

use capulet_bench_report::files::Row;

/// A row is slower if its ratio is below this one: the noise of the median on an idle machine.
const SLOWER_BELOW: f64 = 0.97;

/// What the runs of a row tell about its ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// With a probability of 95 %, the ratio is below [`SLOWER_BELOW`].
    Slower,
    /// The median of the runs is below [`SLOWER_BELOW`], but the runs differ too much to decide.
    Undecided,
    /// The median of the runs is not below [`SLOWER_BELOW`].
    AsFast,
}

/// A row with its verdict.
struct Judged<'a> {
    verdict: Verdict,
    ratio: f64,
    interval: Option<(f64, f64)>,
    row: &'a Row,
}

impl<'a> Judged<'a> {
    /// `None` if the row has no ratio.
    fn of(row: &'a Row) -> Option<Self> {
        let (ratio, interval) = (row.ratio?, row.best_peer()?.interval);
        Some(Self { verdict: verdict(ratio, interval), ratio, interval, row })
    }
}

fn verdict(ratio: f64, interval: Option<(f64, f64)>) -> Verdict {
    match interval {
        Some((_, high)) if high < SLOWER_BELOW => Verdict::Slower,
        _ if ratio < SLOWER_BELOW => Verdict::Undecided,
        _ => Verdict::AsFast,
    }
}

/// Writes the number of rows with each verdict, and lists the rows that are not as fast as the other build.
pub(super) fn write(output: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let mut judged: Vec<Judged<'_>> = rows.iter().filter_map(Judged::of).collect();
    judged.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let count = |wanted: Verdict| judged.iter().filter(|row| row.verdict == wanted).count();
    writeln!(
        output,
        "{} of {} rows are slower than {SLOWER_BELOW} of the other build with a probability of 95 %, {} may be",
        count(Verdict::Slower),
        judged.len(),
        count(Verdict::Undecided)
    )?;
    for Judged { verdict, ratio, interval, row } in judged {
        let word = match verdict {
            Verdict::Slower => "slower",
            Verdict::Undecided => "may be",
            Verdict::AsFast => continue,
        };
        let interval =
            interval.map_or("too few runs".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"));
        let Row { mpi, storage, ranks, head, .. } = row;
        writeln!(
            output,
            "  {word}  {ratio:.2}  {interval:12}  {mpi}, {storage}, {ranks} ranks: {} {} {}",
            head.case, head.op, head.state
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_that_agree_make_a_row_slower() {
        assert_eq!(verdict(0.9, Some((0.85, 0.96))), Verdict::Slower);
        assert_eq!(verdict(0.9, Some((0.85, 0.98))), Verdict::Undecided);
        assert_eq!(verdict(0.9, None), Verdict::Undecided);
        assert_eq!(verdict(0.97, Some((0.9, 1.1))), Verdict::AsFast);
    }
}
