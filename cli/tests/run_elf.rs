//! `capulet run` on compiled programs: the MPI that is found, the variables that are set, and the
//! refusals.

mod common;

use std::fs;
use std::path::Path;

use common::{Bench, MPIS, compile, environment, launcher, mpi_library, outcome, source, write_script};

#[test]
fn mpi_is_found_by_the_linked_library() {
    let bench = Bench::get();
    for (mpi, soname) in MPIS {
        let program = bench.program(mpi);
        let done = bench.run(&[Path::new("--dry-run"), &program]);
        assert_eq!(done.code, Some(0), "{mpi}: {done:?}");
        assert_eq!(done.values("mpi"), [mpi]);
        assert!(done.values("library")[0].ends_with(soname), "{mpi}: {done:?}");
        let preload = done.values("LD_PRELOAD")[0];
        let capulet = bench.libraries().join(format!("libcapulet_{mpi}.so"));
        assert_eq!(preload, format!("{}:{}", capulet.display(), done.values("library")[0]));
    }
}

#[test]
fn program_runs_with_its_own_mpi_only() {
    let bench = Bench::get();
    for (mpi, soname) in MPIS {
        let program = bench.program(mpi);
        let done = bench.run(&[program.to_str().expect("valid UTF-8"), "7", "--stats"]);
        assert_eq!(done.code, Some(7), "the exit code is the program's: {done:?}");
        assert_eq!(done.values("argument"), ["7", "--stats"]);
        assert_eq!(done.values("interposed"), ["yes"], "{mpi}");
        let mapped = done.mapped();
        assert!(
            matches!(mapped[..], [path] if path.contains(soname)),
            "{mpi}: the process has one MPI library: {done:?}"
        );
        if mpi == "mpich5" {
            assert!(
                mapped[0].starts_with(environment(mpi).to_str().expect("valid UTF-8")),
                "the library is the wheel's own: {mapped:?}"
            );
        }
        assert!(done.values("CAPULET_STATS").is_empty(), "options after the program are the program's");
    }
}

#[test]
fn ranks_of_a_launcher_are_served() {
    let bench = Bench::get();
    for (mpi, _) in MPIS {
        let done = outcome(
            launcher(mpi, 2)
                .env("CAPULET_LIBDIR", bench.libraries())
                .args([env!("CARGO_BIN_EXE_capulet"), "run", "--"])
                .arg(bench.program(mpi)),
        );
        assert_eq!(done.code, Some(0), "{mpi}: {done:?}");
        assert_eq!(done.values("interposed"), ["yes", "yes"], "{mpi}");
    }
}

#[test]
fn launcher_of_another_mpi_is_refused() {
    let bench = Bench::get();
    for (launching, program) in
        [("mpich", "openmpi"), ("openmpi", "mpich"), ("openmpi", "mpich5"), ("mpich5", "openmpi")]
    {
        let done = outcome(
            launcher(launching, 2)
                .env("CAPULET_LIBDIR", bench.libraries())
                .args([env!("CARGO_BIN_EXE_capulet"), "run"])
                .arg(bench.program(program)),
        );
        // The launcher decides which ranks can still print after the first one has failed.
        assert_eq!(done.code, Some(65), "{launching} {program}: {done:?}");
        assert!(done.values("interposed").is_empty(), "the program was not started: {done:?}");
        assert!(done.complaints.contains("was started by the launcher of"), "{}", done.complaints);
    }
}

#[test]
fn launchers_of_mpich_serve_both_versions() {
    let bench = Bench::get();
    for variables in
        [&["PMI_RANK", "PMI_SIZE"][..], &["HYDI_CONTROL_FD"], &["SLURM_STEP_ID", "PMI_RANK", "PMI_SIZE"]]
    {
        for mpi in ["mpich", "mpich5"] {
            let mut command = bench.capulet();
            command
                .args(["run", "--dry-run"])
                .arg(bench.program(mpi))
                .envs(variables.iter().map(|name| (name, "1")));
            assert_eq!(outcome(&mut command).code, Some(0), "{variables:?} {mpi}");
        }
    }
}

#[test]
fn mpi_behind_other_libraries_is_found() {
    let bench = Bench::get();
    let folder = bench.path("behind");
    fs::create_dir(&folder).expect("the folder is created");
    let (source_of_library, source_of_program) = (folder.join("io.c"), folder.join("main.c"));
    fs::write(
        &source_of_library,
        "int PMPI_Get_version(int *, int *); int io(void) { int a, b; return PMPI_Get_version(&a, &b); }",
    )
    .expect("the file is written");
    fs::write(&source_of_program, "int io(void); int main(void) { return io(); }")
        .expect("the file is written");
    let library = folder.join("libio.so");
    let shared = ["-shared", "-fPIC", "-o"].map(Path::new);
    compile(
        Path::new("gcc"),
        &[&shared[..], &[&library, &source_of_library, &mpi_library("mpich")]].concat(),
    );
    // The old and the new kind of search path. Libraries inherit the program's search path only if it is
    // of the old kind.
    for tags in ["--disable-new-dtags", "--enable-new-dtags"] {
        let program = folder.join(tags);
        let search = format!("-Wl,-rpath,$ORIGIN,{tags}");
        compile(
            Path::new("gcc"),
            &[&source_of_program, Path::new("-o"), &program, &library, Path::new(&search)],
        );
        let done = bench.run(&[Path::new("--dry-run"), &program]);
        assert_eq!(done.values("mpi"), ["mpich"], "{tags}: {done:?}");
        assert_eq!(bench.run(&[program]).code, Some(0), "{tags}");
    }
}

#[test]
fn scripts_are_followed_to_their_interpreter() {
    let bench = Bench::get();
    let script = bench.path("script");
    write_script(&script, &format!("#!{}\n", bench.program("mpich").display()));
    let done = bench.run(&[script.as_os_str()]);
    assert_eq!(done.values("interposed"), ["yes"], "{done:?}");
    assert_eq!(done.values("argument"), [script.to_str().expect("valid UTF-8")]);
}

#[test]
fn program_without_a_visible_mpi_needs_the_option() {
    let bench = Bench::get();
    let script = bench.path("shell");
    write_script(&script, "#!/bin/sh\nexit 3\n");
    for program in [Path::new("/bin/true"), &script] {
        let done = bench.run(&[program]);
        assert_eq!(done.code, Some(64), "{done:?}");
        assert!(
            done.complaints.contains("no MPI library") && done.complaints.contains("--mpi"),
            "{}",
            done.complaints
        );
    }
    for mpi in ["openmpi", "mpich"] {
        let done = bench.run(&["--mpi", mpi, "/bin/true"]);
        assert_eq!(
            (done.code, done.complaints.as_str()),
            (Some(0), ""),
            "{mpi}: the preload does not harm a program without MPI"
        );
        let done = bench.run(&["--mpi", mpi, script.to_str().expect("valid UTF-8")]);
        assert_eq!(done.code, Some(3), "{mpi}: {done:?}");
    }
    // The wheel is not among the system's libraries, so the user must name its folder too.
    let done = bench.run(&["--mpi", "mpich5", "/bin/true"]);
    assert_eq!(done.code, Some(64), "{done:?}");
    assert!(done.complaints.contains("libmpi.so.12, which the loader does not find"), "{}", done.complaints);
    let mut command = bench.capulet();
    command.env("LD_LIBRARY_PATH", environment("mpich5").join("lib")).args([
        "run",
        "--mpi",
        "mpich5",
        "/bin/true",
    ]);
    assert_eq!(outcome(&mut command).code, Some(0));
}

#[test]
fn option_cannot_overrule_the_detected_mpi() {
    let bench = Bench::get();
    let done = bench.run(&[Path::new("--mpi"), Path::new("mpich"), &bench.program("openmpi")]);
    assert_eq!(done.code, Some(64), "{done:?}");
    assert!(done.complaints.contains("not MPICH (libmpich.so.12) as --mpi says"), "{}", done.complaints);
}

#[test]
fn unserved_program_is_refused_with_its_reason() {
    let bench = Bench::get();
    let both = bench.path("both");
    let main = bench.path("main.c");
    fs::write(&main, "int main(void) { return 0; }").expect("the file is written");
    let libraries = [Path::new("-Wl,--no-as-needed"), &mpi_library("openmpi"), &mpi_library("mpich")];
    compile(Path::new("gcc"), &[&[&main, Path::new("-o"), &both], &libraries[..]].concat());
    let fixed = bench.path("static");
    compile(Path::new("gcc"), &[&main, Path::new("-static"), Path::new("-o"), &fixed]);
    let standard = bench.path("standard");
    compile(&environment("mpich5/bin/mpicc_abi"), &[&source("version.c"), Path::new("-o"), &standard]);
    let lost = bench.path("lost");
    compile(
        Path::new("gcc"),
        &[&main, Path::new("-o"), &lost, Path::new("-Wl,--no-as-needed"), &mpi_library("mpich5")],
    );
    for (program, reason) in [
        (both, "more than one MPI library"),
        (fixed, "statically linked"),
        (standard, "the standard ABI of MPI 5"),
        (lost, "libmpi.so.12, which the loader does not find"),
    ] {
        let done = bench.run(&[&program]);
        assert_eq!(done.code, Some(64), "{done:?}");
        assert!(done.complaints.contains(reason), "{reason}: {}", done.complaints);
    }
}

#[test]
fn preloaded_library_of_another_mpi_is_noticed() {
    let bench = Bench::get();
    let mut command = bench.capulet();
    // A tool that was built for Open MPI and left in LD_PRELOAD looks like this.
    command
        .env("LD_PRELOAD", bench.libraries().join("libcapulet_openmpi.so"))
        .arg("run")
        .arg(bench.program("mpich"));
    let done = outcome(&mut command);
    assert_eq!(done.code, Some(64), "{done:?}");
    assert!(done.complaints.contains("more than one MPI library"), "{}", done.complaints);
}
