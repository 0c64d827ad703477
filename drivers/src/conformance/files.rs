//! Checks of open, delete, lengths and access rights.

use super::subject::{Case, Subject, content, pattern};
use crate::{Batch, Caps, DriverFileExt, ErrorKind, OpenOptions, Operation, Transfer};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

pub(super) const CASES: &[Case] = &[
    Case { name: "a missing file is not found", run: missing },
    Case { name: "an exclusive create fails on an existing file", run: creation },
    Case { name: "deleted files are gone", run: deletion },
    Case { name: "impossible names are refused", run: bad_names },
    Case { name: "handles see the bytes of other handles", run: two_handles },
    Case { name: "the length can be set", run: length },
    Case { name: "preallocation keeps the data", run: preallocation },
    Case { name: "impossible lengths are refused", run: impossible_lengths },
    Case { name: "a file opened for reading cannot be changed", run: read_only },
    Case { name: "a file opened for writing cannot be read", run: write_only },
    Case { name: "a sync succeeds", run: sync },
    Case { name: "the layout has no zero", run: layout },
    Case { name: "drivers and files work behind pointers", run: pointers },
];

fn missing(subject: &Subject<'_>) {
    let path = subject.path();
    for options in [OpenOptions::read(), OpenOptions::write(), OpenOptions::read_write().exclusive(true)] {
        let error = subject.refused(&path, &options);
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, Operation::Open));
        assert_eq!(error.path(), path);
    }
    let error = subject.driver.delete(&path).expect_err("the file does not exist");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, Operation::Delete));
    assert_eq!(subject.refused(Path::new(""), &OpenOptions::read()).kind(), ErrorKind::NotFound);
}

fn creation(subject: &Subject<'_>) {
    let path = subject.path();
    let once = OpenOptions::read_write().create(true).exclusive(true);
    let file = subject.open(&path, &once);
    assert_eq!(file.len().expect("the length is known"), 0);
    file.write_all_at(0, b"kept").expect("the write succeeds");
    assert_eq!(subject.refused(&path, &once).kind(), ErrorKind::Exists);
    // Neither a refused nor a successful open changes the content.
    for options in
        [OpenOptions::write().create(true), OpenOptions::read_write().exclusive(true), OpenOptions::read()]
    {
        subject.open(&path, &options);
    }
    assert_eq!(content(&*file), b"kept");
    // An open for reading only can create the file too.
    let path = subject.path();
    assert_eq!(subject.open(&path, &OpenOptions::read().create(true)).len().expect("the length is known"), 0);
    subject.driver.delete(&path).expect("the file was created");
}

fn deletion(subject: &Subject<'_>) {
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::read_write().create(true));
    file.write_all_at(0, b"old").expect("the write succeeds");
    if file.caps().contains(Caps::UNLINK_OPEN) {
        subject.driver.delete(&path).expect("the delete succeeds");
        assert_eq!(subject.refused(&path, &OpenOptions::read()).kind(), ErrorKind::NotFound);
        file.write_all_at(3, b"er").expect("the file is still open");
        assert_eq!(content(&*file), b"older");
        let new = subject.open(&path, &OpenOptions::read_write().create(true).exclusive(true));
        assert_eq!(new.len().expect("the length is known"), 0);
        assert_eq!(content(&*file), b"older");
    }
    drop(file);
    subject.driver.delete(&path).expect("the delete succeeds");
    assert_eq!(subject.driver.delete(&path).expect_err("the file is deleted").kind(), ErrorKind::NotFound);
}

fn bad_names(subject: &Subject<'_>) {
    let folder = subject.path().parent().map(Path::to_path_buf).unwrap_or_default();
    let long = "x".repeat(300);
    let names: [&[u8]; 4] = [b"nul\0byte", long.as_bytes(), b".", b".."];
    for name in names {
        let path = folder.join(OsStr::from_bytes(name));
        let error = subject.refused(&path, &OpenOptions::read_write().create(true));
        assert_eq!(error.kind(), ErrorKind::BadName, "open {}", path.display());
    }
    for name in &names[..2] {
        let path = folder.join(OsStr::from_bytes(name));
        let error = subject.driver.delete(&path).expect_err("the name is impossible");
        assert_eq!(error.kind(), ErrorKind::BadName, "delete {}", path.display());
    }
}

fn two_handles(subject: &Subject<'_>) {
    let path = subject.path();
    let writer = subject.open(&path, &OpenOptions::write().create(true));
    let reader = subject.open(&path, &OpenOptions::read());
    writer.write_all_at(2, b"cd").expect("the write succeeds");
    if !writer.caps().contains(Caps::IMMEDIATE_VISIBILITY) {
        writer.sync().expect("the sync succeeds");
    }
    assert_eq!(content(&*reader), b"\0\0cd");
    writer.set_len(3).expect("the file is truncated");
    assert_eq!(content(&*reader), b"\0\0c");
}

fn length(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(10_000);
    file.write_all_at(0, &data).expect("the write succeeds");
    for len in [9999_usize, 4097, 4096, 5] {
        file.set_len(len as u64).expect("the file is truncated");
        assert_eq!(content(&*file), data[..len]);
        // Truncated bytes do not come back.
        file.set_len(10_000).expect("the file is extended");
        let mut expected = data[..len].to_vec();
        expected.resize(10_000, 0);
        assert_eq!(content(&*file), expected, "cut to {len}");
    }
    file.set_len(0).expect("the file is truncated");
    assert!(content(&*file).is_empty());
    file.set_len((1 << 32) + 5).expect("the file is extended beyond 4 GiB");
    assert_eq!(file.len().expect("the length is known"), (1 << 32) + 5);
    assert_eq!(file.read_at((1 << 32) + 3, &mut [1; 10]).expect("the read succeeds"), 2);
}

fn preallocation(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(5000);
    file.write_all_at(10_000, &data).expect("the write succeeds");
    let mut expected = vec![0; 10_000];
    expected.extend_from_slice(&data);
    for bytes in [0, 1, 10_001, 15_000] {
        file.preallocate(bytes).expect("the reservation succeeds");
        assert_eq!(content(&*file), expected, "reserved {bytes}");
    }
    file.preallocate(20_001).expect("the reservation succeeds");
    expected.resize(20_001, 0);
    assert_eq!(content(&*file), expected);
    file.set_len(3).expect("the file is truncated");
    assert_eq!(content(&*file), [0; 3]);
}

fn impossible_lengths(subject: &Subject<'_>) {
    let file = subject.create();
    file.write_all_at(0, b"abc").expect("the write succeeds");
    for bytes in [1 << 63, u64::MAX] {
        assert_eq!(file.set_len(bytes).expect_err("the length is impossible").kind(), ErrorKind::TooLarge);
        assert_eq!(
            file.preallocate(bytes).expect_err("the length is impossible").kind(),
            ErrorKind::TooLarge
        );
    }
    assert_eq!(content(&*file), b"abc");
}

fn read_only(subject: &Subject<'_>) {
    let path = subject.path();
    subject
        .open(&path, &OpenOptions::write().create(true))
        .write_all_at(0, b"abc")
        .expect("the write succeeds");
    let file = subject.open(&path, &OpenOptions::read());
    let result = file.submit(Batch::write(vec![Transfer::from_memory(0, b"x")])).wait();
    let error = result.error.expect("the call is refused");
    assert_eq!((result.bytes, error.kind(), error.operation()), (0, ErrorKind::ReadOnly, Operation::Write));
    assert_eq!(file.set_len(1).expect_err("the call is refused").kind(), ErrorKind::ReadOnly);
    assert_eq!(file.preallocate(10).expect_err("the call is refused").kind(), ErrorKind::ReadOnly);
    assert_eq!(content(&*file), b"abc");
    file.submit(Batch::write(Vec::new())).wait().into_result().expect("an empty batch is permitted");
}

fn write_only(subject: &Subject<'_>) {
    let file = subject.open(&subject.path(), &OpenOptions::write().create(true));
    file.write_all_at(0, b"abc").expect("the write succeeds");
    let error = file.read_at(0, &mut [0; 3]).expect_err("the call is refused");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Permission, Operation::Read));
    assert_eq!(file.len().expect("the length is known"), 3);
}

fn sync(subject: &Subject<'_>) {
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::write().create(true));
    file.sync().expect("a sync without data succeeds");
    file.write_all_at(0, b"abc").expect("the write succeeds");
    file.sync().expect("the sync succeeds");
    subject.open(&path, &OpenOptions::read()).sync().expect("a reader may sync too");
}

fn layout(subject: &Subject<'_>) {
    let layout = subject.create().layout();
    assert!(layout.block_bytes > 0 && layout.stripe_bytes > 0 && layout.stripe_count > 0, "{layout:?}");
}

fn pointers(subject: &Subject<'_>) {
    let path = subject.path();
    let driver: Box<dyn crate::Driver> = Box::new(Arc::clone(&subject.driver));
    let file =
        Box::new(driver.open(&path, &OpenOptions::read_write().create(true)).expect("the open succeeds"));
    assert_eq!(driver.name(), subject.driver.name());
    file.write_all_at(0, b"abc").expect("the write succeeds");
    assert_eq!(content(&&file), b"abc");
    assert_eq!((file.caps(), file.layout()), ((**file).caps(), (**file).layout()));
    assert_eq!(file.system_calls(), (**file).system_calls());
    driver.delete(&path).expect("the delete succeeds");
}
