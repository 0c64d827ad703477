//! Programs in C and Fortran that were not built with Capulet, running on it.

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
fn what_is_not_built_is_refused() {
    c("unsupported");
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

/// Wheels of MPI have no Fortran.
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
        return;
    }
    for name in ["use_mpi", "use_mpi_f08"] {
        let program = Program::fortran(name);
        for ranks in [1, 2, 4] {
            program.passes(ranks);
        }
    }
}
