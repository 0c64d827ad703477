//! Two mounts of one folder.

#![allow(dead_code, reason = "each test program uses a part of these")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use capulet_cached_fs::CONTROL_NAME;
use nix::unistd::geteuid;
use tempfile::TempDir;

/// Time in which a process of this machine does anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

static ALONE: Mutex<()> = Mutex::new(());

/// A mount of the backing folder. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) server: Child,
    input: Option<ChildStdin>,
    pub(crate) point: PathBuf,
}

/// Two mounts of one backing folder.
#[derive(Debug)]
pub(crate) struct Mounts {
    pub(crate) a: Mount,
    pub(crate) b: Mount,
    /// Dropped after the mounts.
    folder: TempDir,
    /// Tests of a program run one after the other: a test that starts a process closes copies of the
    /// descriptors of all tests, which writes their dirty pages back.
    _alone: MutexGuard<'static, ()>,
}

impl Mount {
    /// Mounts `backing` at `point`.
    pub(crate) fn start(backing: &Path, point: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cached-fs"));
        command.args([backing, point]).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("the server starts");
        let input = server.stdin.take();
        let mut line = String::new();
        let output = server.stdout.take().expect("the output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the pipe can be read");
        let mounted = Self { server, input, point: point.to_owned() };
        assert_eq!(line, "ready\n", "the server does not mount");
        mounted
    }

    /// A path on the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// Opens a file for reading and writing. Creates the file if it is absent.
    pub(crate) fn open(&self, name: &str) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(self.path(name)).expect("the file opens")
    }

    /// A counter of the mount.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = fs::read_to_string(self.path(CONTROL_NAME)).expect("the control file can be read");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect("there is such a counter").parse().expect("a counter is a number")
    }

    /// Lets the next write-back fail.
    pub(crate) fn fail(&self, error: i32) {
        fs::write(self.path(CONTROL_NAME), format!("fail {error}\n")).expect("the command is accepted");
    }

    /// Ends the standard input of the server.
    pub(crate) fn end_input(&mut self) {
        self.input = None;
    }

    /// Waits until the server has ended, and returns whether it ended well.
    pub(crate) fn wait(&mut self) -> bool {
        let mut status = None;
        until("the server ends", || {
            status = self.server.try_wait().expect("the server is a child of this process");
            status.is_some()
        });
        status.is_some_and(|status| status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.end_input();
        let limit = Instant::now() + LIMIT;
        while self.server.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > limit {
                eprintln!("{}: the server does not end", self.point.display());
                let _ended = self.server.kill();
                let _reaped = self.server.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _only_after_a_kill = nix::mount::umount2(&self.point, nix::mount::MntFlags::MNT_DETACH);
    }
}

impl Mounts {
    /// Two mounts with the same options. `None` if this user cannot mount; the reason is printed.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can mount");
            return None;
        }
        if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: /dev/fuse: {error}");
            return None;
        }
        let folder = TempDir::new().expect("the folder is created");
        let [backing, a, b] = ["backing", "a", "b"].map(|name| folder.path().join(name));
        for path in [&backing, &a, &b] {
            fs::create_dir(path).expect("the folder is created");
        }
        let start = |point: &Path| Mount::start(&backing, point, options);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { a: start(&a), b: start(&b), folder, _alone: alone })
    }

    /// The path of a file in the backing folder.
    pub(crate) fn backing(&self, name: &str) -> PathBuf {
        self.folder.path().join("backing").join(name)
    }

    /// The bytes of a file in the backing folder.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.backing(name)).expect("the backing file can be read")
    }
}

/// Waits until `holds`.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < limit, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The bytes from `offset` on, up to `bytes` of them.
pub(crate) fn read(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    let count = file.read_at(&mut data, offset).expect("the file can be read");
    data.truncate(count);
    data
}

/// Writes all bytes at `offset`.
pub(crate) fn write(file: &File, offset: u64, data: &[u8]) {
    file.write_all_at(data, offset).expect("the file can be written");
}

/// A kind of lock for [`set_lock`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lock {
    Posix,
    Ofd,
}

/// Locks or unlocks (`F_UNLCK`) `bytes` bytes (0 for all) without a wait.
pub(crate) fn set_lock(file: &File, lock: Lock, kind: i32, start: i64, bytes: i64) -> nix::Result<()> {
    use nix::fcntl::{FcntlArg, fcntl};
    let range = flock(kind, start, bytes);
    let argument = match lock {
        Lock::Posix => FcntlArg::F_SETLK(&range),
        Lock::Ofd => FcntlArg::F_OFD_SETLK(&range),
    };
    fcntl(file, argument).map(drop)
}

/// A byte range for `fcntl`.
pub(crate) fn flock(kind: i32, start: i64, bytes: i64) -> libc::flock {
    let whence = libc::SEEK_SET as libc::c_short;
    libc::flock { l_type: kind as libc::c_short, l_whence: whence, l_start: start, l_len: bytes, l_pid: 0 }
}
