//! The command line, the environment that it makes, its exit codes, and `capulet doctor`.

mod common;

use std::fs;
use std::path::Path;

use common::{Bench, build_stand_in, outcome, write_script};

#[test]
fn options_reach_the_program_as_variables() {
    let bench = Bench::get();
    let program = bench.program("mpich");
    let words =
        ["--driver", "ufs:", "--hint", "cb_nodes=2", "--hint", "path=a=b", "--stats", "--log", "debug", "--"];
    let done = outcome(bench.capulet().arg("run").args(words).arg(&program));
    assert_eq!(done.values("CAPULET_DRIVER"), ["ufs"], "{done:?}");
    assert_eq!(done.values("CAPULET_HINTS"), ["cb_nodes=2;path=a=b"]);
    assert_eq!(done.values("CAPULET_STATS"), ["1"]);
    assert_eq!(done.values("CAPULET_LOG"), ["debug"]);
}

#[test]
fn without_options_the_variables_stay_as_they_are() {
    let bench = Bench::get();
    let done = outcome(bench.capulet().arg("run").arg(bench.program("mpich")).env("CAPULET_STATS", "0"));
    assert_eq!(done.values("CAPULET_STATS"), ["0"]);
    for name in ["CAPULET_DRIVER", "CAPULET_HINTS", "CAPULET_LOG"] {
        assert!(done.values(name).is_empty(), "{name}: {done:?}");
    }
}

#[test]
fn hints_of_the_environment_come_first_and_preloads_stay() {
    let bench = Bench::get();
    let mut command = bench.capulet();
    command.env("CAPULET_HINTS", "cb_nodes=1").env("LD_PRELOAD", "libm.so.6").args([
        "run",
        "--hint",
        "cb_nodes=2",
    ]);
    let done = outcome(command.arg(bench.program("openmpi")));
    assert_eq!(done.values("CAPULET_HINTS"), ["cb_nodes=1;cb_nodes=2"], "{done:?}");
    let preload: Vec<&str> = done.values("LD_PRELOAD")[0].split(':').collect();
    assert!(preload[0].ends_with("libcapulet_openmpi.so"), "{preload:?}");
    assert_eq!(preload[1], "libm.so.6");
    assert!(preload[2].ends_with("libmpi.so.40"), "{preload:?}");
}

#[test]
fn run_inside_a_run_adds_nothing() {
    let bench = Bench::get();
    let program = bench.program("mpich");
    let once = bench.run(&[&program]);
    let command = env!("CARGO_BIN_EXE_capulet");
    let twice =
        bench.run(&[Path::new("--mpi"), Path::new("mpich"), Path::new(command), Path::new("run"), &program]);
    assert_eq!(twice.values("LD_PRELOAD"), once.values("LD_PRELOAD"), "{twice:?}");
    assert_eq!(twice.values("interposed"), ["yes"]);
}

#[test]
fn wrong_usage_has_exit_code_2_and_advice() {
    let bench = Bench::get();
    for (words, reason) in [
        (&["run"][..], "PROGRAM"),
        (&["run", "--"], "PROGRAM"),
        (&["run", "--hint", "cb_nodes", "true"], "key=value"),
        (&["run", "--hint", "=2", "true"], "the key before '=' is empty"),
        (&["run", "--hint", "a=b;c=d", "true"], "cannot contain ';'"),
        (&["run", "--bogus", "true"], "--bogus"),
        (&["run", "--mpi", "lam", "true"], "openmpi"),
        (&["walk"], "walk"),
        (&[], "Usage"),
    ] {
        let done = outcome(bench.capulet().args(words));
        assert_eq!(done.code, Some(2), "{words:?}: {done:?}");
        assert!(done.complaints.contains(reason), "{words:?}: {}", done.complaints);
    }
}

#[test]
fn start_failures_have_the_exit_codes_of_a_shell() {
    let bench = Bench::get();
    let plain = bench.path("plain");
    fs::write(&plain, "text").expect("the file is written");
    let text = bench.path("text");
    write_script(&text, "no interpreter line\n");
    let lost = bench.path("lost_interpreter");
    write_script(&lost, "#!/nonexistent/interpreter\n");
    for (program, code) in [
        (Path::new("no-such-command-anywhere"), 127),
        (Path::new("/nonexistent/program"), 127),
        (&lost, 127),
        (&plain, 126),
        (&text, 126),
        (Path::new("/tmp"), 126),
    ] {
        let done = bench.run(&[program]);
        assert_eq!(done.code, Some(code), "{}: {done:?}", program.display());
        assert!(done.complaints.starts_with("capulet:"), "{}", done.complaints);
    }
}

#[test]
fn missing_or_wrong_library_is_refused() {
    let bench = Bench::get();
    let empty = bench.path("empty");
    fs::create_dir(&empty).expect("the folder is created");
    let wrong_mpi = bench.path("wrong_mpi");
    fs::create_dir(&wrong_mpi).expect("the folder is created");
    // The library is named for MPICH and built for Open MPI, so it would load a second MPI.
    build_stand_in(&wrong_mpi, "mpich", "openmpi");
    let renamed = bench.path("renamed");
    fs::create_dir(&renamed).expect("the folder is created");
    fs::copy(bench.libraries().join("libcapulet_openmpi.so"), renamed.join("libcapulet_mpich.so"))
        .expect("the file is copied");
    let spaced = bench.path("with space");
    fs::create_dir(&spaced).expect("the folder is created");
    fs::copy(bench.libraries().join("libcapulet_mpich.so"), spaced.join("libcapulet_mpich.so"))
        .expect("the file is copied");
    for (folder, reason) in [
        (&empty, "libcapulet_mpich.so, which serves MPICH (libmpich.so.12), is not in"),
        (&wrong_mpi, "it is linked to libmpi.so.40"),
        (&renamed, "its SONAME is libcapulet_openmpi.so"),
        (&spaced, "with a space"),
    ] {
        let done =
            outcome(bench.capulet().env("CAPULET_LIBDIR", folder).arg("run").arg(bench.program("mpich")));
        assert_eq!(done.code, Some(66), "{done:?}");
        assert!(done.complaints.contains(reason), "{reason}: {}", done.complaints);
    }
}

#[test]
fn only_the_first_rank_prints_advice() {
    let bench = Bench::get();
    let complain =
        |rank: &str| outcome(bench.capulet().env("PMIX_RANK", rank).args(["run", "/bin/true"])).complaints;
    assert!(complain("0").contains("help:"));
    assert_eq!(complain("3"), "capulet: rank 3: /bin/true: no MPI library among its dependencies\n");
}

#[test]
fn help_and_version_are_printed() {
    let bench = Bench::get();
    let version = outcome(bench.capulet().arg("--version"));
    assert_eq!(
        (version.code, version.output.trim()),
        (Some(0), concat!("capulet ", env!("CARGO_PKG_VERSION")))
    );
    let help = outcome(bench.capulet().args(["run", "--help"]));
    assert_eq!(help.code, Some(0));
    for part in ["mpiexec -n 4 capulet run", "Exit codes", "CAPULET_LIBDIR", "--dry-run"] {
        assert!(help.output.contains(part), "{part}: {}", help.output);
    }
}

#[test]
fn doctor_reports_what_is_served() {
    let bench = Bench::get();
    let healthy = outcome(bench.capulet().args(["doctor", "/proc"]));
    assert_eq!(healthy.code, Some(0), "{healthy:?}");
    for part in
        ["3 of 3 MPIs served", "libmpich.so.12", "mpiexec.openmpi", "MPICH 4.", "io_uring", "under /proc"]
    {
        assert!(healthy.output.contains(part), "{part}: {}", healthy.output);
    }
    let empty = bench.path("nothing");
    fs::create_dir(&empty).expect("the folder is created");
    let ill = outcome(bench.capulet().env("CAPULET_LIBDIR", &empty).arg("doctor"));
    assert_eq!(ill.code, Some(1), "{ill:?}");
    assert!(ill.output.contains("No MPI is served."), "{}", ill.output);
}
