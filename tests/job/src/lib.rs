//! A launcher and what it starts, as one job: it has a limit in time, and ends with all of its processes.
//!
//! A launcher's ranks are not its children for sure, nor in its process group: Open MPI gives each a group of its own. So every process
//! of a job carries a mark in its environment, which children inherit, and none but marked ones are ended.

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

/// Marks the processes of a job in their environments.
const MARK: &str = "CAPULET_JOB";
/// How long a launcher that was asked to end may take to end its ranks.
const GRACE: Duration = Duration::from_secs(5);

/// A job that was started. When it is dropped before it has ended, it is ended.
#[derive(Debug)]
pub struct Job {
    child: Child,
    mark: String,
    ended: bool,
}

impl Job {
    /// Starts `command` in a process group of its own.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let child = command.env(MARK, &mark).process_group(0).spawn()?;
        Ok(Self { child, mark, ended: false })
    }

    /// The launcher's output and its messages, where the command asked for pipes; each once.
    pub fn streams(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Reads one of these to its end, in a thread of its own, so that who writes is never held up.
    pub fn text_of(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
        thread::spawn(move || {
            let mut text = Vec::new();
            // What was read until then is what there is to show.
            let _ = stream.map(|mut stream| stream.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    }

    /// Waits for the launcher; `None` if it still runs after `limit`.
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

    /// Ends the job: politely, so that the launcher ends its ranks; then by force, whatever carries the mark too.
    pub fn end(&mut self) {
        if !self.ended {
            let group = Pid::from_raw(-(self.child.id() as i32));
            // A launcher that is gone already needs no signal; it has not been waited for, so that the number is still its own.
            let _ = kill(group, Signal::SIGTERM);
            if !matches!(self.wait(GRACE), Ok(Some(_))) {
                let _ = kill(group, Signal::SIGKILL);
                let _ = self.child.wait();
                self.ended = true;
            }
        }
        for process in marked(&self.mark) {
            // One that has ended meanwhile is what is wanted.
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
        Job::start(command).expect("a shell")
    }

    #[test]
    fn the_end_of_a_launcher_is_seen() {
        let status = shell("exit 3").wait(Duration::from_secs(60)).expect("a child of ours");
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn processes_that_left_the_group_are_ended_too() {
        // A group of its own, deaf to polite requests.
        let mut job = shell("trap '' TERM; setsid sh -c \"trap '' TERM; sleep 1000; :\" & sleep 1000; :");
        let are_marked = (0..500).any(|_| {
            assert!(job.wait(Duration::from_millis(20)).expect("a child of ours").is_none());
            marked(&job.mark).len() >= 2
        });
        assert!(are_marked, "both shells are marked");
        job.end();
        let begun = Instant::now();
        while !marked(&job.mark).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "processes are left");
            sleep(Duration::from_millis(10));
        }
    }
}
