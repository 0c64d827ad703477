//! Tests of the toolkit of `include/capulet_types.h`: C programs that are linked with the library.

mod harness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Program, in_crate, mpicc, text};

/// Runs a program of `tests/c` on 1 and 2 ranks.
fn run_c(name: &str) {
    let program = Program::toolkit(&in_crate("tests/c").join(name).with_extension("c"));
    for ranks in [1, 2] {
        program.passes(ranks);
    }
}

#[test]
fn copies_and_region_lists_match_mpi() {
    run_c("toolkit_copy");
}

#[test]
fn segments_call_leaf_functions_for_the_whole_range() {
    run_c("toolkit_segment");
}

#[test]
fn invalid_arguments_are_refused() {
    run_c("toolkit_arguments");
}

#[test]
fn types_can_be_freed_in_any_order() {
    let program = Program::toolkit(&in_crate("tests/c/toolkit_lifetime.c"));
    for ranks in [1, 2] {
        let printed = text(&program.run(ranks, &[]));
        for rank in 0..ranks {
            assert!(printed.contains(&format!("rank {rank}: all checks passed")), "{printed}");
        }
    }
}

#[test]
fn memory_kept_per_type_is_bounded() {
    run_c("toolkit_kept");
}

#[test]
fn threads_can_share_types() {
    run_c("toolkit_threads");
}

#[test]
fn example_passes() {
    let program = Program::toolkit(&in_crate("../examples/memcpy_from_leaves.c"));
    for ranks in [1, 2] {
        program.passes(ranks);
    }
}

/// The folder of the `mpi.h` that the preprocessor finds.
fn folder_of_mpi_h(folder: &Path) -> PathBuf {
    let probe = folder.join("probe.c");
    fs::write(&probe, "#include <mpi.h>\n").expect("the folder can be written");
    let output = Command::new(mpicc()).arg("-M").arg(&probe).output().expect("mpicc can be run");
    let printed = text(&output);
    let header = printed.split_whitespace().find(|word| word.ends_with("/mpi.h"));
    let header = header.unwrap_or_else(|| panic!("the preprocessor finds no mpi.h: {printed}"));
    Path::new(header).parent().expect("the path of the header has a parent").to_owned()
}

/// `mpi.h` may violate an old standard, so the test passes its folder as a system folder.
#[test]
fn header_compiles_as_c89_and_cpp() {
    let folder = tempfile::TempDir::new().expect("a folder can be created");
    let system = folder_of_mpi_h(folder.path());
    for (compiler, standard, suffix) in
        [("cc", "c89", "c"), ("cc", "c11", "c"), ("c++", "c++98", "cc"), ("c++", "c++17", "cc")]
    {
        let source = folder.path().join("header").with_extension(suffix);
        let program = "#include <capulet_types.h>\n#include <capulet_types.h>\n\
                       int used(MPI_Datatype type);\n\
                       int used(MPI_Datatype type)\n\
                       { return MPIT_Type_init(type) + MPIT_MEMCPY_TO_USERBUF; }\n";
        fs::write(&source, program).expect("the folder can be written");
        let output = Command::new(compiler)
            .arg(format!("-std={standard}"))
            .args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
            .arg(in_crate("include"))
            .arg("-isystem")
            .arg(&system)
            .arg(&source)
            .output()
            .expect("the compiler can be run");
        assert!(output.status.success(), "{standard}: {}", text(&output));
    }
}

#[test]
fn types_round_trip_as_messages() {
    run_c("toolkit_message");
}

#[test]
fn netcdf_conversion_matches_the_format() {
    run_c("toolkit_netcdf");
}
