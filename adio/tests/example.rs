//! Runs the examples on several numbers of ranks, under the MPI for which they were built.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use capulet_comm::NODES_VARIABLE;
use capulet_comm::build::LAUNCHER;

/// Held while an example runs. Several at the same time would compete for the cores, on which MPICH
/// spins.
static RUNNING: Mutex<()> = Mutex::new(());

/// The path of an example. Cargo puts the examples next to the folder of this test program.
fn example(name: &str) -> std::path::PathBuf {
    let mut path = std::env::current_exe().expect("a running program has a path");
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

/// The output of an example on `ranks` ranks that look like `nodes` nodes. The example must succeed
/// within the time limit.
fn run(name: &str, file: &Path, ranks: usize, nodes: usize) -> String {
    let mut command = Command::new(LAUNCHER);
    command.args(["-n", &ranks.to_string()]).arg(example(name)).arg(file);
    command.env(NODES_VARIABLE, nodes.to_string()).stdout(Stdio::piped());
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = command.spawn().expect("mpiexec is installed");
    let limit = Instant::now() + Duration::from_secs(480);
    while child.try_wait().expect("the launcher can be waited for").is_none() {
        if Instant::now() > limit {
            let _ = child.kill();
            panic!("{name}: {ranks} ranks did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("the output of the launcher can be read");
    assert!(output.status.success(), "{name}: {ranks} ranks failed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn columns_example_writes_and_reads_its_part_on_each_rank() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    for ranks in [1, 2, 3, 4, 7] {
        let file = folder.path().join("columns.bin");
        let text = run("columns", &file, ranks, 1);
        assert!(text.starts_with(&format!("{} bytes", ranks * 8 * 1024)), "{text}");
        assert!(!file.exists(), "the file is deleted on close");
    }
}

#[test]
fn several_nodes_write_to_the_same_cached_pages() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    for (ranks, nodes) in [(1, 1), (3, 1), (2, 2), (4, 2), (7, 3)] {
        let text = run("pages", &folder.path().join("pages.bin"), ranks, nodes);
        assert_eq!(text, format!("{nodes} nodes kept their pages apart\n"));
    }
}
