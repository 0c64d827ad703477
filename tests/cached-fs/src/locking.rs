//! Requests for locks: what a lock and an unlock do to cached pages, and waits.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fuser::{Errno, ReplyEmpty};

use crate::answers::{Shared, finish, lock};
use crate::locks::{self, Key, Range};
use crate::state::State;

/// Time between two attempts of a wait.
const RETRY: Duration = Duration::from_millis(1);

fn file_of(state: &mut State, key: Key, handle: u64) -> io::Result<Arc<File>> {
    state.locks.file(key, handle, state.inodes.place(key.0)?)
}

/// The first lock that excludes `wanted`, or `wanted` as an unlock.
pub(crate) fn conflict(state: &Shared, key: Key, handle: u64, wanted: Range) -> io::Result<Range> {
    let file = file_of(&mut lock(state), key, handle)?;
    let found = locks::conflict(&file, wanted)?;
    Ok(found.unwrap_or(Range { kind: libc::F_UNLCK, ..wanted }))
}

/// Tries to obtain a lock, and revalidates if the lock was obtained.
fn try_set(state: &Shared, file: &File, inode: u64, wanted: Range) -> io::Result<()> {
    locks::set(file, wanted)?;
    let mut state = lock(state);
    state.counters.locks += 1;
    // A program on this mount may have written during the wait.
    state.write_back_later_reported(inode);
    let revalidated = state.revalidate(inode);
    if revalidated.is_err() {
        // The program gets the error and believes that it has no lock.
        locks::set(file, Range { kind: libc::F_UNLCK, ..wanted })?;
    }
    revalidated
}

/// Answers a request for a lock or an unlock. `waiting` is the thread that waits for the lock, if it does.
pub(crate) fn set(
    state: &Shared,
    key: Key,
    handle: u64,
    wanted: Range,
    waiting: Option<u32>,
    reply: ReplyEmpty,
) {
    let mut locked = lock(state);
    let written = locked.write_back(key.0);
    let file = file_of(&mut locked, key, handle);
    drop(locked);
    let file = match file {
        Ok(file) => file,
        Err(error) => return reply.error(error.into()),
    };
    if wanted.kind == libc::F_UNLCK {
        return finish(reply, locks::set(&file, wanted));
    }
    if let Err(error) = written {
        return reply.error(error.into());
    }
    match (try_set(state, &file, key.0, wanted), waiting) {
        (Err(error), Some(thread)) if error.kind() == io::ErrorKind::WouldBlock => {
            let state = Arc::clone(state);
            let wait = move || wait_for(&state, &file, key.0, wanted, thread, reply);
            // The reply is lost with the closure if no thread starts; then the kernel would wait for ever.
            thread::Builder::new().spawn(wait).expect("a thread for a waiting lock starts");
        }
        (ended, _) => finish(reply, ended),
    }
}

/// Asks for a lock until the lock is obtained or the waiting thread has a signal.
fn wait_for(state: &Shared, file: &File, inode: u64, wanted: Range, thread: u32, reply: ReplyEmpty) {
    loop {
        thread::sleep(RETRY);
        if locks::is_interrupted(thread) {
            return reply.error(Errno::EINTR);
        }
        match try_set(state, file, inode, wanted) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            ended => return finish(reply, ended),
        }
    }
}
