//! The lock of a node by two processes. This program is both, so it has a `main` of its own.

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
    let name = "a_process_that_dies_with_the_lock_is_noticed";
    let noticed = Trial::test(name, || {
        a_process_that_dies_with_the_lock_is_noticed();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![noticed]).exit();
}

fn bytes(start: u64, end: u64, writes: bool) -> Request {
    Request::contiguous(start..end, !writes)
}

/// Words in a file that several processes map.
#[derive(Debug)]
struct Mapped {
    base: *const AtomicU64,
    ranks: usize,
}

// SAFETY: the pointer leads to words that are reached as atomics only, in a mapping that lives as long as the process.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(path: &Path, ranks: usize) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("the file is there");
        let bytes = ranks * NODE_LOCK_WORDS * 8;
        file.set_len(bytes as u64).expect("it can be extended");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping of an open file of that length.
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
        // SAFETY: the part of this rank in the mapping, which is page-aligned and is never unmapped.
        unsafe { std::slice::from_raw_parts(self.base.add(rank * NODE_LOCK_WORDS), NODE_LOCK_WORDS) }
    }
}

fn mapped_lock(path: &Path, place: usize, count: usize) -> Arc<NodeLock> {
    let words = NodeWords::new(Arc::new(Mapped::new(path, count)), place, 0, NODE_LOCK_WORDS);
    NodeLock::new(words, (0..count as u32).map(Rank).collect(), None, || ())
}

/// Where the words are, and what is made when they are locked: where both are set, this program is the other process.
const WORDS: &str = "CAPULET_TEST_LOCK";
const SAYS: &str = "CAPULET_TEST_SAYS";

/// Another process, which holds the lock as rank 1.
fn holder(words: &Path, says: &Path) -> Child {
    let this = env::current_exe().expect("this test");
    let mut command = Command::new(this);
    let child = command.env(WORDS, words).env(SAYS, says).spawn().expect("it starts");
    while !says.exists() {
        thread::yield_now();
    }
    child
}

/// What the other process does: takes the lock as rank 1, says so in a file, and does not let go.
fn hold(words: &Path, says: &Path) {
    let lock = mapped_lock(words, 1, 2);
    let _guard = lock.enter(&bytes(0, 10, true)).expect("free");
    File::create(says).expect("a file");
    thread::sleep(Duration::from_secs(600));
}

fn a_process_that_dies_with_the_lock_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (words, says) = (folder.path().join("words"), folder.path().join("says"));
    File::create(&words).expect("a file");
    let mut other = holder(&words, &says);
    let lock = mapped_lock(&words, 0, 2);
    drop(lock.enter(&bytes(20, 30, true)).expect("other bytes"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.enter(&bytes(5, 6, true)).map(drop));
        thread::sleep(Duration::from_millis(250));
        assert!(!waiting.is_finished(), "it lives, and holds the bytes");
        let killed = Instant::now();
        other.kill().expect("it can be killed");
        let error = waiting.join().expect("no panic").expect_err("nobody lets go");
        assert!(matches!(error, Error::Died { rank: Rank(1) }), "{error}");
        println!("noticed after {:?}", killed.elapsed());
    });
    other.wait().expect("it ended");
}
