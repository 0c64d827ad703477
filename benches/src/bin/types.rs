//! Measures datatypes against the MPI with which this program is linked.
//!
//! `capulet bench` starts this program without a launcher. The program prints a line of JSON for each
//! row.

use std::process::ExitCode;

use capulet_benches::{Bench, Effort, Mpi, Plan};
use clap::{Parser, ValueEnum};

/// Print the rows of one MPI as lines of JSON
#[derive(Debug, Parser)]
struct Options {
    bench: Which,
    /// Number of samples of each contender
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Only rows with this text in `suite case element op`
    #[arg(long)]
    case: Option<String>,
    /// Few and short samples; the comparisons are complete, the times are rough
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Which {
    Datatype,
    Transpack,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let bench = match options.bench {
        Which::Datatype => Bench::Datatype,
        Which::Transpack => Bench::Transpack,
    };
    let effort = if options.quick {
        Effort { rounds: usize::from(options.runs.min(3)), sample_seconds: 2e-4 }
    } else {
        Effort { rounds: usize::from(options.runs), sample_seconds: 2e-3 }
    };
    let plan = Plan::new(bench, options.case.as_deref());
    let mpi = Mpi::start();
    match plan.run(&mpi, effort, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("capulet-bench-types: {error}");
            ExitCode::FAILURE
        }
    }
}
