//! `capulet run` on Python programs: with Debian's mpi4py, and with the wheels, which choose their MPI
//! during the import.

mod common;

use std::path::{Path, PathBuf};

use common::{Bench, Outcome, PYTHON, clean, environment, launcher, outcome, source, write_script};

/// Python interpreters, each with the MPI that serves it and a part of the path of the only MPI library
/// that it may load.
fn pythons() -> [(PathBuf, &'static str, &'static str); 3] {
    [
        (PathBuf::from(PYTHON), "openmpi", "/x86_64-linux-gnu/libmpi.so.40"),
        (environment("mpich5").join("bin/python"), "mpich5", "/mpich5/lib/libmpi.so.12"),
        (environment("openmpi5").join("bin/python"), "openmpi", "/openmpi5/lib/libmpi.so.40"),
    ]
}

fn check(done: &Outcome, library: &str, ranks: usize) {
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.values("interposed"), vec!["yes"; ranks], "{done:?}");
    assert_eq!(done.values("child"), vec!["0"; ranks], "{done:?}");
    assert_eq!(done.values("size"), vec![ranks.to_string(); ranks], "{done:?}");
    for path in done.mapped() {
        assert!(path.contains(library), "a second MPI library is mapped: {path} in {done:?}");
    }
    assert!(!done.mapped().is_empty(), "{done:?}");
}

#[test]
fn each_python_keeps_its_own_mpi() {
    let bench = Bench::get();
    for (python, mpi, library) in pythons() {
        let script = source("version.py");
        let plan = bench.run(&[Path::new("--dry-run"), &python, &script]);
        assert_eq!(plan.values("mpi"), [mpi], "{plan:?}");
        let done = bench.run(&[&python, &script, Path::new("--stats")]);
        check(&done, library, 1);
        assert_eq!(done.values("argument"), ["--stats"]);
    }
}

#[test]
fn ranks_of_a_launcher_are_one_job() {
    let bench = Bench::get();
    for ((python, _, library), launching) in pythons().into_iter().zip(["openmpi", "mpich5", "openmpi5"]) {
        let done = outcome(
            launcher(launching, 2)
                .env("CAPULET_LIBDIR", bench.libraries())
                .args([env!("CARGO_BIN_EXE_capulet"), "run", "--"])
                .arg(python)
                .arg(source("version.py")),
        );
        check(&done, library, 2);
    }
}

#[test]
fn launcher_of_another_mpi_is_refused() {
    let bench = Bench::get();
    for (launching, python) in
        [("mpich", PathBuf::from(PYTHON)), ("openmpi", environment("mpich5").join("bin/python"))]
    {
        let done = outcome(
            launcher(launching, 1)
                .env("CAPULET_LIBDIR", bench.libraries())
                .args([env!("CARGO_BIN_EXE_capulet"), "run"])
                .arg(python)
                .arg(source("version.py")),
        );
        assert_eq!(done.code, Some(65), "{done:?}");
        assert!(done.values("size").is_empty(), "the program was not started: {done:?}");
    }
}

#[test]
fn script_names_its_own_python() {
    let bench = Bench::get();
    let text = std::fs::read_to_string(source("version.py")).expect("the file is readable");
    let python = environment("mpich5").join("bin/python");
    let direct = bench.path("direct");
    write_script(&direct, &format!("#!{} -u\n{text}", python.display()));
    let by_path = bench.path("by_path");
    write_script(&by_path, &format!("#!/usr/bin/env python\n{text}"));
    let split = bench.path("split");
    write_script(&split, &format!("#!/usr/bin/env -S LANG=C python -u\n{text}"));
    let path = format!("{}:/usr/bin:/bin", environment("mpich5").join("bin").display());
    for script in [direct, by_path, split] {
        let done = outcome(bench.capulet().env("PATH", &path).arg("run").arg(&script));
        check(&done, "/mpich5/lib/libmpi.so.12", 1);
    }
}

#[test]
fn modules_and_commands_run_as_in_python() {
    let bench = Bench::get();
    let python = environment("mpich5").join("bin/python");
    let script = source("version.py");
    let done = bench.run(&[&python, Path::new("-m"), Path::new("mpi4py"), &script]);
    check(&done, "/mpich5/lib/libmpi.so.12", 1);
    let command =
        "from mpi4py import MPI; print('interposed', 'yes' if MPI.Get_version()[1] >= 1000 else 'no')";
    let done = bench.run(&[&python, Path::new("-uc"), Path::new(command)]);
    assert_eq!(done.values("interposed"), ["yes"], "{done:?}");
}

#[test]
fn python_without_mpi4py_is_refused_with_the_reason() {
    let bench = Bench::get();
    // The option -S leaves out the folder of Debian's modules.
    let done = bench.run(&[Path::new(PYTHON), Path::new("-S"), &source("version.py")]);
    assert_eq!(done.code, Some(64), "{done:?}");
    assert!(done.complaints.contains("No module named 'mpi4py'"), "{}", done.complaints);
}

#[test]
fn module_beside_the_script_is_used() {
    let bench = Bench::get();
    let folder = bench.path("beside");
    std::fs::create_dir_all(folder.join("mpi4py")).expect("the folders are created");
    std::fs::write(folder.join("mpi4py/__init__.py"), "class rc: pass\n").expect("the file is written");
    std::fs::write(folder.join("mpi4py/MPI.py"), "import ctypes\nctypes.CDLL('libmpich.so.12')\n")
        .expect("the file is written");
    std::fs::write(folder.join("program.py"), "from mpi4py import MPI\n").expect("the file is written");
    let done = bench.run(&[Path::new("--dry-run"), Path::new(PYTHON), &folder.join("program.py")]);
    assert_eq!(done.values("mpi"), ["mpich"], "{done:?}");
    // Python does not search the current folder for a script.
    let mut command = bench.capulet();
    command.current_dir(&folder).args(["run", "--dry-run", PYTHON]).arg(source("version.py"));
    assert_eq!(outcome(&mut command).values("mpi"), ["openmpi"]);
}

#[test]
fn preload_without_the_mpi_path_loads_the_wrong_mpi() {
    // Shows the fault that `capulet run` prevents: the preload alone loads the system's Open MPI into a
    // Python whose wheel has its own MPI, and the program runs on the system's MPI without a warning.
    let bench = Bench::get();
    let mut command = std::process::Command::new(environment("openmpi5").join("bin/python"));
    clean(&mut command)
        .env("LD_PRELOAD", bench.libraries().join("libcapulet_openmpi.so"))
        .arg(source("version.py"));
    let done = outcome(&mut command);
    assert!(done.mapped().iter().any(|path| path.contains("/x86_64-linux-gnu/")), "{done:?}");
}
