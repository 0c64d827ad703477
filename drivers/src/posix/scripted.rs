//! System calls that follow a script of failures and pass the rest to the real system.

use super::io::{RealIo, SystemIo};
use super::mapped::{Mapping, Unmapped};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The effect on one call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The real call.
    Pass,
    /// Fails with this code.
    Fail(Errno),
    /// Moves at most this many bytes.
    Short(usize),
    /// Moves no bytes and returns zero.
    Nothing,
}

/// The arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) segments: usize,
    pub(super) bytes: usize,
    pub(super) offset: i64,
}

#[derive(Debug, Default)]
struct State {
    steps: VecDeque<Step>,
    /// The effect on every call after the last step.
    rest: Option<Step>,
    calls: Vec<Call>,
    paused: Duration,
    /// The answer to every question about the cache.
    cached: Option<bool>,
    has_data: bool,
    /// Ranges requested ahead: offsets and lengths in bytes.
    requested: Vec<(i64, i64)>,
    /// For each read, how many ranges had been requested before it.
    requested_before_reads: Vec<usize>,
    /// Accesses neither memory nor file, for lengths that no test can allocate.
    pretends: bool,
    closes: u64,
    /// Reserved ranges: offsets and lengths in bytes.
    reserved: Vec<(i64, i64)>,
}

/// The scripted system calls.
#[derive(Debug, Default)]
pub(super) struct ScriptedIo(Mutex<State>);

impl ScriptedIo {
    pub(super) fn new(steps: impl IntoIterator<Item = Step>, rest: Option<Step>) -> Self {
        Self(Mutex::new(State { steps: steps.into_iter().collect(), rest, ..State::default() }))
    }

    pub(super) fn pretending() -> Self {
        Self(Mutex::new(State { pretends: true, ..State::default() }))
    }

    /// A system that answers `cached` for every byte; `None` means that it cannot tell.
    pub(super) fn with_cache(cached: Option<bool>) -> Self {
        Self(Mutex::new(State { cached, has_data: true, ..State::default() }))
    }

    pub(super) fn set_has_data(&self, has_data: bool) {
        self.state().has_data = has_data;
    }

    pub(super) fn requested(&self) -> Vec<(i64, i64)> {
        self.state().requested.clone()
    }

    pub(super) fn requested_before_reads(&self) -> Vec<usize> {
        self.state().requested_before_reads.clone()
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// The number of closed descriptors.
    pub(super) fn closes(&self) -> u64 {
        self.state().closes
    }

    pub(super) fn reserved(&self) -> Vec<(i64, i64)> {
        self.state().reserved.clone()
    }

    pub(super) fn steps_left(&self) -> usize {
        self.state().steps.len()
    }

    pub(super) fn paused(&self) -> Duration {
        self.state().paused
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn step(&self) -> Option<Step> {
        let mut state = self.state();
        state.steps.pop_front().or(state.rest)
    }

    /// Records the call and applies the next step. Returns the pieces for the real call, or as an error the
    /// final answer.
    fn apply(&self, memory: &[libc::iovec], offset: i64) -> Result<Vec<libc::iovec>, io::Result<usize>> {
        let bytes = memory.iter().map(|piece| piece.iov_len).sum();
        self.state().calls.push(Call { segments: memory.len(), bytes, offset });
        if self.state().pretends {
            return Err(Ok(bytes));
        }
        let limit = match self.step() {
            None | Some(Step::Pass) => usize::MAX,
            Some(Step::Short(limit)) => limit,
            Some(Step::Nothing) => return Err(Ok(0)),
            Some(Step::Fail(code)) => return Err(Err(code.into())),
        };
        let mut left = limit;
        let mut pieces = memory.to_vec();
        pieces.retain_mut(|piece| {
            piece.iov_len = piece.iov_len.min(left);
            left -= piece.iov_len;
            piece.iov_len > 0
        });
        Ok(pieces)
    }

    fn answer(&self) -> Result<(), Errno> {
        match self.step() {
            Some(Step::Fail(code)) => Err(code),
            _ => Ok(()),
        }
    }
}

impl SystemIo for ScriptedIo {
    unsafe fn read(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize> {
        let mut state = self.state();
        let requested = state.requested.len();
        state.requested_before_reads.push(requested);
        drop(state);
        match self.apply(memory, offset) {
            // SAFETY: `# Safety` of `SystemIo::read`: each piece is a part of a piece that the caller of this
            // function keeps valid for writes.
            Ok(pieces) => unsafe { RealIo.read(fd, &pieces, offset) },
            Err(answer) => answer,
        }
    }

    unsafe fn write(&self, fd: BorrowedFd<'_>, memory: &[libc::iovec], offset: i64) -> io::Result<usize> {
        match self.apply(memory, offset) {
            // SAFETY: `# Safety` of `SystemIo::write`: each piece is a part of a piece that the caller of
            // this function keeps valid for reads.
            Ok(pieces) => unsafe { RealIo.write(fd, &pieces, offset) },
            Err(answer) => answer,
        }
    }

    fn reserve(&self, fd: BorrowedFd<'_>, offset: i64, bytes: i64) -> Result<(), Errno> {
        self.state().reserved.push((offset, bytes));
        self.answer().and_then(|()| RealIo.reserve(fd, offset, bytes))
    }

    /// Refuses mappings, because scripts apply to calls.
    fn map(&self, _fd: BorrowedFd<'_>, _range: &Range<u64>, _calls: &AtomicU64) -> Result<Mapping, Unmapped> {
        Err(Unmapped::Never)
    }

    /// Answers like an old system that cannot count pages.
    fn counted_as_cached(&self, _fd: BorrowedFd<'_>, _offset: i64, _calls: &AtomicU64) -> Option<bool> {
        None
    }

    fn reads_without_wait(&self, _fd: BorrowedFd<'_>, _offset: i64) -> Option<bool> {
        self.state().cached
    }

    fn has_data(&self, _fd: BorrowedFd<'_>, _offset: i64) -> bool {
        self.state().has_data
    }

    fn read_ahead(&self, _fd: BorrowedFd<'_>, offset: i64, bytes: i64) {
        self.state().requested.push((offset, bytes));
    }

    fn sync(&self, _fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.answer()
    }

    fn duplicate(&self, fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        self.answer().and_then(|()| RealIo.duplicate(fd))
    }

    fn close(&self, fd: OwnedFd) -> Result<(), Errno> {
        self.state().closes += 1;
        RealIo.close(fd).and(self.answer())
    }

    fn pause(&self, time: Duration) {
        self.state().paused += time;
    }
}
