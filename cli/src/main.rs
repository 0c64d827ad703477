//! The `capulet` command: `run` starts a program on Capulet, `doctor` reports what is installed, `plan`
//! tells how an access would be carried out, `bench` measures, and `verify` checks what a file layer
//! promises.
//!
//! Of the library the command knows only the file name and the variables that the library reads. The
//! command is not linked to an MPI.
//!
//! | module | |
//! |---|---|
//! | `args`, `plan::args` | the command line and its help |
//! | `run`, `program`, `hint`, `error` | `capulet run` |
//! | `mpi`, `elf`, `loader`, `python`, `library`, `launcher` | the search for MPI, library and launcher |
//! | `doctor` | `capulet doctor` |
//! | `plan` | `capulet plan` |
//! | `bench`, `bench_files`, `bench_locks`, `bench_plan`, `builds`, `contender`, `heap` | `capulet bench` |
//! | `verify` | `capulet verify` |

mod args;
mod bench;
mod bench_files;
mod bench_locks;
mod bench_plan;
mod builds;
mod contender;
mod doctor;
mod elf;
mod error;
mod heap;
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

/// Turns this process into the program, or prints what it would do.
fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    let start = Start::prepare(args)?;
    if args.dry_run {
        let printed = start.print();
        return Ok(if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    match start.exec()? {}
}

/// Prints the error and returns its exit code. Every rank prints the error, because the cause may exist
/// on one node only. Only the first rank prints the advice too.
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
