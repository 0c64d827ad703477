//! Tests of the harness: it ends all processes of a job that hangs, and a failed check fails the test.

use std::time::Duration;

use capulet_tests::{Job, Mpi, Through, compile};

/// Number of processes with an argument `text`.
fn running(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let lines = entries.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|word| word == text.as_bytes())).count()
}

#[test]
fn hang_is_ended_with_all_its_processes() {
    // No other process sleeps for this duration, so the argument identifies the job.
    let seconds = format!("{}.25", 100_000 + std::process::id());
    let job = Job::script(Mpi::chosen(), 2, "sleep").arg(&seconds).through(Through::Native);
    let outcome = job.limit(Duration::from_secs(2)).run();
    assert!(outcome.status.is_none() && !outcome.succeeded(), "{outcome:?}");
    assert!(outcome.elapsed < Duration::from_secs(60), "{outcome:?}");
    // A killed process leaves /proc only after the system has scheduled it once more.
    let gone = (0..500).any(|_| {
        running(&seconds) == 0 || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    });
    assert!(gone, "ranks of the ended job still run");
}

#[test]
fn failed_check_fails_the_job() {
    let mpi = Mpi::chosen();
    // No fault is injected, but the program expects to see one.
    let outcome = Job::new(mpi, 2, compile::c(mpi, "faults")).arg("MPI_ERR_IO").arg("1").run();
    assert!(!outcome.succeeded(), "{outcome:?}");
    assert!(outcome.text.contains("FAILED [rank"), "{outcome:?}");
}
