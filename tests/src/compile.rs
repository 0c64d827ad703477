//! Compiles test programs into `target/tests/MPI`, at the first use and again when a source is newer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use crate::mpi::{Mpi, root};

static COMPILING: Mutex<()> = Mutex::new(());

/// Compiles a program of `tests/mpi` (C on MPI alone) and returns its path.
///
/// # Panics
/// If the program does not compile.
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

/// Compiles a program of `tests/fortran` and returns its path.
///
/// # Panics
/// If the program does not compile.
pub fn fortran(mpi: Mpi, name: &str) -> PathBuf {
    build(mpi, &format!("fortran/{name}.f90"), &["-fallow-argument-mismatch"])
}

/// Compiles a program of `tests/libraries` that uses parallel HDF5, and returns its path.
///
/// # Panics
/// If the program does not compile.
pub fn hdf5(mpi: Mpi, name: &str) -> PathBuf {
    let package = format!("hdf5-{}", mpi.name());
    let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", &package]));
    let mut flags: Vec<&str> = flags.split_whitespace().collect();
    flags.push("-lhdf5");
    build(mpi, &format!("libraries/{name}.c"), &flags)
}

/// Compiles a program of `tests/libraries` that uses `PnetCDF`, and returns its path. Debian has
/// `PnetCDF` for Open MPI only.
///
/// # Panics
/// If the program does not compile.
pub fn pnetcdf(mpi: Mpi, name: &str) -> PathBuf {
    build(mpi, &format!("libraries/{name}.c"), &["-lpnetcdf"])
}

/// The program that mounts a folder as an NFS client does (`tests/cached-fs`).
///
/// # Panics
/// If the program does not compile.
pub fn cached_fs() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        // The folder in which scripts/test.sh builds what knows no MPI.
        let target = root().join("target/openmpi");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "capulet-cached-fs", "--target-dir"]).arg(&target);
        output(cargo.current_dir(root()));
        target.join("debug/cached-fs")
    };
    BUILT.get_or_init(build).clone()
}

fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("the compiler flags are valid UTF-8")
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

/// Time of the newest source in a folder. Any source may include any other.
fn newest_in(folder: &Path) -> Option<SystemTime> {
    fs::read_dir(folder).ok()?.filter_map(|entry| modified(&entry.ok()?.path())).max()
}

fn build(mpi: Mpi, source: &str, libraries: &[&str]) -> PathBuf {
    // A test that failed with the lock held has left the folder intact, because the compiler's output is
    // renamed into place.
    let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let folder = source.parent().expect("the source lies in a folder");
    let fortran = source.extension().is_some_and(|extension| extension == "f90");
    let into = root().join("target/tests").join(mpi.name());
    let program = into.join(source.file_stem().expect("the source has a name"));
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
