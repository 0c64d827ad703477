//! Reads of a file on a disk, after the system's cache of the file was dropped.

use std::fs::File;
use std::sync::Arc;

use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::posix::PosixDriver;
use capulet_drivers::{Caps, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::{Access, Counters, Direction, Holes, Memory, Sieves, Target, independent};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

const FILE_BYTES: usize = 8 << 20;

/// Reads `bytes` bytes of each `period_bytes`, compares them with the expected bytes, and returns the
/// number of pieces.
fn read(file: &Arc<dyn DriverFile>, bytes: u64, period_bytes: u64) -> u64 {
    let count = FILE_BYTES as u64 / period_bytes;
    let byte = Datatype::named(Named::Byte);
    let view = Datatype::hvector(count, bytes, period_bytes as i64, &byte).expect("the datatype is valid");
    let plain = Datatype::contiguous(count * bytes, &byte).expect("the datatype is valid");
    let tiled = |datatype: &Datatype| Tiled::new(datatype.layout().clone(), 1).expect("the tiling is small");
    let mut memory = vec![0_u8; (count * bytes) as usize];
    // SAFETY: `# Safety` of `Memory::new`: `plain` has as many bytes as `memory`, which outlives the
    // access.
    let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled(&plain)) };
    let access = Access::new(0, &tiled(&view), 0, user, count * bytes).expect("the offsets are small");
    let counters = Arc::new(Counters::default());
    let target = Target {
        file: file.clone(),
        isolation: None,
        counters: counters.clone(),
        holes: Holes::Untouched,
        sieves: Sieves::default(),
    };
    let done = independent::run(&target, &access, Direction::Read);
    assert!(done.error.is_none() && done.bytes == count * bytes);
    for (piece, index) in memory.chunks(bytes as usize).zip(0_u64..) {
        let start = index * period_bytes;
        assert!(piece.iter().zip(start..).all(|(byte, at)| *byte == content(at)), "piece {index}");
    }
    Counters::get(&counters.pieces)
}

fn content(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

#[test]
fn cold_reads_use_the_sieve_buffer_and_hot_reads_use_calls() {
    let folder = tempfile::tempdir().expect("a temporary folder is created");
    let path = folder.path().join("file");
    let file =
        PosixDriver::new().open(&path, &OpenOptions::read_write().create(true)).expect("the file opens");
    let contents: Vec<u8> = (0..FILE_BYTES as u64).map(content).collect();
    file.write_all_at(0, &contents).expect("the disk has room");
    let pieces = FILE_BYTES as u64 / 16384;
    assert_eq!(read(&file, 4096, 16384), pieces);
    if file.caps().contains(Caps::IN_MEMORY) || file.would_wait(0).is_none() {
        println!(
            "rest skipped: the files are in memory, or the file system cannot tell which bytes are cached"
        );
        return;
    }
    let drop_cache = || {
        file.sync().expect("the file is synced");
        let other = File::open(&path).expect("the file opens again");
        posix_fadvise(&other, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .expect("the system drops the cache");
    };
    let calls = || file.system_calls();
    drop_cache();
    // Counting cached pages takes one call, and the length another. Trying to read takes one.
    let before = calls().other;
    if file.would_wait(FILE_BYTES as u64 - 1) != Some(true) || calls().other - before != 2 {
        println!("rest skipped: the query itself reads the bytes (Linux before 6.5), or the cache is kept");
        return;
    }
    let before = calls();
    assert_eq!(read(&file, 4096, 16384), FILE_BYTES as u64 / (256 << 10), "sieve buffers of 256 KiB");
    assert_eq!((calls().reads - before.reads, calls().other - before.other), (32, 2));
    assert_eq!(read(&file, 4096, 16384), pieces, "the bytes are cached now");
    drop_cache();
    let before = calls();
    let apart = FILE_BYTES as u64 / 65536;
    assert_eq!(read(&file, 4096, 65536), apart, "runs that are far apart are read piece by piece");
    assert_eq!(
        (calls().reads - before.reads, calls().other - before.other),
        (apart, 2 + apart),
        "the cache is queried, and the pieces are read ahead"
    );
    let before = calls();
    assert_eq!(read(&file, 4096, 65536), apart);
    assert_eq!(
        (calls().reads - before.reads, calls().other - before.other),
        (apart, 1),
        "the pieces are cached"
    );
}
