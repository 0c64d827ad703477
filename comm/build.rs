//! Compiles `consts.c`, the constants that bindgen cannot see, with the MPI compiler wrapper. Also tells
//! the crate which MPI library it is built for.
//!
//! The MPI library is the one of `$MPICC` (default `mpicc`), as for `mpi-sys`. `mpi-sys` does not rebuild
//! when `MPICC` changes, so each MPI library needs its own target directory.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONSTANTS: &str = "src/consts.c";

fn main() {
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-changed={CONSTANTS}");
    println!("cargo:rustc-check-cfg=cfg(has_large_counts)");
    println!("cargo:rustc-check-cfg=cfg(mpi_family, values(\"openmpi\", \"mpich\"))");

    let mpicc = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    cc::Build::new().compiler(&mpicc).file(CONSTANTS).std("c11").compile("capulet_consts");

    let header = Header::probe(&mpicc);
    if header.version >= 4 {
        println!("cargo:rustc-cfg=has_large_counts");
    }
    println!("cargo:rustc-cfg=mpi_family=\"{}\"", header.family);
    println!("cargo:rustc-env=CAPULET_MPI_FAMILY={}", header.family);
    println!("cargo:rustc-env=CAPULET_MPI_LAUNCHER={}", launcher(&mpicc, header.family));
    // The build scripts of the dependent crates read these two values as DEP_CAPULET_MPI_*.
    println!("cargo:family={}", header.family);
    println!("cargo:version={}", header.version);
    link_at_run_time(&mpicc);
}

/// The facts about this MPI library that the preprocessor gives.
struct Header {
    version: u32,
    family: &'static str,
}

impl Header {
    fn probe(mpicc: &str) -> Self {
        let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let probe = out_dir.join("probe.c");
        let text = "#include <mpi.h>\n#ifdef OPEN_MPI\ncapulet_family openmpi\n#endif\n\
                    #ifdef MPICH_VERSION\ncapulet_family mpich\n#endif\ncapulet_version MPI_VERSION\n";
        std::fs::write(&probe, text).expect("OUT_DIR can be written");
        let output = Command::new(mpicc)
            .arg("-E")
            .arg(&probe)
            .output()
            .unwrap_or_else(|error| panic!("cannot run the MPI compiler `{mpicc}`: {error}; set MPICC"));
        assert!(output.status.success(), "`{mpicc} -E` failed: {}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = |key: &str| {
            lines.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned())
        };
        let family = match value("capulet_family").as_deref() {
            Some("openmpi") => "openmpi",
            Some("mpich") => "mpich",
            _ => panic!("`{mpicc}` belongs neither to MPICH (or a relative) nor to Open MPI"),
        };
        let version =
            value("capulet_version").and_then(|v| v.parse().ok()).expect("mpi.h defines MPI_VERSION");
        Header { version, family }
    }
}

/// The `mpiexec` that belongs to this compiler wrapper.
///
/// If the wrapper is named by a path, the launcher is the `mpiexec` in the same folder. If the wrapper has
/// another name than `mpicc`, the launcher has the same name with `mpiexec` in place of `mpicc`. Else the
/// launcher is `mpiexec.` followed by the family.
fn launcher(mpicc: &str, family: &str) -> String {
    let compiler = Path::new(mpicc);
    let neighbor = compiler
        .file_name()
        .and_then(|name| name.to_str())
        .map(|name| compiler.with_file_name(name.replacen("mpicc", "mpiexec", 1)));
    match neighbor {
        Some(path) if compiler.components().count() > 1 && path.exists() => {
            path.to_string_lossy().into_owned()
        }
        Some(path) if mpicc != "mpicc" => path.to_string_lossy().into_owned(),
        _ => format!("mpiexec.{family}"),
    }
}

/// Adds run paths, so that the tests and examples of this crate find an MPI library outside of the loader's
/// path.
fn link_at_run_time(mpicc: &str) {
    let Ok(output) = Command::new(mpicc).arg("-show").output() else { return };
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    for dir in line.split_whitespace().filter_map(|word| word.strip_prefix("-L")) {
        if !dir.starts_with("/usr/lib") && !dir.starts_with("/lib") {
            println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
        }
    }
}
