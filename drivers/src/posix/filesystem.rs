//! The kinds of file systems and their properties.

use crate::{Caps, Error, Operation, Result};
use nix::errno::Errno;
use nix::sys::statfs::{fstatfs, statfs};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A kind of file system, as `statfs(2)` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilesystemKind {
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// ZFS.
    Zfs,
    /// F2FS.
    F2fs,
    /// tmpfs, a file system in memory.
    Tmpfs,
    /// Layers over another file system, as in containers.
    Overlay,
    /// NFS of any version.
    Nfs,
    /// Windows shares.
    Smb,
    /// Lustre.
    Lustre,
    /// IBM Storage Scale.
    Gpfs,
    /// `BeeGFS`.
    BeeGfs,
    /// `CephFS` through the kernel.
    CephFs,
    /// `OrangeFS` and PVFS2 through the kernel.
    Pvfs2,
    /// Plan 9 shares, as in virtual machines.
    NineP,
    /// A file system of a user program.
    Fuse,
    /// Any other file system, with its magic number.
    Unknown(u64),
}

impl FilesystemKind {
    const MAGICS: [(u64, Self); 17] = [
        (0xEF53, Self::Ext),
        (0x5846_5342, Self::Xfs),
        (0x9123_683E, Self::Btrfs),
        (0x2FC1_2FC1, Self::Zfs),
        (0xF2F5_2010, Self::F2fs),
        (0x0102_1994, Self::Tmpfs),
        (0x794C_7630, Self::Overlay),
        (0x6969, Self::Nfs),
        (0xFF53_4D42, Self::Smb),
        (0xFE53_4D42, Self::Smb),
        (0x0BD0_0BD0, Self::Lustre),
        (0x4750_4653, Self::Gpfs),
        (0x1983_0326, Self::BeeGfs),
        (0x00C3_6400, Self::CephFs),
        (0x2003_0528, Self::Pvfs2),
        (0x0102_1997, Self::NineP),
        (0x6573_5546, Self::Fuse),
    ];

    fn from_magic(magic: u64) -> Self {
        let known = Self::MAGICS.iter().find(|(known, _)| *known == magic);
        known.map_or(Self::Unknown(magic), |(_, kind)| *kind)
    }

    /// Whether only one machine mounts the file system, so that there is one cache of it.
    pub(super) const fn is_local(self) -> bool {
        matches!(
            self,
            Self::Ext | Self::Xfs | Self::Btrfs | Self::Zfs | Self::F2fs | Self::Tmpfs | Self::Overlay
        )
    }

    /// Whether the page cache holds the data of a file as pages of this file. This is not so for a file
    /// system of layers (overlay), in memory (tmpfs), or with its own cache (ZFS).
    pub(super) const fn has_pages(self) -> bool {
        matches!(self, Self::Ext | Self::Xfs | Self::Btrfs | Self::F2fs)
    }

    /// Whether the close of any descriptor sends written data away, so that the close can fail or be
    /// interrupted. This is so for a file system of a server or of a program. An overlay flushes the file
    /// below, which may be of such a kind.
    pub(super) const fn flushes_at_close(self) -> bool {
        !self.is_local() || matches!(self, Self::Overlay)
    }

    /// Whether a later store to a page is safe, if the space of the page was reserved (`fallocate(2)`) and the
    /// page was made writable in a mapping. Otherwise such a store may end the process by `SIGBUS`.
    ///
    /// True where the blocks of a file are overwritten in place, and where a page that writeback has
    /// write-protected becomes writable again without an error. Flags of single files do not matter: ext4
    /// encrypts in place and has never compressed.
    pub(super) const fn takes_stores(self) -> bool {
        // For ext2 and ext3 files without extents `fallocate` returns an error, so nothing is stored.
        //
        // XFS refuses to make a page writable after a shutdown. Btrfs, ZFS, F2FS and XFS with reflink copy on
        // write, so an overwrite takes a new block in spite of a reservation. An overlay hides the file system
        // below. Other file systems are not known.
        matches!(self, Self::Ext | Self::Tmpfs)
    }

    /// The capabilities of the kind. A capability that depends on a hidden mount option or configuration
    /// is not claimed.
    pub const fn caps(self) -> Caps {
        // Where a file system refuses locks, `try_lock` returns the error of the system.
        let always = Caps::PROCESS_SHARED.union(Caps::LOCKS);
        let coherent = Caps::IMMEDIATE_VISIBILITY.union(Caps::BYTE_WRITES).union(Caps::UNLINK_OPEN);
        match self {
            Self::Ext | Self::Xfs | Self::Btrfs | Self::Zfs | Self::F2fs | Self::Overlay => {
                always.union(coherent)
            }
            Self::Tmpfs => always.union(coherent).union(Caps::IN_MEMORY),
            // One lock manager serves the cluster and keeps the caches coherent.
            Self::Gpfs | Self::CephFs | Self::Lustre => always.union(coherent),
            // The servers hold the bytes, and clients cache none.
            Self::Pvfs2 => always.union(Caps::IMMEDIATE_VISIBILITY).union(Caps::BYTE_WRITES),
            // NFS has close-to-open consistency only, and a client may write back a whole cached page. The
            // others are not known to be better.
            Self::Nfs | Self::Smb | Self::BeeGfs | Self::NineP | Self::Fuse | Self::Unknown(_) => always,
        }
    }
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext => "ext4",
            Self::Xfs => "XFS",
            Self::Btrfs => "Btrfs",
            Self::Zfs => "ZFS",
            Self::F2fs => "F2FS",
            Self::Tmpfs => "tmpfs",
            Self::Overlay => "overlay",
            Self::Nfs => "NFS",
            Self::Smb => "SMB",
            Self::Lustre => "Lustre",
            Self::Gpfs => "GPFS",
            Self::BeeGfs => "BeeGFS",
            Self::CephFs => "CephFS",
            Self::Pvfs2 => "PVFS2",
            Self::NineP => "9P",
            Self::Fuse => "FUSE",
            Self::Unknown(magic) => return write!(f, "an unknown file system ({magic:#x})"),
        })
    }
}

/// The kind of the file system that holds `path`. If `path` does not exist, the kind for its nearest existing
/// parent folder, which would hold the file. Blocks for one or more system calls.
///
/// # Errors
/// Any error that the system reports for the path, except that it does not exist.
pub fn filesystem_kind(path: &Path) -> Result<FilesystemKind> {
    let mut place = path;
    loop {
        // The parent of a bare name is the empty path, which means the working folder.
        let asked = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        match (statfs(asked), place.parent()) {
            (Ok(status), _) => return Ok(FilesystemKind::from_magic(status.filesystem_type().0 as u64)),
            (Err(Errno::ENOENT | Errno::ENOTDIR), Some(parent)) => place = parent,
            (Err(source), _) => return Err(Error::system(Operation::Resolve, path, source)),
        }
    }
}

/// The kind of the file system of an open file, and its block size in bytes.
pub(super) fn kind_of(fd: &OwnedFd) -> std::result::Result<(FilesystemKind, u64), Errno> {
    let status = fstatfs(fd)?;
    let kind = FilesystemKind::from_magic(status.filesystem_type().0 as u64);
    Ok((kind, u64::try_from(status.block_size()).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_magic_has_one_kind_and_an_unknown_magic_is_kept() {
        for (magic, kind) in FilesystemKind::MAGICS {
            assert_eq!(FilesystemKind::from_magic(magic), kind);
        }
        assert_eq!(FilesystemKind::from_magic(7), FilesystemKind::Unknown(7));
        assert_eq!(FilesystemKind::Unknown(7).to_string(), "an unknown file system (0x7)");
    }

    #[test]
    fn uncertain_capabilities_are_not_claimed() {
        assert!(
            FilesystemKind::Ext.caps().contains(Caps::LOCKS | Caps::IMMEDIATE_VISIBILITY | Caps::BYTE_WRITES)
        );
        assert!(FilesystemKind::Tmpfs.caps().contains(Caps::IN_MEMORY | Caps::LOCKS | Caps::BYTE_WRITES));
        assert!(!FilesystemKind::Ext.caps().contains(Caps::IN_MEMORY));
        assert!(!FilesystemKind::Nfs.caps().contains(Caps::IMMEDIATE_VISIBILITY));
        assert!(!FilesystemKind::Nfs.caps().contains(Caps::BYTE_WRITES));
        assert_eq!(FilesystemKind::Unknown(7).caps(), Caps::PROCESS_SHARED | Caps::LOCKS);
    }

    #[test]
    fn stores_are_safe_on_two_file_systems_only() {
        let kinds =
            FilesystemKind::MAGICS.map(|(_, kind)| kind).into_iter().chain([FilesystemKind::Unknown(7)]);
        let safe: Vec<_> = kinds.filter(|kind| kind.takes_stores()).collect();
        assert_eq!(safe, [FilesystemKind::Ext, FilesystemKind::Tmpfs]);
    }

    #[test]
    fn file_systems_behind_a_server_or_a_program_flush_at_close() {
        for kind in [FilesystemKind::Nfs, FilesystemKind::Fuse, FilesystemKind::Overlay] {
            assert!(kind.flushes_at_close(), "{kind}");
        }
        for kind in [FilesystemKind::Ext, FilesystemKind::Xfs, FilesystemKind::Btrfs, FilesystemKind::Tmpfs] {
            assert!(!kind.flushes_at_close(), "{kind}");
        }
    }

    #[test]
    fn missing_path_has_the_kind_of_its_nearest_folder() {
        let here = filesystem_kind(Path::new("/proc/self")).unwrap();
        assert_eq!(here, FilesystemKind::Unknown(0x9FA0));
        assert_eq!(filesystem_kind(Path::new("/proc/self/none/such")).unwrap(), here);
        let working = filesystem_kind(Path::new(".")).unwrap();
        assert_eq!(filesystem_kind(Path::new("none-such")).unwrap(), working);
        assert_eq!(filesystem_kind(Path::new("")).unwrap(), working);
    }

    #[test]
    fn impossible_path_is_an_error() {
        let name = "x".repeat(5000);
        assert_eq!(filesystem_kind(Path::new(&name)).unwrap_err().kind(), crate::ErrorKind::BadName);
    }
}
