//! Checks of open, delete, lengths and access rights.

use super::subject::{Case, Subject, content, pattern};
use crate::{Batch, Caps, DriverFileExt, ErrorKind, OpenOptions, Operation, Transfer};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

pub(super) const CASES: &[Case] = &[
    Case { name: "a missing file is not found", run: missing },
    Case { name: "files are created once if that is asked for", run: creation },
    Case { name: "deleted files are gone", run: deletion },
    Case { name: "names that no file can have", run: bad_names },
    Case { name: "handles see each other's bytes", run: two_handles },
    Case { name: "the length can be set", run: length },
    Case { name: "storage is reserved and data stays", run: preallocation },
    Case { name: "lengths that no file has", run: impossible_lengths },
    Case { name: "a file opened for reading cannot be changed", run: read_only },
    Case { name: "a file opened for writing cannot be read", run: write_only },
    Case { name: "sync succeeds", run: sync },
    Case { name: "the layout can be divided by", run: layout },
    Case { name: "drivers and files work behind pointers", run: pointers },
];

fn missing(subject: &Subject<'_>) {
    let path = subject.path();
    for options in [OpenOptions::read(), OpenOptions::write(), OpenOptions::read_write().exclusive(true)] {
        let error = subject.refused(&path, &options);
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, Operation::Open));
        assert_eq!(error.path(), path);
    }
    let error = subject.driver.delete(&path).expect_err("there is nothing to delete");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::NotFound, Operation::Delete));
    assert_eq!(subject.refused(Path::new(""), &OpenOptions::read()).kind(), ErrorKind::NotFound);
}

fn creation(subject: &Subject<'_>) {
    let path = subject.path();
    let once = OpenOptions::read_write().create(true).exclusive(true);
    let file = subject.open(&path, &once);
    assert_eq!(file.len().expect("known"), 0);
    file.write_all_at(0, b"kept").expect("written");
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
    assert_eq!(subject.open(&path, &OpenOptions::read().create(true)).len().expect("known"), 0);
    subject.driver.delete(&path).expect("it was created");
}

fn deletion(subject: &Subject<'_>) {
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::read_write().create(true));
    file.write_all_at(0, b"old").expect("written");
    if file.caps().contains(Caps::UNLINK_OPEN) {
        subject.driver.delete(&path).expect("deleted");
        assert_eq!(subject.refused(&path, &OpenOptions::read()).kind(), ErrorKind::NotFound);
        file.write_all_at(3, b"er").expect("still open");
        assert_eq!(content(&*file), b"older");
        let new = subject.open(&path, &OpenOptions::read_write().create(true).exclusive(true));
        assert_eq!(new.len().expect("known"), 0);
        assert_eq!(content(&*file), b"older");
    }
    drop(file);
    subject.driver.delete(&path).expect("deleted");
    assert_eq!(subject.driver.delete(&path).expect_err("gone").kind(), ErrorKind::NotFound);
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
        let error = subject.driver.delete(&path).expect_err("no such name");
        assert_eq!(error.kind(), ErrorKind::BadName, "delete {}", path.display());
    }
}

fn two_handles(subject: &Subject<'_>) {
    let path = subject.path();
    let writer = subject.open(&path, &OpenOptions::write().create(true));
    let reader = subject.open(&path, &OpenOptions::read());
    writer.write_all_at(2, b"cd").expect("written");
    if !writer.caps().contains(Caps::IMMEDIATE_VISIBILITY) {
        writer.sync().expect("synced");
    }
    assert_eq!(content(&*reader), b"\0\0cd");
    writer.set_len(3).expect("cut");
    assert_eq!(content(&*reader), b"\0\0c");
}

fn length(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(10_000);
    file.write_all_at(0, &data).expect("written");
    for len in [9999_usize, 4097, 4096, 5] {
        file.set_len(len as u64).expect("cut");
        assert_eq!(content(&*file), data[..len]);
        // Truncated bytes do not come back.
        file.set_len(10_000).expect("extended");
        let mut expected = data[..len].to_vec();
        expected.resize(10_000, 0);
        assert_eq!(content(&*file), expected, "cut to {len}");
    }
    file.set_len(0).expect("emptied");
    assert!(content(&*file).is_empty());
    file.set_len((1 << 32) + 5).expect("extended beyond 4 GiB");
    assert_eq!(file.len().expect("known"), (1 << 32) + 5);
    assert_eq!(file.read_at((1 << 32) + 3, &mut [1; 10]).expect("read"), 2);
}

fn preallocation(subject: &Subject<'_>) {
    let file = subject.create();
    let data = pattern(5000);
    file.write_all_at(10_000, &data).expect("written");
    let mut expected = vec![0; 10_000];
    expected.extend_from_slice(&data);
    for bytes in [0, 1, 10_001, 15_000] {
        file.preallocate(bytes).expect("reserved");
        assert_eq!(content(&*file), expected, "reserved {bytes}");
    }
    file.preallocate(20_001).expect("reserved");
    expected.resize(20_001, 0);
    assert_eq!(content(&*file), expected);
    file.set_len(3).expect("cut");
    assert_eq!(content(&*file), [0; 3]);
}

fn impossible_lengths(subject: &Subject<'_>) {
    let file = subject.create();
    file.write_all_at(0, b"abc").expect("written");
    for bytes in [1 << 63, u64::MAX] {
        assert_eq!(file.set_len(bytes).expect_err("no file is as long").kind(), ErrorKind::TooLarge);
        assert_eq!(file.preallocate(bytes).expect_err("no file is as long").kind(), ErrorKind::TooLarge);
    }
    assert_eq!(content(&*file), b"abc");
}

fn read_only(subject: &Subject<'_>) {
    let path = subject.path();
    subject.open(&path, &OpenOptions::write().create(true)).write_all_at(0, b"abc").expect("written");
    let file = subject.open(&path, &OpenOptions::read());
    let result = file.submit(Batch::write(vec![Transfer::from_memory(0, b"x")])).wait();
    let error = result.error.expect("refused");
    assert_eq!((result.bytes, error.kind(), error.operation()), (0, ErrorKind::ReadOnly, Operation::Write));
    assert_eq!(file.set_len(1).expect_err("refused").kind(), ErrorKind::ReadOnly);
    assert_eq!(file.preallocate(10).expect_err("refused").kind(), ErrorKind::ReadOnly);
    assert_eq!(content(&*file), b"abc");
    file.submit(Batch::write(Vec::new())).wait().into_result().expect("nothing is no write");
}

fn write_only(subject: &Subject<'_>) {
    let file = subject.open(&subject.path(), &OpenOptions::write().create(true));
    file.write_all_at(0, b"abc").expect("written");
    let error = file.read_at(0, &mut [0; 3]).expect_err("refused");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Permission, Operation::Read));
    assert_eq!(file.len().expect("known"), 3);
}

fn sync(subject: &Subject<'_>) {
    let path = subject.path();
    let file = subject.open(&path, &OpenOptions::write().create(true));
    file.sync().expect("nothing to bring");
    file.write_all_at(0, b"abc").expect("written");
    file.sync().expect("brought");
    subject.open(&path, &OpenOptions::read()).sync().expect("a reader may ask too");
}

fn layout(subject: &Subject<'_>) {
    let layout = subject.create().layout();
    assert!(layout.block_bytes > 0 && layout.stripe_bytes > 0 && layout.stripe_count > 0, "{layout:?}");
}

fn pointers(subject: &Subject<'_>) {
    let path = subject.path();
    let driver: Box<dyn crate::Driver> = Box::new(Arc::clone(&subject.driver));
    let file = Box::new(driver.open(&path, &OpenOptions::read_write().create(true)).expect("opened"));
    assert_eq!(driver.name(), subject.driver.name());
    file.write_all_at(0, b"abc").expect("written");
    assert_eq!(content(&&file), b"abc");
    assert_eq!((file.caps(), file.layout()), ((**file).caps(), (**file).layout()));
    assert_eq!(file.system_calls(), (**file).system_calls());
    driver.delete(&path).expect("deleted");
}
