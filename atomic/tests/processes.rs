//! A test of the lock of a node with two processes. This program is both of them, so it has its own
//! `main`.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use std::{env, ptr, thread};

use capulet_atomic::{Error, Isolation, NODE_LOCK_WORDS, NodeLock, Request};
use capulet_comm::{NodeWords, Rank, WordMemory};
use libtest_mimic::{Arguments, Trial};

fn main() {
    if let (Some(words), Some(says)) = (env::var_os(WORDS), env::var_os(SAYS)) {
        return hold(Path::new(&words), Path::new(&says));
    }
    let name = "process_that_dies_with_the_lock_is_reported";
    let trial = Trial::test(name, || {
        process_that_dies_with_the_lock_is_reported();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn bytes(start: u64, end: u64, writes: bool) -> Request {
    Request::contiguous(start..end, !writes)
}

/// Words in a file that several processes map into their memory.
#[derive(Debug)]
struct Mapped {
    base: *const AtomicU64,
    ranks: usize,
}

// SAFETY: `base` points to a mapping that is never unmapped, so it is valid on every thread. The words
// are accessed as atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as in the `Send` of `Mapped`; atomics may be accessed by several threads at the same time.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(path: &Path, ranks: usize) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("the file exists");
        let bytes = ranks * NODE_LOCK_WORDS * 8;
        file.set_len(bytes as u64).expect("the file can be extended");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: mmap(2) with a null address and without `MAP_FIXED` makes a new mapping, and replaces
        // no existing one. The file is open and has `bytes` bytes.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self { base: base.cast_const().cast(), ranks }
    }
}

// SAFETY: the mapping does not move while the value lives, and every rank has the same number of words.
unsafe impl WordMemory for Mapped {
    fn words(&self, rank: usize) -> &[AtomicU64] {
        assert!(rank < self.ranks);
        // SAFETY: `Mapped::new` has mapped `ranks * NODE_LOCK_WORDS` words at `base`, and `rank < ranks`,
        // so all words of this part are inside of the mapping. It is page-aligned, so the words are
        // aligned. It is never unmapped, so it outlives the slice. Every bit pattern is a valid
        // `AtomicU64`, and all processes access the words as atomics.
        unsafe { std::slice::from_raw_parts(self.base.add(rank * NODE_LOCK_WORDS), NODE_LOCK_WORDS) }
    }
}

fn mapped_lock(path: &Path, place: usize, count: usize) -> Arc<NodeLock> {
    let words = NodeWords::new(Arc::new(Mapped::new(path, count)), place, 0, NODE_LOCK_WORDS);
    NodeLock::new(words, (0..count as u32).map(Rank).collect(), None, || ())
}

/// An environment variable: the path of the file with the words. If it and [`SAYS`] are set, this program
/// is the second process.
const WORDS: &str = "CAPULET_TEST_LOCK";
/// An environment variable: the path of the file that the second process makes when it holds the lock.
const SAYS: &str = "CAPULET_TEST_SAYS";

/// Starts the second process, and returns when that process holds the lock as rank 1.
fn holder(words: &Path, says: &Path) -> Child {
    let this = env::current_exe().expect("the path of this program is known");
    let mut command = Command::new(this);
    let child = command.env(WORDS, words).env(SAYS, says).spawn().expect("the second process starts");
    while !says.exists() {
        thread::yield_now();
    }
    child
}

/// The second process: acquires the lock as rank 1, makes the file `says`, and does not release the lock.
fn hold(words: &Path, says: &Path) {
    let lock = mapped_lock(words, 1, 2);
    let _guard = lock.enter(&bytes(0, 10, true)).expect("the bytes are free");
    File::create(says).expect("the file can be made");
    thread::sleep(Duration::from_secs(600));
}

fn process_that_dies_with_the_lock_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (words, says) = (folder.path().join("words"), folder.path().join("says"));
    File::create(&words).expect("the file can be made");
    let mut other = holder(&words, &says);
    let lock = mapped_lock(&words, 0, 2);
    drop(lock.enter(&bytes(20, 30, true)).expect("these bytes do not conflict"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.enter(&bytes(5, 6, true)).map(drop));
        thread::sleep(Duration::from_millis(250));
        assert!(!waiting.is_finished(), "the second process is alive and holds the bytes");
        let killed = Instant::now();
        other.kill().expect("the second process can be killed");
        let error =
            waiting.join().expect("the thread does not panic").expect_err("no process releases the bytes");
        assert!(matches!(error, Error::Died { rank: Rank(1) }), "{error}");
        println!("reported after {:?}", killed.elapsed());
    });
    other.wait().expect("the second process has ended");
}
