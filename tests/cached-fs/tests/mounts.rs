//! Locks, errors, names and the end of a server.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Lock, Mount, Mounts, flock, read, set_lock, until, write};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that locks a file, with a wait, and then waits until it is killed. `locked` tells whether to
/// wait for the lock here.
fn holder(path: &Path, ofd: bool, locked: bool) -> Child {
    let program = "import fcntl, struct, sys\n\
        f = open(sys.argv[1], 'r+b')\n\
        print('asks', flush=True)\n\
        fcntl.fcntl(f, int(sys.argv[2]), struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))\n\
        print('locked', flush=True)\n\
        sys.stdin.read()\n";
    let command = if ofd { libc::F_OFD_SETLKW } else { libc::F_SETLKW };
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", program]).arg(path).arg(command.to_string());
    let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts");
    let mut lines = BufReader::new(child.stdout.take().expect("the output is a pipe")).lines();
    let mut expect = |text: &str| assert_eq!(lines.next().expect("a line").expect("readable"), text);
    expect("asks");
    if locked {
        expect("locked");
    }
    child
}

fn end(mut child: Child) {
    child.kill().expect("the process is killed");
    until("the killed process ends", || child.try_wait().expect("a child").is_some());
}

fn is_locked(file: &File, lock: Lock) -> bool {
    match set_lock(file, lock, libc::F_WRLCK, 0, 0) {
        Ok(()) => {
            set_lock(file, lock, libc::F_UNLCK, 0, 0).expect("the lock is released");
            false
        }
        Err(Errno::EAGAIN | Errno::EACCES) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn lock_excludes_the_other_mount() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    for lock in [Lock::Posix, Lock::Ofd] {
        let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
        set_lock(&a, lock, libc::F_WRLCK, 10, 10).expect("the lock is free");
        assert_eq!(set_lock(&b, lock, libc::F_WRLCK, 19, 5), Err(Errno::EAGAIN));
        assert_eq!(set_lock(&b, lock, libc::F_RDLCK, 0, 0), Err(Errno::EAGAIN));
        set_lock(&b, lock, libc::F_WRLCK, 20, 5).expect("no byte is shared");
        let mut range = flock(libc::F_WRLCK, 0, 0);
        fcntl(&b, FcntlArg::F_GETLK(&mut range)).expect("the lock is found");
        assert_eq!((range.l_type, range.l_start, range.l_len), (libc::F_WRLCK as i16, 10, 10));
        set_lock(&a, lock, libc::F_RDLCK, 10, 10).expect("the lock becomes shared");
        set_lock(&b, lock, libc::F_RDLCK, 0, 15).expect("the lock is shared");
        assert_eq!(set_lock(&a, lock, libc::F_WRLCK, 10, 10), Err(Errno::EAGAIN));
        drop(b);
        until("a closed file has no locks", || !is_locked(&a, lock));
    }
}

#[test]
fn locks_of_two_descriptions_exclude_on_one_mount() {
    for options in [&[][..], &["--local-locks"]] {
        let Some(mounts) = Mounts::start(options) else { return };
        let (a, again) = (mounts.a.open("file"), mounts.a.open("file"));
        set_lock(&a, Lock::Ofd, libc::F_WRLCK, 0, 0).expect("the lock is free");
        assert!(is_locked(&again, Lock::Ofd));
        // POSIX locks belong to the process, so this one meets the OFD lock only.
        assert!(is_locked(&a, Lock::Posix));
        let copy = a.try_clone().expect("the descriptor is copied");
        drop(a);
        assert!(is_locked(&again, Lock::Ofd), "a copy of the descriptor is open");
        drop(copy);
        until("a closed file has no locks", || !is_locked(&again, Lock::Ofd));
    }
}

#[test]
fn close_of_any_descriptor_ends_posix_locks() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let (a, again, b) = (mounts.a.open("file"), mounts.a.open("file"), mounts.b.open("file"));
    set_lock(&a, Lock::Posix, libc::F_WRLCK, 0, 0).expect("the lock is free");
    assert!(is_locked(&b, Lock::Posix));
    drop(again);
    assert!(!is_locked(&b, Lock::Posix));
}

#[test]
fn local_locks_do_not_exclude_the_other_mount_and_revalidate() {
    let Some(mounts) = Mounts::start(&["--local-locks"]) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    write(&b, 0, b"new");
    b.sync_all().expect("the file is synced");
    assert_eq!(read(&a, 0, 9), b"");
    for lock in [Lock::Posix, Lock::Ofd] {
        set_lock(&a, lock, libc::F_WRLCK, 0, 0).expect("the lock is free");
        assert!(!is_locked(&b, lock));
        set_lock(&a, lock, libc::F_UNLCK, 0, 0).expect("the lock is released");
    }
    assert_eq!(read(&a, 0, 9), b"new");
}

#[test]
fn mount_without_locks_refuses_them() {
    let Some(mounts) = Mounts::start(&["--no-locks"]) else { return };
    let file = mounts.a.open("file");
    for lock in [Lock::Posix, Lock::Ofd] {
        assert_eq!(set_lock(&file, lock, libc::F_WRLCK, 0, 0), Err(Errno::ENOLCK));
    }
}

#[test]
fn killed_holder_leaves_no_lock() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let file = mounts.b.open("file");
    for ofd in [false, true] {
        let child = holder(&mounts.a.path("file"), ofd, true);
        assert!(is_locked(&file, Lock::Ofd));
        end(child);
        until("the lock of the killed process is free", || !is_locked(&file, Lock::Ofd));
    }
}

#[test]
fn killed_waiter_ends_and_takes_no_lock() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let file = mounts.b.open("file");
    for ofd in [false, true] {
        set_lock(&file, Lock::Ofd, libc::F_WRLCK, 0, 0).expect("the lock is free");
        let child = holder(&mounts.a.path("file"), ofd, false);
        // The state of a process that waits for an answer of the server.
        let wait = format!("/proc/{}/wchan", child.id());
        until("the process waits", || {
            fs::read_to_string(&wait).is_ok_and(|text| text.contains("request_wait"))
        });
        end(child);
        set_lock(&file, Lock::Ofd, libc::F_UNLCK, 0, 0).expect("the lock is released");
        until("no process has the lock", || !is_locked(&file, Lock::Ofd));
    }
}

#[test]
fn failed_write_back_is_reported_once_by_sync_and_by_close() {
    let Some(mounts) = Mounts::start(&["--fail-write-back", &libc::EDQUOT.to_string()]) else { return };
    let code = |error: std::io::Error| error.raw_os_error();
    let (first, second) = (mounts.a.open("file"), mounts.a.open("file"));
    write(&first, 0, b"lost");
    assert_eq!(first.sync_all().map_err(code), Err(Some(libc::EDQUOT)));
    assert_eq!(first.sync_all().map_err(code), Ok(()));
    assert_eq!(nix::unistd::close(OwnedFd::from(second)), Err(Errno::EDQUOT));
    assert_eq!(mounts.bytes("file"), b"");
    write(&first, 0, b"kept");
    assert_eq!(nix::unistd::close(OwnedFd::from(first)), Ok(()));
    assert_eq!(mounts.bytes("file"), b"kept");
    let file = mounts.a.open("file");
    write(&file, 0, b"lost");
    mounts.a.fail(libc::ENOSPC);
    assert_eq!(nix::unistd::close(OwnedFd::from(file)), Err(Errno::ENOSPC));
    assert_eq!(mounts.bytes("file"), b"kept");
    assert_eq!(mounts.a.counter("failed_write_backs"), 2);
}

#[test]
fn child_that_closes_its_copy_writes_back_and_hides_no_error() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let file = mounts.a.open("file");
    write(&file, 0, b"lost");
    mounts.a.fail(libc::EIO);
    assert!(Command::new("true").status().expect("true runs").success());
    assert_eq!(mounts.a.counter("failed_write_backs"), 1);
    assert_eq!(file.sync_all().map_err(|error| error.raw_os_error()), Err(Some(libc::EIO)));
    assert_eq!(nix::unistd::close(OwnedFd::from(file)), Ok(()));
}

#[test]
fn failed_write_back_before_a_lock_fails_the_lock_and_before_an_unlock_the_sync() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let file = mounts.a.open("file");
    write(&file, 0, b"lost");
    mounts.a.fail(libc::EIO);
    assert_eq!(set_lock(&file, Lock::Ofd, libc::F_WRLCK, 0, 0), Err(Errno::EIO));
    assert!(!is_locked(&mounts.b.open("file"), Lock::Ofd));
    assert_eq!(file.sync_all().map_err(|error| error.raw_os_error()), Err(Some(libc::EIO)));
    set_lock(&file, Lock::Ofd, libc::F_WRLCK, 0, 0).expect("the lock is free");
    write(&file, 0, b"lost");
    mounts.a.fail(libc::ENOSPC);
    set_lock(&file, Lock::Ofd, libc::F_UNLCK, 0, 0).expect("the lock is released");
    assert_eq!(file.sync_all().map_err(|error| error.raw_os_error()), Err(Some(libc::ENOSPC)));
}

#[test]
fn deleted_and_renamed_files_stay_usable() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    fs::remove_file(mounts.a.path("file")).expect("the file is removed");
    write(&a, 0, b"still there");
    a.sync_all().expect("the file is synced");
    set_lock(&b, Lock::Ofd, libc::F_WRLCK, 0, 0).expect("the lock is free");
    assert_eq!(read(&b, 0, 20), b"still there");
    assert_eq!(a.metadata().expect("the file has attributes").nlink(), 0);
    // The name is cached on the other mount, whose open asks again.
    let found = File::open(mounts.b.path("file")).map_err(|error| error.kind());
    assert_eq!(found.map(drop), Err(ErrorKind::NotFound));
    let renamed = mounts.a.open("old");
    fs::rename(mounts.a.path("old"), mounts.a.path("new")).expect("the file is renamed");
    write(&renamed, 0, b"renamed");
    drop(renamed);
    assert_eq!(fs::read(mounts.b.path("new")).expect("the file is read"), b"renamed");
}

#[test]
fn names_and_attributes_are_those_of_the_backing_folder() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let (a, b) = (|name| mounts.a.path(name), |name| mounts.b.path(name));
    fs::create_dir_all(a("one/two")).expect("the folders are made");
    assert_eq!(File::create_new(a("one/file")).map(drop).map_err(|error| error.kind()), Ok(()));
    let again = File::create_new(b("one/file")).map(drop).map_err(|error| error.kind());
    assert_eq!(again, Err(ErrorKind::AlreadyExists));
    symlink("file", a("one/link")).expect("the link is made");
    assert_eq!(fs::read_link(b("one/link")).expect("a link"), Path::new("file"));
    fs::hard_link(a("one/file"), a("one/hard")).expect("the link is made");
    fs::set_permissions(a("one/file"), fs::Permissions::from_mode(0o640)).expect("the mode is set");
    let (here, there) = (fs::metadata(b("one/hard")), fs::metadata(mounts.backing("one/file")));
    let (here, there) = (here.expect("attributes"), there.expect("attributes"));
    assert_eq!((here.ino(), here.mode(), here.nlink()), (there.ino(), 0o100_640, 2));
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_234_500);
    let file = File::options().write(true).open(a("one/file")).expect("opened");
    file.set_modified(time).expect("the time is set");
    drop(file);
    let modified = fs::metadata(mounts.backing("one/file")).and_then(|found| found.modified());
    assert_eq!(modified.expect("attributes"), time);
    nix::unistd::mkfifo(&a("one/fifo"), nix::sys::stat::Mode::S_IRWXU).expect("made");
    assert!(fs::metadata(b("one/fifo")).expect("attributes").file_type().is_fifo());
    let mut names: Vec<_> =
        fs::read_dir(b("one")).expect("listed").map(|entry| entry.expect("listed").file_name()).collect();
    names.sort();
    assert_eq!(names, ["fifo", "file", "hard", "link", "two"]);
    assert_eq!(fs::remove_dir(b("one")).map_err(|error| error.kind()), Err(ErrorKind::DirectoryNotEmpty));
    fs::remove_dir_all(b("one")).expect("removed");
    assert!(!mounts.backing("one").exists());
    let space = nix::sys::statvfs::statvfs(&mounts.a.point).expect("the space is known");
    assert_eq!(space.blocks(), nix::sys::statvfs::statvfs(&mounts.backing("")).expect("known").blocks());
}

#[test]
fn space_is_reserved_in_the_backing_file() {
    let Some(mounts) = Mounts::start(&[]) else { return };
    let file = mounts.a.open("file");
    write(&file, 0, b"bytes");
    nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, 10_000).expect("reserved");
    assert_eq!(mounts.bytes("file").len(), 10_000);
    assert_eq!(mounts.bytes("file")[..5], *b"bytes");
    assert_eq!(read(&file, 9_000, 9_000).len(), 1_000);
}

#[test]
fn server_ends_with_its_input_and_by_a_signal_and_writes_back() {
    let Some(mut mounts) = Mounts::start(&[]) else { return };
    let (a, b) = (mounts.a.open("a"), mounts.b.open("b"));
    write(&a, 0, b"dirty");
    write(&b, 0, b"dirty");
    mounts.a.end_input();
    assert!(mounts.a.wait());
    kill(Pid::from_raw(mounts.b.server.id() as i32), Signal::SIGTERM).expect("the server lives");
    assert!(mounts.b.wait());
    assert_eq!((mounts.bytes("a"), mounts.bytes("b")), (b"dirty".to_vec(), b"dirty".to_vec()));
    for (file, mount) in [(&a, &mounts.a), (&b, &mounts.b)] {
        let ended = file.read_at(&mut [0], 0).map_err(|error| error.raw_os_error());
        assert_eq!(ended, Err(Some(libc::ENOTCONN)));
        assert_eq!(fs::read_dir(&mount.point).expect("no mount").count(), 0, "the mount stays");
    }
}

#[test]
fn killed_server_leaves_enotconn_and_no_locks_and_can_be_replaced() {
    let Some(mut mounts) = Mounts::start(&[]) else { return };
    let (a, b) = (mounts.a.open("file"), mounts.b.open("file"));
    set_lock(&a, Lock::Posix, libc::F_WRLCK, 0, 0).expect("the lock is free");
    mounts.a.server.kill().expect("the server is killed");
    assert!(!mounts.a.wait());
    let number = |ended: std::io::Result<()>| ended.expect_err("the server is gone").raw_os_error();
    assert_eq!(number(a.sync_all()), Some(libc::ENOTCONN));
    assert_eq!(number(File::open(mounts.a.path("file")).map(drop)), Some(libc::ENOTCONN));
    until("the locks of the server are free", || !is_locked(&b, Lock::Posix));
    let again = Mount::start(&mounts.backing(""), &mounts.a.point, &[]);
    write(&again.open("file"), 0, b"again");
    assert_eq!(mounts.bytes("file"), b"again");
}

#[test]
fn wrong_folder_is_a_clear_error() {
    let program = env!("CARGO_BIN_EXE_cached-fs");
    let output = Command::new(program).args(["/nowhere", "/"]).output().expect("the program starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere: "), "{output:?}");
}
