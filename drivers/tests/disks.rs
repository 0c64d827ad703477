//! Small pieces on real file systems: the calls that write them, and the effect of a disk that fills up. A
//! `SIGBUS` would end this program. Only root may mount the disks. For other users each test reports what it
//! skips.

use capulet_drivers::posix::PosixDriver;
use capulet_drivers::{Batch, Driver, DriverFile, ErrorKind, OpenOptions, Transfer};
use capulet_job::disk::{Format, device_of, with_disk};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PIECES: u64 = 512;
const PIECE_BYTES: usize = 16;
const PERIOD_BYTES: u64 = 64;

fn on_disk(format: &Format, test: impl FnOnce(&Path) + Send) {
    let folder = TempDir::new().unwrap();
    if let Err(reason) = with_disk(folder.path(), format, test) {
        let name = format.make.join(" ");
        // Written to the stream directly, because the test harness hides the output of `eprintln!` in a test
        // that passes.
        let _ = writeln!(std::io::stderr(), "skipped: small pieces after `{name}`: {reason}");
    }
}

fn opened(path: &Path) -> Arc<dyn DriverFile> {
    PosixDriver::new().open(path, &OpenOptions::read_write().create(true)).unwrap()
}

/// Writes pieces of `mark` from `start` on. Returns the number of bytes written, and the error.
fn store(file: &dyn DriverFile, start: u64, mark: u8) -> (u64, Option<ErrorKind>) {
    let piece = [mark; PIECE_BYTES];
    let pieces = (0..PIECES).map(|at| Transfer::from_memory(start + at * PERIOD_BYTES, &piece));
    let result = file.submit(Batch::write(pieces.collect())).wait();
    (result.bytes, result.error.map(|error| error.kind()))
}

/// Checks through the standard library that the file has the first `bytes` bytes of the pieces.
fn check(path: &Path, start: u64, mark: u8, bytes: u64) {
    let file = File::open(path).unwrap();
    for at in 0..bytes / PIECE_BYTES as u64 {
        let mut piece = [0; PIECE_BYTES];
        file.read_exact_at(&mut piece, start + at * PERIOD_BYTES).unwrap();
        assert_eq!(piece, [mark; PIECE_BYTES], "piece {at} at {start} was reported as written");
    }
}

/// Fills the disk by writing to `path`.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for bytes in [1 << 20, 4096] {
        let block = vec![1; bytes];
        while file.write_all(&block).is_ok() {}
    }
}

/// Writes pieces over old bytes, and returns the number of writing calls. `PIECES` means one call per piece.
fn writes(folder: &Path) -> u64 {
    let path = folder.join("file");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let file = opened(&path);
    assert_eq!(store(&*file, 0, 7), (PIECES * PIECE_BYTES as u64, None));
    check(&path, 0, 7, PIECES * PIECE_BYTES as u64);
    file.system_calls().writes
}

#[test]
fn pieces_are_stored_only_where_stores_are_safe() {
    for (format, expected) in
        [(Format::EXT4, 0), (Format::XFS, PIECES), (Format::XFS_REFLINK, PIECES), (Format::BTRFS, PIECES)]
    {
        on_disk(&format, |folder| assert_eq!(writes(folder), expected, "{format:?}"));
    }
}

/// Bytes that were written before can be overwritten on a full disk through a kept mapping, also after the
/// writeback of their pages. A write to a hole is an error.
fn overwrite_on_a_full_disk(folder: &Path) {
    let path = folder.join("file");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let file = opened(&path);
    file.set_len(40 << 20).unwrap();
    let all = PIECES * PIECE_BYTES as u64;
    assert_eq!(store(&*file, 0, 1), (all, None));
    file.sync().unwrap();
    fill(&folder.join("greedy"));
    for round in 2..50 {
        assert_eq!(store(&*file, 0, round), (all, None), "round {round}");
        check(&path, 0, round, all);
        if round % 8 == 0 {
            file.sync().unwrap();
        }
    }
    // Holes, from the one in reach of the mapping to one that fills all its pages.
    let mut is_full = false;
    for place in 1..30 {
        let (bytes, error) = store(&*file, place << 20, 3);
        check(&path, place << 20, 3, bytes);
        assert!(matches!(error, None | Some(ErrorKind::NoSpace)), "{error:?}");
        is_full |= error.is_some();
    }
    assert!(is_full, "the disk is full, but it took every piece");
}

#[test]
fn full_disk_takes_overwrites_and_refuses_writes_to_holes() {
    on_disk(&Format::EXT4, overwrite_on_a_full_disk);
    on_disk(&Format::XFS, overwrite_on_a_full_disk);
}

/// Two writers overwrite small pieces of a file, while the disk is filled several times and pages of the
/// file are written back.
fn overwrite_while_the_disk_fills(folder: &Path) {
    const PART_BYTES: u64 = 4 << 20;
    const PART_PIECES: u64 = PART_BYTES / 512;
    let path = folder.join("file");
    std::fs::write(&path, vec![0; 2 * PART_BYTES as usize]).unwrap();
    let is_over = AtomicBool::new(false);
    let write = |start: u64| {
        let file = opened(&path);
        for round in (1..=u8::MAX).cycle() {
            let piece = [round; 256];
            let pieces = (0..PART_PIECES).map(|at| Transfer::from_memory(start + at * 512, &piece));
            let result = file.submit(Batch::write(pieces.collect())).wait();
            let error = result.error.map(|error| error.kind());
            assert!(matches!(error, None | Some(ErrorKind::NoSpace)), "{error:?}");
            check_part(&path, start, round, result.bytes);
            if is_over.load(Relaxed) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(0));
        scope.spawn(|| write(PART_BYTES));
        // Writes pages back while other threads store to them.
        scope.spawn(|| {
            let file = File::open(&path).unwrap();
            while !is_over.load(Relaxed) {
                let _ = file.sync_data();
            }
        });
        for _ in 0..4 {
            fill(&folder.join("greedy"));
        }
        is_over.store(true, Relaxed);
    });
}

/// Like [`check`], for pieces of 256 bytes every 512 bytes.
fn check_part(path: &Path, start: u64, mark: u8, bytes: u64) {
    let mut found = vec![0; bytes as usize * 2];
    File::open(path).unwrap().read_exact_at(&mut found, start).unwrap();
    for (at, piece) in found.chunks(512).enumerate() {
        assert!(
            piece[..256].iter().all(|byte| *byte == mark),
            "piece {at} at {start} was reported as written"
        );
    }
}

#[test]
fn disk_that_fills_up_is_an_error_and_no_signal() {
    // On ext4 pieces are stored through mappings. Btrfs, where stores are not safe, is filled under two ranks
    // by `tests/mpi/rewrites.c`.
    for format in [Format::EXT4, Format::XFS] {
        on_disk(&format, overwrite_while_the_disk_fills);
    }
}

/// Stops a disk: an ext4 finds an error and refuses writes from then on, an XFS is shut down.
fn stop(folder: &Path, format: &Format) {
    if format.kind == "xfs" {
        let done = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(folder).status();
        assert!(done.unwrap().success());
        return;
    }
    let device = device_of(folder).unwrap();
    let place = Path::new("/sys/fs/ext4").join(device.file_name().unwrap());
    std::fs::write(place.join("trigger_fs_error"), "a test").unwrap();
}

/// Four writers overwrite small pieces of a file until an error, while pages are written back and the disk
/// stops.
fn overwrite_while_the_disk_stops(folder: &Path, format: &Format) {
    const PART_BYTES: u64 = 2 << 20;
    let path = folder.join("file");
    std::fs::write(&path, vec![0; 4 * PART_BYTES as usize]).unwrap();
    let (batches, begun) = (AtomicU64::new(0), Instant::now());
    let is_in_time = || begun.elapsed() < Duration::from_secs(60);
    let write = |file: Arc<dyn DriverFile>, start: u64| {
        let piece = [7; 256];
        while is_in_time() {
            let pieces = (0..PART_BYTES / 512).map(|at| Transfer::from_memory(start + at * 512, &piece));
            if let Some(error) = file.submit(Batch::write(pieces.collect())).wait().error {
                assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Io), "{error}");
                return;
            }
            batches.fetch_add(1, Relaxed);
        }
        panic!("the disk has not stopped");
    };
    let synced = File::open(&path).unwrap();
    std::thread::scope(|scope| {
        for part in 0..4 {
            let (write, file) = (&write, opened(&path));
            scope.spawn(move || write(file, part * PART_BYTES));
        }
        scope.spawn(|| while is_in_time() && synced.sync_data().is_ok() {});
        while is_in_time() && batches.load(Relaxed) < 16 {
            std::thread::yield_now();
        }
        stop(folder, format);
    });
}

#[test]
fn disk_that_stops_is_an_error_and_no_signal() {
    // Stores through a mapping on XFS ended the process in half of the runs.
    for format in [Format { options: "errors=remount-ro", ..Format::EXT4 }, Format::XFS] {
        for _ in 0..5 {
            on_disk(&format, |folder| overwrite_while_the_disk_stops(folder, &format));
        }
    }
}
