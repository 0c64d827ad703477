//! Full storages: a memory driver and a real file system with little space.

use capulet_drivers::conformance::{check_full, numbered};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::posix::{FilesystemKind, PosixDriver, filesystem_kind};
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Driver, DriverFileExt, ErrorKind, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

const FREE_BYTES: u64 = 256 << 10;

#[test]
fn full_memory_keeps_the_contract() {
    let driver = MemDriver::with_capacity(FREE_BYTES);
    check_full(Arc::new(driver.clone()), &numbered("folder".into()), FREE_BYTES);
    assert_eq!(driver.used_bytes(), 0, "the space of deleted files is free again");
}

#[test]
fn full_memory_keeps_the_contract_in_small_steps() {
    let driver = MemDriver::with_capacity(FREE_BYTES);
    let plan = FaultPlan::parse("any@*:pieces=1000").unwrap();
    check_full(Arc::new(Faulty::new(Arc::new(driver), plan)), &numbered("folder".into()), FREE_BYTES);
}

/// A separate file system in memory. The drop unmounts it.
struct Mount(TempDir);

impl Mount {
    fn new() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let options = format!("size={FREE_BYTES}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn full_file_system_keeps_the_contract() {
    let Some(mount) = Mount::new() else {
        // Only root may mount. `/dev/full` returns the same error for single writes.
        println!("skipped: no file system could be mounted; testing /dev/full instead");
        let file = PosixDriver::new().open(Path::new("/dev/full"), &OpenOptions::write()).unwrap();
        assert_eq!(file.write_all_at(0, b"x").unwrap_err().kind(), ErrorKind::NoSpace);
        return;
    };
    assert_eq!(filesystem_kind(mount.0.path()).unwrap(), FilesystemKind::Tmpfs);
    check_full(Arc::new(PosixDriver::new()), &numbered(mount.0.path().to_path_buf()), FREE_BYTES);
}
