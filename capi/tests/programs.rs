//! C and Fortran programs that were built without Capulet run with Capulet.

mod harness;

use harness::{Load, Program, beside_mpicc, text};

/// Runs a C program on 1, 2 and 4 ranks.
fn run_c(name: &str) {
    let program = Program::c(name, Load::Preload);
    for ranks in [1, 2, 4] {
        program.passes(ranks);
    }
}

#[test]
fn preloaded_program_runs() {
    run_c("smoke");
}

#[test]
fn linked_program_runs() {
    Program::c("smoke", Load::Link).passes(2);
}

#[test]
fn error_handlers_follow_the_standard() {
    run_c("errhandler");
}

#[test]
fn handles_that_name_no_file_are_refused() {
    run_c("handles");
}

#[test]
fn invalid_argument_on_one_rank_fails_on_all_ranks() {
    run_c("arguments");
}

#[test]
fn requests_complete_in_every_way() {
    run_c("requests");
}

#[test]
fn nonblocking_collectives_move_data() {
    run_c("nonblocking");
    Program::c("nonblocking", Load::Preload).passes(3);
}

#[test]
fn split_collectives_move_data() {
    run_c("split");
}

/// The nodes perform exchanges of several operations in one common order.
#[test]
fn collectives_in_progress_move_data_between_nodes() {
    for (ranks, nodes) in [(2, "2"), (3, "2"), (4, "2"), (4, "4")] {
        for name in ["nonblocking", "split"] {
            passes(name, ranks, &[("CAPULET_NODES", nodes)]);
        }
    }
}

/// Runs a C program with environment variables. Fails if a check of the program fails.
fn passes(name: &str, ranks: u32, variables: &[(&str, &str)]) {
    let output = Program::c(name, Load::Preload).run(ranks, variables);
    let printed = text(&output);
    assert!(output.status.success() && printed.contains("all checks passed"), "{printed}");
}

#[test]
fn unsupported_operations_are_refused() {
    for ranks in [2, 4] {
        passes("unsupported", ranks, &[("CAPULET_NODES", "2"), ("CAPULET_HINTS", "capulet_lock=shared")]);
    }
}

#[test]
fn fatal_error_prints_its_reason() {
    let output = Program::c("fatal", Load::Preload).run(1, &[]);
    let printed = text(&output);
    assert!(!output.status.success(), "{printed}");
    assert!(!printed.contains("all checks passed"), "{printed}");
    for part in ["capulet: rank 0: MPI_File_seek failed on ", "data.1", "MPI_ERRORS_ARE_FATAL"] {
        assert!(printed.contains(part), "{part:?} is missing in: {printed}");
    }
}

#[test]
fn invalid_environment_fails_every_open() {
    let program = Program::c("smoke", Load::Preload);
    for (name, value) in
        [("CAPULET_DRIVER", "none"), ("CAPULET_HINTS", "lonely"), ("CAPULET_FAULTS", "nonsense")]
    {
        let printed = text(&program.run(1, &[(name, value)]));
        assert!(printed.contains(&format!("no file can be opened: {name}")), "{printed}");
        assert!(!printed.contains("all checks passed"), "{printed}");
    }
}

#[test]
fn log_is_printed_on_request() {
    let program = Program::c("smoke", Load::Preload);
    let quiet = text(&program.run(1, &[]));
    assert!(!quiet.contains("capulet rank 0"), "{quiet}");
    let printed = text(&program.run(1, &[("CAPULET_LOG", "info")]));
    assert!(printed.contains("all checks passed"), "{printed}");
    assert!(printed.contains("capulet rank 0 ") && printed.contains("opened"), "{printed}");
}

#[test]
fn environment_sets_driver_hints_and_statistics() {
    let program = Program::c("hints", Load::Preload);
    let printed = text(&program.run(2, &[]));
    assert!(
        printed.contains("cb_buffer_size=131072\n") && printed.contains("romio_cb_write=enable\n"),
        "{printed}"
    );
    assert!(printed.contains("romio_filesystem_type=CAPULET posix"), "{printed}");
    assert!(!printed.contains("Capulet: "), "unexpected statistics: {printed}");

    // The environment overrides the program, which sets the hint to 131072.
    let printed = text(&program.run(2, &[("CAPULET_HINTS", "cb_buffer_size=65536"), ("CAPULET_STATS", "1")]));
    assert!(
        printed.contains("cb_buffer_size=65536\n") && printed.contains("romio_cb_write=enable\n"),
        "{printed}"
    );
    assert!(printed.contains("Capulet: ") && printed.contains("data.2"), "{printed}");

    let printed = text(&program.run(1, &[("CAPULET_DRIVER", "mem")]));
    assert!(printed.contains("romio_filesystem_type=CAPULET mem"), "{printed}");
}

#[test]
fn fault_on_one_rank_fails_on_all_ranks() {
    let output = Program::c("smoke", Load::Preload).run(2, &[("CAPULET_FAULTS", "rank=1;open@0:quota")]);
    let printed = text(&output);
    for rank in 0..2 {
        // The class is MPI_ERR_QUOTA, whose number differs between MPIs. The open must fail on both
        // ranks.
        assert!(printed.contains(&format!("rank {rank}: not true: file != MPI_FILE_NULL")), "{printed}");
    }
}

/// Runs a program while the storage of one rank panics by `plan`. Returns whether the program hung, and
/// its output.
fn run_with_panic(ranks: u32, plan: &str) -> (bool, String) {
    let output = Program::c("panics", Load::Preload).run(ranks, &[("CAPULET_FAULTS", plan)]);
    (output.status.code() == Some(124), text(&output))
}

#[test]
fn panic_in_a_collective_call_aborts_the_job() {
    let plans = [
        ("rank=1;open@0:panic", "MPI_File_open"),
        ("rank=0;sync@0:panic", "MPI_File_sync"),
        ("rank=0;set_len@0:panic", "MPI_File_set_size"),
        ("rank=0;delete@0:panic", "MPI_File_close"),
    ];
    for (plan, call) in plans {
        let (hung, printed) = run_with_panic(3, plan);
        assert!(!hung && !printed.contains("the end"), "{plan}: {printed}");
        assert!(printed.contains(&format!("a bug in Capulet: {call} panicked")), "{plan}: {printed}");
    }
}

#[test]
fn panic_is_an_error_if_no_other_rank_waits() {
    for (ranks, plan, call) in [
        (3, "rank=1;write@0:panic", "rank 1: write_at: intern"),
        (1, "rank=0;open@0:panic", "rank 0: open: intern"),
        (1, "rank=0;sync@0:panic", "rank 0: sync: intern"),
    ] {
        let (hung, printed) = run_with_panic(ranks, plan);
        assert!(!hung && printed.contains(call) && printed.contains("the end"), "{plan}: {printed}");
        assert_eq!(printed.matches(": intern\n").count(), 1, "{plan}: {printed}");
    }
}

#[test]
fn storage_panic_in_a_two_phase_write_fails_on_all_ranks() {
    // All data fits in the collective buffer of the first aggregator.
    let (hung, printed) = run_with_panic(3, "rank=0;write@1:panic");
    assert!(!hung && printed.contains("the end"), "{printed}");
    for rank in 0..3 {
        assert!(printed.contains(&format!("rank {rank}: write_at_all: intern")), "{printed}");
    }
}

#[test]
fn missing_group_on_one_rank_fails_on_all_ranks() {
    run_c("group_failure");
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
fn fortran_programs_run() {
    if !has_fortran() {
        // The test harness does not show what a passed test prints, so the test writes directly to the
        // stream.
        let reason = "skipped: fortran: the wheels of MPI have no Fortran";
        std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{reason}\n"))
            .expect("standard error can be written");
        return;
    }
    for name in ["use_mpi", "use_mpi_f08"] {
        let program = Program::fortran(name);
        for ranks in [1, 2, 4] {
            program.passes(ranks);
        }
    }
}
