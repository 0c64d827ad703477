//! Several nodes on one machine, so that jobs run between real nodes: no shared memory, messages by TCP, a
//! remote shell. `tests/nodes/nodes.py` makes them out of namespaces. The nodes share all file systems
//! except `/dev/shm`.
//!
//! A set of nodes ends with the process that started it, also if this process is killed: the set reads the
//! end of a pipe that only this process holds.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::compile;

/// Exit status of `nodes.py hold` on a machine, or for a user, that cannot have nodes.
const IMPOSSIBLE: i32 = 3;
/// Time that the processes of a set get to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A set of nodes `n1`, `n2` and so on. The nodes end when the value is dropped.
#[derive(Debug)]
pub struct Nodes {
    holder: Child,
    state: PathBuf,
    count: usize,
    /// Held by the job that runs on the nodes. [`Nodes::end`] ends all processes of a node, so there is one
    /// job at a time.
    busy: Mutex<()>,
}

/// A folder that is hidden from one node, until the value is dropped.
#[derive(Debug)]
pub struct Hidden<'a> {
    nodes: &'a Nodes,
    node: usize,
    folder: PathBuf,
}

/// Returns `count` nodes whose frames take `delay_us` microseconds longer, which all tests of this process
/// share. `None` if this machine cannot have nodes, or if this user is not root; then the calling test is
/// reported as skipped, with the reason.
///
/// # Panics
/// As [`Nodes::start`].
pub fn shared(count: usize, delay_us: u64) -> Option<&'static Arc<Nodes>> {
    type Started = Result<Arc<Nodes>, String>;
    // A set ends with this process, because statics are not dropped.
    static SETS: Mutex<BTreeMap<(usize, u64), &'static Started>> = Mutex::new(BTreeMap::new());
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = || {
        let started = Nodes::start(count, Duration::from_micros(delay_us)).map(Arc::new);
        &*Box::leak(Box::new(started))
    };
    let started: &'static Started = sets.entry((count, delay_us)).or_insert_with(start);
    if let Err(reason) = started {
        // Written to the stream directly, because cargo hides the output of a test that passes.
        let test = std::thread::current().name().unwrap_or("a test on nodes").to_owned();
        let line = format!("skipped: {test}: no nodes: {reason}\n");
        std::io::stderr().write_all(line.as_bytes()).expect("the stream of errors is there");
    }
    started.as_ref().ok()
}

/// A folder that each node sees through a cache of pages, until the value is dropped.
#[derive(Debug)]
pub struct CachedFolder<'a> {
    nodes: &'a Nodes,
    folder: PathBuf,
    /// The servers of the nodes, in their order.
    servers: Vec<Child>,
}

impl CachedFolder<'_> {
    /// Reads a counter of the server of each node (`tests/cached-fs`).
    ///
    /// # Panics
    /// If a server does not answer, or has no such counter.
    pub fn counters(&self, name: &str) -> Vec<u64> {
        let file = self.folder.join(".cached-fs");
        let of = |node: usize| {
            let read = self.nodes.on(node, &["cat".as_ref(), file.as_os_str()]);
            let text = String::from_utf8_lossy(&read.stdout).into_owned();
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.unwrap_or_else(|| panic!("n{node} has no counter {name}: {text}"))
        };
        (1..=self.servers.len()).map(of).collect()
    }
}

impl Drop for CachedFolder<'_> {
    fn drop(&mut self) {
        for server in &mut self.servers {
            drop(server.stdin.take());
            end_within(server, END_LIMIT);
        }
    }
}

/// Waits until a process ends. Kills the process after `limit`.
fn end_within(process: &mut Child, limit: Duration) {
    let begun = Instant::now();
    while matches!(process.try_wait(), Ok(None)) {
        if begun.elapsed() > limit {
            let _ = process.kill();
            let _ = process.wait();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tool() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("nodes/nodes.py"));
    command
}

impl Nodes {
    /// Starts `count` nodes. Frames between two nodes take `delay` longer than without a delay. Blocks for
    /// about a second.
    ///
    /// # Errors
    /// The reason why this user cannot have nodes on this machine.
    ///
    /// # Panics
    /// If the nodes do not start for another reason.
    pub fn start(count: usize, delay: Duration) -> Result<Self, String> {
        let mut command = tool();
        command.args(["hold", &count.to_string(), "--delay", &delay.as_micros().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| format!("no /usr/bin/python3: {error}"))?;
        let output = holder.stdout.take().expect("the output is a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("the pipe can be read");
        let Some(state) = line.trim_end().strip_prefix("ready ") else {
            let mut reason = String::new();
            let mut errors = holder.stderr.take().expect("the stream of errors is a pipe");
            errors.read_to_string(&mut reason).expect("the pipe can be read");
            let status = holder.wait().expect("the process is a child of this process");
            assert_eq!(status.code(), Some(IMPOSSIBLE), "nodes do not start: {line}{reason}");
            return Err(reason.trim_end().to_owned());
        };
        Ok(Self { holder, state: state.into(), count, busy: Mutex::new(()) })
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A folder that only the nodes see. Its path is part of the command line of each process that keeps
    /// the set.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Process number of the process that keeps the set. All other processes of the set end with this one.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Runs a command on node `node`, which counts from 1, to its end. Blocks.
    ///
    /// # Panics
    /// If Python cannot be started.
    pub fn on(&self, node: usize, words: &[impl AsRef<OsStr>]) -> Output {
        let mut command = tool();
        command.args(["on", &self.holder().to_string(), &format!("n{node}")]).args(words);
        command.stdin(Stdio::null()).output().expect("python3 starts")
    }

    /// Kills all processes that run on node `node`, which counts from 1. The node itself stays. Blocks.
    ///
    /// # Panics
    /// If the node does not answer.
    pub fn end(&self, node: usize) {
        let mut command = tool();
        command.args(["end", &self.holder().to_string(), &format!("n{node}")]);
        let done = command.stdin(Stdio::null()).output().expect("python3 starts");
        assert!(done.status.success(), "n{node}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Kills all processes on all nodes. The nodes stay. Blocks.
    pub fn end_all(&self) {
        (1..=self.count).for_each(|node| self.end(node));
    }

    /// Hides the content of `folder` from node `node`, which counts from 1: the node sees an empty folder.
    ///
    /// # Panics
    /// If the node cannot mount there.
    pub fn hide(&self, node: usize, folder: &Path) -> Hidden<'_> {
        let words = ["mount", "-t", "tmpfs", "none"].map(OsStr::new);
        let done = self.on(node, &[&words[..], &[folder.as_os_str()]].concat());
        assert!(done.status.success(), "n{node}: {}", String::from_utf8_lossy(&done.stderr));
        Hidden { nodes: self, node, folder: folder.to_owned() }
    }

    /// Lets each node see `folder` through a cache of pages, as an NFS client does: `folder` is an empty
    /// folder that all nodes share by `tests/cached-fs`, with the options `options`. Blocks until all nodes
    /// have mounted it.
    ///
    /// # Panics
    /// If a node cannot mount there.
    pub fn cache(&self, folder: &Path, options: &[&str]) -> CachedFolder<'_> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let backing = self.state.join(format!("backing-{}", NUMBER.fetch_add(1, Relaxed)));
        let made = self.on(1, &["mkdir".as_ref(), "-m".as_ref(), "777".as_ref(), backing.as_os_str()]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let program = compile::cached_fs();
        let mount = |node: usize| {
            let mut command = tool();
            command.args(["on", &self.holder().to_string(), &format!("n{node}")]);
            command.arg(&program).arg(&backing).arg(folder).args(options);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut server = command.spawn().expect("python3 starts");
            let mut line = String::new();
            let output = server.stdout.take().expect("the output is a pipe");
            BufReader::new(output).read_line(&mut line).expect("the pipe can be read");
            assert_eq!(line, "ready\n", "n{node} does not mount the folder");
            server
        };
        let servers = (1..=self.count).map(mount).collect();
        CachedFolder { nodes: self, folder: folder.to_owned(), servers }
    }

    /// Waits until no other job runs on these nodes.
    pub fn take(&self) -> MutexGuard<'_, ()> {
        // A test that failed during its job has left no process, because a failed job is ended.
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command to which the caller adds the words of a launcher. The launcher runs on `n1` and starts
    /// ranks on all nodes. The ranks get the environment of the command.
    ///
    /// # Panics
    /// If there are more numbers of ranks than nodes.
    pub fn command(&self, ranks: &[usize]) -> Command {
        assert!(ranks.len() <= self.count, "{ranks:?} ranks on {} nodes", self.count);
        let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let mut command = tool();
        command.args(["mpi", &self.holder().to_string(), &ranks.join(",")]);
        command
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // If the holder is killed, the kernel ends all other processes of the set.
        end_within(&mut self.holder, END_LIMIT);
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let words = ["umount", "--lazy"].map(OsStr::new);
        let done = self.nodes.on(self.node, &[&words[..], &[self.folder.as_os_str()]].concat());
        if !done.status.success() {
            eprintln!("n{}: {}", self.node, String::from_utf8_lossy(&done.stderr));
        }
    }
}
