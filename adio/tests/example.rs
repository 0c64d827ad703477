//! The example of the README runs, at every number of ranks, under the MPI that this was built for.

use std::process::Command;
use std::time::{Duration, Instant};

use capulet_comm::build::LAUNCHER;

/// Where cargo puts the examples: beside the folder of this test's own program.
fn example(name: &str) -> std::path::PathBuf {
    let mut path = std::env::current_exe().expect("a running program has a path");
    path.pop();
    path.pop();
    path.join("examples").join(name)
}

#[test]
fn columns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for ranks in [1, 2, 3, 4, 7] {
        let file = folder.path().join("columns.bin");
        let mut child = Command::new(LAUNCHER)
            .args(["-n", &ranks.to_string()])
            .arg(example("columns"))
            .arg(&file)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("mpiexec is installed");
        let limit = Instant::now() + Duration::from_secs(120);
        while child.try_wait().expect("a child of ours").is_none() {
            if Instant::now() > limit {
                let _ = child.kill();
                panic!("{ranks} ranks did not end");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().expect("it has ended");
        assert!(output.status.success(), "{ranks} ranks failed");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.starts_with(&format!("{} bytes", ranks * 8 * 1024)), "{text}");
        assert!(!file.exists(), "deleted on close");
    }
}
