//! Closes a descriptor without losing an error of the storage.
//!
//! Linux releases a descriptor early in close(2) and flushes after that. So a close is never repeated, not
//! even after `EINTR`, because the number may belong to a file of another thread by then (close(2), "Dealing
//! with error returns"). On a file system that sends data away at close (NFS, SMB, FUSE), `EINTR` may mean
//! that the flush did not end, and its error would stay unknown. Every close of a descriptor flushes, also
//! the close of a duplicate (dup(2): both refer to one open file description). So a duplicate is closed
//! first, and again with a new duplicate while signals interrupt. Then the descriptor is closed, which has
//! nothing left to flush.

use super::io::SystemIo;
use nix::errno::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Closes `fd` and returns the error that the storage reports for the data. `flushes`: the file system sends
/// data away at close. Counts its calls. The descriptor is released also if an error is returned.
pub(super) fn close(io: &dyn SystemIo, fd: OwnedFd, flushes: bool, calls: &AtomicU64) -> Result<(), Errno> {
    let flushed = if flushes { flush(io, fd.as_fd(), calls) } else { Ok(true) };
    calls.fetch_add(1, Relaxed);
    let closed = match io.close(fd) {
        // The data is flushed already, so the signal interrupted no flush.
        Err(Errno::EINTR) if flushed == Ok(true) => Ok(()),
        answer => answer,
    };
    flushed.and(closed)
}

/// Flushes through duplicates of `fd`. False if the process cannot get a duplicate; then the state of the
/// data is unknown.
fn flush(io: &dyn SystemIo, fd: BorrowedFd<'_>, calls: &AtomicU64) -> Result<bool, Errno> {
    loop {
        calls.fetch_add(1, Relaxed);
        let Ok(duplicate) = io.duplicate(fd) else { return Ok(false) };
        calls.fetch_add(1, Relaxed);
        match io.close(duplicate) {
            Err(Errno::EINTR) => {}
            answer => return answer.map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{ScriptedIo, Step};
    use super::*;
    use Step::{Fail, Pass};

    /// The outcome of a close, how many descriptors were closed, and how many calls were counted.
    fn closed(flushes: bool, steps: &[Step]) -> (Result<(), Errno>, u64, u64) {
        let io = ScriptedIo::new(steps.iter().copied(), None);
        let calls = AtomicU64::new(0);
        let outcome = close(&io, tempfile::tempfile().unwrap().into(), flushes, &calls);
        assert_eq!(io.steps_left(), 0, "{steps:?}");
        (outcome, io.closes(), calls.into_inner())
    }

    #[test]
    fn local_close_is_one_call_and_ignores_signals() {
        assert_eq!(closed(false, &[Pass]), (Ok(()), 1, 1));
        assert_eq!(closed(false, &[Fail(Errno::EINTR)]), (Ok(()), 1, 1));
        assert_eq!(closed(false, &[Fail(Errno::EIO)]), (Err(Errno::EIO), 1, 1));
    }

    #[test]
    fn flushing_close_repeats_with_duplicates_while_signals_interrupt() {
        assert_eq!(closed(true, &[Pass, Pass, Pass]), (Ok(()), 2, 3));
        let interrupted_twice = [Pass, Fail(Errno::EINTR), Pass, Fail(Errno::EINTR), Pass, Pass, Pass];
        assert_eq!(closed(true, &interrupted_twice), (Ok(()), 4, 7));
        let after_a_signal = [Pass, Fail(Errno::EINTR), Pass, Fail(Errno::EDQUOT), Pass];
        assert_eq!(closed(true, &after_a_signal), (Err(Errno::EDQUOT), 3, 5));
        // The close of the duplicate has flushed all data, so a signal at the last close hides no error. An
        // error of the last close is reported.
        assert_eq!(closed(true, &[Pass, Pass, Fail(Errno::EINTR)]), (Ok(()), 2, 3));
        assert_eq!(closed(true, &[Pass, Pass, Fail(Errno::EIO)]), (Err(Errno::EIO), 2, 3));
    }

    #[test]
    fn interrupted_close_without_a_duplicate_is_an_error() {
        assert_eq!(closed(true, &[Fail(Errno::EMFILE), Fail(Errno::EINTR)]), (Err(Errno::EINTR), 1, 2));
        assert_eq!(closed(true, &[Fail(Errno::EMFILE), Pass]), (Ok(()), 1, 2));
    }
}
