//! Measures the locks of atomic mode without files: the experiments of the atomic-mode paper (Latham,
//! Ross and Thakur 2005, section 5), and more.
//!
//! `capulet bench locks` starts this program under a launcher. The first rank prints a line of JSON for
//! each row.

use std::process::ExitCode;

use capulet_benches::locks;
use clap::Parser;

/// Rows of one MPI and number of ranks, as lines of JSON.
#[derive(Debug, Parser)]
struct Options {
    /// A folder for the file that is locked where the storage has the locks.
    folder: std::path::PathBuf,
    /// Only these locks.
    #[arg(long = "lock")]
    locks: Vec<String>,
    /// Few acquisitions.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match locks::run(&options.folder, &options.locks, options.quick) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("capulet-bench-locks: {error}");
            ExitCode::FAILURE
        }
    }
}
