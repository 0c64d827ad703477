//! Checks of a full storage.

use super::subject::{Subject, content, pattern};
use crate::{Batch, Driver, DriverFileExt, ErrorKind, OpenOptions, Transfer};
use std::path::PathBuf;
use std::sync::Arc;

/// Checks a driver on a storage with at most `free_bytes` free bytes, which are a few blocks or more.
/// Writes that do not fit return [`ErrorKind::NoSpace`] and count the bytes that fit. Reserved storage
/// stays reserved. A delete frees space.
///
/// # Panics
/// If the driver breaks its contract.
pub fn check_full(driver: Arc<dyn Driver>, fresh_path: &dyn Fn() -> PathBuf, free_bytes: u64) {
    let subject = Subject { driver, fresh_path };
    // The second run needs the space that the first has freed.
    for _ in 0..2 {
        overflow(&subject, free_bytes);
        overflow_in_small_pieces(&subject, free_bytes);
        reservation(&subject, free_bytes);
    }
}

fn overflow(subject: &Subject<'_>, free_bytes: u64) {
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::read_write().create(true));
    let data = pattern(free_bytes as usize + 10_000);
    let (front, back) = data.split_at(data.len() / 3);
    let batch = Batch::write(vec![
        Transfer::from_memory(0, front),
        Transfer::from_memory(front.len() as u64, back),
        Transfer::from_memory(0, b"never"),
    ]);
    let result = file.submit(batch).wait();
    let error = result.error.expect("the bytes do not fit");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(result.bytes > 0 && result.bytes <= free_bytes, "{} of {free_bytes} bytes", result.bytes);
    assert_eq!(content(&*file), data[..result.bytes as usize], "the counted bytes are written");
    // Bytes that have storage already can still be overwritten.
    file.write_all_at(0, b"place").expect("an overwrite needs no new space");
    let error = file.write_all_at(free_bytes + (1 << 20), b"x").expect_err("there is no space");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    drop(file);
    subject.driver.delete(&path).expect("the delete succeeds");
}

/// Fills the storage with small pieces that lie near each other. A driver may have a special method for them.
fn overflow_in_small_pieces(subject: &Subject<'_>, free_bytes: u64) {
    const PIECES: usize = 256;
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::read_write().create(true));
    let data = pattern(8 * PIECES);
    let mut counted = 0;
    // A batch covers 64 KiB, and needs every block of this range, because its pieces are 256 bytes apart.
    for start in (0..free_bytes * 4).step_by(PIECES * 256) {
        let piece = |at: usize| Transfer::from_memory(start + at as u64 * 256, &data[at * 8..at * 8 + 8]);
        let result = file.submit(Batch::write((0..PIECES).map(piece).collect())).wait();
        counted += result.bytes;
        if let Some(error) = result.error {
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            assert!(result.bytes < data.len() as u64);
            break;
        }
        assert_eq!(result.bytes, data.len() as u64);
    }
    let held = content(&*file);
    for at in 0..counted as usize / 8 {
        let place = at / PIECES * PIECES * 256 + at % PIECES * 256;
        assert_eq!(
            held[place..place + 8],
            data[at % PIECES * 8..at % PIECES * 8 + 8],
            "piece {at} was counted"
        );
    }
    drop(file);
    subject.driver.delete(&path).expect("the delete succeeds");
}

fn reservation(subject: &Subject<'_>, free_bytes: u64) {
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::read_write().create(true));
    file.write_all_at(0, b"kept").expect("there is space");
    let error = file.preallocate(free_bytes * 2).expect_err("there is no space");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(content(&*file)[..4], *b"kept");
    let reserved_bytes = free_bytes / 2;
    file.preallocate(reserved_bytes).expect("there is space");
    // Another file takes all the remaining space, and the reservation still holds.
    let greedy_path = subject.path();
    let greedy = subject.open(&greedy_path, &OpenOptions::read_write().create(true));
    let error =
        greedy.write_all_at(0, &pattern(free_bytes as usize)).expect_err("half of the space is taken");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let data = pattern(reserved_bytes as usize);
    file.write_all_at(0, &data).expect("the bytes were reserved");
    assert_eq!(content(&*file), data);
    drop((file, greedy));
    subject.driver.delete(&path).expect("the delete succeeds");
    subject.driver.delete(&greedy_path).expect("the delete succeeds");
}
