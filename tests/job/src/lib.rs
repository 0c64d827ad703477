//! Starts a launcher and all processes that it starts as one job. The job has a time limit and ends with
//! all of its processes. This crate must not know MPI or what the launcher starts.
//!
//! A launcher's ranks need not be its children or in its process group: Open MPI gives each rank a group
//! of its own. So every process of a job carries a mark in its environment, which children inherit. Only
//! marked processes and the launcher's process group are ended.
//!
//! ```
//! use std::process::{Command, Stdio};
//! use std::time::Duration;
//!
//! use capulet_job::Job;
//!
//! let mut command = Command::new("echo");
//! command.arg("hello").stdout(Stdio::piped());
//! let mut job = Job::start(command)?;
//! let (output, _) = job.streams();
//! let text = Job::text_of(output);
//! let status = job.wait(Duration::from_secs(60))?;
//! assert!(status.is_some_and(|status| status.success()));
//! assert_eq!(text.join().unwrap_or_default(), "hello\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | item | |
//! |---|---|
//! | [`Job`] | a started launcher with its processes |
//! | [`disk`] | disks for tests |

pub mod disk;

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Name of the environment variable that marks the processes of a job.
const MARK: &str = "CAPULET_JOB";
/// Time that a launcher gets to end its ranks after it was asked to end.
const GRACE: Duration = Duration::from_secs(5);

/// A job that was started. If the job has not ended when the value is dropped, it is ended.
#[derive(Debug)]
pub struct Job {
    child: Child,
    mark: String,
    ended: bool,
}

impl Job {
    /// Starts `command` in a process group of its own. Does not block.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let child = command.env(MARK, &mark).process_group(0).spawn()?;
        Ok(Self { child, mark, ended: false })
    }

    /// The launcher's standard output and standard error, if the command asked for pipes. Each can be
    /// taken once.
    pub fn streams(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Reads a stream to its end in a thread of its own, so that the writer never blocks. Returns at
    /// once; joining the thread gives the text. Bytes that are not UTF-8 are replaced.
    pub fn text_of(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
        thread::spawn(move || {
            let mut text = Vec::new();
            // After an error, the text has the bytes that were read before.
            let _ = stream.map(|mut stream| stream.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    }

    /// Waits for the launcher. `None` if it still runs after `limit`. Blocks.
    ///
    /// # Errors
    /// If the system does not know the process.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(Some(status));
            }
            if begun.elapsed() >= limit {
                return Ok(None);
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Ends the job. A running launcher first gets SIGTERM, so that it ends its ranks. If it does not end
    /// within 5 s, its process group gets SIGKILL. Then every process that carries the mark gets SIGKILL.
    /// Blocks until the launcher has ended.
    pub fn end(&mut self) {
        if !self.ended {
            let group = Pid::from_raw(-(self.child.id() as i32));
            // A launcher that has ended already needs no signal. It has not been reaped, so no other
            // process has its number.
            let _ = kill(group, Signal::SIGTERM);
            if !matches!(self.wait(GRACE), Ok(Some(_))) {
                let _ = kill(group, Signal::SIGKILL);
                let _ = self.child.wait();
                self.ended = true;
            }
        }
        for process in marked(&self.mark) {
            // It is no error if the process has ended already.
            let _ = kill(process, Signal::SIGKILL);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

/// The processes that carry the mark of a job.
fn marked(mark: &str) -> Vec<Pid> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let carries = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    numbers.filter(carries).map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        Job::start(command).expect("the shell starts")
    }

    #[test]
    fn exit_status_of_a_launcher_is_returned() {
        let status =
            shell("exit 3").wait(Duration::from_secs(60)).expect("the launcher is a child of this process");
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn processes_that_left_the_group_are_ended_too() {
        // The inner shell has a process group of its own, and both shells ignore SIGTERM.
        let mut job = shell("trap '' TERM; setsid sh -c \"trap '' TERM; sleep 1000; :\" & sleep 1000; :");
        let are_marked = (0..500).any(|_| {
            assert!(
                job.wait(Duration::from_millis(20))
                    .expect("the launcher is a child of this process")
                    .is_none()
            );
            marked(&job.mark).len() >= 2
        });
        assert!(are_marked, "both shells carry the mark");
        job.end();
        let begun = Instant::now();
        while !marked(&job.mark).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "processes are left");
            sleep(Duration::from_millis(10));
        }
    }
}
