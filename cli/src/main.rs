//! The `capulet` command: `run` starts a program on Capulet, `doctor` says what is installed, `plan` how an access would be carried
//! out, `bench` measures, `verify` judges what a file layer promises.
//!
//! It knows of the library its file name and the variables that the library reads, and it is linked to no MPI.

mod args;
mod bench;
mod bench_files;
mod bench_locks;
mod bench_plan;
mod contender;
mod doctor;
mod elf;
mod error;
mod hint;
mod launcher;
mod library;
mod loader;
mod mpi;
mod plan;
mod program;
mod python;
mod run;
mod verify;

use std::env;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{BAD, Cli, Command, HEAD, RunArgs};
use crate::error::Error;
use crate::run::Start;

/// Counts what is allocated, for `bench plan`.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => match run(&args) {
            Ok(code) => code,
            Err(error) => complain(&error),
        },
        Command::Doctor(args) => doctor::report(&args.path),
        Command::Bench(args) => bench::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Verify(args) => verify::run(&args),
    }
}

/// Turns into the program, or says how it would.
fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    let start = Start::prepare(args)?;
    if args.dry_run {
        let printed = start.print();
        return Ok(if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    match start.exec()? {}
}

/// Every rank says what is wrong, as it may be wrong on one node only; the first one also says what to do.
fn complain(error: &Error) -> ExitCode {
    let rank = launcher::rank(|name| env::var_os(name));
    match rank {
        Some(rank) if rank > 0 => anstream::eprintln!("{BAD}capulet:{BAD:#} rank {rank}: {error}"),
        _ => {
            anstream::eprintln!("{BAD}capulet:{BAD:#} {error}");
            if let Some(advice) = error.advice() {
                anstream::eprintln!("  {HEAD}help:{HEAD:#} {advice}");
            }
        }
    }
    ExitCode::from(error.exit_code())
}
