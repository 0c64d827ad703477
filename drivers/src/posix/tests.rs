//! Tests of the posix driver only: the calls of a batch, and the reaction to failures of the system.

use super::io::Backoff;
use super::scripted::{Call, ScriptedIo, Step};
use super::*;
use crate::{Batch, Caps, Direction, DriverFileExt, ErrorKind, LockMode, Segment, Transfer};
use nix::errno::Errno;
use tempfile::TempDir;

struct Setting {
    io: Arc<ScriptedIo>,
    file: Arc<dyn DriverFile>,
    _folder: TempDir,
}

fn with_script(io: ScriptedIo) -> Setting {
    let folder = TempDir::new().unwrap();
    let io = Arc::new(io);
    let driver = PosixDriver::with_io(Arc::clone(&io) as Arc<dyn SystemIo>);
    let file = driver.open(&folder.path().join("file"), &OpenOptions::read_write().create(true)).unwrap();
    Setting { io, file, _folder: folder }
}

fn steps(steps: &[Step]) -> Setting {
    with_script(ScriptedIo::new(steps.iter().copied(), None))
}

pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251) as u8).collect()
}

#[test]
fn interrupted_and_short_writes_write_all_bytes() {
    let setting = steps(&[
        Step::Fail(Errno::EINTR),
        Step::Short(3),
        Step::Fail(Errno::EINTR),
        Step::Fail(Errno::EAGAIN),
        Step::Short(1),
    ]);
    let data = pattern(100);
    setting.file.write_all_at(10, &data).unwrap();
    let mut back = vec![0; 110];
    assert_eq!(setting.file.read_at(0, &mut back).unwrap(), 110);
    assert_eq!((&back[..10], &back[10..]), (&[0; 10][..], &data[..]));
    let calls = setting.file.system_calls();
    assert_eq!((calls.writes, calls.reads, calls.incomplete), (6, 1, 5));
}

#[test]
fn short_vectored_transfers_resume_inside_a_segment() {
    for limit in [1, 2, 3, 5, 7] {
        let setting = with_script(ScriptedIo::new([], Some(Step::Short(limit))));
        let data = pattern(24);
        let pieces = |start: usize, end: usize| Transfer::from_memory(start as u64, &data[start..end]);
        let batch = Batch::write(vec![pieces(0, 4), pieces(4, 5), pieces(5, 16), pieces(16, 24)]);
        let result = setting.file.submit(batch).wait();
        assert!(result.error.is_none() && result.bytes == 24);
        let mut back = [0; 30];
        let (first, rest) = back.split_at_mut(9);
        let batch = Batch::read(vec![Transfer::into_memory(0, first), Transfer::into_memory(9, rest)]);
        let result = setting.file.submit(batch).wait();
        assert!(result.error.is_none() && result.bytes == 24);
        assert_eq!((&back[..24], &back[24..]), (&data[..], &[0; 6][..]));
    }
}

#[test]
fn endless_eagain_ends_as_busy() {
    let setting = with_script(ScriptedIo::new([Step::Short(2)], Some(Step::Fail(Errno::EAGAIN))));
    let data = pattern(10);
    let result = setting.file.submit(Batch::write(vec![Transfer::from_memory(5, &data)])).wait();
    let error = result.error.unwrap();
    assert_eq!((result.bytes, error.kind(), error.offset()), (2, ErrorKind::Busy, Some(7)));
    let paused = setting.io.paused();
    assert!(paused >= Backoff::TOTAL && paused < Backoff::TOTAL * 2, "{paused:?}");
}

#[test]
fn write_call_that_moves_no_bytes_is_an_error() {
    let setting = steps(&[Step::Short(4), Step::Nothing]);
    let data = pattern(10);
    let result = setting.file.submit(Batch::write(vec![Transfer::from_memory(0, &data)])).wait();
    let error = result.error.unwrap();
    assert_eq!((result.bytes, error.kind(), error.offset()), (4, ErrorKind::Io, Some(4)));
}

#[test]
fn error_counts_the_bytes_before_it() {
    let setting = steps(&[Step::Short(6), Step::Fail(Errno::ENOSPC)]);
    let data = pattern(10);
    let batch =
        Batch::write(vec![Transfer::from_memory(0, &data[..4]), Transfer::from_memory(4, &data[4..])]);
    let result = setting.file.submit(batch).wait();
    let error = result.error.unwrap();
    assert_eq!((result.bytes, error.kind(), error.offset()), (6, ErrorKind::NoSpace, Some(6)));
}

#[test]
fn only_adjacent_transfers_share_a_call() {
    let setting = steps(&[]);
    let data = pattern(12);
    let at = |offset: u64, start: usize, end: usize| Transfer::from_memory(offset, &data[start..end]);
    // Two adjacent transfers with a far transfer of no bytes between them, a separate one, and one that goes
    // back.
    let batch = Batch::write(vec![at(0, 0, 4), at(999, 4, 4), at(4, 4, 6), at(100, 6, 8), at(6, 8, 12)]);
    assert_eq!(setting.file.submit(batch).wait().into_result().unwrap(), 12);
    let call = |segments, bytes, offset| Call { segments, bytes, offset };
    assert_eq!(setting.io.calls(), [call(2, 6, 0), call(1, 2, 100), call(1, 4, 6)]);
    assert_eq!(setting.file.len().unwrap(), 102);
}

#[test]
fn stretch_takes_one_call_for_each_1024_segments() {
    let setting = steps(&[]);
    let data = pattern(2500);
    let batch =
        Batch::write(data.chunks(1).zip(0..).map(|(byte, at)| Transfer::from_memory(at, byte)).collect());
    assert_eq!(setting.file.submit(batch).wait().into_result().unwrap(), 2500);
    let calls = setting.io.calls();
    assert_eq!(
        calls.iter().map(|call| (call.segments, call.offset)).collect::<Vec<_>>(),
        [(1024, 0), (1024, 1024), (452, 2048)]
    );
    let mut back = vec![0; 2500];
    assert_eq!(setting.file.read_at(0, &mut back).unwrap(), 2500);
    assert_eq!(back, data);
}

#[test]
fn no_call_moves_more_than_the_system_allows() {
    let setting = with_script(ScriptedIo::pretending());
    let bytes = 5 << 30;
    // SAFETY: `# Safety` of `Segment::from_raw` is for accesses, and `ScriptedIo::pretending` accesses no
    // memory.
    let memory = unsafe { Segment::from_raw(std::ptr::dangling_mut(), bytes) };
    let result = setting.file.submit(Batch::read(vec![Transfer { offset: 1 << 33, memory }])).wait();
    assert!(result.error.is_none() && result.bytes == bytes as u64);
    let calls = setting.io.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.bytes <= 0x7fff_f000));
    assert_eq!(calls[1].offset, (1 << 33) + 0x7fff_f000);
}

#[test]
fn sync_fails_always_after_one_failure() {
    let setting = steps(&[Step::Fail(Errno::EINTR), Step::Fail(Errno::EIO)]);
    for _ in 0..2 {
        assert_eq!(setting.file.sync().unwrap_err().system_code(), Some(libc::EIO));
    }
}

#[test]
fn preallocation_without_fallocate_writes_zeros_behind_the_end_only() {
    let setting = steps(&[Step::Short(5), Step::Fail(Errno::EOPNOTSUPP)]);
    setting.file.write_all_at(0, b"abcde").unwrap();
    let bytes = (5 << 20) + 3;
    setting.file.preallocate(bytes).unwrap();
    assert_eq!(setting.file.len().unwrap(), bytes);
    let writes = &setting.io.calls()[1..];
    assert_eq!(writes.iter().map(|call| call.offset).min(), Some(5));
    assert_eq!(writes.iter().map(|call| call.bytes as u64).sum::<u64>(), bytes - 5);
    let mut back = [1; 8];
    setting.file.read_at(0, &mut back).unwrap();
    assert_eq!(&back, b"abcde\0\0\0");
}

#[test]
fn preallocation_without_fallocate_leaves_a_longer_file_unchanged() {
    let setting = steps(&[Step::Short(5), Step::Fail(Errno::ENOSYS)]);
    setting.file.write_all_at(0, b"abcde").unwrap();
    setting.file.preallocate(3).unwrap();
    assert_eq!((setting.file.len().unwrap(), setting.io.calls().len()), (5, 1));
}

#[test]
fn interrupted_reservation_continues_in_smaller_steps() {
    let interrupted = [Step::Fail(Errno::EINTR); 3];
    let setting = steps(&[&interrupted[..], &[Step::Pass, Step::Fail(Errno::EINTR)]].concat());
    setting.file.preallocate(1 << 20).unwrap();
    let reserved = setting.io.reserved();
    let lengths: Vec<_> = reserved.iter().map(|(_, bytes)| bytes >> 10).collect();
    assert_eq!(lengths[..5], [1024, 512, 256, 128, 128], "KiB: halved at each signal");
    let done: Vec<_> = [&reserved[3..4], &reserved[5..]].concat();
    let ends: Vec<_> = done.iter().map(|(at, bytes)| at + bytes).collect();
    assert!(done.iter().skip(1).map(|(at, _)| at).eq(&ends[..ends.len() - 1]), "{reserved:?}");
    assert_eq!((ends.last(), setting.file.len().unwrap()), (Some(&(1 << 20)), 1 << 20));
    // No step is empty, even after many signals.
    let setting = with_script(ScriptedIo::new([Step::Fail(Errno::EINTR); 60], None));
    setting.file.preallocate(10_000).unwrap();
    assert_eq!(setting.file.len().unwrap(), 10_000);
}

#[test]
fn preallocation_on_a_full_disk_is_no_space() {
    let setting =
        steps(&[Step::Fail(Errno::ENOSPC), Step::Fail(Errno::EOPNOTSUPP), Step::Fail(Errno::ENOSPC)]);
    for _ in 0..2 {
        let error = setting.file.preallocate(10).unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::NoSpace, Operation::Preallocate));
    }
}

#[test]
fn full_device_has_no_space() {
    let file = PosixDriver::new().open(Path::new("/dev/full"), &OpenOptions::write()).unwrap();
    assert_eq!(file.write_all_at(0, b"x").unwrap_err().kind(), ErrorKind::NoSpace);
}

#[test]
fn preallocation_reserves_blocks() {
    use std::os::unix::fs::MetadataExt;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let file = PosixDriver::new().open(&path, &OpenOptions::read_write().create(true)).unwrap();
    file.preallocate(1 << 20).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
}

#[test]
fn pipes_and_folders_are_refused_without_waiting() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let driver = PosixDriver::new();
    let kind = |path: &Path, options: &OpenOptions| driver.open(path, options).unwrap_err().kind();
    assert_eq!(kind(&pipe, &OpenOptions::read()), ErrorKind::Unsupported);
    assert_eq!(kind(folder.path(), &OpenOptions::read()), ErrorKind::BadName);
    assert_eq!(kind(folder.path(), &OpenOptions::read_write()), ErrorKind::BadName);
    assert_eq!(driver.delete(folder.path()).unwrap_err().kind(), ErrorKind::BadName);
    let inside_a_file = folder.path().join("file/inside");
    std::fs::write(folder.path().join("file"), b"").unwrap();
    assert_eq!(kind(&inside_a_file, &OpenOptions::read()), ErrorKind::BadName);
    let no_folder = folder.path().join("none/file");
    assert_eq!(kind(&no_folder, &OpenOptions::read_write().create(true)), ErrorKind::NotFound);
}

#[test]
fn created_file_has_the_permissions_that_the_umask_leaves() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let driver = PosixDriver::new();
    let permissions = |name: &str, options: &OpenOptions| {
        let path = folder.path().join(name);
        driver.open(&path, options).unwrap();
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    };
    // A file of the standard library shows which bits the umask of the process leaves.
    std::fs::write(folder.path().join("standard"), b"").unwrap();
    let standard = std::fs::metadata(folder.path().join("standard")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(permissions("usual", &OpenOptions::write().create(true)), standard);
    assert_eq!(permissions("private", &OpenOptions::write().create(true).permissions(0o600)), 0o600);
}

#[test]
fn child_programs_inherit_no_descriptor() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let file = PosixDriver::new().open(&path, &OpenOptions::read_write().create(true)).unwrap();
    let _guard = file.lock(0..1, LockMode::Exclusive).unwrap();
    let listing = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    assert!(!listing.contains(path.to_str().unwrap()), "{listing}");
}

#[test]
fn file_system_kind_decides_capabilities() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let open =
        |kind| PosixDriver::assuming(kind).open(&path, &OpenOptions::read_write().create(true)).unwrap();
    assert!(!open(FilesystemKind::Nfs).caps().contains(Caps::IMMEDIATE_VISIBILITY));
    assert!(open(FilesystemKind::CephFs).caps().contains(Caps::IMMEDIATE_VISIBILITY));
}

#[test]
fn lock_reuses_the_descriptor_of_a_released_lock() {
    let setting = steps(&[]);
    let before = setting.file.system_calls().other;
    drop(setting.file.lock(0..10, LockMode::Exclusive).unwrap());
    assert_eq!(setting.file.system_calls().other - before, 3);
    drop(setting.file.lock(3..u64::MAX, LockMode::Shared).unwrap());
    assert_eq!(setting.file.system_calls().other - before, 5);
}

#[test]
fn locks_exclude_other_processes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let file = PosixDriver::new().open(&path, &OpenOptions::read_write().create(true)).unwrap();
    let guard = file.lock(10..20, LockMode::Exclusive).unwrap();
    // Another program tries to lock the whole file without waiting.
    let blocked = || {
        let script = "import fcntl,sys\nf=open(sys.argv[1],'r+')\n\
                      try: fcntl.lockf(f, fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept OSError: sys.exit(3)";
        let status = std::process::Command::new("python3").args(["-c", script]).arg(&path).status().unwrap();
        status.code() == Some(3)
    };
    assert!(blocked());
    drop(guard);
    assert!(!blocked());
}

#[test]
fn open_takes_four_calls_and_a_stretch_takes_one() {
    let setting = steps(&[]);
    assert_eq!(setting.file.system_calls().total(), 4);
    let mut batch = Batch::with_capacity(Direction::Write, 2);
    batch.push(Transfer::from_memory(0, b"ab"));
    batch.push(Transfer::from_memory(2, b"cd"));
    assert_eq!(setting.file.submit(batch.lend()).wait().into_result().unwrap(), 4);
    assert_eq!(setting.file.system_calls().total(), 5);
}

#[test]
fn error_of_close_is_reported_once_and_descriptors_are_released() {
    let mut setting = steps(&[Step::Pass, Step::Fail(Errno::EDQUOT)]);
    // The close also closes the idle descriptor of the lock.
    drop(setting.file.lock(0..10, LockMode::Exclusive).unwrap());
    let path = setting.file.path().to_path_buf();
    let before = setting.file.system_calls().other;
    let error = setting.file.close().unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Quota, Operation::Close));
    assert_eq!((error.path(), error.system_code()), (path.as_path(), Some(libc::EDQUOT)));
    assert_eq!((setting.io.closes(), setting.file.system_calls().other - before), (2, 2));
    assert_eq!(setting.file.close().unwrap_err().kind(), ErrorKind::Closed);
    drop(setting.file);
    assert_eq!(setting.io.closes(), 2);
}

#[test]
fn error_of_closing_a_lock_descriptor_is_reported_by_the_close_of_the_file() {
    let mut setting = steps(&[Step::Fail(Errno::EIO)]);
    let guards: Vec<_> =
        (0..6).map(|at| setting.file.lock(at..at + 1, LockMode::Exclusive).unwrap()).collect();
    // Four descriptors stay idle. The fifth is closed immediately, and its error is kept.
    drop(guards);
    assert_eq!(setting.io.closes(), 2);
    assert_eq!(setting.file.close().unwrap_err().system_code(), Some(libc::EIO));
    assert_eq!(setting.io.closes(), 7);
}

#[test]
fn dropped_file_is_closed() {
    let setting = steps(&[Step::Fail(Errno::EIO)]);
    drop(setting.file);
    assert_eq!(setting.io.closes(), 1);
}
