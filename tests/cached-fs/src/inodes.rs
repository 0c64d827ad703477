//! The inodes that the kernel knows, and their names in the backing folder.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

/// Number of the root folder for the kernel. Other inodes have the number of the backing inode, so that all
/// mounts of a folder agree on the numbers.
pub(crate) const ROOT: u64 = 1;

#[derive(Debug)]
struct Inode {
    /// Opened with `O_PATH`, so that the inode stays after its name is gone.
    place: File,
    /// How often the kernel has looked up the inode and not forgotten it.
    lookups: u64,
}

/// The inodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inodes {
    table: HashMap<u64, Inode>,
    device: u64,
}

/// The path of an open file or folder, for calls that take a path.
pub(crate) fn path_of(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Error of an inode that the kernel should not know, as of a file that was removed on an NFS server.
pub(crate) fn stale() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

impl Inodes {
    /// The table with the backing folder as root.
    pub(crate) fn new(backing: &Path) -> io::Result<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let place = OpenOptions::new().read(true).custom_flags(flags).open(backing)?;
        let device = place.metadata()?.dev();
        Ok(Self { table: HashMap::from([(ROOT, Inode { place, lookups: 1 })]), device })
    }

    /// The descriptor of an inode, opened with `O_PATH`.
    pub(crate) fn place(&self, inode: u64) -> io::Result<&File> {
        self.table.get(&inode).map(|inode| &inode.place).ok_or_else(stale)
    }

    /// A path that leads to the inode, also if the inode has no name any more.
    pub(crate) fn path(&self, inode: u64) -> io::Result<PathBuf> {
        self.place(inode).map(path_of)
    }

    /// A path of a name in a folder.
    pub(crate) fn child(&self, folder: u64, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(folder)?.join(name))
    }

    /// Looks up a name for the kernel, which forgets the inode later.
    pub(crate) fn look_up(&mut self, folder: u64, name: &OsStr) -> io::Result<(u64, Metadata)> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let place = OpenOptions::new().read(true).custom_flags(flags).open(self.child(folder, name)?)?;
        let metadata = place.metadata()?;
        if metadata.dev() != self.device {
            // Inode numbers of two file systems may be equal.
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let inode = self.table.entry(metadata.ino()).or_insert(Inode { place, lookups: 0 });
        inode.lookups += 1;
        Ok((metadata.ino(), metadata))
    }

    /// The kernel drops `lookups` of its references to the inode.
    pub(crate) fn forget(&mut self, inode: u64, lookups: u64) {
        if let Some(known) = self.table.get_mut(&inode) {
            known.lookups = known.lookups.saturating_sub(lookups);
            if known.lookups == 0 && inode != ROOT {
                self.table.remove(&inode);
            }
        }
    }

    /// The entries of a folder, with `.` and `..`.
    pub(crate) fn list(&self, folder: u64) -> io::Result<Vec<Entry>> {
        let path = self.path(folder)?;
        let mut entries = Vec::new();
        for name in [".", ".."] {
            let inode = fs::metadata(path.join(name))?.ino();
            entries.push(Entry { inode, kind: FileType::Directory, name: name.into() });
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
            entries.push(Entry { inode: entry.ino(), kind, name: entry.file_name() });
        }
        Ok(entries)
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    second + Duration::from_nanos(nanoseconds as u64)
}

/// The attributes of a backing file, for the kernel.
pub(crate) fn attributes(metadata: &Metadata) -> FileAttr {
    FileAttr {
        ino: INodeNo(metadata.ino()),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev() as u32,
        blksize: metadata.blksize() as u32,
        flags: 0,
    }
}
