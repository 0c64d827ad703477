//! Sets the search path of the benches for an MPI that lies outside of the loader's path, such as a wheel
//! from `PyPI`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-changed=build.rs");
    let mpicc = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let Ok(output) = Command::new(&mpicc).arg("-show").output() else { return };
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    for dir in line.split_whitespace().filter_map(|word| word.strip_prefix("-L")) {
        if !dir.starts_with("/usr/lib") && !dir.starts_with("/lib") {
            println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
        }
    }
}
