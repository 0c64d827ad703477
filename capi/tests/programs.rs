//! C and Fortran programs that were built without Capulet run with Capulet.

mod harness;

use harness::{Load, Program, beside_mpicc, text};

/// Runs a C program on 1, 2 and 4 ranks.
fn c(name: &str) {
    let program = Program::c(name, Load::Preload);
    for ranks in [1, 2, 4] {
        program.passes(ranks);
    }
}

#[test]
fn an_ordinary_program_preloaded() {
    c("smoke");
}

#[test]
fn an_ordinary_program_linked() {
    Program::c("smoke", Load::Link).passes(2);
}

#[test]
fn error_handlers() {
    c("errhandler");
}

#[test]
fn handles() {
    c("handles");
}

#[test]
fn wrong_arguments_on_one_rank() {
    c("arguments");
}

#[test]
fn requests() {
    c("requests");
}

#[test]
fn nonblocking_collectives() {
    c("nonblocking");
    Program::c("nonblocking", Load::Preload).passes(3);
}

#[test]
fn split_collectives() {
    c("split");
}

/// The nodes perform exchanges of several operations in one common order.
#[test]
fn collectives_under_way_between_nodes() {
    for (ranks, nodes) in [(2, "2"), (3, "2"), (4, "2"), (4, "4")] {
        for name in ["nonblocking", "split"] {
            among(name, ranks, nodes);
        }
    }
}

fn among(name: &str, ranks: u32, nodes: &str) {
    passes(name, ranks, &[("CAPULET_NODES", nodes)]);
}

fn passes(name: &str, ranks: u32, variables: &[(&str, &str)]) {
    let output = Program::c(name, Load::Preload).run(ranks, variables);
    let told = text(&output);
    assert!(output.status.success() && told.contains("all checks passed"), "{told}");
}

#[test]
fn what_cannot_be_had_is_refused() {
    for ranks in [2, 4] {
        passes("unsupported", ranks, &[("CAPULET_NODES", "2"), ("CAPULET_HINTS", "capulet_lock=shared")]);
    }
}

#[test]
fn a_fatal_error_says_why() {
    let output = Program::c("fatal", Load::Preload).run(1, &[]);
    let told = text(&output);
    assert!(!output.status.success(), "{told}");
    assert!(!told.contains("all checks passed"), "{told}");
    for part in ["capulet: rank 0: MPI_File_seek failed on ", "data.1", "MPI_ERRORS_ARE_FATAL"] {
        assert!(told.contains(part), "{part:?} is missing in: {told}");
    }
}

#[test]
fn an_environment_that_makes_no_sense_fails_every_open() {
    let program = Program::c("smoke", Load::Preload);
    for (name, value) in
        [("CAPULET_DRIVER", "none"), ("CAPULET_HINTS", "lonely"), ("CAPULET_FAULTS", "nonsense")]
    {
        let told = text(&program.run(1, &[(name, value)]));
        assert!(told.contains(&format!("no file can be opened: {name}")), "{told}");
        assert!(!told.contains("all checks passed"), "{told}");
    }
}

#[test]
fn the_log_speaks_when_asked() {
    let program = Program::c("smoke", Load::Preload);
    let quiet = text(&program.run(1, &[]));
    assert!(!quiet.contains("capulet rank 0"), "{quiet}");
    let told = text(&program.run(1, &[("CAPULET_LOG", "info")]));
    assert!(told.contains("all checks passed"), "{told}");
    assert!(told.contains("capulet rank 0 ") && told.contains("opened"), "{told}");
}

#[test]
fn the_environment_chooses_driver_hints_and_statistics() {
    let program = Program::c("hints", Load::Preload);
    let told = text(&program.run(2, &[]));
    assert!(told.contains("cb_buffer_size=131072\n") && told.contains("romio_cb_write=enable\n"), "{told}");
    assert!(told.contains("romio_filesystem_type=CAPULET posix"), "{told}");
    assert!(!told.contains("Capulet: "), "statistics that nobody asked for: {told}");

    // The environment overrides the program, which sets the hint to 131072.
    let told = text(&program.run(2, &[("CAPULET_HINTS", "cb_buffer_size=65536"), ("CAPULET_STATS", "1")]));
    assert!(told.contains("cb_buffer_size=65536\n") && told.contains("romio_cb_write=enable\n"), "{told}");
    assert!(told.contains("Capulet: ") && told.contains("data.2"), "{told}");

    let told = text(&program.run(1, &[("CAPULET_DRIVER", "mem")]));
    assert!(told.contains("romio_filesystem_type=CAPULET mem"), "{told}");
}

#[test]
fn a_fault_on_one_rank_is_a_fault_on_all() {
    let output = Program::c("smoke", Load::Preload).run(2, &[("CAPULET_FAULTS", "rank=1;open@0:quota")]);
    let told = text(&output);
    for rank in 0..2 {
        // The class is MPI_ERR_QUOTA, whose number differs between MPIs. The open must fail on both
        // ranks.
        assert!(told.contains(&format!("rank {rank}: not true: file != MPI_FILE_NULL")), "{told}");
    }
}

/// Runs a program while the storage of one rank panics by `plan`. Returns whether the program hung, and
/// its output.
fn panicking(ranks: u32, plan: &str) -> (bool, String) {
    let output = Program::c("panics", Load::Preload).run(ranks, &[("CAPULET_FAULTS", plan)]);
    (output.status.code() == Some(124), text(&output))
}

#[test]
fn a_panic_in_a_collective_call_aborts_before_anybody_waits_for_ever() {
    let plans = [
        ("rank=1;open@0:panic", "MPI_File_open"),
        ("rank=0;sync@0:panic", "MPI_File_sync"),
        ("rank=0;set_len@0:panic", "MPI_File_set_size"),
        ("rank=0;delete@0:panic", "MPI_File_close"),
    ];
    for (plan, call) in plans {
        let (hung, told) = panicking(3, plan);
        assert!(!hung && !told.contains("the end"), "{plan}: {told}");
        assert!(told.contains(&format!("a bug in Capulet: {call} panicked")), "{plan}: {told}");
    }
}

#[test]
fn a_panic_that_nobody_waits_for_is_an_error_of_the_call() {
    for (ranks, plan, call) in [
        (3, "rank=1;write@0:panic", "rank 1: write_at: intern"),
        (1, "rank=0;open@0:panic", "rank 0: open: intern"),
        (1, "rank=0;sync@0:panic", "rank 0: sync: intern"),
    ] {
        let (hung, told) = panicking(ranks, plan);
        assert!(!hung && told.contains(call) && told.contains("the end"), "{plan}: {told}");
        assert_eq!(told.matches(": intern\n").count(), 1, "{plan}: {told}");
    }
}

#[test]
fn a_panic_of_the_storage_in_a_two_phase_write_is_an_outcome() {
    // All data fits in the collective buffer of the first aggregator.
    let (hung, told) = panicking(3, "rank=0;write@1:panic");
    assert!(!hung && told.contains("the end"), "{told}");
    for rank in 0..3 {
        assert!(told.contains(&format!("rank {rank}: write_at_all: intern")), "{told}");
    }
}

#[test]
fn a_group_that_one_rank_cannot_have_is_a_failure_of_all() {
    c("group_failure");
}

/// The Python wheels of MPI have no Fortran compiler.
fn has_fortran() -> bool {
    let mpif90 = beside_mpicc("mpif90");
    let found = std::process::Command::new(&mpif90).arg("--version").output().is_ok();
    let wheel = mpif90.with_file_name("python").exists();
    assert!(found || wheel, "no Fortran compiler {}: install it", mpif90.display());
    found
}

#[test]
fn fortran() {
    if !has_fortran() {
        // The test harness does not show what a passed test prints, so the test writes directly to the
        // stream.
        let reason = "skipped: fortran: the wheels of MPI have no Fortran";
        std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{reason}\n"))
            .expect("the stream of errors is there");
        return;
    }
    for name in ["use_mpi", "use_mpi_f08"] {
        let program = Program::fortran(name);
        for ranks in [1, 2, 4] {
            program.passes(ranks);
        }
    }
}
