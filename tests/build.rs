//! Tells the tests which MPI they are for, so that what one MPI does not have is ignored there, with its
//! reason.

use std::env;

fn main() {
    for variable in ["CAPULET_TEST_MPI", "CAPULET_MPI", "CAPULET_TEST_IO"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rustc-check-cfg=cfg(mpich, native_io)");
    let mpi = env::var("CAPULET_TEST_MPI").or_else(|_| env::var("CAPULET_MPI"));
    if mpi.is_ok_and(|mpi| mpi == "mpich") {
        println!("cargo::rustc-cfg=mpich");
    }
    if env::var("CAPULET_TEST_IO").is_ok_and(|io| io == "native") {
        println!("cargo::rustc-cfg=native_io");
    }
}
