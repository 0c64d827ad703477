//! Sets the SONAME of the shared library, and compiles the constants that bindgen does not find. Sets
//! `has_mpi_4_1` if the MPI has the functions of MPI 4.1.
//!
//! * `CAPULET_SONAME`: the SONAME, `libcapulet.so` if unset. There is one library for each MPI, each with
//!   its own SONAME.
//! * `MPICC`: the C compiler wrapper of the MPI, `mpicc` if unset, as for `mpi-sys`.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=CAPULET_SONAME");
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-changed=src/consts.c");

    let soname = env::var("CAPULET_SONAME").unwrap_or_else(|_| "libcapulet.so".to_owned());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-env=CAPULET_SONAME_BUILT={soname}");

    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    println!("cargo:rustc-env=CAPULET_MPICC={compiler}");
    cc::Build::new().compiler(&compiler).file("src/consts.c").std("c11").compile("capulet_capi_consts");

    println!("cargo:rustc-check-cfg=cfg(has_mpi_4_1)");
    if version(&compiler) >= (4, 1) {
        println!("cargo:rustc-cfg=has_mpi_4_1");
    }
}

/// The version of the MPI standard in the `mpi.h` of the compiler.
fn version(compiler: &str) -> (u32, u32) {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let probe = folder.join("version.c");
    fs::write(&probe, "#include <mpi.h>\ncapulet_version MPI_VERSION MPI_SUBVERSION\n")
        .expect("OUT_DIR can be written");
    let text = cc::Build::new().compiler(compiler).file(probe).expand();
    let text = String::from_utf8_lossy(&text);
    let numbers = text.lines().find_map(|line| line.strip_prefix("capulet_version")).unwrap_or_default();
    let numbers: Vec<u32> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [version, subversion] = numbers[..] else {
        panic!("`{compiler}` has no MPI_VERSION and MPI_SUBVERSION in its mpi.h");
    };
    (version, subversion)
}
