//! The control file of a mount.

use std::ffi::OsStr;
use std::io;
use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo};

use crate::inodes::ROOT;
use crate::state::State;

/// Name of the control file in the root of a mount.
pub const CONTROL_NAME: &str = ".cached-fs";
/// Number of the inode of the control file, which no backing file has.
pub(crate) const CONTROL: u64 = u64::MAX - 1;

/// Whether a name is the name of the control file.
pub(crate) fn is_control(folder: u64, name: &OsStr) -> bool {
    folder == ROOT && name == CONTROL_NAME
}

/// The attributes of the control file. Its size is 0, as the size of files in `/proc` is.
pub(crate) fn control_attributes() -> FileAttr {
    FileAttr {
        ino: INodeNo(CONTROL),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0o666,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl State {
    /// The bytes of the control file from `offset` on.
    pub(crate) fn control_bytes(&self, offset: u64) -> Vec<u8> {
        let text = self.counters.text().into_bytes();
        text.get(offset as usize..).unwrap_or_default().to_vec()
    }

    /// Carries out a command that was written to the control file.
    pub(crate) fn control(&mut self, command: &[u8]) -> io::Result<()> {
        let number = str::from_utf8(command).ok().and_then(|text| text.trim().strip_prefix("fail "));
        let number = number.and_then(|number| number.trim().parse().ok()).filter(|&number| number > 0);
        self.failure = Some(number.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?);
        Ok(())
    }
}
