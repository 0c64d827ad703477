//! Runs a program on several ranks with a time limit, so that a hang is a failure and leaves no process
//! behind.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::mpi::Mpi;
use crate::nodes::Nodes;
use crate::slots::Slots;

/// Limits the jobs that run at the same time.
static RUNNING: Slots = Slots::new();

/// The I/O layer of a program, and how the program gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// Capulet, by `capulet run`.
    Command,
    /// Capulet, by an `LD_PRELOAD` that is set by hand.
    Preload,
    /// The MPI's own I/O.
    Native,
}

impl Through {
    /// `capulet run`, unless `CAPULET_TEST_IO=native` asks for the MPI's own I/O.
    pub fn chosen() -> Self {
        if env::var("CAPULET_TEST_IO").is_ok_and(|io| io == "native") { Self::Native } else { Self::Command }
    }
}

/// A program to run.
#[derive(Debug)]
pub struct Job {
    mpi: Mpi,
    ranks: usize,
    through: Through,
    program: Vec<OsString>,
    run_options: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    as_nobody: bool,
    shared_memory_bytes: Option<u64>,
    /// Real nodes, and the number of ranks on each.
    nodes: Option<(Arc<Nodes>, Vec<usize>)>,
    limit: Duration,
    folder: TempDir,
}

/// Result of a job.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status of the launcher, or `None` if the time limit was reached.
    pub status: Option<ExitStatus>,
    /// Standard output and standard error, in the order in which they were written.
    pub text: String,
    /// Time that the job took.
    pub elapsed: Duration,
}

impl Job {
    /// A job that runs `program` on `ranks` ranks. The first argument of the program is the job's own
    /// folder, which is empty at the start and removed with the job.
    ///
    /// # Panics
    /// If the folder cannot be made.
    pub fn new(mpi: Mpi, ranks: usize, program: impl AsRef<OsStr>) -> Self {
        Self::bare(mpi, ranks, program, true)
    }

    /// As [`Job::new`], but the caller gives all arguments.
    ///
    /// # Panics
    /// If the folder cannot be made.
    pub fn script(mpi: Mpi, ranks: usize, interpreter: impl AsRef<OsStr>) -> Self {
        Self::bare(mpi, ranks, interpreter, false)
    }

    fn bare(mpi: Mpi, ranks: usize, program: impl AsRef<OsStr>, pass_folder: bool) -> Self {
        let folder = scratch_folder();
        let mut program = vec![program.as_ref().to_owned()];
        if pass_folder {
            program.push(folder.path().into());
        }
        Self {
            mpi,
            ranks,
            through: Through::chosen(),
            program,
            run_options: Vec::new(),
            variables: Vec::new(),
            as_nobody: false,
            shared_memory_bytes: None,
            nodes: None,
            limit: HANG,
            folder,
        }
    }

    /// Adds an argument of the program.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.program.push(argument.as_ref().to_owned());
        self
    }

    /// Adds an option of `capulet run`.
    pub fn run_option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.run_options.push(option.as_ref().to_owned());
        self
    }

    /// Sets a variable for the launcher and all ranks.
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Chooses the I/O layer.
    pub fn through(mut self, through: Through) -> Self {
        self.through = through;
        self
    }

    /// Runs the job as the user `nobody` if this process is root. A user other than root is unprivileged
    /// already.
    pub fn as_nobody(mut self) -> Self {
        self.as_nobody = true;
        self
    }

    /// Gives the job its own `/dev/shm` of so many bytes, and a folder elsewhere. Only for users that may
    /// mount; see [`may_mount`].
    ///
    /// # Panics
    /// If no folder can be made.
    pub fn shared_memory(mut self, bytes: u64) -> Self {
        self.shared_memory_bytes = Some(bytes);
        self.move_folder();
        self
    }

    /// Runs the job on real nodes, with so many ranks on each node, and gives it a folder that all nodes
    /// see. The number of ranks of the job becomes their sum. The nodes run one job at a time.
    ///
    /// # Panics
    /// If no folder can be made.
    pub fn on_nodes(mut self, nodes: &Arc<Nodes>, ranks: &[usize]) -> Self {
        self.ranks = ranks.iter().sum();
        self.nodes = Some((Arc::clone(nodes), ranks.to_vec()));
        self.move_folder();
        self
    }

    /// Moves the job's folder out of `/dev/shm`.
    fn move_folder(&mut self) {
        let elsewhere = scratch_folder_in(&env::temp_dir());
        for argument in &mut self.program {
            if Path::new(argument) == self.folder.path() {
                *argument = elsewhere.path().into();
            }
        }
        self.folder = elsewhere;
    }

    /// Changes the time limit.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The job's own folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the job to its end or to its time limit, and keeps its folder until the value is dropped.
    /// Blocks, also while another job runs.
    ///
    /// # Panics
    /// If the launcher cannot be started or its output cannot be read.
    pub fn run(&self) -> Outcome {
        // A job that waits for its nodes takes no slot from other jobs.
        let _nodes = self.nodes.as_ref().map(|(nodes, _)| nodes.take());
        let _slot = RUNNING.take(self.mpi.jobs_at_a_time());
        let output = tempfile::tempfile().expect("a temporary file is created");
        let begun = Instant::now();
        let mut job = capulet_job::Job::start(self.command(&output))
            .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let status = job.wait(self.limit).expect("the launcher is a child of this process");
        if status.is_none() {
            job.end();
        }
        if let Some((nodes, _)) = self.nodes.as_ref().filter(|_| !status.is_some_and(|it| it.success())) {
            nodes.end_all();
        }
        let elapsed = begun.elapsed();
        record(self.mpi, elapsed);
        let text = text_of(output).expect("the output of the job can be read");
        Outcome { status, text, elapsed }
    }

    /// The launcher: on the nodes of the job, or in a mount namespace of its own if the job has a `/dev/shm`
    /// of its own.
    fn launcher(&self) -> Command {
        if let Some((nodes, ranks)) = &self.nodes {
            let mut command = nodes.command(ranks);
            command.arg(self.mpi.launcher());
            return command;
        }
        let Some(bytes) = self.shared_memory_bytes else { return Command::new(self.mpi.launcher()) };
        let script = format!("mount -t tmpfs -o size={bytes},mode=1777 none /dev/shm && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]).arg(self.mpi.launcher());
        command
    }

    fn command(&self, output: &File) -> Command {
        let mut command = self.launcher();
        command.arg("-n").arg(self.ranks.to_string());
        match self.through {
            Through::Command => {
                command.arg(self.mpi.command()).arg("run").args(&self.run_options).arg("--");
            }
            Through::Preload => {
                // The launcher of nodes preloads a library for MPICH, which stays.
                let script = "LD_PRELOAD=$0${LD_PRELOAD:+:$LD_PRELOAD} exec \"$@\"";
                command.args(["sh", "-c", script]).arg(self.mpi.library());
            }
            Through::Native => {
                command.env("CHECK_NATIVE", "1");
            }
        }
        command.args(&self.program);
        for name in [
            "CAPULET_DRIVER",
            "CAPULET_FAULTS",
            "CAPULET_HINTS",
            "CAPULET_STATS",
            "CAPULET_LOG",
            "LD_PRELOAD",
        ] {
            command.env_remove(name);
        }
        command.envs(self.mpi.settings().iter().copied());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.folder.path());
        let handle = || Stdio::from(output.try_clone().expect("the handle of the output can be duplicated"));
        command.stdin(Stdio::null()).stdout(handle()).stderr(handle());
        // SAFETY: geteuid(2) takes no arguments, accesses no memory and always succeeds.
        if self.as_nobody && unsafe { libc::geteuid() } == 0 {
            command.uid(NOBODY).gid(NOBODY).env("HOME", self.folder.path());
        }
        command
    }
}

/// Default time limit. A job that takes longer is taken to hang. A job of two seconds on idle cores takes
/// minutes if other processes want the same cores: each time that a rank waits for another rank, one of
/// those processes runs for its time slice.
const HANG: Duration = Duration::from_secs(600);

/// The least privileged user on Debian.
pub const NOBODY: u32 = 65534;

/// Space that the largest program needs, with a reserve.
const SCRATCH_BYTES: u64 = 4 << 30;

/// Free bytes of the file system under `path`. 0 if the system does not tell.
fn free_bytes(path: &std::ffi::CStr) -> u64 {
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: statvfs(3): `path` is a `CStr`, so it ends with a NUL, and `about` has room for the one
    // structure that the call writes.
    if unsafe { libc::statvfs(path.as_ptr(), about.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: statvfs(3) has returned 0, so it has filled the structure.
    let about = unsafe { about.assume_init() };
    about.f_bavail * about.f_frsize
}

/// Makes a folder that every user may enter. It lies in memory if there is enough space; containers have
/// 64 MiB there.
fn scratch_folder() -> TempDir {
    let roomy = free_bytes(c"/dev/shm") >= SCRATCH_BYTES;
    scratch_folder_in(&if roomy { PathBuf::from("/dev/shm") } else { env::temp_dir() })
}

fn scratch_folder_in(place: &Path) -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("capulet-test-")
        .tempdir_in(place)
        .expect("a temporary folder is created");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))
        .expect("the permissions of the folder are set");
    folder
}

/// Appends the time of a job and the name of its test to the file `$CAPULET_JOB_TIMES`, if this is set;
/// `scripts/times.sh` sums the times.
fn record(mpi: Mpi, elapsed: Duration) {
    let Some(path) = env::var_os("CAPULET_JOB_TIMES") else { return };
    let line = format!(
        "{:.3}\t{}\t{}\n",
        elapsed.as_secs_f64(),
        mpi.name(),
        thread::current().name().unwrap_or("a thread of a test")
    );
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("CAPULET_JOB_TIMES={}: {error}", path.display()));
    // One write, so that lines of several processes do not mix.
    file.write_all(line.as_bytes()).expect("the file of times can be written");
}

fn text_of(mut output: File) -> io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut bytes = Vec::new();
    output.seek(SeekFrom::Start(0))?;
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Outcome {
    /// Whether the job ended by itself with success.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The end of the job, in a line.
    fn fate(&self) -> String {
        match self.status {
            None => format!("hung: ended after {:.0} s", self.elapsed.as_secs_f64()),
            Some(status) => match status.signal() {
                Some(signal) => format!("was ended by signal {signal}"),
                None => format!("exited with {}", status.code().unwrap_or(-1)),
            },
        }
    }

    /// Fails the test unless the job succeeded.
    ///
    /// # Panics
    /// If the job did not succeed. The message has the first and the last lines of the output.
    pub fn expect_success(&self, what: &str) {
        assert!(self.succeeded(), "{what} {}\n{}", self.fate(), shortened(&self.text));
    }

    /// Fails the test unless the job succeeded and reports at least one check: `N checks passed, 0
    /// failed`.
    ///
    /// # Panics
    /// If the job did not succeed or reports no check.
    pub fn expect_checks(&self, what: &str) {
        self.expect_success(what);
        let said = self.text.lines().find_map(checks_of);
        assert!(said.is_some_and(|checks| checks > 0), "{what} reports no check\n{}", shortened(&self.text));
    }
}

/// The number of checks that a program reports in `line`, if all passed.
fn checks_of(line: &str) -> Option<u64> {
    let said = line.strip_suffix(" checks passed, 0 failed")?;
    // The launcher passes a long output on in pieces. A line of another stream may be cut anywhere, and
    // this text may follow it.
    let other = said.trim_end_matches(|character: char| character.is_ascii_digit());
    said[other.len()..].parse().ok()
}

/// The first and the last lines of a long output.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 80 {
        return text.to_owned();
    }
    format!(
        "{}\n[{} lines left out]\n{}",
        lines[..50].join("\n"),
        lines.len() - 80,
        lines[lines.len() - 30..].join("\n")
    )
}

/// Whether this user may mount file systems in a mount namespace.
pub fn may_mount() -> bool {
    let script = "mount -t tmpfs none /mnt";
    let done = Command::new("unshare").args(["--mount", "sh", "-c", script]).output();
    done.is_ok_and(|done| done.status.success())
}

/// Copies `file`, a program or Capulet's library, to `folder` and returns its path. Any user can read the
/// copy, while the source tree may lie in a folder that other users may not enter.
///
/// # Panics
/// If the file cannot be copied.
pub fn copied_for_all(folder: &Path, file: &Path) -> PathBuf {
    let copy = folder.join(file.file_name().expect("the file has a name"));
    fs::copy(file, &copy).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))
        .expect("the permissions of the copy are set");
    copy
}

#[cfg(test)]
mod tests {
    use super::checks_of;

    #[test]
    fn report_of_checks_is_found_after_a_cut_line() {
        for (line, found) in [
            ("38 checks passed, 0 failed", Some(38)),
            ("  system calls   38 checks passed, 0 failed", Some(38)),
            ("capulet-stats mess38 checks passed, 0 failed", Some(38)),
            ("38 checks passed, 1 failed", None),
            (" checks passed, 0 failed", None),
        ] {
            assert_eq!(checks_of(line), found, "{line}");
        }
    }
}
