//! Small runs of `capulet bench`: no row is missing, and Capulet moves the right bytes in each. Speed is not
//! tested.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use capulet_tests::Mpi;

const LIMIT: Duration = Duration::from_secs(1200);

/// Runs one command at a time. Two would share the cores, and MPICH spins on them.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs the command: two small runs on two ranks of the chosen MPI, with the rows as JSON.
fn bench(words: &[&str]) -> Output {
    let _one_at_a_time = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mpi = Mpi::chosen();
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &LIMIT.as_secs().to_string()])
        .arg(mpi.command())
        .arg("bench")
        .args(words);
    command.args(["--quick", "--json", "--ranks", "2", "--mpi", mpi.name(), "--dir"]).arg(folder.path());
    let output = command.stdin(Stdio::null()).output().expect("timeout(1) is installed");
    let left = folder.path().read_dir().expect("the folder can be listed").count();
    assert_eq!(left, 0, "number of files left behind");
    output
}

fn rows(words: &[&str]) -> Vec<serde_json::Value> {
    let output = bench(words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// Checks a suite of `cases` cases. Each row has a ratio to a peer, or each of its peers has a fault.
fn check(suite: &str, cases: usize) {
    let rows = rows(&[suite]);
    assert_eq!(rows.len(), 3 * cases, "each case writes a fresh file and an existing file, and reads");
    for row in &rows {
        assert_eq!(row["suite"], suite);
        assert!(row["fault"].is_null(), "{row}");
        assert!(row["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{row}");
        assert!(row["counts"]["reads"].is_u64(), "the row has no counts: {row}");
        let peers = row["peers"].as_array().expect("the row has a list of peers");
        assert!(!peers.is_empty());
        assert!(row["ratio"].is_f64() || peers.iter().all(|peer| peer["fault"].is_string()), "{row}");
    }
}

/// Ten locks run seven experiments each, and the seven in words that all ranks reach also a plain fetch.
#[test]
fn locks_are_measured() {
    let rows = rows(&["locks"]);
    assert_eq!(rows.len(), 10 * 7 + 7);
    for row in &rows {
        assert!(row["value"].as_f64().is_some_and(f64::is_finite), "{row}");
        assert!(row["acquisitions"].as_u64().is_some_and(|count| count > 0), "{row}");
    }
}

#[test]
fn collective_rows_are_right() {
    check("collective", 19);
}

#[test]
fn independent_rows_are_right() {
    check("independent", 18);
}

/// Nine cases write and read. Two cases write through the shared file pointer. The rows of the far rank count
/// in raw round trips, on Capulet and on each peer without a fault.
#[test]
fn atomic_rows_are_right() {
    let rows = rows(&["atomic"]);
    assert_eq!(rows.len(), 2 * 9 + 2);
    for row in &rows {
        let case = row["case"].as_str().expect("the row has a case");
        assert!(row["fault"].is_null(), "{row}");
        assert!(row["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{row}");
        let peers = row["peers"].as_array().expect("the row has a list of peers");
        let is_far = case.starts_with("far ");
        for layer in peers.iter().filter(|peer| peer["fault"].is_null()).chain([row]) {
            assert_eq!(layer["round_trips"].as_f64().is_some_and(f64::is_finite), is_far, "{row}");
        }
        assert_eq!(row["round_trip_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), is_far, "{row}");
        if is_far || case.starts_with("alone ") {
            assert_eq!(row["counts"]["locks"], row["operations"], "one lock for an access: {row}");
        }
        if case.starts_with("shared ") || case.starts_with("ordered ") {
            assert_eq!(row["counts"]["writes"], row["pieces"], "one write for a block: {row}");
        }
    }
}

#[test]
fn option_case_selects_one_case() {
    let rows = rows(&["collective", "--case", "FLASH write"]);
    let states: Vec<_> = rows.iter().filter_map(|row| row["state"].as_str()).collect();
    assert_eq!(states, ["fresh", "existing"]);
}

#[test]
fn unknown_case_is_an_error() {
    let output = bench(&["collective", "--case", "no such case"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing was measured"));
}
