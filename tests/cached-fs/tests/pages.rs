//! What two mounts see of each other's bytes.

mod common;

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use common::{Lock, Mounts, read, set_lock, until, write};
use nix::fcntl::{FcntlArg, fcntl};

#[test]
fn stale_page_overwrites_a_byte_of_another_node() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    fs::write(mounts.backing("file"), "....").expect("the file is written");
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    assert_eq!(read(&a, 0, 9), b"....");
    write(&b, 1, b"B");
    b.sync_all().expect("the file is synced");
    assert_eq!(mounts.bytes("file"), b".B..");
    assert_eq!(mounts.a.counter("stale_page_uses"), 0);
    assert_eq!(read(&a, 0, 9), b"....", "the page is not cached");
    assert_eq!(mounts.a.counter("stale_page_uses"), 1);
    write(&a, 2, b"A");
    a.sync_all().expect("the file is synced");
    assert_eq!(mounts.bytes("file"), b"..A.");
    assert_eq!(mounts.a.counter("foreign_bytes"), 1);
    assert_eq!(mounts.b.counter("foreign_bytes"), 0);
}

#[test]
fn write_past_a_stale_size_writes_zeros_over_another_node() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    write(&b, 0, b"BBBB");
    b.sync_all().expect("the file is synced");
    write(&a, 3, b"A");
    a.sync_all().expect("the file is synced");
    assert_eq!(mounts.bytes("file"), b"\0\0\0A");
    assert_eq!(mounts.a.counter("foreign_bytes"), 3);
}

#[test]
fn whole_pages_and_other_pages_are_not_touched() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    write(&a, 0, &[1; 4096]);
    write(&b, 4096, &[2; 8192]);
    write(&a, 12288, &[3; 4096]);
    drop((a, b));
    let expected = [1, 2, 2, 3].map(|value| vec![value; 4096]).concat();
    assert_eq!(mounts.bytes("file"), expected);
    for mount in [&mounts.a, &mounts.b] {
        assert_eq!(mount.counter("pages_written"), 2);
        assert_eq!(mount.counter("pages_filled"), 0);
        assert_eq!(mount.counter("foreign_bytes"), 0);
    }
}

#[test]
fn no_byte_is_lost_between_lock_and_unlock() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    for lock in [Lock::Posix, Lock::Ofd] {
        let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
        for place in 0..32 {
            for (file, offset) in [(&a, 2 * place), (&b, 2 * place + 1)] {
                set_lock(file, lock, libc::F_WRLCK, 0, 0).expect("the lock is free");
                assert_eq!(read(file, 0, 100)[..offset], vec![7; offset]);
                write(file, offset as u64, &[7]);
                // Without a sync: the unlock writes back.
                set_lock(file, lock, libc::F_UNLCK, 0, 0).expect("the lock is released");
            }
        }
        assert_eq!(mounts.bytes("file"), [7; 64]);
        fs::remove_file(mounts.a.path("file")).expect("the file is removed");
    }
    assert_eq!(mounts.a.counter("foreign_bytes") + mounts.b.counter("foreign_bytes"), 0);
    assert_eq!(mounts.a.counter("stale_page_uses") + mounts.b.counter("stale_page_uses"), 0);
    assert_eq!(mounts.a.counter("locks"), 64);
}

#[test]
fn waiting_locks_order_the_accesses_of_both_nodes() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let count = |file: std::fs::File| {
        for _ in 0..100 {
            fcntl(&file, FcntlArg::F_OFD_SETLKW(&common::flock(libc::F_WRLCK, 0, 0))).expect("locked");
            let old = read(&file, 0, 1).first().copied().unwrap_or(0);
            write(&file, 0, &[old + 1]);
            set_lock(&file, Lock::Ofd, libc::F_UNLCK, 0, 0).expect("unlocked");
        }
    };
    std::thread::scope(|scope| {
        for file in [mounts.a.open("file"), mounts.b.open("file")] {
            scope.spawn(move || count(file));
        }
    });
    assert_eq!(mounts.bytes("file"), [200]);
}

#[test]
fn open_sees_what_another_node_has_closed() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let b = mounts.b.open("file");
    assert_eq!(read(&b, 0, 9), b"");
    let a = mounts.a.open("file");
    write(&a, 0, b"one");
    assert_eq!(mounts.bytes("file"), b"");
    drop(a);
    assert_eq!(mounts.bytes("file"), b"one");
    assert_eq!(read(&b, 0, 9), b"", "a read revalidates");
    let again = mounts.b.open("file");
    assert_eq!(read(&again, 0, 9), b"one");
    // All programs of a node share its cache.
    assert_eq!(read(&b, 0, 9), b"one");
}

#[test]
fn size_is_stale_until_revalidation() {
    let Some(mounts) = Mounts::start(&["--attribute-ms", "600000"]) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    let size = || a.metadata().expect("the file has attributes").len();
    assert_eq!(size(), 0);
    write(&b, 0, b"bytes");
    assert_eq!(b.metadata().expect("the file has attributes").len(), 5);
    b.sync_all().expect("the file is synced");
    assert_eq!(size(), 0);
    // statx with AT_STATX_FORCE_SYNC
    let mut stat = Command::new("stat");
    let output = stat.args(["--cached=never", "--format=%s"]).arg(mounts.a.path("file")).output();
    assert_eq!(output.expect("stat runs").stdout, b"5\n");
    assert_eq!(size(), 5);
    assert_eq!(read(&a, 0, 9), b"", "attributes revalidate");
    set_lock(&a, Lock::Posix, libc::F_RDLCK, 0, 1).expect("the lock is free");
    assert_eq!(read(&a, 0, 9), b"bytes");
}

#[test]
fn attributes_revalidate_by_option_only_after_a_change_of_another_node() {
    let options = ["--attribute-ms", "0", "--getattr-revalidates"];
    let Some(mounts) = Mounts::start(&options) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    write(&a, 0, b"a");
    a.sync_all().expect("the file is synced");
    let before = mounts.a.counter("revalidations");
    let size = || a.metadata().expect("the file has attributes").len();
    assert_eq!((size(), mounts.a.counter("revalidations")), (1, before));
    write(&b, 1, b"b");
    b.sync_all().expect("the file is synced");
    assert_eq!(read(&a, 0, 9), b"a");
    assert_eq!((size(), mounts.a.counter("revalidations")), (2, before + 1));
    assert_eq!(read(&a, 0, 9), b"\0b", "b overwrote a's byte with its stale page");
}

#[test]
fn dirty_pages_are_written_back_by_number_and_by_time() {
    let Some(mounts) = Mounts::start(&["--max-dirty-pages", "2"]) else { return };
    let file = mounts.a.open("file");
    write(&file, 0, b"1");
    write(&file, 4096, b"2");
    assert_eq!(mounts.bytes("file"), b"");
    write(&file, 8192, b"3");
    assert_eq!(mounts.bytes("file").len(), 8193);
    drop(file);
    drop(mounts);
    let Some(mounts) = Mounts::start(&["--write-back-ms", "5"]) else { return };
    let file = mounts.a.open("file");
    write(&file, 0, b"later");
    until("a page is written back", || mounts.bytes("file") == b"later");
}

#[test]
fn direct_and_synchronous_access_reach_the_backing_file() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let open = |flags| {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).custom_flags(flags).open(mounts.a.path("file")).expect("opened")
    };
    let cached = mounts.a.open("file");
    write(&open(libc::O_DSYNC), 0, b"sync");
    assert_eq!(mounts.bytes("file"), b"sync");
    let direct = open(libc::O_DIRECT);
    write(&cached, 0, b"S");
    write(&direct, 4096, &[5; 4096]);
    assert_eq!(mounts.bytes("file")[..4], *b"Sync");
    assert_eq!(read(&cached, 4096, 9), [5; 9]);
    fs::write(mounts.backing("file"), vec![6; 4096]).expect("the file is written");
    assert_eq!(read(&direct, 0, 4096), [6; 4096]);
    assert_eq!(read(&cached, 0, 4), b"Sync");
    let append = fs::OpenOptions::new().append(true).open(mounts.a.path("file")).expect("opened");
    fs::write(mounts.backing("file"), "longer").expect("the file is written");
    write(&append, 0, b"!");
    append.sync_all().expect("the file is synced");
    assert_eq!(mounts.bytes("file"), b"longer!");
}
