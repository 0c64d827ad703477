//! `capulet verify`: runs a program on a file layer and judges the history of its accesses.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use capulet_job::Job;
use capulet_verify::{Verdict, history, judge};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use crate::args::{BAD, GOOD, HEAD, MODES, VerifyArgs};
use crate::builds::candidates;
use crate::contender::{self, Layer, Mpi};
use crate::hint::{HINTS_VARIABLE, encode};

const PROGRAM: &str = "capulet-verify-io";
const DELAY: &str = "libcapulet_delay.so";
/// Rounds of one launch. Their histories stay on the storage until they are judged.
const LAUNCH_ROUNDS: u32 = 250;
/// Time limit of a launch, without its rounds.
const LAUNCH_MAX: Duration = Duration::from_secs(60);
/// Time added to the limit for each round.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Number of rounds without an order that are printed in full, for each mode.
const SHOWN_MAX: u32 = 2;
/// Exit code of the program, and of this command, if the layer refuses atomic mode.
const REFUSED: u8 = 3;

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{program} is not built for {mpi}; run `make build`")]
    Missing { program: &'static str, mpi: String },
    #[error("{mpi} has no file layer named {layer}")]
    Layer { mpi: String, layer: String },
    #[error("{path}: {cause}", path = path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("the launcher cannot be started: {0}")]
    Start(io::Error),
    #[error("it did not end within {} s; the layer or the machine is at fault\n{messages}", .limit.as_secs())]
    Hangs { limit: Duration, messages: String },
    #[error("it ended with {status}\n{messages}")]
    Ended { status: ExitStatus, messages: String },
    #[error("the layer refuses atomic mode")]
    Refused,
    #[error(transparent)]
    History(#[from] history::Malformed),
    #[error("round {0} is missing in the histories")]
    Incomplete(u32),
    #[error("round {round}: {verdict}")]
    Unjudged { round: u32, verdict: Verdict },
}

/// Verifies and prints.
pub(crate) fn run(args: &VerifyArgs) -> ExitCode {
    let verification = match Verification::new(args) {
        Ok(verification) => verification,
        Err(trouble) => {
            anstream::eprintln!("{BAD}capulet:{BAD:#} {trouble}");
            return ExitCode::from(2);
        }
    };
    let modes: Vec<&str> = match &args.modes {
        chosen if chosen.is_empty() => MODES.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    // A proven violation weighs more than a round that could not be judged.
    let codes: Vec<u8> = modes.into_iter().map(|mode| verification.mode(mode)).collect();
    let worst = [1, 2, REFUSED].into_iter().find(|code| codes.contains(code));
    ExitCode::from(worst.unwrap_or(0))
}

struct Verification<'a> {
    args: &'a VerifyArgs,
    mpi: &'static Mpi,
    layer: Layer,
    program: PathBuf,
    delay: PathBuf,
    folder: TempDir,
}

impl<'a> Verification<'a> {
    fn new(args: &'a VerifyArgs) -> Result<Self, Trouble> {
        let unknown = || Trouble::Layer { mpi: args.mpi.clone(), layer: args.layer.clone() };
        let mpi = contender::chosen(std::slice::from_ref(&args.mpi)).next().ok_or_else(unknown)?;
        let layer = mpi.layer(&args.layer).ok_or_else(unknown)?;
        let executable = env::current_exe().unwrap_or_default();
        let found = |program: &'static str| {
            let built = candidates(&executable, mpi.name, program).into_iter().find(|path| path.is_file());
            built.ok_or_else(|| Trouble::Missing { program, mpi: args.mpi.clone() })
        };
        let folder = tempfile::Builder::new().prefix("capulet-verify-").tempdir_in(&args.folder);
        let folder = folder.map_err(|cause| Trouble::File { path: args.folder.clone(), cause })?;
        Ok(Self { args, mpi, layer, program: found(PROGRAM)?, delay: found(DELAY)?, folder })
    }

    /// Verifies one mode, prints the result and returns the exit code.
    fn mode(&self, mode: &str) -> u8 {
        let mut violations = 0;
        let ended = self.rounds(mode, &mut violations);
        let VerifyArgs { rounds, ranks, .. } = *self.args;
        let style = if violations == 0 && ended.is_ok() { GOOD } else { BAD };
        let (layer, mpi) = (self.layer.name, self.mpi.name);
        match &ended {
            Ok(()) => anstream::println!(
                "{style}{mode}:{style:#} {rounds} rounds of {ranks} ranks on {layer} of {mpi}, {violations} without an order"
            ),
            Err(trouble) => anstream::println!(
                "{style}{mode}:{style:#} {violations} without an order on {layer} of {mpi}, and then: {trouble}"
            ),
        }
        match ended {
            _ if violations > 0 => 1,
            Ok(()) => 0,
            Err(Trouble::Refused) => REFUSED,
            Err(_) => 2,
        }
    }

    fn rounds(&self, mode: &str, violations: &mut u32) -> Result<(), Trouble> {
        let VerifyArgs { rounds, first, .. } = *self.args;
        let progress = ProgressBar::new(rounds.into());
        if let Ok(style) = ProgressStyle::with_template("{prefix}: {wide_bar} {pos}/{len}, {eta} left") {
            progress.set_style(style);
        }
        progress.set_prefix(mode.to_owned());
        let mut at = first;
        while at < first + rounds {
            let count = LAUNCH_ROUNDS.min(first + rounds - at);
            self.launch(mode, at, count)?;
            for (round, verdict) in self.judged(at..at + count)? {
                progress.inc(1);
                if matches!(verdict, Verdict::Serial(_)) {
                    continue;
                }
                *violations += 1;
                if *violations <= SHOWN_MAX {
                    progress.suspend(|| {
                        anstream::println!("{BAD}{mode}, round {round}:{BAD:#} {verdict}");
                        let words = self.again(mode, round);
                        anstream::println!("  {HEAD}again with:{HEAD:#} {words}");
                    });
                }
            }
            at += count;
        }
        progress.finish_and_clear();
        Ok(())
    }

    /// The options that repeat a round.
    fn again(&self, mode: &str, round: u32) -> String {
        let VerifyArgs { mpi, layer, ranks, seed, lock, nodes, driver, delay_us, hints, nonatomic, .. } =
            self.args;
        let mut words = format!(
            "--mode {mode} --mpi {mpi} --layer {layer} --ranks {ranks} --seed {seed} --first {round} --rounds 1 --lock {lock} --nodes {nodes} --driver {driver} --delay-us {delay_us}"
        );
        for hint in hints {
            let _ = write!(words, " --hint '{hint}'");
        }
        if *nonatomic {
            words.push_str(" --nonatomic");
        }
        words
    }

    fn history(&self, rank: u32) -> PathBuf {
        self.folder.path().join(format!("history.{rank}"))
    }

    fn launch(&self, mode: &str, first: u32, rounds: u32) -> Result<(), Trouble> {
        let words: [OsString; 7] = [
            self.folder.path().join("data").into(),
            self.folder.path().join("history").into(),
            mode.into(),
            rounds.to_string().into(),
            self.args.seed.to_string().into(),
            first.to_string().into(),
            u32::from(!self.args.nonatomic).to_string().into(),
        ];
        let mut command = self.mpi.command(&self.layer, self.args.ranks, &self.program, &words, false);
        let VerifyArgs { lock, nodes, driver, .. } = self.args;
        command.env(HINTS_VARIABLE, format!("capulet_lock={lock};{}", encode(&self.args.hints)));
        command.env("CAPULET_NODES", nodes.to_string()).env("CAPULET_DRIVER", driver);
        if self.args.delay_us > 0 {
            command.env("LD_PRELOAD", &self.delay).env("CAPULET_DELAY_US", self.args.delay_us.to_string());
        }
        ended(command, LAUNCH_MAX + ROUND_MAX * rounds)
    }

    /// The verdicts on the rounds of a launch.
    fn judged(&self, rounds: std::ops::Range<u32>) -> Result<Vec<(u32, Verdict)>, Trouble> {
        let histories = (0..self.args.ranks).map(|rank| taken(&self.history(rank)));
        let mut histories_by_round = history::read(&histories.collect::<Result<Vec<_>, _>>()?)?;
        let judged = rounds.map(|number| {
            let round = histories_by_round.remove(&number).filter(|round| round.last.is_some());
            match judge(&round.ok_or(Trouble::Incomplete(number))?) {
                verdict @ Verdict::Undecided => Err(Trouble::Unjudged { round: number, verdict }),
                verdict => Ok((number, verdict)),
            }
        });
        judged.collect()
    }
}

/// Reads a file and removes it.
fn taken(path: &Path) -> Result<Vec<u8>, Trouble> {
    let trouble = |cause| Trouble::File { path: path.to_owned(), cause };
    let bytes = fs::read(path).map_err(trouble)?;
    fs::remove_file(path).map_err(trouble)?;
    Ok(bytes)
}

/// Runs a launch to its end, or ends it with all of its processes.
fn ended(mut command: Command, limit: Duration) -> Result<(), Trouble> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut job = Job::start(command).map_err(Trouble::Start)?;
    let (_, messages) = job.streams();
    let messages = Job::text_of(messages);
    let status = job.wait(limit).map_err(Trouble::Start)?;
    if !status.is_some_and(|status| status.success()) {
        job.end();
    }
    let messages = messages.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) if status.code() == Some(REFUSED.into()) => Err(Trouble::Refused),
        Some(status) => Err(Trouble::Ended { status, messages }),
        None => Err(Trouble::Hangs { limit, messages }),
    }
}
