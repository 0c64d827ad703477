//! Tests of the lock of a node, with threads that stand for processes.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use capulet_atomic::{Error, FileLock, Isolation, NODE_LOCK_WORDS, NodeLock, Request, Waiting};
use capulet_comm::{NodeWords, Rank, WordMemory};

fn bytes(start: u64, end: u64, writes: bool) -> Request {
    Request::contiguous(start..end, !writes)
}

fn ranks(count: usize) -> Vec<Rank> {
    (0..count as u32).map(Rank).collect()
}

/// The parts of `count` ranks in one lock, in memory of this process.
fn team(count: usize, time_limit: Option<Duration>) -> Vec<Arc<NodeLock>> {
    let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: Arc<dyn WordMemory> = Arc::new((0..count).map(|_| part()).collect::<Vec<_>>());
    let end = |place| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(count), time_limit, || ())
    };
    (0..count).map(end).collect()
}

/// Cells that only the lock protects.
struct Cells(Vec<UnsafeCell<u64>>);

// SAFETY: a thread accesses a cell only while it holds an exclusive lock of the cell's byte, or after all
// other threads have ended. So no two accesses happen at the same time. That the lock excludes them is
// the subject of this test.
unsafe impl Sync for Cells {}

#[test]
fn bytes_are_held_by_one_rank_at_a_time() {
    const ROUNDS: u64 = 2000;
    let locks = team(4, None);
    let cells = Cells((0..8).map(|_| UnsafeCell::new(0)).collect());
    thread::scope(|scope| {
        for (rank, lock) in locks.iter().enumerate() {
            let cells = &cells;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let first = (rank as u64 * 3 + round * 5) % 6;
                    let guard =
                        lock.enter(&bytes(first, first + 3, true)).expect("a wait without a limit succeeds");
                    for cell in &cells.0[first as usize..first as usize + 3] {
                        // SAFETY: `guard` holds an exclusive lock of bytes `first..first + 3`, which
                        // include this cell's byte, until the drop below. So no other thread accesses the
                        // cell (see `Cells`).
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
    // SAFETY: `thread::scope` has joined all threads, so no other access to the cells is possible.
    let total: u64 = cells.0.iter().map(|cell| unsafe { *cell.get() }).sum();
    assert_eq!(total, 4 * ROUNDS * 3);
    assert!(locks.iter().all(|lock| lock.counters().acquired() == ROUNDS));
}

#[test]
fn requests_without_conflict_are_held_at_the_same_time() {
    let locks = team(4, Some(Duration::from_millis(1)));
    let writers = [bytes(0, 10, true), bytes(10, 20, true)];
    let readers = [bytes(20, 40, false), bytes(30, 50, false)];
    let guards: Vec<_> = locks
        .iter()
        .zip(writers.iter().chain(&readers))
        .map(|(lock, wanted)| lock.enter(wanted).expect("no other request conflicts"))
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
                    let _guard = lock.enter(&bytes(0, 1, true)).expect("a wait without a limit succeeds");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn access_that_panics_releases_its_bytes() {
    let locks = team(2, Some(Duration::from_secs(60)));
    let panicked = thread::scope(|scope| {
        let access = scope.spawn(|| {
            let _guard = locks[0].enter(&bytes(0, 9, true)).expect("the bytes are free");
            panic!("inside the critical section");
        });
        access.join()
    });
    assert!(panicked.is_err());
    drop(locks[1].enter(&bytes(0, 9, true)).expect("the panicked access has released the bytes"));
}

#[test]
fn wait_ends_at_its_limit_names_the_holder_and_blocks_no_rank() {
    let locks = team(3, Some(Duration::from_millis(30)));
    let all = bytes(0, u64::MAX, true);
    let held = locks[1].enter(&all).expect("the bytes are free");
    let error = locks[0].enter(&bytes(5, 6, false)).expect_err("rank 1 holds the bytes");
    let Error::TimedOut { waited, holders, are_nodes: false } = &error else { panic!("{error}") };
    assert!(*waited >= Duration::from_millis(30) && *holders == [Rank(1)], "{error}");
    // Rank 2 comes behind the rank that gave up. That rank must release what it acquires later.
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
        // Every wait of rank 0's process does the same.
        while !locks[0].settle() {
            thread::yield_now();
        }
        next.join().expect("the thread does not panic");
    });
}

/// How often the progress function was called. Its first call panics.
static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn panic_in_a_wait_blocks_no_rank() {
    let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let memory: Arc<dyn WordMemory> = Arc::new((0..2).map(|_| part()).collect::<Vec<_>>());
    let end = |place, progress| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(2), Some(Duration::from_secs(60)), progress)
    };
    let panics = || assert!(PANICS.fetch_add(1, Ordering::SeqCst) > 0, "the intended panic");
    let (first, second) = (end(0, panics), end(1, || ()));
    let held = second.enter(&bytes(0, 9, true)).expect("the bytes are free");
    let panicked = thread::scope(|scope| scope.spawn(|| first.enter(&bytes(0, 9, true)).map(drop)).join());
    assert!(panicked.is_err());
    drop(held);
    drop(first.enter(&bytes(0, 9, true)).expect("the panicked thread has given back the part of its rank"));
    drop(second.enter(&bytes(0, 9, true)).expect("the panicked thread has released the bytes"));
    assert_eq!(PANICS.load(Ordering::SeqCst), 1);
}

/// The word of a rank with the number and start time of its process. Word 0 counts the wake-ups.
const PROCESS: usize = 1;
/// The head word of a rank's bakery.
const HEAD: usize = 3;
/// The first word of a rank's request.
const WANTED: usize = 5;
/// A head: the rank draws its number in its first acquisition.
const DRAWS: u64 = 1 << 8 | 1;

fn memory(ranks: usize) -> Arc<dyn WordMemory> {
    let part = || (0..NODE_LOCK_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    Arc::new((0..ranks).map(|_| part()).collect::<Vec<_>>())
}

/// Makes rank 1 want bytes and draw a number for ever.
fn draws_for_ever(memory: &dyn WordMemory, request: &Request) {
    for (word, value) in request.words().iter().enumerate() {
        memory.words(1)[WANTED + word].store(*value, Ordering::SeqCst);
    }
    memory.words(1)[HEAD].store(DRAWS, Ordering::SeqCst);
}

#[test]
fn process_that_died_while_drawing_a_number_is_reported() {
    let memory = memory(2);
    let end = |place| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(2), None, || ())
    };
    let (lock, _other) = (end(0), end(1));
    // The identity of a process with the same number and another start time. Such a process has ended.
    let own = memory.words(0)[PROCESS].load(Ordering::Relaxed);
    memory.words(1)[PROCESS].store(own ^ 1 << 40, Ordering::Relaxed);
    draws_for_ever(memory.as_ref(), &bytes(0, 9, true));
    drop(lock.enter(&bytes(20, 30, true)).expect("these bytes do not conflict"));
    let error = lock.enter(&bytes(5, 30, true)).expect_err("rank 1 never draws its number");
    assert!(matches!(error, Error::Died { rank: Rank(1) }), "{error}");
}

#[test]
fn try_waits_for_no_rank_and_blocks_no_rank() {
    let locks = team(3, None);
    let held = locks[0].enter(&bytes(0, 10, true)).expect("the bytes are free");
    for _ in 0..3 {
        assert!(
            locks[1].try_enter(&bytes(5, 6, true), &mut Waiting::new()).expect("no error").is_none(),
            "rank 0 holds the bytes"
        );
    }
    assert!(
        locks[0].try_enter(&bytes(20, 30, true), &mut Waiting::new()).expect("no error").is_none(),
        "rank 0 is in another access"
    );
    let others = locks[1]
        .try_enter(&bytes(10, 20, true), &mut Waiting::new())
        .expect("no error")
        .expect("the bytes are free");
    drop((held, others));
    // Rank 1 does not repeat its tries, and no rank waits for it.
    drop(locks[2].enter(&bytes(0, 10, true)).expect("the bytes are free"));
    let shared = locks[0]
        .try_enter(&bytes(0, 10, false), &mut Waiting::new())
        .expect("no error")
        .expect("the bytes are free");
    drop(
        locks[1]
            .try_enter(&bytes(0, 10, false), &mut Waiting::new())
            .expect("no error")
            .expect("readers share the bytes"),
    );
    assert!(
        locks[1].try_enter(&bytes(0, 10, true), &mut Waiting::new()).expect("no error").is_none(),
        "rank 0 reads the bytes"
    );
    drop(shared);
    assert_eq!(locks.iter().map(|lock| lock.counters().acquired()).collect::<Vec<_>>(), [2, 2, 1]);
    assert!(locks.iter().all(|lock| lock.counters().waited() == 0 && lock.settle()));
}

#[test]
fn waiting_ranks_come_before_tries() {
    let locks = team(3, None);
    let held = locks[0].enter(&bytes(0, 10, true)).expect("the bytes are free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks[1].enter(&bytes(0, 10, true)).map(drop));
        // A read of byte 9 succeeds until the other thread waits: the read conflicts with that thread's
        // request.
        while locks[2].try_enter(&bytes(9, 10, false), &mut Waiting::new()).expect("no error").is_some() {}
        drop(held);
        while locks[2].try_enter(&bytes(0, 10, true), &mut Waiting::new()).expect("no error").is_none() {
            thread::yield_now();
        }
        waiting.join().expect("no panic").expect("the bytes are free");
    });
    assert_eq!(locks[1].counters().acquired(), 1);
}

static BEATS: AtomicUsize = AtomicUsize::new(0);

/// Otherwise the other work might wait for a number in the lock of another file, from a rank that does
/// the same the other way round.
#[test]
fn other_work_advances_in_waits_for_bytes_but_not_for_numbers() {
    let memory = memory(2);
    let beats = || {
        BEATS.fetch_add(1, Ordering::SeqCst);
    };
    // A waiting thread yields its core first, and other threads may keep the core for long.
    let limit = Duration::from_millis(1500);
    let end = |place| {
        let words = NodeWords::new(Arc::clone(&memory), place, 0, NODE_LOCK_WORDS);
        NodeLock::new(words, ranks(2), Some(limit), beats)
    };
    let (lock, other) = (end(0), end(1));
    let held = other.enter(&bytes(0, 9, true)).expect("the bytes are free");
    lock.enter(&bytes(0, 9, true)).expect_err("rank 1 holds the bytes");
    let beaten = BEATS.load(Ordering::SeqCst);
    assert!(beaten > 0, "work advances in a wait for bytes");
    drop(held);
    assert!(lock.settle(), "what the wait acquired is released");
    draws_for_ever(memory.as_ref(), &bytes(0, 9, true));
    let error = lock.enter(&bytes(0, 9, true)).expect_err("rank 1 never draws its number");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(BEATS.load(Ordering::SeqCst), beaten, "no work advances in a wait for a number");
}

/// A polled access reports the time limit and the holder like a waiting one.
#[test]
fn try_reports_the_time_limit() {
    let locks = team(2, Some(Duration::from_millis(30)));
    let held = locks[1].enter(&bytes(0, 10, true)).expect("the bytes are free");
    let mut waiting = Waiting::new();
    let error = loop {
        match locks[0].try_enter(&bytes(0, 10, true), &mut waiting) {
            Ok(entered) => assert!(entered.is_none(), "rank 1 holds the bytes"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::TimedOut { holders, .. } if *holders == [Rank(1)]), "{error}");
    drop(held);
    drop(
        locks[0]
            .try_enter(&bytes(0, 10, true), &mut Waiting::new())
            .expect("no error")
            .expect("the bytes are free"),
    );
}
