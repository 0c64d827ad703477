//! `capulet bench locks`: measures the locks of atomic mode without files, on each MPI.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use capulet_bench_report::LockRow;
use capulet_job::Job;

use crate::args::{BAD, BenchArgs, HEAD};
use crate::builds::candidates;
use crate::contender::{self, Mpi, PLAIN};

const PROGRAM: &str = "capulet-bench-locks";
/// Time limit for one number of ranks on one MPI. Spinning locks take long with more ranks than cores.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs the bench and prints its rows. Succeeds if at least one MPI was measured and none failed.
pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    let mut rows = Vec::new();
    let mut failed = false;
    for mpi in contender::chosen(&args.mpis) {
        for ranks in &args.ranks {
            match measure(mpi, *ranks, args) {
                Ok(measured) => rows.extend(measured),
                Err(trouble) => {
                    failed = true;
                    anstream::eprintln!("{BAD}{}, {ranks} ranks:{BAD:#} {trouble}", mpi.name);
                }
            }
        }
    }
    if rows.is_empty() && !failed {
        anstream::eprintln!("{BAD}capulet:{BAD:#} nothing was measured, because no lock matches --case");
    }
    let json = serde_json::to_string_pretty(&rows).unwrap_or_default();
    if let Some(path) = &args.save
        && let Err(error) = fs::write(path, &json)
    {
        anstream::eprintln!("{BAD}capulet:{BAD:#} {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    if args.json {
        anstream::println!("{json}");
    } else {
        anstream::print!("{}", table(&rows));
    }
    if failed || rows.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn measure(mpi: &Mpi, ranks: u32, args: &BenchArgs) -> Result<Vec<LockRow>, String> {
    let executable = env::current_exe().unwrap_or_default();
    let program = candidates(&executable, mpi.name, PROGRAM).into_iter().find(|path| path.is_file());
    let program = program.ok_or_else(|| format!("{PROGRAM} is not built for this MPI; run `make build`"))?;
    let mut words: Vec<OsString> = vec![args.dir.clone().unwrap_or_else(env::temp_dir).into()];
    words.extend(args.case.iter().flat_map(|lock| ["--lock".into(), lock.into()]));
    words.extend(args.quick.then(|| "--quick".into()));
    let mut command = mpi.command(&PLAIN, ranks, &program, &words, false);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = Job::start(command).map_err(|error| format!("the launcher cannot be started: {error}"))?;
    let (output, messages) = job.streams();
    let (output, messages) = (Job::text_of(output), Job::text_of(messages));
    let status = job.wait(LIMIT).map_err(|error| error.to_string())?;
    if !status.is_some_and(|status| status.success()) {
        job.end();
    }
    let (output, messages) = (output.join().unwrap_or_default(), messages.join().unwrap_or_default());
    match status {
        Some(status) if status.success() => {}
        Some(status) => return Err(format!("it ended with {status}\n{messages}")),
        None => return Err(format!("it did not end within {} s", LIMIT.as_secs())),
    }
    let rows =
        output.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}")));
    rows.collect()
}

/// One line for each lock, number of ranks and MPI.
fn table(rows: &[LockRow]) -> String {
    let mut text = format!(
        "{HEAD}{:<22} {:<12} {:>5} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>11} {:>7} {:>9}{HEAD:#}\n",
        "mpi",
        "lock",
        "ranks",
        "alone us",
        "fetch us",
        "0 ms us",
        "1 ms %",
        "10 ms %",
        "100 ms %",
        "wait/fair",
        "apart",
        "busy ms"
    );
    let mut left = rows;
    while let Some(first) = left.first() {
        let is_same =
            |row: &&LockRow| (&row.mpi, &row.lock, row.ranks) == (&first.mpi, &first.lock, first.ranks);
        let count = left.iter().take_while(is_same).count();
        let (of_lock, rest) = left.split_at(count);
        left = rest;
        let found = |experiment: &str, work_ms: u32| {
            of_lock.iter().find(|row| row.experiment == experiment && row.work_ms == work_ms)
        };
        let value = |experiment, work_ms| {
            found(experiment, work_ms)
                .map_or_else(|| "-".to_owned(), |row: &LockRow| format!("{:.2}", row.value))
        };
        // The longest wait with 10 ms of work, divided by the wait of a rank that lets every other rank
        // in once.
        let fair = f64::from(first.ranks) * 10.0;
        let wait = found("turns", 10)
            .map_or_else(|| "-".to_owned(), |row| format!("{:.2}", row.longest_wait_ms / fair));
        let _ = writeln!(
            text,
            "{:<22} {:<12} {:>5} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>11} {:>7} {:>9}",
            first.mpi,
            first.lock,
            first.ranks,
            value("alone", 0),
            value("fetch", 0),
            value("turns", 0),
            value("turns", 1),
            value("turns", 10),
            value("turns", 100),
            wait,
            value("apart", 10),
            value("busy", 0)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_has_one_line_with_dashes_for_missing_values() {
        let row = |experiment: &str, work_ms, value| LockRow {
            mpi: "X 1".to_owned(),
            lock: "mcs".to_owned(),
            ranks: 4,
            experiment: experiment.to_owned(),
            work_ms,
            acquisitions: 1,
            value,
            longest_wait_ms: 60.0,
        };
        let text = table(&[row("alone", 0, 0.123), row("fetch", 0, 0.051), row("turns", 10, 2.5)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["X", "1", "mcs", "4", "0.12", "0.05", "-", "-", "2.50", "-", "1.50", "-", "-"]);
    }
}
