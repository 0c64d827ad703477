//! The state behind the requests of the kernel, and the answers that several requests share.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, lchown};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, Request, TimeOrNow};
use nix::sys::time::TimeSpec;

use crate::Options;
use crate::control::is_control;
use crate::inodes::attributes;
use crate::state::State;

/// The only generation of inodes: the kernel does not export the mount.
pub(crate) const GENERATION: Generation = Generation(0);

/// The state, shared by the session, waiting locks and the thread that writes back.
pub(crate) type Shared = Arc<Mutex<State>>;

/// Locks the state. A panic of another thread leaves no half-made change that later requests rely on.
pub(crate) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file system for fuser.
#[derive(Debug)]
pub(crate) struct Handlers {
    pub(crate) state: Shared,
    pub(crate) options: Options,
}

/// A time as `utimensat` takes it.
pub(crate) fn timespec(time: TimeOrNow) -> TimeSpec {
    match time {
        TimeOrNow::Now => TimeSpec::UTIME_NOW,
        TimeOrNow::SpecificTime(time) => TimeSpec::from(time.duration_since(UNIX_EPOCH).unwrap_or_default()),
    }
}

/// Answers with `reply.ok()` or the error.
pub(crate) fn finish(reply: ReplyEmpty, outcome: io::Result<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

impl Handlers {
    pub(crate) fn new(state: Shared, options: Options) -> Self {
        Self { state, options }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn attribute_time(&self) -> Duration {
        Duration::from_millis(self.options.attribute_ms)
    }

    pub(crate) fn entry_time(&self) -> Duration {
        Duration::from_millis(self.options.entry_ms)
    }

    pub(crate) fn answer_entry(&self, reply: ReplyEntry, found: io::Result<FileAttr>) {
        match found {
            Ok(found) => {
                reply.entry_with_ttls(&self.attribute_time(), &self.entry_time(), &found, GENERATION);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    pub(crate) fn answer_attributes(&self, reply: ReplyAttr, found: io::Result<FileAttr>) {
        match found {
            Ok(found) => reply.attr(&self.attribute_time(), &found),
            Err(error) => reply.error(error.into()),
        }
    }

    pub(crate) fn look_up(&self, folder: u64, name: &OsStr) -> io::Result<FileAttr> {
        let mut state = self.state();
        let (inode, metadata) = state.inodes.look_up(folder, name)?;
        let known = state.attributes(inode);
        Ok(known.unwrap_or_else(|_| attributes(&metadata)))
    }

    /// Makes a name by `make`, gives it to the program's user, and looks it up.
    pub(crate) fn make_entry(
        &self,
        request: &Request,
        (folder, name): (INodeNo, &OsStr),
        reply: ReplyEntry,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) {
        let path = self.state().inodes.child(folder.0, name);
        let made = path.and_then(|path| {
            make(&path)?;
            lchown(&path, Some(request.uid()), Some(request.gid()))?;
            self.look_up(folder.0, name)
        });
        self.answer_entry(reply, made);
    }

    /// Creates a file, or opens a file that another node has created meanwhile. Returns attributes and
    /// handle.
    pub(crate) fn create_file(
        &self,
        request: &Request,
        (folder, name): (u64, &OsStr),
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, u64)> {
        if is_control(folder, name) {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let path = self.state().inodes.child(folder, name)?;
        match OpenOptions::new().write(true).create_new(true).mode(mode & 0o7777).open(&path) {
            Ok(_closed) => lchown(&path, Some(request.uid()), Some(request.gid()))?,
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || flags & libc::O_EXCL != 0 => {
                return Err(error);
            }
            Err(_) if flags & libc::O_TRUNC != 0 => fs::File::create(&path).map(drop)?,
            Err(_) => {}
        }
        let inode = self.look_up(folder, name)?.ino.0;
        let mut state = self.state();
        let opened = state.open(inode, flags);
        if opened.is_err() {
            state.inodes.forget(inode, 1);
        }
        let handle = opened?;
        Ok((state.attributes(inode)?, handle))
    }
}
