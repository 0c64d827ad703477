//! Makes the figures from the rows.

use std::path::{Path, PathBuf};

use capulet_bench_report::Row;
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SeriesLabelPosition, WHITE};

use crate::bars::{BarChart, Bars};
use crate::error::Error;
use crate::lines::{Line, LineChart};
use crate::style::{Area, OURS, nth_look};

const MPIS: [&str; 4] = ["openmpi", "openmpi5", "mpich", "mpich5"];

/// Draws every figure for which there are rows, and returns the paths of the files.
pub(crate) fn draw_all(rows: &[Row], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let of = |suite: &str| -> Vec<&Row> { rows.iter().filter(|row| row.suite == suite).collect() };
    let mut drawn = Vec::new();
    let pairs =
        |rows: Vec<&'_ Row>| rows.into_iter().filter(|row| row.op == "pair").cloned().collect::<Vec<_>>();
    for (suite, name, title) in [
        ("table1", "table1.png", "Table 1: pack and unpack"),
        ("applications", "applications.png", "Application patterns: pack and unpack"),
    ] {
        let rows = pairs(of(suite));
        if rows.is_empty() {
            continue;
        }
        let size = (1_300, 110 + 75 * rows.len() as u32);
        drawn.push(figure(folder, name, size, |area| bars(title, &rows).draw(area))?);
    }
    let flash = of("flash");
    if !flash.is_empty() {
        drawn.push(figure(folder, "figure3-flash.png", (1_700, 800), |area| {
            let panels = area.split_evenly((1, 2));
            encode_same(&flash).draw(&panels[0])?;
            encode_narrow(&flash).draw(&panels[1])
        })?);
    }
    let transpack = of("transpack");
    if !transpack.is_empty() {
        drawn.push(figure(folder, "figure4-transpack.png", (1_800, 900), |area| {
            let panels = area.split_evenly((1, 2));
            let charged = "Figure 4: transpack, set-up included";
            speed_ups(charged, &transpack, "fresh+copy").draw(&panels[0])?;
            speed_ups("Transpack with an existing program", &transpack, "copy").draw(&panels[1])
        })?);
    }
    Ok(drawn)
}

pub(crate) fn figure(
    folder: &Path,
    name: &str,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let area = BitMapBackend::new(&path, size).into_drawing_area();
    area.fill(&WHITE)?;
    draw(&area)?;
    area.present()?;
    drop(area);
    Ok(path)
}

/// The bars of Capulet, every MPI, the loops and `memcpy` for each row.
fn bars<'a>(title: &'a str, rows: &[Row]) -> BarChart<'a> {
    let series = |name: &str, value: &dyn Fn(&Row) -> Option<f64>| Bars {
        name: name.to_owned(),
        values: rows.iter().map(value).collect(),
    };
    let mut bars = vec![series(OURS, &|row| Some(row.ours))];
    for mpi in MPIS {
        bars.push(series(mpi, &|row| value_of(row, mpi)));
    }
    bars.push(series("loops", &|row| row.hand));
    bars.push(series("memcpy", &|row| row.memcpy));
    bars.retain(|bars| bars.values.iter().any(Option::is_some));
    let groups = rows.iter().map(|row| format!("{} {}", row.case, row.element)).collect();
    BarChart { title, axis: "GB/s of payload, both ways", groups, bars }
}

fn value_of(row: &Row, mpi: &str) -> Option<f64> {
    row.mpis.iter().find(|competitor| competitor.name == mpi).map(|competitor| competitor.value)
}

/// The numbers of variables and blocks in the name of a FLASH case, as in `FLASH-4v-100b`.
fn flash_size(row: &Row) -> Option<(u64, f64)> {
    let mut words = row.case.split('-').skip(1);
    let variables = words.next()?.strip_suffix('v')?.parse().ok()?;
    let blocks = words.next()?.strip_suffix('b')?.parse().ok()?;
    Some((variables, blocks))
}

/// Milliseconds for the bytes of a row at a rate in GB/s.
fn milliseconds(row: &Row, rate: f64) -> f64 {
    row.bytes as f64 / rate / 1e6
}

/// Times over the number of blocks, for one op and one number of variables: Capulet's, and those of the
/// best MPI of each row.
fn flash_lines(rows: &[&Row], op: &str, variables: u64, name: &str, at: usize) -> [Line; 2] {
    let points = |rate: fn(&Row) -> Option<f64>| {
        let of = rows.iter().filter(|row| row.op == op);
        of.filter_map(|row| {
            let (of_variables, blocks) = flash_size(row)?;
            (of_variables == variables).then_some((blocks, milliseconds(row, rate(row)?)))
        })
        .collect()
    };
    [
        Line {
            name: format!("{OURS}: {name}"),
            look: nth_look(2 * at, true),
            points: points(|row| Some(row.ours)),
        },
        Line {
            name: format!("best MPI: {name}"),
            look: nth_look(2 * at + 1, false),
            points: points(|row| row.peer),
        },
    ]
}

fn encode_same(rows: &[&Row]) -> LineChart {
    let mut lines: Vec<Line> = flash_lines(rows, "swap", 1, "byte swap, 1 variable", 0).into();
    lines.extend(flash_lines(rows, "pack", 1, "copy, 1 variable", 1));
    lines.extend(flash_lines(rows, "swap", 4, "byte swap, 4 variables", 2));
    times("Figure 3, left: encode double as double", lines)
}

fn encode_narrow(rows: &[&Row]) -> LineChart {
    let mut lines: Vec<Line> = flash_lines(rows, "d2f", 1, "1 variable", 0).into();
    lines.extend(flash_lines(rows, "d2f", 4, "4 variables", 1));
    times("Figure 3, right: encode double as float", lines)
}

fn times(title: &str, lines: Vec<Line>) -> LineChart {
    let legend = SeriesLabelPosition::LowerRight;
    LineChart { title: title.to_owned(), x: "FLASH blocks", y: "ms", lines, level: None, legend, room: 1.1 }
}

/// Speed-ups over pack and unpack of the best MPI, over the number of instances.
fn speed_ups(title: &str, rows: &[&Row], op: &str) -> LineChart {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows.iter().filter(|row| row.op == op) {
        let Some(ratio) = row.ratio else { continue };
        let pair = row.case.rsplit_once(" x").map_or(row.case.as_str(), |(pair, _)| pair);
        let point = (row.count as f64, ratio);
        if let Some(line) = lines.iter_mut().find(|line| line.name == pair) {
            line.points.push(point);
        } else {
            let look = nth_look(lines.len(), false);
            lines.push(Line { name: pair.to_owned(), look, points: vec![point] });
        }
    }
    LineChart {
        title: title.to_owned(),
        x: "instances",
        y: "x pack + unpack of the best MPI",
        lines,
        level: Some(1.0),
        legend: SeriesLabelPosition::MiddleRight,
        room: 3_000.0,
    }
}
