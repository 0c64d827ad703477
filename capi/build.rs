//! Sets the shared library's SONAME and compiles the constants that bindgen cannot see.
//!
//! * `CAPULET_SONAME`: the SONAME, `libcapulet.so` if unset. One library is built for each MPI, each with its
//!   own.
//! * `MPICC`: the C compiler wrapper of the MPI to build for, `mpicc` if unset, as for `mpi-sys`.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=CAPULET_SONAME");
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-changed=src/consts.c");

    let soname = env::var("CAPULET_SONAME").unwrap_or_else(|_| "libcapulet.so".to_owned());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-env=CAPULET_SONAME_BUILT={soname}");

    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    println!("cargo:rustc-env=CAPULET_MPICC={compiler}");
    cc::Build::new().compiler(compiler).file("src/consts.c").std("c11").compile("capulet_capi_consts");
}
