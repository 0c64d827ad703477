//! The lock of a node, by threads and by processes.

use std::cell::UnsafeCell;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, ptr, thread};

use capulet_atomic::{Error, Footprint, Isolation, NODE_LOCK_WORDS, NodeLock};
use capulet_comm::{NodeWords, Rank, WordMemory};

fn footprint(start: u64, end: u64, writes: bool) -> Footprint {
    Footprint { span: start..end, writes }
}

fn ranks(count: usize) -> Vec<Rank> {
    (0..count as u32).map(Rank).collect()
}

/// A lock of `count` ranks in memory of this process, one end each.
fn team(count: usize, time_limit: Option<Duration>) -> Vec<Arc<NodeLock>> {
    let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: Arc<dyn WordMemory> = Arc::new((0..count).map(|_| part()).collect::<Vec<_>>());
    let end = |place| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(count), time_limit, || ())
    };
    (0..count).map(end).collect()
}

/// Bytes that nothing guards but the lock.
struct Cells(Vec<UnsafeCell<u64>>);

// SAFETY: what this test is about: whoever touches a cell holds the lock of it.
unsafe impl Sync for Cells {}

#[test]
fn who_holds_bytes_holds_them_alone() {
    const ROUNDS: u64 = 2000;
    let locks = team(4, None);
    let cells = Cells((0..8).map(|_| UnsafeCell::new(0)).collect());
    thread::scope(|scope| {
        for (rank, lock) in locks.iter().enumerate() {
            let cells = &cells;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let first = (rank as u64 * 3 + round * 5) % 6;
                    let guard = lock.enter(&footprint(first, first + 3, true)).expect("no limit in time");
                    for cell in &cells.0[first as usize..first as usize + 3] {
                        // SAFETY: the guard is held for this cell; see `Cells`.
                        unsafe {
                            let value = cell.get().read_volatile();
                            if round % 64 == 0 {
                                thread::yield_now();
                            }
                            cell.get().write_volatile(value + 1);
                        }
                    }
                    drop(guard);
                }
            });
        }
    });
    // SAFETY: the threads are gone.
    let total: u64 = cells.0.iter().map(|cell| unsafe { *cell.get() }).sum();
    assert_eq!(total, 4 * ROUNDS * 3);
    assert!(locks.iter().all(|lock| lock.counters().acquired() == ROUNDS));
}

#[test]
fn those_that_do_not_conflict_hold_theirs_at_once() {
    let locks = team(4, Some(Duration::from_millis(1)));
    let writers = [footprint(0, 10, true), footprint(10, 20, true)];
    let readers = [footprint(20, 40, false), footprint(30, 50, false)];
    let guards: Vec<_> = locks
        .iter()
        .zip(writers.iter().chain(&readers))
        .map(|(lock, wanted)| lock.enter(wanted).expect("nobody is in the way"))
        .collect();
    assert!(locks.iter().all(|lock| lock.counters().waited() == 0));
    drop(guards);
}

#[test]
fn threads_of_a_rank_take_turns() {
    let locks = team(2, None);
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..6 {
            let (lock, inside) = (&locks[thread % 2], &inside);
            scope.spawn(move || {
                for _ in 0..300 {
                    let _guard = lock.enter(&footprint(0, 1, true)).expect("no limit in time");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn an_access_that_panics_lets_go() {
    let locks = team(2, Some(Duration::from_secs(60)));
    let panicked = thread::scope(|scope| {
        let access = scope.spawn(|| {
            let _guard = locks[0].enter(&footprint(0, 9, true)).expect("free");
            panic!("inside the critical section");
        });
        access.join()
    });
    assert!(panicked.is_err());
    drop(locks[1].enter(&footprint(0, 9, true)).expect("the other one let go"));
}

#[test]
fn a_wait_has_its_limit_names_the_holder_and_leaves_nobody_waiting() {
    let locks = team(3, Some(Duration::from_millis(30)));
    let all = footprint(0, u64::MAX, true);
    let held = locks[1].enter(&all).expect("free");
    let error = locks[0].enter(&footprint(5, 6, false)).expect_err("it is held");
    let Error::TimedOut { waited, holders } = &error else { panic!("{error}") };
    assert!(*waited >= Duration::from_millis(30) && *holders == [Rank(1)], "{error}");
    // Rank 2 comes behind the one that gave up, which must let go of what it is given later.
    thread::scope(|scope| {
        let next = scope.spawn(|| {
            loop {
                match locks[2].enter(&all) {
                    Ok(guard) => return drop(guard),
                    Err(Error::TimedOut { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        thread::sleep(Duration::from_millis(10));
        drop(held);
        // As every wait of its process does.
        while !locks[0].settle() {
            thread::yield_now();
        }
        next.join().expect("it comes to an end");
    });
}

/// A word that panics when it is asked to drive MPI, once.
static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_panic_while_it_waits_leaves_nobody_waiting() {
    let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: Arc<dyn WordMemory> = Arc::new((0..2).map(|_| part()).collect::<Vec<_>>());
    let end = |place, progress| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(2), Some(Duration::from_secs(60)), progress)
    };
    let panics = || assert!(PANICS.fetch_add(1, Ordering::SeqCst) > 0, "as it should");
    let (first, second) = (end(0, panics), end(1, || ()));
    let held = second.enter(&footprint(0, 9, true)).expect("free");
    let panicked =
        thread::scope(|scope| scope.spawn(|| first.enter(&footprint(0, 9, true)).map(drop)).join());
    assert!(panicked.is_err());
    drop(held);
    drop(first.enter(&footprint(0, 9, true)).expect("its thread let go of this rank's part"));
    drop(second.enter(&footprint(0, 9, true)).expect("and of the bytes"));
    assert_eq!(PANICS.load(Ordering::SeqCst), 1);
}

#[test]
fn a_release_behind_a_process_that_died_at_the_gate_comes_to_an_end() {
    // Of the words of a rank, with that of its wake-ups: the gate's tail, at the first rank; which process it is.
    const TAIL: usize = 1;
    const PROCESS: usize = NODE_LOCK_WORDS - 2;
    let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: Arc<dyn WordMemory> = Arc::new((0..2).map(|_| part()).collect::<Vec<_>>());
    let end = |place| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(2), None, || ())
    };
    let (lock, _other) = (end(0), end(1));
    let held = lock.enter(&footprint(0, 9, true)).expect("free");
    // Another one of the same number, which started at another time: it has ended.
    let own = memory.words(0)[PROCESS].load(Ordering::Relaxed);
    memory.words(1)[PROCESS].store(own ^ 1 << 40, Ordering::Relaxed);
    memory.words(0)[TAIL].store(2, Ordering::Relaxed);
    drop(held);
    let error = lock.enter(&footprint(20, 30, true)).expect_err("nobody opens the gate");
    assert!(matches!(error, Error::Died { rank: Rank(1) }), "{error}");
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

impl WordMemory for Mapped {
    fn words(&self, rank: usize) -> &[AtomicU64] {
        assert!(rank < self.ranks);
        // SAFETY: the part of this rank in the mapping, which is page-aligned and is never unmapped.
        unsafe { std::slice::from_raw_parts(self.base.add(rank * NODE_LOCK_WORDS), NODE_LOCK_WORDS) }
    }
}

fn mapped_lock(path: &Path, place: usize, count: usize) -> Arc<NodeLock> {
    let words = NodeWords::new(Arc::new(Mapped::new(path, count)), place, 0, NODE_LOCK_WORDS);
    NodeLock::new(words, ranks(count), None, || ())
}

const PATH: &str = "CAPULET_TEST_LOCK";

/// A process of its own that takes the lock as rank 1 and then says so in a file, and does not let go.
fn holder(words: &Path, says: &Path) -> Child {
    let this = env::current_exe().expect("this test");
    let mut command = Command::new(this);
    command.args(["--exact", "holds_a_lock_until_it_is_killed", "--ignored"]).env(PATH, words);
    let child = command.env("CAPULET_TEST_SAYS", says).stdout(Stdio::null()).spawn().expect("it starts");
    while !says.exists() {
        thread::yield_now();
    }
    child
}

#[test]
#[ignore = "the other process of a_process_that_dies_with_the_lock_is_noticed"]
fn holds_a_lock_until_it_is_killed() {
    let (Some(words), Some(says)) = (env::var_os(PATH), env::var_os("CAPULET_TEST_SAYS")) else { return };
    let lock = mapped_lock(&PathBuf::from(words), 1, 2);
    let _guard = lock.enter(&footprint(0, 10, true)).expect("free");
    File::create(says).expect("a file");
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_process_that_dies_with_the_lock_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (words, says) = (folder.path().join("words"), folder.path().join("says"));
    File::create(&words).expect("a file");
    let mut other = holder(&words, &says);
    let lock = mapped_lock(&words, 0, 2);
    drop(lock.enter(&footprint(20, 30, true)).expect("other bytes"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.enter(&footprint(5, 6, true)).map(drop));
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
