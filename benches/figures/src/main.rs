//! Draws figures from rows that `capulet bench --save` has written.
//!
//! Of Ross, Latham, Gropp, Lusk, Thakur, "Processing MPI Datatypes Outside MPI" (`EuroPVM/MPI` 2009) it
//! draws Table 1 as bars and Figures 3 and 4 as lines, and with them the application patterns. It also
//! draws the figures of the paper on atomic mode.

mod bars;
mod error;
mod figures;
mod lines;
mod locks;
mod style;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use capulet_bench_report::{LockRow, Row};
use clap::Parser;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Draw figures from the rows of `capulet bench`
#[derive(Debug, Parser)]
struct Options {
    /// Files that `capulet bench datatype --save` or `capulet bench transpack --save` has written
    #[arg(required_unless_present = "locks")]
    rows: Vec<PathBuf>,
    /// A file that `capulet bench locks --save` has written; can be given several times
    #[arg(long, value_name = "FILE")]
    locks: Vec<PathBuf>,
    /// Folder for the figures; created if it is missing
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match draw(&options) {
        Ok(paths) => {
            for path in paths {
                println!("{}", path.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("capulet-bench-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn draw(options: &Options) -> Result<Vec<PathBuf>, Error> {
    let (rows, locks) = (read::<Row>(&options.rows)?, read::<LockRow>(&options.locks)?);
    fs::create_dir_all(&options.out).map_err(|cause| Error::File { path: options.out.clone(), cause })?;
    style::use_own_font()?;
    let mut drawn = figures::draw_all(&rows, &options.out)?;
    drawn.extend(locks::draw_all(&locks, &options.out)?);
    Ok(drawn)
}

/// Reads all rows of these files.
fn read<T: DeserializeOwned>(paths: &[PathBuf]) -> Result<Vec<T>, Error> {
    let mut rows: Vec<T> = Vec::new();
    for path in paths {
        let bytes = fs::read(path).map_err(|cause| Error::File { path: path.clone(), cause })?;
        let more: Vec<T> =
            serde_json::from_slice(&bytes).map_err(|cause| Error::Rows { path: path.clone(), cause })?;
        rows.extend(more);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capulet_bench_report::{Competitor, Unit};

    fn row(suite: &str, case: &str, op: &str, count: u64) -> Row {
        let mpi = |name: &str, value| Competitor { name: name.into(), value, ratio: 20.0 / value };
        Row {
            suite: suite.into(),
            case: case.into(),
            element: "double".into(),
            op: op.into(),
            unit: Unit::GigabytesPerSecond,
            count,
            bytes: 1 << 20,
            ours: 20.0,
            ours_best: 21.0,
            peer: Some(10.0),
            peer_name: Some("mpich5".into()),
            ratio: Some(2.0 + count as f64),
            best_ratio: Some(2.0),
            hand: Some(15.0),
            hand_ratio: Some(1.3),
            memcpy: Some(40.0),
            memcpy_ratio: Some(0.5),
            lines: Some(25.0),
            lines_ratio: Some(0.8),
            mpis: vec![mpi("mpich5", 10.0), mpi("openmpi", 2.0)],
        }
    }

    fn all_suites() -> Vec<Row> {
        let mut rows =
            vec![row("table1", "Vector", "pair", 1), row("applications", "MILC_su3_zd", "pair", 1)];
        for op in ["pack", "swap", "d2f"] {
            rows.extend(
                ["FLASH-1v-10b", "FLASH-1v-500b", "FLASH-4v-10b"].map(|case| row("flash", case, op, 1)),
            );
        }
        for op in ["copy", "fresh+copy"] {
            rows.push(row("transpack", "X1 a>b x1", op, 1));
            rows.push(row("transpack", "X1 a>b x10", op, 10));
        }
        rows
    }

    fn options(rows: Vec<PathBuf>, out: PathBuf) -> Options {
        Options { rows, locks: Vec::new(), out }
    }

    #[test]
    fn rows_of_all_suites_give_all_figures() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let path = folder.path().join("rows.json");
        fs::write(&path, serde_json::to_vec(&all_suites()).expect("valid JSON"))
            .expect("the file is written");
        let drawn =
            draw(&options(vec![path], folder.path().join("new/figures"))).expect("the figures are drawn");
        let names: Vec<_> = drawn.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["table1.png", "applications.png", "figure3-flash.png", "figure4-transpack.png"]);
        for path in &drawn {
            let bytes = fs::read(path).expect("the file exists");
            assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n", "{}", path.display());
            // A blank figure of this size is much smaller.
            assert!(bytes.len() > 10_000, "{}: {} bytes", path.display(), bytes.len());
        }
    }

    #[test]
    fn without_rows_nothing_is_drawn() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let path = folder.path().join("rows.json");
        fs::write(&path, "[]").expect("the file is written");
        assert!(
            draw(&options(vec![path], folder.path().to_owned()))
                .expect("drawing no rows succeeds")
                .is_empty()
        );
    }

    #[test]
    fn file_without_rows_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let missing = folder.path().join("missing.json");
        let error =
            draw(&options(vec![missing.clone()], folder.path().to_owned())).expect_err("the file is missing");
        assert!(error.to_string().contains("missing.json"), "{error}");
        fs::write(&missing, "{}").expect("the file is written");
        let error =
            draw(&options(vec![missing], folder.path().to_owned())).expect_err("the file holds no rows");
        assert!(matches!(error, Error::Rows { .. }), "{error}");
    }
}
