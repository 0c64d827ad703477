//! Locks of byte ranges. Each owner has an open description of its own, on which the server takes OFD locks
//! of the host: on the backing file, so that mounts exclude each other, or on a file in memory.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::inodes::path_of;

/// A byte range and a kind of lock, as the kernel tells them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) start: u64,
    /// The last byte, or `i64::MAX` for the end of all files.
    pub(crate) last: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub(crate) kind: i32,
}

const ALL: Range = Range { start: 0, last: i64::MAX as u64, kind: libc::F_UNLCK };

impl Range {
    fn flock(self) -> libc::flock {
        let to_end = self.last >= i64::MAX as u64;
        libc::flock {
            l_type: self.kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.start as i64,
            l_len: if to_end { 0 } else { (self.last - self.start + 1) as i64 },
            // fcntl(2): zero for an OFD lock.
            l_pid: 0,
        }
    }
}

/// An inode of the backing folder and an owner of the kernel: a process for POSIX locks, an open description
/// for OFD locks.
pub(crate) type Key = (u64, u64);

#[derive(Debug)]
struct Owner {
    file: Arc<File>,
    /// The handles on which the owner asked for locks.
    handles: BTreeSet<u64>,
}

/// The owners of locks of a mount.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    owners: HashMap<Key, Owner>,
    /// With local locks: the files in memory in place of backing files.
    local: Option<HashMap<u64, File>>,
}

/// Takes, changes or releases a lock at once.
pub(crate) fn set(file: &File, range: Range) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range.flock()))?;
    Ok(())
}

/// The first lock of another owner that excludes `range`.
pub(crate) fn conflict(file: &File, range: Range) -> io::Result<Option<Range>> {
    let mut flock = range.flock();
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut flock))?;
    if i32::from(flock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let start = flock.l_start as u64;
    let last = if flock.l_len == 0 { ALL.last } else { start + flock.l_len as u64 - 1 };
    Ok(Some(Range { start, last, kind: i32::from(flock.l_type) }))
}

impl Locks {
    /// No owners. `local` locks exclude only on this mount.
    pub(crate) fn new(local: bool) -> Self {
        Self { owners: HashMap::new(), local: local.then(HashMap::new) }
    }

    /// The file on which an owner takes locks. `place` is the inode, opened with `O_PATH`.
    pub(crate) fn file(&mut self, (inode, owner): Key, handle: u64, place: &File) -> io::Result<Arc<File>> {
        if !self.owners.contains_key(&(inode, owner)) {
            let path = match &mut self.local {
                None => path_of(place),
                Some(files) => {
                    if let std::collections::hash_map::Entry::Vacant(entry) = files.entry(inode) {
                        entry.insert(memfd_create("locks", MFdFlags::MFD_CLOEXEC)?.into());
                    }
                    path_of(&files[&inode])
                }
            };
            // A description of its own. A write lock needs a descriptor for writing.
            let writable = OpenOptions::new().read(true).write(true).open(&path);
            let file = writable.or_else(|_| File::open(&path))?;
            let entry = Owner { file: Arc::new(file), handles: BTreeSet::new() };
            self.owners.insert((inode, owner), entry);
        }
        let known = self.owners.get_mut(&(inode, owner)).expect("the owner is known or was inserted");
        known.handles.insert(handle);
        Ok(known.file.clone())
    }

    /// The owner has closed a descriptor of the file: all its POSIX locks of the file end.
    pub(crate) fn end_owner(&mut self, key: Key) {
        if let Some(owner) = self.owners.remove(&key) {
            end(&owner);
        }
    }

    /// The last descriptor of a handle was closed. All locks that were taken on the handle end. The kernel
    /// does not tell the owner of OFD locks here. A process whose POSIX locks were taken on this handle has
    /// closed the handle too.
    pub(crate) fn end_handle(&mut self, inode: u64, handle: u64) {
        let ended = |key: &Key, owner: &Owner| key.0 == inode && owner.handles.contains(&handle);
        self.owners.extract_if(|key, owner| ended(key, owner)).for_each(|(_, owner)| end(&owner));
        if let Some(files) = &mut self.local
            && !self.owners.keys().any(|key| key.0 == inode)
        {
            files.remove(&inode);
        }
    }
}

/// A thread may still wait with this description, so closing the file would not release its locks.
fn end(owner: &Owner) {
    if let Err(error) = set(&owner.file, ALL) {
        eprintln!("cached-fs: locks are not released: {error}");
    }
}

/// Whether a thread has a signal that ends its wait. fuser does not tell when the kernel interrupts a
/// request, and the kernel waits for the answer even if the process was killed.
pub(crate) fn is_interrupted(thread: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{thread}/status")) else {
        // 0 is a thread of another PID namespace, about which nothing is known.
        return thread != 0;
    };
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| u64::from_str_radix(value.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = set("SigPnd:") | set("ShdPnd:");
    pending & !set("SigBlk:") & !set("SigIgn:") != 0
}
