//! mpi4py's own tests that touch files: 3.1.4 on Debian's Open MPI, and 4.1.2 on MPICH 5.0 from `PyPI`.
//! Two files in `tests/mpi4py` list the tests that may fail and the tests that skip. Any other failure or
//! skip fails here, and so does a pass of a listed test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use capulet_tests::mpi::root;
use capulet_tests::{Job, Mpi, Through};

const MODULES: [&str; 7] =
    ["test_io", "test_file", "test_errhandler", "test_subclass", "test_cffi", "test_handle", "test_objmodel"];

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi4py").join(name)
}

fn suite(ranks: usize) {
    let (mpi, version) = match Mpi::chosen() {
        Mpi::OpenMpi => (Mpi::OpenMpi, "3.1.4"),
        other => (other.wheel(), "4.1.2"),
    };
    let tests = root().join(format!("target/env/src/mpi4py-{version}/test"));
    let modules: Vec<&str> =
        MODULES.into_iter().filter(|name| tests.join(format!("{name}.py")).exists()).collect();
    // 3.1.4 has no test_handle. Every other module must exist.
    assert!(modules.len() >= MODULES.len() - 1, "{} has only {modules:?}; run `make setup`", tests.display());
    let job = Job::script(mpi, ranks, mpi.python()).arg(here("run_modules.py")).arg(&tests);
    let folder = job.folder().to_path_buf();
    let mut job = job.arg(&folder).limit(Duration::from_secs(1200)).variable("PYTHONDONTWRITEBYTECODE", "1");
    for module in modules {
        job = job.arg(module);
    }
    let outcome = job.run();
    outcome.expect_success(&format!("mpi4py {version} on {ranks} ranks"));
    let mut judge = Command::new("/usr/bin/python3");
    judge.arg(here("judge.py")).arg(&folder).arg(ranks.to_string()).arg(version);
    if Through::chosen() == Through::Native {
        judge.arg("--native");
    }
    let verdict = judge.output().expect("python3");
    let output = String::from_utf8_lossy(&verdict.stdout);
    println!("{output}");
    assert!(
        verdict.status.success(),
        "mpi4py {version} on {ranks} ranks:\n{output}{}",
        String::from_utf8_lossy(&verdict.stderr)
    );
}

#[test]
fn on_1() {
    suite(1);
}

#[test]
fn on_2() {
    suite(2);
}

#[test]
fn on_4() {
    suite(4);
}
