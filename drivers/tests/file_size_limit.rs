//! The limit of the process on file sizes. This test is a separate program, because the limit and the signal
//! handler belong to the process.

use capulet_drivers::posix::PosixDriver;
use capulet_drivers::{Batch, Driver, DriverFileExt, ErrorKind, OpenOptions, Transfer};
use tempfile::TempDir;

const LIMIT_BYTES: u64 = 10_000;

fn limit_file_size(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: setrlimit(2): the pointer is valid during the call, and the kernel only reads the value.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(set, 0);
}

/// Removes the limit when dropped, before a test prints: the standard output may be a file beyond the limit.
struct Limited;

impl Drop for Limited {
    fn drop(&mut self) {
        limit_file_size(libc::RLIM_INFINITY);
    }
}

#[test]
fn write_beyond_the_limit_is_too_large() {
    let folder = TempDir::new().unwrap();
    let file = PosixDriver::new()
        .open(&folder.path().join("file"), &OpenOptions::read_write().create(true))
        .unwrap();
    // SAFETY: signal(2): `SIG_IGN` is a valid handler. No other thread of this program changes signal
    // handlers.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit_file_size(LIMIT_BYTES);
    let limited = Limited;
    let data = vec![7; 8000];
    let batch = Batch::write(vec![Transfer::from_memory(0, &data), Transfer::from_memory(8000, &data)]);
    let result = file.submit(batch).wait();
    let length = file.len();
    let longer = file.set_len(LIMIT_BYTES + 1);
    let reserved = file.preallocate(LIMIT_BYTES * 2);
    let last = file.write_all_at(LIMIT_BYTES - 1, b"x");
    drop(limited);

    let error = result.error.unwrap();
    assert_eq!(
        (result.bytes, error.kind(), error.offset()),
        (LIMIT_BYTES, ErrorKind::TooLarge, Some(LIMIT_BYTES))
    );
    assert_eq!(length.unwrap(), LIMIT_BYTES);
    assert_eq!(longer.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(reserved.unwrap_err().kind(), ErrorKind::TooLarge);
    last.unwrap();
}
