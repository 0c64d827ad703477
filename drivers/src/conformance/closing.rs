//! Checks of close and refresh.

use super::subject::{Case, Subject, content, pattern};
use crate::{
    Batch, Caps, DriverFile, DriverFileExt, Error, ErrorKind, LockMode, OpenOptions, Operation, Transfer,
};
use std::sync::Arc;

pub(super) const CASES: &[Case] = &[
    Case { name: "data is kept after the close", run: data_after_close },
    Case { name: "calls on a closed file fail and change nothing", run: calls_after_close },
    Case { name: "a file with other references is not closed", run: referenced },
    Case { name: "a lock is held after the close of its file", run: lock_after_close },
    Case { name: "a refresh makes synced data visible", run: refresh },
];

fn data_after_close(subject: &Subject<'_>) {
    let path = subject.path();
    let data = pattern(10_000);
    for options in [OpenOptions::write().create(true), OpenOptions::read_write()] {
        let mut file = subject.open(&path, &options);
        file.write_all_at(5, &data).expect("the write succeeds");
        file.close().expect("the close succeeds");
        // The file is closed already, so the drop changes nothing.
        assert_eq!(content(&*subject.open(&path, &OpenOptions::read()))[5..], data);
        drop(file);
        assert_eq!(content(&*subject.open(&path, &OpenOptions::read()))[5..], data);
    }
}

fn calls_after_close(subject: &Subject<'_>) {
    let path = subject.path();
    let mut file = subject.open(&path, &OpenOptions::read_write().create(true));
    file.write_all_at(0, b"kept").expect("the write succeeds");
    let known = (file.caps(), file.layout(), file.identity());
    file.close().expect("the close succeeds");
    // This file may get the descriptor number of the closed file.
    let other = subject.create();
    other.write_all_at(0, b"other").expect("the write succeeds");
    let mut memory = [0xA5; 4];
    let failures = [
        (Operation::Write, file.write_all_at(0, b"lost").err()),
        (Operation::Write, file.submit(Batch::write(Vec::new())).wait().error),
        (Operation::Read, file.read_at(0, &mut memory).err()),
        (Operation::Length, file.len().err()),
        (Operation::SetLength, file.set_len(1).err()),
        (Operation::Preallocate, file.preallocate(100).err()),
        (Operation::Sync, file.sync().err()),
        (Operation::Refresh, file.refresh().err()),
        (Operation::Close, file.close().err()),
    ];
    for (operation, error) in failures {
        let error = error.unwrap_or_else(|| panic!("a closed file must refuse this call: {operation}"));
        check_error(&error, ErrorKind::Closed, operation, &*file);
    }
    let error = file.try_lock(0..1, LockMode::Exclusive).expect_err("the file is closed");
    let has_locks = file.caps().contains(Caps::LOCKS);
    assert_eq!(error.kind(), if has_locks { ErrorKind::Closed } else { error.kind() });
    assert_eq!(file.would_wait(0), None);
    // The properties read at open are still known.
    assert_eq!((file.caps(), file.layout(), file.identity()), known);
    assert_eq!(memory, [0xA5; 4]);
    assert_eq!(content(&*other), b"other");
    assert_eq!(content(&*subject.open(&path, &OpenOptions::read())), b"kept");
}

fn check_error(error: &Error, kind: ErrorKind, operation: Operation, file: &dyn DriverFile) {
    assert_eq!((error.kind(), error.operation(), error.path()), (kind, operation, file.path()), "{error}");
}

fn referenced(subject: &Subject<'_>) {
    let path = subject.path();
    let mut file = subject.open(&path, &OpenOptions::read_write().create(true));
    assert_eq!(file.path(), path);
    let mut other = Arc::clone(&file);
    for handle in [&mut file, &mut other] {
        let error = handle.close().expect_err("another reference exists");
        check_error(&error, ErrorKind::Busy, Operation::Close, &**handle);
        handle.write_all_at(0, b"open").expect("the file is still open");
    }
    // A plain reference does not own the file.
    let error = (&*other).close().expect_err("the file is only borrowed");
    check_error(&error, ErrorKind::Busy, Operation::Close, &*other);
    drop(other);
    // A box of the only Arc owns the file.
    let mut file = Box::new(file);
    file.close().expect("this is the last reference");
    let error = file.write_all_at(0, b"lost").expect_err("the file is closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(content(&*subject.open(&path, &OpenOptions::read())), b"open");
}

fn lock_after_close(subject: &Subject<'_>) {
    let path = subject.path();
    let open = || subject.open(&path, &OpenOptions::read_write().create(true));
    let (mut file, other) = (open(), open());
    if !file.caps().contains(Caps::LOCKS) {
        return;
    }
    drop(file.try_lock(0..20, LockMode::Exclusive).expect("the call succeeds").expect("the range is free"));
    let guard =
        file.try_lock(0..10, LockMode::Exclusive).expect("the call succeeds").expect("the range is free");
    file.close().expect("the close succeeds");
    assert!(other.try_lock(5..6, LockMode::Exclusive).expect("the call succeeds").is_none(), "it is locked");
    drop(guard);
    assert!(other.try_lock(5..6, LockMode::Exclusive).expect("the call succeeds").is_some(), "it is free");
}

fn refresh(subject: &Subject<'_>) {
    let path = subject.path();
    let writer = subject.open(&path, &OpenOptions::read_write().create(true));
    let reader = subject.open(&path, &OpenOptions::read());
    let unsynced = subject.open(&path, &OpenOptions::write());
    assert_eq!(content(&*reader), b"");
    let data = pattern(10_000);
    writer
        .submit(Batch::write(vec![Transfer::from_memory(0, &data)]))
        .wait()
        .into_result()
        .expect("the write succeeds");
    writer.sync().expect("the sync succeeds");
    for file in [&writer, &reader, &unsynced] {
        file.refresh().expect("the refresh succeeds");
        assert_eq!(file.len().expect("the length is known"), 10_000);
    }
    assert_eq!(content(&*reader), data);
    // A refresh discards no byte that this process has written and not synced.
    unsynced.write_all_at(2, b"dirty").expect("the write succeeds");
    reader.refresh().expect("the refresh succeeds");
    unsynced.refresh().expect("the refresh succeeds");
    assert_eq!(content(&*writer)[2..7], *b"dirty");
}
