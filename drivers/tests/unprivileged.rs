//! Calls that the system refuses to a user. This test is a separate program, because it changes the user
//! of the process: the system refuses nothing to root.

use capulet_drivers::posix::PosixDriver;
use capulet_drivers::{Driver, ErrorKind, OpenOptions};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

#[test]
fn forbidden_call_is_a_permission_error() {
    const NOBODY: libc::uid_t = 65_534;
    let folder = TempDir::new().unwrap();
    let set_mode =
        |path: &std::path::Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let (closed, open) = (folder.path().join("closed"), folder.path().join("open"));
    fs::write(&closed, b"secret").unwrap();
    fs::write(&open, b"public").unwrap();
    set_mode(&closed, 0);
    set_mode(&open, 0o444);
    set_mode(folder.path(), 0o555);
    // SAFETY: geteuid(2) returns a number and cannot fail.
    let was_root = unsafe { libc::geteuid() } == 0;
    if was_root {
        // SAFETY: seteuid(2) takes a number. It changes the user of all threads, and this is the only
        // test of the program, so no other code depends on the user.
        assert_eq!(unsafe { libc::seteuid(NOBODY) }, 0);
    }
    let driver = PosixDriver::new();
    let kind = |path, options| driver.open(path, &options).unwrap_err().kind();
    assert_eq!(kind(&closed, OpenOptions::read()), ErrorKind::Permission);
    assert_eq!(kind(&open, OpenOptions::read_write()), ErrorKind::Permission);
    assert_eq!(kind(&folder.path().join("new"), OpenOptions::write().create(true)), ErrorKind::Permission);
    assert_eq!(driver.delete(&open).unwrap_err().kind(), ErrorKind::Permission);
    driver.open(&open, &OpenOptions::read()).unwrap();
    if was_root {
        // SAFETY: seteuid(2) takes a number, and no other code of the program depends on the user.
        assert_eq!(unsafe { libc::seteuid(0) }, 0);
    }
    set_mode(folder.path(), 0o755);
}
