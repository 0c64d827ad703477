//! Test programs, compiled on first use into `target/tests/MPI` and again when a source is newer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::mpi::{Mpi, root};

static COMPILING: Mutex<()> = Mutex::new(());

/// A program of `tests/mpi`: C on MPI alone.
///
/// # Panics
/// If it does not compile.
pub fn c(mpi: Mpi, name: &str) -> PathBuf {
    build(mpi, &format!("mpi/{name}.c"), &["-ldl", "-lpthread", "-lm"])
}

/// A library of `tests/preload`, to be preloaded: C without MPI.
///
/// # Panics
/// If it does not compile.
pub fn preload(mpi: Mpi, name: &str) -> PathBuf {
    build(mpi, &format!("preload/{name}.c"), &["-shared", "-fPIC", "-ldl"])
}

/// A program of `tests/fortran`.
///
/// # Panics
/// If it does not compile.
pub fn fortran(mpi: Mpi, name: &str) -> PathBuf {
    build(mpi, &format!("fortran/{name}.f90"), &["-fallow-argument-mismatch"])
}

/// A program of `tests/libraries` that uses parallel HDF5.
///
/// # Panics
/// If it does not compile.
pub fn hdf5(mpi: Mpi, name: &str) -> PathBuf {
    let package = format!("hdf5-{}", mpi.name());
    let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", &package]));
    let mut flags: Vec<&str> = flags.split_whitespace().collect();
    flags.push("-lhdf5");
    build(mpi, &format!("libraries/{name}.c"), &flags)
}

/// A program of `tests/libraries` that uses `PnetCDF`, which Debian has for Open MPI alone.
///
/// # Panics
/// If it does not compile.
pub fn pnetcdf(mpi: Mpi, name: &str) -> PathBuf {
    build(mpi, &format!("libraries/{name}.c"), &["-lpnetcdf"])
}

fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("compiler flags are text")
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// The newest source of a folder: any of them may be included by any other.
fn newest_in(folder: &Path) -> Option<SystemTime> {
    fs::read_dir(folder).ok()?.filter_map(|entry| modified(&entry.ok()?.path())).max()
}

fn build(mpi: Mpi, source: &str, libraries: &[&str]) -> PathBuf {
    // a test that failed while it held the lock has not harmed the folder: the compiler's output is renamed into place
    let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let folder = source.parent().expect("a source lies in a folder");
    let fortran = source.extension().is_some_and(|extension| extension == "f90");
    let into = root().join("target/tests").join(mpi.name());
    let program = into.join(source.file_stem().expect("a source has a name"));
    if modified(&program).is_some_and(|built| Some(built) > newest_in(folder)) {
        return program;
    }
    fs::create_dir_all(&into).unwrap_or_else(|error| panic!("{}: {error}", into.display()));
    let fresh = program.with_extension("new");
    let mut compiler = Command::new(mpi.compiler(fortran));
    compiler.args(["-g", "-O1", "-Wall"]);
    if fortran {
        compiler.arg("-I").arg(folder);
    } else {
        compiler.args(["-Wextra", "-Werror"]);
    }
    output(compiler.arg("-o").arg(&fresh).arg(&source).args(libraries));
    fs::rename(&fresh, &program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    program
}
