//! Checks of concurrent accesses and of locks.

use super::subject::{Case, Subject, content, write};
use crate::{Caps, DriverFile, DriverFileExt, ErrorKind, LockMode, OpenOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case { name: "concurrent writers of disjoint bytes lose none", run: disjoint_writers },
    Case { name: "exclusive locks exclude each other", run: exclusive_locks },
    Case { name: "shared locks exclude exclusive locks only", run: shared_locks },
    Case { name: "disjoint ranges do not exclude each other", run: disjoint_locks },
    Case { name: "a lock ends with its guard, also in a panic", run: guards },
    Case { name: "locks at the limits of offsets", run: lock_borders },
    Case { name: "locks are refused without the capability", run: no_locks },
];

/// Long enough for a thread to take a lock that is wrongly free.
const GRACE: Duration = Duration::from_millis(30);

fn disjoint_writers(subject: &Subject<'_>) {
    const THREADS: u8 = 4;
    const PIECES: u64 = 60;
    // Not a divisor of any block size, so that writers share all blocks.
    const PIECE_BYTES: usize = 37;
    let path = subject.path();
    let shared = subject.open(&path, &OpenOptions::read_write().create(true));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            // Half of the threads use the same handle, the other half use their own.
            let file = match thread % 2 {
                0 => Arc::clone(&shared),
                _ => subject.open(&path, &OpenOptions::write()),
            };
            scope.spawn(move || {
                let data = [thread + 1; PIECE_BYTES];
                for pair in 0..PIECES / 2 {
                    let at =
                        |piece: u64| (piece * u64::from(THREADS) + u64::from(thread)) * PIECE_BYTES as u64;
                    write(&*file, &[(at(pair * 2), &data), (at(pair * 2 + 1), &data)]);
                }
            });
        }
    });
    let whole = content(&*shared);
    assert_eq!(whole.len(), PIECES as usize * THREADS as usize * PIECE_BYTES);
    for (index, piece) in whole.chunks(PIECE_BYTES).enumerate() {
        let owner = (index % THREADS as usize) as u8 + 1;
        assert!(piece.iter().all(|byte| *byte == owner), "piece {index} is damaged");
    }
}

/// Two handles of one file. `None` if the storage has no locks.
fn lockable(subject: &Subject<'_>) -> Option<[Arc<dyn DriverFile>; 2]> {
    let path = subject.path();
    let open = || subject.open(&path, &OpenOptions::read_write().create(true));
    Some([open(), open()]).filter(|[file, _]| file.caps().contains(Caps::LOCKS))
}

fn exclusive_locks(subject: &Subject<'_>) {
    let Some(files) = lockable(subject) else { return };
    let inside = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            // Threads exclude each other both on one handle and on two handles.
            let (file, inside) = (&files[thread % 2], &inside);
            scope.spawn(move || {
                for _ in 0..25 {
                    let _guard = file.lock(10..20, LockMode::Exclusive).expect("the lock is granted");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders of an exclusive lock");
                    let mut count = [0; 8];
                    file.read_at(0, &mut count).expect("the read succeeds");
                    file.write_all_at(0, &(u64::from_le_bytes(count) + 1).to_le_bytes())
                        .expect("the write succeeds");
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(content(&*files[0]), 100_u64.to_le_bytes());
}

fn shared_locks(subject: &Subject<'_>) {
    let Some([file, other]) = lockable(subject) else { return };
    let first = file.lock(0..100, LockMode::Shared).expect("the lock is granted");
    // If a shared lock waited for another one, this function would not return.
    let second = file.lock(50..60, LockMode::Shared).expect("shared locks do not exclude each other");
    let third = other.lock(0..100, LockMode::Shared).expect("shared locks do not exclude each other");
    let is_in = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = other.lock(55..56, LockMode::Exclusive).expect("the lock is granted");
            is_in.store(true, Ordering::SeqCst);
        });
        for guard in [first, third, second] {
            thread::sleep(GRACE);
            assert!(!is_in.load(Ordering::SeqCst), "an exclusive lock was granted beside a shared lock");
            drop(guard);
        }
    });
    assert!(is_in.load(Ordering::SeqCst));
}

fn disjoint_locks(subject: &Subject<'_>) {
    let Some([file, other]) = lockable(subject) else { return };
    let _low = file.lock(0..10, LockMode::Exclusive).expect("the lock is granted");
    let _high = file.lock(20..30, LockMode::Exclusive).expect("disjoint locks do not exclude each other");
    // Ranges are half-open, so adjacent ranges do not overlap.
    let _between = other.lock(10..20, LockMode::Exclusive).expect("disjoint locks do not exclude each other");
}

fn guards(subject: &Subject<'_>) {
    let Some([file, other]) = lockable(subject) else { return };
    let holder = Arc::clone(&file);
    let panicked = thread::spawn(move || {
        let _guard = holder.lock(0..10, LockMode::Exclusive).expect("the lock is granted");
        // `resume_unwind` panics without a message, because the panic is intended.
        std::panic::resume_unwind(Box::new(()));
    });
    panicked.join().expect_err("the thread panics");
    // A guard outlives its handle.
    let guard = other.lock(0..10, LockMode::Exclusive).expect("the range is free again");
    drop(other);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = file.lock(0..1, LockMode::Exclusive).expect("the lock is granted");
            sender.send(()).expect("the receiver exists");
        });
        receiver.recv_timeout(GRACE).expect_err("the guard still holds");
        drop(guard);
        receiver.recv().expect("the range is free again");
    });
}

fn lock_borders(subject: &Subject<'_>) {
    let Some([file, other]) = lockable(subject) else { return };
    let _all = file.lock(1..u64::MAX, LockMode::Exclusive).expect("the lock is granted");
    let _first = other.lock(0..1, LockMode::Exclusive).expect("disjoint locks do not exclude each other");
    // An empty range locks nothing at any offset.
    let _nothing = other.lock(5..5, LockMode::Exclusive).expect("an empty range is always free");
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    let _backwards = other.lock(9..5, LockMode::Exclusive).expect("an empty range is always free");
    let error = other.lock(u64::MAX - 1..u64::MAX, LockMode::Shared).expect_err("no byte has this offset");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

fn no_locks(subject: &Subject<'_>) {
    let file = subject.create();
    if !file.caps().contains(Caps::LOCKS) {
        let error = file.lock(0..1, LockMode::Shared).expect_err("the storage has no locks");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
