//! Measures the locks of atomic mode without files: the experiments of the atomic-mode paper (Latham,
//! Ross and Thakur 2005, section 5), and more.
//!
//! `capulet bench locks` starts this program under a launcher. The first rank prints a line of JSON for
//! each row.

use std::process::ExitCode;

use capulet_benches::locks;
use clap::Parser;

/// Print the rows of one MPI and one number of ranks as lines of JSON
#[derive(Debug, Parser)]
struct Options {
    /// Folder for the file that the lock fcntl locks
    folder: std::path::PathBuf,
    /// Only this lock; can be given several times
    #[arg(long = "lock")]
    locks: Vec<String>,
    /// Few acquisitions
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
