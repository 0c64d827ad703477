//! One launch of the measuring program: its start, its output and its end, good or bad.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use capulet_bench_report::files::{Counts, Head, Line, Lost, Sample, Start};
use capulet_job::Job;

/// A launch without output for this long is taken to hang, or is too slow to wait for.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Longest time from the last line of output to the end of the processes.
const ENDING_MAX: Duration = Duration::from_secs(30);
/// Number of lines shown of the messages of a launch that failed.
const MESSAGE_LINES: usize = 6;

/// Result of a launch.
#[derive(Debug, Default)]
pub(super) struct Launched {
    /// The first line of output, if the launch printed it.
    pub(super) start: Option<Start>,
    /// The rows that the launch measured.
    pub(super) samples: Vec<Sample>,
    /// The row in which the launch failed.
    pub(super) lost: Option<Lost>,
    /// The library's counters, by the number of the row.
    pub(super) counts: BTreeMap<u32, Counts>,
}

/// Why a launch gave no rows.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{launcher} cannot be started: {cause}")]
    Start { launcher: String, cause: io::Error },
    #[error("it printed a line that is not a row: {0}")]
    Line(serde_json::Error),
    #[error("it {ending}\n{messages}")]
    Ended { ending: String, messages: String },
}

/// Runs `command` to its end, or ends all of its processes when it hangs or fails. Calls `seen` for each
/// row.
///
/// # Errors
/// If the launch fails outside of a row. A failure inside a row is reported in `Launched::lost`.
pub(super) fn launch(mut command: Command, mut seen: impl FnMut(&Sample)) -> Result<Launched, Failure> {
    let launcher = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut job = Job::start(command).map_err(|cause| Failure::Start { launcher, cause })?;
    let (output, messages) = job.streams();
    let lines = lines_of(output);
    let messages = Job::text_of(messages);
    let mut launched = Launched::default();
    let mut inside = None;
    let in_time = follow(&lines, &mut launched, &mut inside, &mut seen);
    let status = match in_time {
        Ok(true) => job.wait(ENDING_MAX).unwrap_or(None),
        _ => None,
    };
    // Ranks of a failed launch may outlive the launcher.
    if !status.is_some_and(|status| status.success()) {
        job.end();
    }
    let text = messages.join().unwrap_or_default();
    let in_time = in_time?;
    launched.counts = counts_of(&text);
    let ending = match status {
        Some(status) if status.success() => return Ok(launched),
        Some(status) => format!("ended with {status}"),
        None if in_time => "did not end after its last row".to_owned(),
        None => format!("printed nothing for {} s", SILENCE_MAX.as_secs()),
    };
    match inside {
        Some(head) => {
            launched.lost = Some(Lost { head, reason: ending });
            Ok(launched)
        }
        None => Err(Failure::Ended { ending, messages: tail(&text) }),
    }
}

/// Sends the lines of `output` from a thread of its own, so that the receiver can wait with a timeout.
fn lines_of(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok)
        {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Reads lines until the output ends (true) or until no line arrives for [`SILENCE_MAX`] (false).
fn follow(
    lines: &Receiver<String>,
    launched: &mut Launched,
    inside: &mut Option<Head>,
    seen: &mut impl FnMut(&Sample),
) -> Result<bool, Failure> {
    loop {
        let line = match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        };
        // Launchers print their own messages to the same stream.
        if !line.starts_with('{') {
            continue;
        }
        match serde_json::from_str(&line).map_err(Failure::Line)? {
            Line::Start(start) => launched.start = Some(start),
            Line::Begin(head) => *inside = Some(head),
            Line::Row(sample) => {
                *inside = None;
                seen(&sample);
                launched.samples.push(sample);
            }
        }
    }
}

/// Parses the lines that the library prints at each close, `capulet-stats file=PATH NAME=VALUE ...`, and
/// adds up the counters of all opens of a row. The file of row N is named `row-N`.
fn counts_of(text: &str) -> BTreeMap<u32, Counts> {
    let mut rows: BTreeMap<u32, Counts> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("capulet-stats") {
            continue;
        }
        let pairs: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let id = pairs.iter().find_map(|(name, value)| {
            (*name == "file").then(|| value.rsplit_once("/row-")?.1.parse().ok()).flatten()
        });
        let Some(id) = id else { continue };
        let counts = rows.entry(id).or_default();
        for (name, value) in pairs.into_iter().filter(|(name, _)| !matches!(*name, "file" | "ranks")) {
            if let Ok(value) = value.parse::<u64>() {
                *counts.entry(name.to_owned()).or_default() += value;
            }
        }
    }
    rows
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(MESSAGE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str =
        r#"{"line":"begin","id":3,"suite":"collective","case":"BTIO","op":"write","state":"fresh"}"#;
    const ROW: &str = r#"{"line":"row","id":3,"suite":"collective","case":"BTIO","op":"write","state":"fresh","bytes":8,"pieces":1,"operations":1,"seconds":0.5,"view_seconds":0.0,"limit_seconds":0.25,"hash":"00","strays":0,"fault":null}"#;

    fn shell(text: &str) -> Result<Launched, Failure> {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        launch(command, |_| {})
    }

    #[test]
    fn rows_and_counts_are_read() {
        let text = format!(
            "echo noise; echo '{BEGIN}'; echo '{ROW}'
             echo 'capulet-stats file=/x/row-3 ranks=2 copied_bytes=8 system_calls=2' >&2
             echo 'capulet-stats file=/x/row-3 ranks=2 copied_bytes=8 system_calls=3' >&2
             echo 'capulet-stats file=/x/warm-up ranks=2 copied_bytes=8' >&2"
        );
        let launched = shell(&text).expect("the launch succeeds");
        assert_eq!(launched.samples.len(), 1);
        assert_eq!((launched.samples[0].head.id, launched.samples[0].seconds), (3, 0.5));
        assert_eq!(launched.counts.len(), 1);
        assert_eq!((launched.counts[&3]["copied_bytes"], launched.counts[&3]["system_calls"]), (16, 5));
        assert!(launched.lost.is_none());
    }

    #[test]
    fn row_that_ends_the_launch_is_reported() {
        let launched =
            shell(&format!("echo '{BEGIN}'; echo why >&2; exit 7")).expect("the failure belongs to the row");
        let lost = launched.lost.expect("the launch fails in the row");
        assert_eq!((lost.head.id, lost.reason.as_str()), (3, "ended with exit status: 7"));
    }

    #[test]
    fn launch_that_fails_outside_of_rows_is_an_error_with_messages() {
        let failure = shell("echo why >&2; exit 7").expect_err("the failure belongs to no row").to_string();
        assert!(failure.contains("exit status: 7") && failure.contains("why"), "{failure}");
        assert!(matches!(shell("echo '{}'"), Err(Failure::Line(_))));
        let missing = launch(Command::new("/nonexistent/mpiexec"), |_| {});
        assert!(matches!(missing, Err(Failure::Start { .. })));
    }
}
