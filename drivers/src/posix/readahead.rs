//! Requests pieces of a batch ahead, so that the batch does not wait for one piece after the other.
//!
//! A read of bytes that no cache of the machine holds waits for the storage. So does a write of a part of
//! such a page. A storage serves many requests at the same time. Time per piece on a virtual disk:
//!
//! | pieces | one by one | requested ahead |
//! |---|---|---|
//! | 4 KiB of each 64 KiB | 77 to 120 us | 30 us |
//! | 16 KiB of each MiB | 190 to 290 us | 29 us |
//!
//! Pieces are requested ahead within one batch only. A batch of packed runs holds the content of one sieve
//! buffer, so its pieces of more than 16 KiB are too few to be requested ahead.

use super::filesystem::FilesystemKind;
use super::io::SystemIo;
use crate::{Direction, Transfer};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// For fewer runs the question whether they are cached costs more than it saves.
const RUNS_MIN: usize = 16;
/// If the distance of runs is smaller, the kernel reads ahead by itself, in larger parts.
const DISTANCE_BYTES_MIN: u64 = 16 << 10;
/// The kernel also reads ahead by itself if the runs fill more than one part in `DENSITY` of their span: it
/// then reads more than one run at once.
const DENSITY: u64 = 4;
/// The number of transfers requested at once. As many again are in progress at the same time.
const STEP: usize = 64;
/// At most the first so many bytes of a run are requested, hence at most 16 MiB at a time for all runs. Pages
/// that are not used soon may leave the cache again.
const RUN_BYTES_MAX: u64 = 128 << 10;
/// A page. A write of a whole page does not read its old content.
const PAGE_BYTES: u64 = 4096;

/// The requests ahead of one batch.
pub(super) struct ReadAhead<'a> {
    pub(super) io: &'a dyn SystemIo,
    pub(super) fd: BorrowedFd<'a>,
    pub(super) calls: &'a AtomicU64,
    pub(super) direction: Direction,
    pub(super) question: &'a CacheQuestion,
}

/// The question that tells whether a byte is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Count the cached pages. Starts no read. A page that is still being read counts too.
    Count = 0,
    /// Try to read without a wait. The answer can be wrong: XFS returns `EAGAIN` also while another process
    /// writes to the file, and the read ahead that the try starts may end before the answer.
    Try = 1,
    /// The system has no answer.
    None = 2,
}

/// The best question that the file may still answer.
#[derive(Debug)]
pub(super) struct CacheQuestion(AtomicU8);

impl CacheQuestion {
    /// The first question for a file on this kind of file system.
    pub(super) fn new(kind: FilesystemKind) -> Self {
        Self(AtomicU8::new(if kind.has_pages() { Question::Count } else { Question::Try } as u8))
    }

    fn get(&self) -> Question {
        match self.0.load(Relaxed) {
            0 => Question::Count,
            1 => Question::Try,
            _ => Question::None,
        }
    }

    fn set(&self, question: Question) {
        self.0.store(question as u8, Relaxed);
    }
}

impl ReadAhead<'_> {
    /// Whether the transfers would wait one after the other, judged by the first one. False if this is not
    /// known.
    pub(super) fn is_useful(&self, transfers: &[Transfer<'_>]) -> bool {
        if transfers.len() < RUNS_MIN || !are_far_apart(transfers) {
            return false;
        }
        // The question may start a read ahead, so it is about the bytes that are read next.
        let Some(first) = runs(transfers).next().and_then(|run| parts(self.direction, &run).next()) else {
            return false;
        };
        let Ok(offset) = i64::try_from(first.start) else { return false };
        if self.is_cached(offset) != Some(false) {
            return false;
        }
        if self.direction == Direction::Read {
            return true;
        }
        // A write to a hole reads no old content.
        self.calls.fetch_add(1, Relaxed);
        self.io.has_data(self.fd, offset)
    }

    /// Whether the byte at `offset` is cached. `None` if the system cannot tell; it is not asked again then.
    pub(super) fn is_cached(&self, offset: i64) -> Option<bool> {
        if self.question.get() == Question::Count {
            match self.io.counted_as_cached(self.fd, offset, self.calls) {
                None => self.question.set(Question::Try),
                answer => return answer,
            }
        }
        if self.question.get() == Question::None {
            return None;
        }
        self.calls.fetch_add(1, Relaxed);
        let answer = self.io.reads_without_wait(self.fd, offset);
        if answer.is_none() {
            self.question.set(Question::None);
        }
        answer
    }

    /// Requests the transfers that come soon. Called before transfer `next` begins.
    pub(super) fn request_before(&self, next: usize, transfers: &[Transfer<'_>]) {
        if !next.is_multiple_of(STEP) {
            return;
        }
        let first = if next == 0 { 0 } else { next + STEP };
        let step = first.min(transfers.len())..(next + 2 * STEP).min(transfers.len());
        for part in runs(&transfers[step]).flat_map(|run| parts(self.direction, &run)) {
            if let (Ok(start), Ok(bytes)) = (i64::try_from(part.start), i64::try_from(part.end - part.start))
            {
                self.calls.fetch_add(1, Relaxed);
                self.io.read_ahead(self.fd, start, bytes);
            }
        }
    }
}

/// The parts of a run to request: the beginning of a run that is read, and the pages at both ends of a
/// run that is written, if the run covers only a part of the page.
fn parts(direction: Direction, run: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let page_of = |at: u64| {
        let start = at - at % PAGE_BYTES;
        start..start.saturating_add(PAGE_BYTES)
    };
    let partial_page = |at: u64| (!at.is_multiple_of(PAGE_BYTES)).then(|| page_of(at));
    let (first, last) = match direction {
        Direction::Read => (Some(run.start..run.end.min(run.start.saturating_add(RUN_BYTES_MAX))), None),
        Direction::Write => (partial_page(run.start), partial_page(run.end)),
    };
    let last = last.filter(|last| first.as_ref() != Some(last));
    first.into_iter().chain(last)
}

/// The contiguous runs of the file, in the order of the transfers.
fn runs<'a>(transfers: &'a [Transfer<'_>]) -> impl Iterator<Item = Range<u64>> + 'a {
    let mut filled = transfers.iter().filter(|transfer| transfer.memory.bytes() > 0).peekable();
    let end = |transfer: &Transfer<'_>| transfer.offset.saturating_add(transfer.memory.bytes() as u64);
    std::iter::from_fn(move || {
        let first = filled.next()?;
        let mut run = first.offset..end(first);
        while let Some(next) = filled.next_if(|next| next.offset == run.end) {
            run.end = end(next);
        }
        Some(run)
    })
}

/// Whether there are at least `RUNS_MIN` runs that are short compared with their distances.
fn are_far_apart(transfers: &[Transfer<'_>]) -> bool {
    let (mut count, mut bytes, mut distance, mut last) = (0, 0_u64, 0_u64, None);
    for run in runs(transfers) {
        count += 1;
        bytes = bytes.saturating_add(run.end - run.start);
        distance = distance.saturating_add(last.map_or(0, |last: u64| run.start.abs_diff(last)));
        last = Some(run.start);
    }
    // There is one distance fewer than runs, so the mean distance is added once.
    let distance = distance.saturating_add(distance / (count.max(2) - 1));
    count >= RUNS_MIN as u64 && distance / count >= DISTANCE_BYTES_MIN && distance / DENSITY >= bytes
}

#[cfg(test)]
mod tests {
    use super::super::PosixDriver;
    use super::super::io::RealIo;
    use super::super::scripted::ScriptedIo;
    use super::*;
    use crate::{Batch, Driver, DriverFile, DriverFileExt, OpenOptions};
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use tempfile::TempDir;

    struct Setting {
        _folder: TempDir,
        io: Arc<ScriptedIo>,
        file: Arc<dyn DriverFile>,
    }

    /// A file of 16 MiB for which the scripted system answers `cached`.
    fn setting(cached: Option<bool>) -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let io = Arc::new(ScriptedIo::with_cache(cached));
        let path = folder.path().join("file");
        let driver = PosixDriver { io: io.clone(), assumed: Some(super::super::FilesystemKind::Ext) };
        let file = driver.open(&path, &OpenOptions::read_write().create(true)).unwrap();
        file.write_all_at((16 << 20) - 1, &[1]).unwrap();
        Setting { _folder: folder, io, file }
    }

    fn move_pieces(setting: &Setting, direction: Direction, count: usize, bytes: usize, stride: u64) {
        let mut memory = vec![1; count * bytes];
        let mut batch = Batch::with_capacity(direction, count);
        for (index, piece) in memory.chunks_mut(bytes).enumerate() {
            batch.push(Transfer::into_memory(index as u64 * stride, piece));
        }
        assert_eq!(setting.file.submit(batch).wait().bytes, (count * bytes) as u64);
    }

    #[test]
    fn each_piece_is_requested_once_before_it_is_read() {
        let cold = setting(Some(false));
        move_pieces(&cold, Direction::Read, 200, 100, 64 << 10);
        let expected: Vec<_> = (0..200).map(|index| (index * (64 << 10), 100)).collect();
        assert_eq!(cold.io.requested(), expected);
        let mut requested = 0;
        for (read, requested_before) in cold.io.requested_before_reads().into_iter().enumerate() {
            assert!(
                requested_before > read && requested_before - read <= 2 * STEP + 1,
                "{requested_before} before read {read}"
            );
            requested = requested_before;
        }
        assert_eq!(requested, 200);
    }

    #[test]
    fn adjacent_pieces_are_requested_together() {
        let cold = setting(Some(false));
        let mut memory = vec![1_u8; 40 * 10];
        let mut batch = Batch::with_capacity(Direction::Read, 40);
        for (index, piece) in memory.chunks_mut(10).enumerate() {
            let (run, half) = (index as u64 / 2, index as u64 % 2);
            batch.push(Transfer::into_memory(run * (1 << 17) + half * 10, piece));
        }
        assert_eq!(cold.file.submit(batch).wait().bytes, 400);
        assert_eq!(cold.io.requested(), (0..20).map(|run| (run << 17, 20)).collect::<Vec<_>>());
    }

    #[test]
    fn cached_near_large_or_unknown_pieces_are_not_requested() {
        for (cached, count, bytes, stride) in [
            (Some(true), 100, 100, 64 << 10),
            (None, 100, 100, 64 << 10),
            (Some(false), RUNS_MIN - 1, 100, 64 << 10),
            (Some(false), 100, 100, 8 << 10),
            (Some(false), 20, 20 << 10, 64 << 10),
        ] {
            let setting = setting(cached);
            move_pieces(&setting, Direction::Read, count, bytes, stride);
            assert_eq!(setting.io.requested(), [], "{cached:?} {count} {bytes} {stride}");
        }
    }

    #[test]
    fn writes_request_only_partial_pages_that_have_data() {
        let requested = |bytes: usize, stride: u64, has_data: bool| {
            let cold = setting(Some(false));
            cold.io.set_has_data(has_data);
            move_pieces(&cold, Direction::Write, 20, bytes, stride);
            cold.io.requested()
        };
        assert_eq!(requested(100, 64 << 10, true).len(), 20);
        assert_eq!(requested(100, 64 << 10, false), []);
        assert_eq!(requested(4096, 64 << 10, true), []);
        // The page of the last byte, and from the second piece on also the page of the first byte.
        let partial = requested((64 << 10) - 8, (256 << 10) + 16, true);
        assert_eq!(partial[..3], [(15 << 12, 4096), (64 << 12, 4096), (80 << 12, 4096)]);
        assert_eq!(partial.len(), 39);
    }

    #[test]
    fn only_the_beginning_of_a_long_run_is_requested() {
        let cold = setting(Some(false));
        move_pieces(&cold, Direction::Read, 16, 200 << 10, 1 << 20);
        let expected: Vec<_> = (0..16).map(|index| (index << 20, 128 << 10)).collect();
        assert_eq!(cold.io.requested(), expected);
    }

    #[test]
    fn question_without_an_answer_is_asked_once() {
        let unknown = setting(None);
        let other = || unknown.file.system_calls().other;
        let before = other();
        for _ in 0..3 {
            move_pieces(&unknown, Direction::Read, 20, 100, 64 << 10);
            assert_eq!(unknown.file.would_wait(0), None);
        }
        assert_eq!(other() - before, 1);
    }

    #[test]
    fn impossible_offsets_are_not_requested() {
        let cold = setting(Some(false));
        let mut memory = [0_u8; 20 * 4];
        let mut batch = Batch::with_capacity(Direction::Read, 20);
        for (index, piece) in memory.chunks_mut(4).enumerate() {
            batch.push(Transfer::into_memory(u64::MAX - 3 - ((index as u64) << 40), piece));
        }
        let result = cold.file.submit(batch).wait();
        assert_eq!(
            (result.bytes, result.error.map(|error| error.kind())),
            (0, Some(crate::ErrorKind::TooLarge))
        );
        assert_eq!(cold.io.requested(), []);
    }

    #[test]
    fn would_wait_tells_cached_bytes_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = PosixDriver::new().open(&path, &OpenOptions::read_write().create(true)).unwrap();
        file.write_all_at(0, &vec![1; 1 << 20]).unwrap();
        if file.would_wait(0).is_none() || file.caps().contains(crate::Caps::IN_MEMORY) {
            println!("skipped: this file system keeps nothing but pages, or cannot tell what is cached");
            return;
        }
        assert_eq!(file.would_wait(4096), Some(false));
        file.sync().unwrap();
        let other = std::fs::File::open(&path).unwrap();
        let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        nix::fcntl::posix_fadvise(&other, 0, 0, advice).unwrap();
        // A fast storage may read the byte between the try and its answer.
        let before = file.system_calls().other;
        let (waits, asked) = (file.would_wait(4096), file.system_calls().other - before);
        assert!(waits == Some(true) || asked != 2, "a count of cached pages and the length of the file");
        file.read_at(4096, &mut [0]).unwrap();
        assert_eq!(file.would_wait(4096), Some(false));
        assert_eq!(RealIo.reads_without_wait(other.as_fd(), 4096), Some(true));
        // A read behind the end never waits.
        assert_eq!(file.would_wait(1 << 30), Some(false));
        assert_eq!(file.would_wait(u64::MAX), None);
    }
}
