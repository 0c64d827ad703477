//! Tests of batches that are stored through a mapping, on the file systems of this machine.

use super::io::RealIo;
use super::mapped::plan;
use super::tests::pattern;
use super::{FilesystemKind, PosixDriver};
use crate::{Batch, Caps, Driver, DriverFile, DriverFileExt, ErrorKind, OpenOptions, Transfer};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

#[test]
fn many_small_pieces_are_stored_without_writing_calls() {
    let folder = TempDir::new().unwrap();
    let open = |access: OpenOptions| {
        PosixDriver::new().open(&folder.path().join("file"), &access.create(true)).unwrap()
    };
    let data = pattern(8 * 100);
    let pieces = |period: u64| {
        let piece = |at: usize| Transfer::from_memory(at as u64 * period, &data[at * 8..at * 8 + 8]);
        Batch::write((0..100).map(piece).collect())
    };
    let calls = |file: &dyn DriverFile, batch: Batch<'_>| {
        let before = file.system_calls();
        let result = file.submit(batch).wait();
        assert!(result.error.is_none() && result.bytes == 800);
        let after = file.system_calls();
        (after.writes - before.writes, after.other - before.other)
    };
    let file = open(OpenOptions::read_write());
    if is_in_memory(&*file) {
        println!("skipped: a file system in memory");
        return;
    }
    assert_eq!(calls(&*file, pieces(64)), (0, 4));
    assert_eq!(file.len().unwrap(), 99 * 64 + 8);
    assert_eq!(calls(&*file, pieces(8)), (1, 0), "adjacent pieces take one call");
    assert_eq!(calls(&*file, pieces(1 << 20)).0, 100, "pages would be nearly empty");
    assert_eq!(calls(&*open(OpenOptions::write()), pieces(64)), (100, 0), "a mapping needs read access");
}

#[test]
fn writers_in_memory_store_pieces_that_are_not_too_far_apart() {
    let data = pattern(4096);
    let is_stored = |count: u64, period: u64, writers: u64| {
        let batch = Batch::write((0..count).map(|i| Transfer::from_memory(i * period, &data)).collect());
        plan(&batch, writers).is_some()
    };
    for (period, expected) in [(8 << 10, true), (16 << 10, true), (32 << 10, false)] {
        assert_eq!(is_stored(1000, period, 2), expected, "a page of each {period} bytes");
        assert!(!is_stored(1000, period, 1), "one writer does not wait");
    }
    assert_eq!([8, 9].map(|pages| is_stored(1000, pages << 12, 64)), [true, false], "of many writers");
    assert_eq!([16, 64].map(|pages| is_stored(pages, 4096, 2)), [false, true], "64 and 256 KiB");
}

/// A folder on a file system in memory. `None`, with a message, if the machine has none.
fn folder_in_memory() -> Option<TempDir> {
    let folder = tempfile::tempdir_in("/dev/shm").ok();
    let folder = folder.filter(|folder| is_in_memory(&*opened(&folder.path().join("probe"))));
    if folder.is_none() {
        eprintln!("skipped: /dev/shm is no file system in memory");
    }
    folder
}

fn is_in_memory(file: &dyn DriverFile) -> bool {
    file.caps().contains(Caps::IN_MEMORY)
}

fn is_of_whole_pages(file: &dyn DriverFile) -> bool {
    file.layout().block_bytes >= 4096
}

/// A batch that writes 100 marks, one every 64 bytes from `start` on.
fn marks(start: u64, mark: &[u8; 8]) -> Batch<'_> {
    Batch::write((0..100).map(|at| Transfer::from_memory(start + at * 64, mark)).collect())
}

fn opened(path: &Path) -> Arc<dyn DriverFile> {
    PosixDriver::new().open(path, &OpenOptions::read_write().create(true)).unwrap()
}

/// Writes marks, and returns the number of writing and of other calls. Checks that the file has the
/// marks, and zeros between them.
fn store(file: &dyn DriverFile, start: u64, mark: u8) -> (u64, u64) {
    let before = file.system_calls();
    assert_eq!(file.submit(marks(start, &[mark; 8])).wait().into_result().unwrap(), 800);
    let after = file.system_calls();
    let mut found = vec![1; 100 * 64 - 56];
    assert_eq!(file.read_at(start, &mut found).unwrap(), found.len());
    let expected = |at: usize| if at % 64 < 8 { mark } else { 0 };
    assert!(found.iter().enumerate().all(|(at, byte)| *byte == expected(at)), "wrong bytes");
    (after.writes - before.writes, after.other - before.other)
}

#[test]
fn mapping_is_kept_for_the_same_and_the_following_bytes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let file = opened(&path);
    if is_in_memory(&*file) || !is_of_whole_pages(&*file) {
        println!("skipped: a file system in memory, or of blocks smaller than pages");
        return;
    }
    file.set_len(100 << 20).unwrap();
    assert_eq!(store(&*file, 5 << 20, 1), (0, 4), "reserve, map, unmap, populate");
    assert_eq!(store(&*file, 5 << 20, 2), (1, 2), "length and populate, and a write for the change time");
    assert_eq!(store(&*file, 35 << 20, 3), (1, 2), "the mapping covers 32 MiB");
    assert_eq!(store(&*file, 36 << 20, 4), (0, 4), "behind the mapping");
    assert_eq!(store(&*file, 4 << 20, 5), (0, 4), "before the mapping");
    // Pages that another handle truncates are allocated again with zeros.
    opened(&path).set_len(4 << 20).unwrap();
    assert_eq!(store(&*file, 5 << 20, 6), (1, 3), "with a new reservation");
    opened(&path).set_len(0).unwrap();
    opened(&path).set_len(100 << 20).unwrap();
    assert_eq!(store(&*file, 5 << 20, 7), (1, 2));
}

#[test]
fn no_mapping_is_kept_where_blocks_may_be_smaller_than_pages() {
    let Some(folder) = folder_in_memory() else { return };
    let driver = PosixDriver { io: Arc::new(RealIo), assumed: Some(FilesystemKind::Ext) };
    let options = OpenOptions::read_write().create(true);
    let file = driver.open(&folder.path().join("file"), &options).unwrap();
    for mark in 1..4 {
        assert_eq!(store(&*file, 0, mark), (0, 4), "reserve, map, unmap, populate");
    }
}

#[test]
fn write_to_a_sealed_file_is_an_error() {
    let memory = memfd_create(c"file", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let file = opened(Path::new(&format!("/proc/self/fd/{}", memory.as_raw_fd())));
    assert_eq!(store(&*file, 0, 1), (1, 5), "through a mapping");
    // With this seal, existing mappings may be stored to, and all other writes fail.
    fcntl(&memory, FcntlArg::F_ADD_SEALS(SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE))).unwrap();
    let error = file.submit(marks(0, &[2; 8])).wait().into_result().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission);
}

#[test]
fn threads_store_at_the_same_time() {
    let folder = TempDir::new().unwrap();
    let file = opened(&folder.path().join("file"));
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..100_u64 {
                    store(&**file, (round % 7) << 20 | u64::from(thread) << 14, thread + 1);
                }
            });
        }
    });
}

#[test]
fn writers_in_memory_store_to_existing_pages_only() {
    const BYTES: usize = 1 << 20;
    let Some(folder) = folder_in_memory() else { return };
    let path = folder.path().join("file");
    let open = |writers| {
        let options = OpenOptions::read_write().create(true).writers(writers);
        PosixDriver::new().open(&path, &options).unwrap()
    };
    let data = pattern(BYTES);
    let writes = |file: &dyn DriverFile, batch: Batch<'_>| {
        let (before, bytes) = (file.system_calls().writes, batch.bytes());
        assert_eq!(file.submit(batch).wait().into_result().unwrap(), bytes);
        file.system_calls().writes - before
    };
    let whole = |at: u64| Batch::write(vec![Transfer::from_memory(at, &data)]);
    let (alone, several) = (open(1), open(1000));
    assert_eq!(writes(&*several, whole(5)), 1, "calls allocate pages faster");
    assert_eq!(writes(&*alone, whole(5)), 1, "one writer does not wait");
    let several_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    // The batch is stored, and one call writes the last byte again for the change time.
    assert_eq!(writes(&*several, whole(5)), 1);
    assert_eq!(several.system_calls().other, if several_cores { 4 + 1 + 1 + 2 + 3 + 5 } else { 4 });
    let mut found = vec![0; BYTES + 5];
    assert_eq!(alone.read_at(0, &mut found).unwrap(), BYTES + 5);
    assert!(found[5..] == data && found[..5] == [0; 5], "wrong bytes");
    // One page lies behind the end of the file, so no page is stored.
    assert_eq!(writes(&*several, whole(4096 + 5)), 1);
    // Some pages are in a hole.
    alone.set_len(BYTES as u64 / 2).unwrap();
    alone.set_len(2 * BYTES as u64).unwrap();
    let before = several.system_calls().other;
    assert_eq!(writes(&*several, whole(0)), 1);
    let looked = several.system_calls().other - before;
    assert_eq!(looked, if several_cores { 1 + 3 } else { 0 }, "the hole is found, and nothing is stored");
    assert_eq!(writes(&*several, whole(0)), 1);
    // Pieces that cover a part of each page leave the bytes between them unchanged.
    let marks = vec![0xa5; 1000];
    let pieces = (0..512).map(|at| Transfer::from_memory(at * 2048 + 24, &marks)).collect();
    assert_eq!(writes(&*several, Batch::write(pieces)), 1);
    let mut expected = data.clone();
    for piece in expected.chunks_exact_mut(2048) {
        piece[24..1024].fill(0xa5);
    }
    let mut found = vec![0; BYTES];
    assert_eq!(alone.read_at(0, &mut found).unwrap(), BYTES);
    assert!(found == expected, "wrong bytes");
    assert_eq!(alone.len().unwrap(), 2 * BYTES as u64);
}

#[test]
fn stores_update_the_change_time() {
    for folder in [folder_in_memory(), TempDir::new().ok()] {
        let Some(folder) = folder else { continue };
        let path = folder.path().join("file");
        let file = opened(&path);
        store(&*file, 0, 1);
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        std::fs::File::options().write(true).open(&path).unwrap().set_times(times_of(past)).unwrap();
        store(&*file, 0, 2);
        let writes = if is_in_memory(&*file) { 2 } else { u64::from(is_of_whole_pages(&*file)) };
        assert_eq!(
            file.system_calls().writes,
            writes,
            "one write for each batch that the file system does not notice"
        );
        assert!(std::fs::metadata(&path).unwrap().modified().unwrap() > past);
    }
}

fn times_of(modified: SystemTime) -> std::fs::FileTimes {
    std::fs::FileTimes::new().set_modified(modified)
}

#[test]
fn transfers_without_bytes_are_not_stored() {
    let folder = TempDir::new().unwrap();
    let file = PosixDriver::new()
        .open(&folder.path().join("file"), &OpenOptions::read_write().create(true))
        .unwrap();
    let piece = |at: u64| Transfer::from_memory(at * 64, &[7; 8]);
    let empty = |offset: u64| Transfer::from_memory(offset, &[]);
    let all = (0..64).flat_map(|at| [empty(at * 64 + 20), piece(at + 1)]).chain([empty(100_000)]);
    assert_eq!(file.submit(Batch::write(all.collect())).wait().into_result().unwrap(), 64 * 8);
    assert_eq!(file.len().unwrap(), 64 * 64 + 8);
    let mut found = [1; 80];
    assert_eq!(file.read_at(0, &mut found).unwrap(), 80);
    assert!(found[..64] == [0; 64] && found[64..72] == [7; 8] && found[72..] == [0; 8]);
}
