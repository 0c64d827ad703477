//! `capulet bench`: runs the measuring program of each MPI for which one is built, one after the other,
//! and merges their rows. The modules `bench_files`, `bench_locks` and `bench_plan` measure files, locks
//! and plans.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use capulet_bench_report::{Line, Measured, Row, merge, summary, table};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{BAD, BenchArgs, BenchName, GOOD, HEAD};
use crate::bench_files;
use crate::bench_locks;
use crate::bench_plan;
use crate::builds::candidates;
use crate::launcher;

const PROGRAM: &str = "capulet-bench-types";
/// Build folders of the four MPIs that are measured.
const BUILDS: [&str; 4] = ["openmpi", "openmpi5", "mpich", "mpich5"];
/// Open MPI 4 and 5 refuse to run as root unless both variables are set.
const SETTINGS: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

/// Why the measuring program of one MPI gave no rows.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot be started: {0}")]
    Start(io::Error),
    #[error("its rows cannot be read: {0}")]
    Read(io::Error),
    #[error("it printed a line that is not a row: {0}")]
    Line(serde_json::Error),
    #[error("it ended with {0}")]
    Ended(String),
}

/// Runs the benches and prints their rows. Succeeds if at least one MPI was measured and none failed.
pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    let bench = match args.bench {
        BenchName::Datatype => "datatype",
        BenchName::Transpack => "transpack",
        BenchName::Collective => return bench_files::run(args, "collective"),
        BenchName::Independent => return bench_files::run(args, "independent"),
        BenchName::Atomic => return bench_files::run(args, "atomic"),
        BenchName::Locks => return bench_locks::run(args),
        BenchName::Plan => return bench_plan::run(args),
    };
    let executable = env::current_exe().unwrap_or_default();
    let mut runs: Vec<(String, Vec<Measured>)> = Vec::new();
    let mut failed = false;
    for build in
        BUILDS.into_iter().filter(|build| args.mpis.is_empty() || args.mpis.iter().any(|mpi| mpi == build))
    {
        let Some(program) = candidates(&executable, build, PROGRAM).into_iter().find(|path| path.is_file())
        else {
            anstream::eprintln!("{HEAD}{build}:{HEAD:#} not measured, because {PROGRAM} is not built for it");
            continue;
        };
        match measure(&program, build, bench, args) {
            Ok(rows) => runs.push((build.to_owned(), rows)),
            Err(error) => {
                failed = true;
                anstream::eprintln!("{BAD}{build}:{BAD:#} {}: {error}", program.display());
            }
        }
    }
    if runs.is_empty() {
        anstream::eprintln!("{BAD}capulet:{BAD:#} no MPI was measured; `make build` builds the benches");
        return ExitCode::FAILURE;
    }
    match write(&merge(&runs), args) {
        Ok(()) if !failed => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("{BAD}capulet:{BAD:#} the rows cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one measuring program to its end and returns its rows.
fn measure(program: &Path, build: &str, bench: &str, args: &BenchArgs) -> Result<Vec<Measured>, Failure> {
    let mut command = Command::new(program);
    command.arg(bench);
    command.args(["--runs", &args.runs.to_string()]);
    command.args(args.case.iter().flat_map(|case| ["--case", case]));
    command.args(args.quick.then_some("--quick"));
    // The program runs as a single process, even if a launcher started this command.
    for name in launcher::variables() {
        command.env_remove(name);
    }
    command.envs(SETTINGS).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::Start)?;
    let rows = read(&mut child, build);
    if rows.is_err() {
        // The program may block on its output, which has no reader any more. The kill fails without harm
        // if the program has ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(Failure::Start)?;
    match rows {
        Ok(_) if !status.success() => Err(Failure::Ended(status.to_string())),
        rows => rows,
    }
}

fn read(child: &mut Child, build: &str) -> Result<Vec<Measured>, Failure> {
    let mut rows = Vec::new();
    let progress = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{prefix}: {wide_bar} {pos}/{len}, {eta} left") {
        progress.set_style(style);
    }
    let output = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines());
    for line in output {
        match serde_json::from_str(&line.map_err(Failure::Read)?).map_err(Failure::Line)? {
            Line::Start(start) => {
                anstream::eprintln!("{GOOD}{build}:{GOOD:#} {}, {} rows", start.library, start.rows);
                progress.set_prefix(build.to_owned());
                progress.set_length(start.rows as u64);
            }
            Line::Row(row) => {
                rows.push(row);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

fn write(rows: &[Row], args: &BenchArgs) -> io::Result<()> {
    let json = || serde_json::to_vec_pretty(rows).map_err(io::Error::from);
    if let Some(path) = &args.save {
        fs::write(path, json()?)?;
    }
    let mut output = io::stdout().lock();
    if args.json {
        output.write_all(&json()?)?;
        writeln!(output)
    } else {
        writeln!(output, "{}\n{}", table(rows), summary(rows).trim_end())
    }
}
