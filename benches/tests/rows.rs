//! The measuring program on the MPI with which it is built: all images agree, and all rows exist. The
//! tests check no times.

use std::process::{Command, Output};

use capulet_bench_report::{Line, Measured, Peer};

fn run(words: &[&str]) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_capulet-bench-types")])
        .args(words)
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .output()
        .expect("timeout starts")
}

/// The rows of a bench. Checks that their number is the announced one.
fn rows(words: &[&str]) -> Vec<Measured> {
    let output = run(words);
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {}\n{complaints}", output.status);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines =
        text.lines().map(|line| serde_json::from_str(line).expect("every line is a line of the report"));
    let Some(Line::Start(start)) = lines.next() else { panic!("the first line is not a start: {text}") };
    let name = start.library.to_lowercase().replace(' ', "");
    assert!(name.contains(capulet_comm::build::FAMILY), "{name}");
    let rows: Vec<Measured> = lines
        .map(|line| match line {
            Line::Row(row) => row,
            Line::Start(start) => panic!("a second start: {start:?}"),
        })
        .collect();
    assert_eq!(rows.len(), start.rows);
    assert!(rows.iter().all(|row| row.ours.best > 0.0 && row.ours.best <= row.ours.median), "{rows:?}");
    rows
}

#[test]
fn packing_is_compared_with_all_peers() {
    let rows = rows(&["datatype", "--quick", "--case", "Contig"]);
    let names: Vec<_> = rows.iter().map(|row| (row.element.as_str(), row.op.as_str())).collect();
    let of = |element| ["pack", "unpack", "pair"].map(|op| (element, op));
    assert_eq!(names, [of("float"), of("double")].concat());
    for row in &rows {
        for peer in [Peer::Mpi, Peer::Hand, Peer::Memcpy, Peer::Lines] {
            assert!(row.other(peer).is_some_and(|other| other.ratio > 0.0), "{peer:?} in {row:?}");
        }
    }
}

#[test]
fn lists_structures_and_encodings_agree() {
    for (pattern, expected) in [("LAMMPS_atomic", 3), ("WRF", 6), ("MILC", 3), ("FLASH-4v-10b", 4)] {
        assert_eq!(
            rows(&["datatype", "--quick", "--runs", "1", "--case", pattern]).len(),
            expected,
            "{pattern}"
        );
    }
}

#[test]
fn single_calls_have_rows() {
    let rows = rows(&["datatype", "--quick", "--runs", "1", "--case", "calls small"]);
    assert_eq!(rows.iter().map(|row| row.op.as_str()).collect::<Vec<_>>(), ["pack", "unpack"]);
}

#[test]
fn every_pair_is_copied_as_mpi_does() {
    let mut rows = rows(&["transpack", "--quick", "--runs", "1", "--case", "x10 "]);
    rows.retain(|row| row.op == "copy");
    assert_eq!(rows.iter().filter(|row| row.count == 10).count(), 13);
}

#[test]
fn unknown_bench_is_refused() {
    assert_eq!(run(&["nonsense"]).status.code(), Some(2));
    assert_eq!(run(&["datatype", "--runs", "0"]).status.code(), Some(2));
}
