//! Merges the rows of several MPIs to one row against the best of them.

use serde::{Deserialize, Serialize};

use crate::measured::{Measured, Other, Peer, Unit};

/// An MPI in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Competitor {
    /// Name of the MPI.
    pub name: String,
    /// Result of the MPI, in the unit of the row.
    pub value: f64,
    /// How many times faster Capulet is in the process of this MPI.
    pub ratio: f64,
}

/// A row over all MPIs. The results of Capulet, the loops, `memcpy` and the lines come from the process
/// of the best MPI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The group of cases.
    pub suite: String,
    /// The data that is moved.
    pub case: String,
    /// The type of the elements.
    pub element: String,
    /// The operation.
    pub op: String,
    /// The unit of `ours`, `peer`, `hand`, `memcpy` and `lines`.
    pub unit: Unit,
    /// Instances of the type that a call moves.
    pub count: u64,
    /// Bytes of payload that a call moves.
    pub bytes: u64,
    /// Capulet's result.
    pub ours: f64,
    /// Capulet's best sample.
    pub ours_best: f64,
    /// Result of the best MPI. `None` if MPI has nothing to compare.
    pub peer: Option<f64>,
    /// Name of the best MPI.
    pub peer_name: Option<String>,
    /// How many times faster Capulet is than the best MPI.
    pub ratio: Option<f64>,
    /// The same ratio from the best sample of each.
    pub best_ratio: Option<f64>,
    /// Result of the hand-written loops.
    pub hand: Option<f64>,
    /// How many times faster Capulet is than the loops.
    pub hand_ratio: Option<f64>,
    /// Result of `memcpy` of the payload.
    pub memcpy: Option<f64>,
    /// How many times faster Capulet is than `memcpy`.
    pub memcpy_ratio: Option<f64>,
    /// Result of touching the cache lines of the payload, with nothing moved.
    pub lines: Option<f64>,
    /// How many times faster Capulet is than touching the lines. About 1 where no way to move the bytes
    /// can be faster.
    pub lines_ratio: Option<f64>,
    /// Results of all MPIs.
    pub mpis: Vec<Competitor>,
}

impl Row {
    /// How many times faster than the best MPI this row would be at the highest speed seen in it: that of
    /// Capulet, of the loops, or of the touched lines. `None` without an MPI or without a measurement of
    /// the lines.
    pub fn reachable_ratio(&self) -> Option<f64> {
        let fastest = 1.0_f64.min(self.lines_ratio?).min(self.hand_ratio.unwrap_or(1.0));
        self.ratio.map(|ratio| ratio / fastest)
    }
}

/// Returns one row for each case, in the order of their first appearance. The best MPI of a row is the
/// one over which Capulet has the smallest lead, each measured in its own process.
pub fn merge(runs: &[(String, Vec<Measured>)]) -> Vec<Row> {
    let mut keys: Vec<[&str; 4]> = Vec::new();
    for row in runs.iter().flat_map(|(_, rows)| rows) {
        let key = key(row);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter()
        .filter_map(|wanted| {
            let found = runs.iter().filter_map(|(name, rows)| {
                rows.iter().find(|row| key(row) == wanted).map(|row| (name.as_str(), row))
            });
            row_of(&found.collect::<Vec<_>>())
        })
        .collect()
}

fn key(row: &Measured) -> [&str; 4] {
    [&row.suite, &row.case, &row.element, &row.op].map(String::as_str)
}

fn mpi_ratio(row: &Measured) -> f64 {
    row.other(Peer::Mpi).map_or(f64::INFINITY, |other| other.ratio)
}

fn row_of(found: &[(&str, &Measured)]) -> Option<Row> {
    let (name, row) = found.iter().min_by(|a, b| mpi_ratio(a.1).total_cmp(&mpi_ratio(b.1)))?;
    let shown = |seconds: f64| row.unit.of(seconds, row.bytes);
    let value = |other: &Other| shown(other.times.median);
    let best = row.other(Peer::Mpi);
    let hand = row.other(Peer::Hand);
    let memcpy = row.other(Peer::Memcpy);
    let lines = row.other(Peer::Lines);
    let competitors = found.iter().filter_map(|(name, row)| {
        let other = row.other(Peer::Mpi)?;
        let value = row.unit.of(other.times.median, row.bytes);
        Some(Competitor { name: (*name).to_owned(), value, ratio: other.ratio })
    });
    Some(Row {
        suite: row.suite.clone(),
        case: row.case.clone(),
        element: row.element.clone(),
        op: row.op.clone(),
        unit: row.unit,
        count: row.count,
        bytes: row.bytes,
        ours: shown(row.ours.median),
        ours_best: shown(row.ours.best),
        peer: best.map(value),
        peer_name: best.map(|_| (*name).to_owned()),
        ratio: best.map(|other| other.ratio),
        best_ratio: best.map(|other| other.times.best / row.ours.best),
        hand: hand.map(value),
        hand_ratio: hand.map(|other| other.ratio),
        memcpy: memcpy.map(value),
        memcpy_ratio: memcpy.map(|other| other.ratio),
        lines: lines.map(value),
        lines_ratio: lines.map(|other| other.ratio),
        mpis: competitors.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Times;

    fn measured(case: &str, ours: f64, mpi: f64) -> Measured {
        let times = |seconds| Times { median: seconds, best: seconds };
        let other = |peer, seconds: f64| Other { peer, times: times(seconds), ratio: seconds / ours };
        Measured {
            suite: "s".into(),
            case: case.into(),
            element: "double".into(),
            op: "pack".into(),
            unit: Unit::GigabytesPerSecond,
            bytes: 1_000_000_000,
            count: 1,
            ours: times(ours),
            others: vec![
                other(Peer::Mpi, mpi),
                other(Peer::Memcpy, 0.5 * ours),
                other(Peer::Lines, 0.8 * ours),
                other(Peer::Hand, 1.25 * ours),
            ],
        }
    }

    #[test]
    fn best_mpi_has_the_lowest_ratio_in_its_own_process() {
        // The second MPI is slower in seconds, but its process ran at half the speed.
        let runs = [
            ("fast".to_owned(), vec![measured("a", 1.0, 3.0), measured("b", 1.0, 2.0)]),
            ("slow".to_owned(), vec![measured("a", 2.0, 4.0)]),
        ];
        let rows = merge(&runs);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].peer_name.as_deref(), Some("slow"));
        assert_eq!((rows[0].ratio, rows[0].peer, rows[0].ours), (Some(2.0), Some(0.25), 0.5));
        assert_eq!(rows[0].memcpy_ratio, Some(0.5));
        assert_eq!(rows[0].mpis.len(), 2);
        assert_eq!(rows[1].peer_name.as_deref(), Some("fast"));
        // At the speed of the lines the ratio would be 2.0 / 0.8. The loops are slower than Capulet.
        assert!(rows[0].reachable_ratio().is_some_and(|ratio| (ratio - 2.5).abs() < 1e-12), "{:?}", rows[0]);
        let loops_ahead = Row { hand_ratio: Some(0.5), ..rows[0].clone() };
        assert!(loops_ahead.reachable_ratio().is_some_and(|ratio| (ratio - 4.0).abs() < 1e-12));
        let ahead = Row { lines_ratio: Some(1.5), ..rows[0].clone() };
        assert_eq!(ahead.reachable_ratio(), Some(2.0));
    }

    #[test]
    fn row_without_an_mpi_has_no_peer() {
        let mut alone = measured("seek", 1.0, 1.0);
        alone.others.clear();
        let rows = merge(&[("any".to_owned(), vec![alone])]);
        assert_eq!((rows[0].peer, &rows[0].peer_name, rows[0].ratio), (None, &None, None));
        assert_eq!(rows[0].reachable_ratio(), None);
    }
}
