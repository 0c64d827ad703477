//! `capulet bench` with stand-ins for the measuring programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// A row as the measuring program prints it. Capulet takes 1 s, and the MPI takes `mpi` seconds.
fn row(case: &str, mpi: f64) -> String {
    format!(
        r#"{{"line":"row","suite":"table1","case":"{case}","element":"double","op":"pack","unit":"GB/s","bytes":2000000000,
"count":1,"ours":{{"median":1.0,"best":0.5}},"others":[{{"peer":"mpi","times":{{"median":{mpi},"best":{mpi}}},"ratio":{mpi}}},
{{"peer":"memcpy","times":{{"median":0.5,"best":0.5}},"ratio":0.5}}]}}"#
    )
    .replace('\n', "")
}

/// Serializes the tests. A test writes a program and starts it. A process that another test forks at that
/// time would hold the file open for writing until its exec, and the system does not start a file that is
/// open for writing.
static ALONE: Mutex<()> = Mutex::new(());

struct Builds {
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Builds {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder is created");
        let builds = Self { folder, _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) };
        let command = builds.path("openmpi", "capulet");
        fs::create_dir_all(command.parent().expect("the path has a parent")).expect("the folder is created");
        fs::copy(env!("CARGO_BIN_EXE_capulet"), command).expect("the file is copied");
        builds
    }

    fn path(&self, mpi: &str, name: &str) -> PathBuf {
        self.folder.path().join(mpi).join("release").join(name)
    }

    /// Writes a program that prints `lines`, records its arguments, and ends with `code`.
    fn program(&self, mpi: &str, lines: &[String], code: u8) {
        let path = self.path(mpi, "capulet-bench-types");
        fs::create_dir_all(path.parent().expect("the path has a parent")).expect("the folder is created");
        let start = format!(r#"{{"line":"start","library":"Stand-in {mpi}","rows":{}}}"#, lines.len());
        let text = format!(
            "#!/bin/sh\necho \"$@\" >\"$0.words\"\ncat <<'END'\n{start}\n{}\nEND\nexit {code}\n",
            lines.join("\n")
        );
        fs::write(&path, text).expect("the file is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the permissions are set");
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.path("openmpi", "capulet"));
        command.arg("bench").args(words).output().expect("the command runs")
    }

    fn words_of(&self, mpi: &str) -> String {
        let path = self.path(mpi, "capulet-bench-types.words");
        fs::read_to_string(path).expect("the program was started").trim().to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("the file is readable")).expect("valid JSON")
}

#[test]
fn rows_of_several_mpis_become_one_table() {
    let builds = Builds::new();
    builds.program("openmpi", &[row("Vector", 3.0), row("Contig", 0.9)], 0);
    builds.program("mpich5", &[row("Vector", 2.0), row("Contig", 1.1)], 0);
    let saved = builds.folder.path().join("rows.json");
    let words = [
        "datatype",
        "--runs",
        "7",
        "--case",
        "table1 ",
        "--save",
        saved.to_str().expect("the path is valid UTF-8"),
    ];
    let output = builds.run(&words);
    let (table, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{complaints}");
    let vector = table.lines().find(|line| line.contains("Vector")).expect("the table has the row");
    assert!(vector.contains("mpich5") && vector.contains("2.00"), "{vector}");
    let contig = table.lines().find(|line| line.contains("Contig")).expect("the table has the row");
    assert!(contig.contains("openmpi") && contig.contains("0.90"), "{contig}");
    assert!(
        table.contains("1.34 x the best MPI (geometric mean of 2 rows), worst 0.90, 1 below 0.95"),
        "{table}"
    );
    for missing in ["openmpi5:", "mpich:"] {
        assert!(complaints.contains(missing), "MPIs without a build are named: {complaints}");
    }
    assert_eq!(builds.words_of("mpich5"), "datatype --runs 7 --case table1");
    assert_eq!(json(&saved)[0]["peer_name"], "mpich5");
}

#[test]
fn rows_are_printed_as_json() {
    let builds = Builds::new();
    builds.program("mpich", &[row("Vector", 4.0)], 0);
    let output = builds.run(&["transpack", "--json", "--quick"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the output is only JSON");
    let row = &rows[0];
    for (key, value) in [("ours", 2.0), ("peer", 0.5), ("ratio", 4.0), ("memcpy_ratio", 0.5)] {
        assert_eq!(row[key], value, "{key} in {row}");
    }
    for (key, value) in [("suite", "table1"), ("element", "double"), ("op", "pack"), ("unit", "GB/s")] {
        assert_eq!(row[key], value, "{key} in {row}");
    }
    assert_eq!(builds.words_of("mpich"), "transpack --runs 15 --quick");
}

#[test]
fn one_mpi_can_be_chosen() {
    let builds = Builds::new();
    builds.program("mpich", &[row("Vector", 4.0)], 0);
    builds.program("mpich5", &[row("Vector", 2.0)], 0);
    let output = builds.run(&["datatype", "--mpi", "mpich"]);
    assert!(output.status.success() && !text(&output.stdout).contains("mpich5"), "{}", text(&output.stdout));
    assert_eq!(builds.run(&["datatype", "--mpi", "lam"]).status.code(), Some(2));
}

#[test]
fn failing_program_fails_the_command() {
    let builds = Builds::new();
    builds.program("mpich", &[row("Vector", 4.0)], 0);
    builds.program("mpich5", &[row("Vector", 2.0)], 3);
    let output = builds.run(&["datatype"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("exit status: 3"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("mpich"), "the rows of the other MPI are shown");
    builds.program("mpich5", &["no row".to_owned()], 0);
    let output = builds.run(&["datatype"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("a line that is not a row"), "{}", text(&output.stderr));
}

#[test]
fn command_without_a_bench_gives_advice() {
    let builds = Builds::new();
    let output = builds.run(&["datatype"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("make build"), "{}", text(&output.stderr));
}
