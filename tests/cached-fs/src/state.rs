//! Everything that a mount knows, and the operations on data. One mutex guards the state; no operation waits
//! for another process.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use fuser::FileAttr;
use nix::fcntl::{AT_FDCWD, FallocateFlags, fallocate};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use crate::Options;
use crate::counters::Counters;
use crate::inodes::{Entry, Inodes, attributes, path_of, stale};
use crate::locks::Locks;
use crate::pages::Pages;

/// A regular file that is open on this mount.
#[derive(Debug)]
struct OpenFile {
    file: File,
    is_writable: bool,
    pages: Pages,
    /// The handles of the file, each with the error of a write-back that was not reported on the handle yet.
    handles: HashMap<u64, Option<i32>>,
}

/// New attributes. `None` leaves an attribute as it is.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    /// Times of last access and of last modification.
    pub(crate) times: [Option<TimeSpec>; 2],
}

/// Everything that a mount knows.
#[derive(Debug)]
pub(crate) struct State {
    options: Options,
    pub(crate) inodes: Inodes,
    open: HashMap<u64, OpenFile>,
    /// The entries of open folders.
    pub(crate) folders: HashMap<u64, Vec<Entry>>,
    last_handle: u64,
    pub(crate) locks: Locks,
    pub(crate) counters: Counters,
    /// The error of the next write-back.
    pub(crate) failure: Option<i32>,
}

fn open_backing(path: &Path, writable: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(writable).open(path)
}

impl State {
    pub(crate) fn new(backing: &Path, options: Options) -> io::Result<Self> {
        Ok(Self {
            inodes: Inodes::new(backing)?,
            open: HashMap::new(),
            folders: HashMap::new(),
            last_handle: 0,
            locks: Locks::new(options.local_locks),
            counters: Counters::default(),
            failure: options.fail_write_back,
            options,
        })
    }

    /// A handle number that was not given out before.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    // ---- Attributes ---------------------------------------------------------------------------------------

    /// The attributes of the backing file. The size includes bytes that were not written back.
    pub(crate) fn attributes(&self, inode: u64) -> io::Result<FileAttr> {
        let mut found = attributes(&self.inodes.place(inode)?.metadata()?);
        if let Some(open) = self.open.get(&inode) {
            found.size = found.size.max(open.pages.dirty_end());
        }
        Ok(found)
    }

    /// Answers a request for attributes, which may revalidate by option.
    pub(crate) fn getattr(&mut self, inode: u64) -> io::Result<FileAttr> {
        if self.options.getattr_revalidates
            && let Some(open) = self.open.get(&inode)
            && open.pages.has_changed(&open.file)?
        {
            self.write_back_later_reported(inode);
            self.revalidate(inode)?;
        }
        self.attributes(inode)
    }

    pub(crate) fn setattr(&mut self, inode: u64, changes: &Changes) -> io::Result<FileAttr> {
        self.write_back_later_reported(inode);
        let is_own = self.open.get(&inode).map(|open| open.pages.has_changed(&open.file)).transpose()?;
        let path = self.inodes.path(inode)?;
        if let Some(size) = changes.size {
            open_backing(&path, true)?.set_len(size)?;
            if let Some(open) = self.open.get_mut(&inode) {
                open.pages.truncate(size);
            }
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            std::os::unix::fs::chown(&path, changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
        }
        if changes.times.iter().any(Option::is_some) {
            let [access, modification] = changes.times.map(|time| time.unwrap_or(TimeSpec::UTIME_OMIT));
            utimensat(AT_FDCWD, &path, &access, &modification, UtimensatFlags::FollowSymlink)?;
        }
        if is_own == Some(false)
            && let Some(open) = self.open.get_mut(&inode)
        {
            open.pages.accept_change(&open.file)?;
        }
        self.attributes(inode)
    }

    // ---- Open files ---------------------------------------------------------------------------------------

    /// Opens a regular file: revalidates, as close-to-open consistency asks for. Returns a handle.
    pub(crate) fn open(&mut self, inode: u64, flags: i32) -> io::Result<u64> {
        let place = self.inodes.place(inode)?;
        if place.metadata()?.nlink() == 0 {
            // The kernel then looks the name up again.
            return Err(stale());
        }
        let (path, wants_write) = (path_of(place), flags & libc::O_ACCMODE != libc::O_RDONLY);
        if self.open.get(&inode).is_none_or(|open| wants_write && !open.is_writable) {
            let (file, is_writable) = match open_backing(&path, true) {
                Ok(file) => (file, true),
                Err(_) if !wants_write => (open_backing(&path, false)?, false),
                Err(error) => return Err(error),
            };
            match self.open.entry(inode) {
                std::collections::hash_map::Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    (known.file, known.is_writable) = (file, is_writable);
                }
                std::collections::hash_map::Entry::Vacant(new) => {
                    let pages = Pages::new(&file)?;
                    new.insert(OpenFile { file, is_writable, pages, handles: HashMap::new() });
                }
            }
        }
        self.revalidate(inode)?;
        let handle = self.new_handle();
        self.file(inode)?.handles.insert(handle, None);
        Ok(handle)
    }

    fn file(&mut self, inode: u64) -> io::Result<&mut OpenFile> {
        self.open.get_mut(&inode).ok_or_else(stale)
    }

    /// Drops the clean pages of an open file and takes the size of the backing file.
    pub(crate) fn revalidate(&mut self, inode: u64) -> io::Result<()> {
        let open = self.open.get_mut(&inode).ok_or_else(stale)?;
        open.pages.revalidate(&open.file, &mut self.counters)
    }

    pub(crate) fn read(&mut self, inode: u64, offset: u64, bytes: usize, flags: i32) -> io::Result<Vec<u8>> {
        if flags & libc::O_DIRECT != 0 {
            self.write_back(inode)?;
            let (file, mut data) = (&self.file(inode)?.file, vec![0; bytes]);
            let count = file.read_at(&mut data, offset)?;
            data.truncate(count);
            return Ok(data);
        }
        let open = self.open.get_mut(&inode).ok_or_else(stale)?;
        open.pages.read(&open.file, offset, bytes, &mut self.counters)
    }

    pub(crate) fn write(&mut self, inode: u64, offset: u64, data: &[u8], flags: i32) -> io::Result<()> {
        let offset = if flags & libc::O_APPEND != 0 { self.end_for_append(inode)? } else { offset };
        if flags & libc::O_DIRECT != 0 {
            return self.write_direct(inode, offset, data);
        }
        let open = self.open.get_mut(&inode).ok_or_else(stale)?;
        open.pages.write(&open.file, offset, data, &mut self.counters)?;
        if open.pages.dirty() > self.options.max_dirty_pages {
            self.write_back_later_reported(inode);
        }
        if flags & libc::O_DSYNC != 0 { self.write_back(inode) } else { Ok(()) }
    }

    /// The end of the file for a write with `O_APPEND`, for which an NFS client asks the server.
    fn end_for_append(&mut self, inode: u64) -> io::Result<u64> {
        self.write_back(inode)?;
        self.revalidate(inode)?;
        Ok(self.attributes(inode)?.size)
    }

    /// A write of a descriptor with `O_DIRECT`, which goes past the cache.
    fn write_direct(&mut self, inode: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_back(inode)?;
        let open = self.file(inode)?;
        let is_own = !open.pages.has_changed(&open.file)?;
        open.file.write_all_at(data, offset)?;
        open.pages.written_directly(offset, data.len());
        if is_own { open.pages.accept_change(&open.file) } else { Ok(()) }
    }

    pub(crate) fn fallocate(&mut self, inode: u64, mode: i32, offset: u64, bytes: u64) -> io::Result<()> {
        self.write_back(inode)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        fallocate(&self.file(inode)?.file, mode, offset as i64, bytes as i64)?;
        self.revalidate(inode)
    }

    // ---- Write-back ---------------------------------------------------------------------------------------

    /// Writes the dirty pages of a file back. An error is also noted on each handle of the file, for its next
    /// `fsync` or `close`.
    pub(crate) fn write_back(&mut self, inode: u64) -> io::Result<()> {
        let Some(open) = self.open.get_mut(&inode).filter(|open| open.pages.dirty() > 0) else {
            return Ok(());
        };
        let ended = open.pages.write_back(&open.file, self.failure.take(), &mut self.counters);
        if let Err(error) = &ended {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            open.handles.values_mut().for_each(|noted| *noted = Some(number));
        }
        ended
    }

    /// As [`State::write_back`], for operations that have no error of their own for it.
    pub(crate) fn write_back_later_reported(&mut self, inode: u64) {
        let _noted_on_the_handles = self.write_back(inode);
    }

    /// Writes back the dirty pages of all files.
    pub(crate) fn write_back_all(&mut self) {
        let inodes: Vec<u64> = self.open.keys().copied().collect();
        for inode in inodes {
            self.write_back_later_reported(inode);
        }
    }

    /// Answers `close`: writes back, and reports the error that the handle has not reported to `fsync` yet.
    /// The error stays for `fsync`, because a child process that closes its copy of a descriptor must not
    /// hide the error from the parent.
    pub(crate) fn flush(&mut self, inode: u64, handle: u64) -> io::Result<()> {
        self.write_back_later_reported(inode);
        let noted = self.file(inode)?.handles.get(&handle).copied().flatten();
        noted.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }

    /// Answers `fsync`: writes back, syncs the backing file, and reports the error of the handle once.
    pub(crate) fn sync(&mut self, inode: u64, handle: u64) -> io::Result<()> {
        self.flush(inode, handle).inspect_err(|_| {
            if let Some(noted) = self.open.get_mut(&inode).and_then(|open| open.handles.get_mut(&handle)) {
                *noted = None;
            }
        })?;
        self.file(inode)?.file.sync_data()
    }

    /// Ends a handle, with the locks that were taken on it. Writes nothing back, because each `close` before
    /// did, and the kernel sends this request some time after the last `close`.
    pub(crate) fn release(&mut self, inode: u64, handle: u64) {
        self.locks.end_handle(inode, handle);
        let Some(open) = self.open.get_mut(&inode) else { return };
        open.handles.remove(&handle);
        if open.handles.is_empty() {
            self.open.remove(&inode);
        }
    }
}
