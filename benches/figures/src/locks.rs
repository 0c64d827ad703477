//! The figures of Ross, Latham, Gropp, Thakur, Toonen, "Implementing MPI-IO Atomic Mode Without File
//! System Support", from the rows of `capulet bench locks`. Each MPI has a panel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capulet_bench_report::LockRow;
use plotters::prelude::SeriesLabelPosition;

use crate::error::Error;
use crate::figures::figure;
use crate::lines::{Line, LineChart};
use crate::style::nth_look;

/// The least value on a logarithmic axis.
const LEAST: f64 = 0.0001;

/// Draws every figure for which there are rows, and returns the paths of the files.
pub(crate) fn draw_all(rows: &[LockRow], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let turns: Vec<&LockRow> = rows.iter().filter(|row| row.experiment == "turns").collect();
    let figures = [
        ("locks-figure7.png", Figure::Strategies),
        ("locks-figure8.png", Figure::Work),
        ("locks-table1.png", Figure::NoWork),
    ];
    let mut drawn = Vec::new();
    for (name, kind) in figures {
        let rows: Vec<&LockRow> = turns.iter().copied().filter(|row| kind.has(row)).collect();
        let mpis: BTreeSet<&str> = rows.iter().map(|row| row.mpi.as_str()).collect();
        if mpis.is_empty() {
            continue;
        }
        drawn.push(figure(folder, name, (900 * mpis.len() as u32, 700), |area| {
            for (panel, mpi) in area.split_evenly((1, mpis.len())).iter().zip(&mpis) {
                kind.chart(rows.iter().copied().filter(|row| row.mpi == *mpi), mpi).draw(panel)?;
            }
            Ok(())
        })?);
    }
    Ok(drawn)
}

/// A figure over the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Figure 7: percent of the time that is not work, with 100 ms of work, by lock.
    Strategies,
    /// Figure 8: percent of the time that is not work, of the hybrid lock, by work.
    Work,
    /// Table 1: milliseconds in which each rank has the lock once, without work, by lock.
    NoWork,
}

impl Figure {
    fn has(self, row: &LockRow) -> bool {
        match self {
            Self::Strategies => row.work_ms == 100,
            Self::Work => row.work_ms > 0 && row.lock == "hybrid",
            Self::NoWork => row.work_ms == 0,
        }
    }

    fn line_of(self, row: &LockRow) -> String {
        if self == Self::Work { format!("{} ms", row.work_ms) } else { row.lock.clone() }
    }

    fn value(self, row: &LockRow) -> f64 {
        let value = if self == Self::NoWork { row.value * f64::from(row.ranks) / 1000.0 } else { row.value };
        value.max(LEAST)
    }

    fn title(self, mpi: &str) -> String {
        match self {
            Self::Strategies => format!("Figure 7: 100 ms of work, {mpi}"),
            Self::Work => format!("Figure 8: the hybrid lock by work, {mpi}"),
            Self::NoWork => format!("Table 1: no work, {mpi}"),
        }
    }

    fn chart<'a>(self, rows: impl Iterator<Item = &'a LockRow>, mpi: &str) -> LineChart {
        let mut lines: Vec<Line> = Vec::new();
        for row in rows {
            let (name, point) = (self.line_of(row), (f64::from(row.ranks), self.value(row)));
            if let Some(line) = lines.iter_mut().find(|line| line.name == name) {
                line.points.push(point);
            } else {
                let look = nth_look(lines.len(), row.lock == "range");
                lines.push(Line { name, look, points: vec![point] });
            }
        }
        for line in &mut lines {
            line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        let y = if self == Self::NoWork { "ms, one acquisition per rank" } else { "% of the time, not work" };
        LineChart {
            title: self.title(mpi),
            x: "ranks",
            y,
            lines,
            level: None,
            legend: SeriesLabelPosition::MiddleRight,
            room: 2.5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mpi: &str, lock: &str, ranks: u32, work_ms: u32, value: f64) -> LockRow {
        LockRow {
            mpi: mpi.to_owned(),
            lock: lock.to_owned(),
            ranks,
            experiment: "turns".to_owned(),
            work_ms,
            acquisitions: 1,
            value,
            longest_wait_ms: 1.0,
        }
    }

    #[test]
    fn each_figure_has_its_rows_by_ranks() {
        let rows = [
            row("X", "hybrid", 4, 100, 0.5),
            row("X", "hybrid", 1, 100, -0.1),
            row("X", "mcs", 1, 100, 0.1),
            row("X", "hybrid", 4, 0, 50.0),
        ];
        let of = |kind: Figure| kind.chart(rows.iter().filter(|row| kind.has(row)), "X").lines;
        let strategies = of(Figure::Strategies);
        assert_eq!(strategies.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["hybrid", "mcs"]);
        assert_eq!(strategies[0].points, [(1.0, LEAST), (4.0, 0.5)]);
        assert_eq!(of(Figure::Work).iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["100 ms"]);
        // An acquisition takes 50 us, and each of 4 ranks has one.
        assert_eq!(of(Figure::NoWork)[0].points, [(4.0, 0.2)]);
    }

    #[test]
    fn only_measured_rows_become_figures() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        crate::style::use_own_font().expect("the font is valid");
        let rows = [row("X", "mcs", 1, 100, 0.2), row("X", "mcs", 8, 100, 0.3), row("Y", "mcs", 8, 100, 0.3)];
        let drawn = draw_all(&rows, folder.path()).expect("the figures are drawn");
        assert_eq!(drawn, [folder.path().join("locks-figure7.png")]);
        assert!(drawn[0].metadata().expect("the file exists").len() > 10_000);
        assert!(draw_all(&[], folder.path()).expect("drawing no rows succeeds").is_empty());
    }
}
