//! The question to XFS whether its files can share blocks.

use nix::errno::Errno;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct xfs_fsop_geom` of Linux 5.1 and later (`ioctl_xfs_fsgeometry(2)`). Only `flags` is used here.
#[repr(C, align(8))]
struct Geometry {
    /// Sizes, counts and the UUID, 32-bit words.
    before: [u32; 23],
    flags: u32,
    after: [u32; 40],
}

/// `XFS_IOC_FSGEOMETRY`: `_IOR('X', 126, struct xfs_fsop_geom)`. Linux before 5.1 has another number.
const FSGEOMETRY: libc::c_ulong = 2 << 30 | (size_of::<Geometry>() as libc::c_ulong) << 16 | 0x58 << 8 | 0x7e;
/// `XFS_FSOP_GEOM_FLAGS_REFLINK`: files can share blocks.
const REFLINK: u32 = 1 << 20;

/// Whether files of this XFS can share blocks. `None` if the system does not answer, as on another file
/// system.
pub(super) fn has_reflink(fd: BorrowedFd<'_>) -> Option<bool> {
    let mut geometry = Geometry { before: [0; 23], flags: 0, after: [0; 40] };
    // SAFETY: ioctl_xfs_fsgeometry(2): the descriptor is borrowed, hence open. The kernel writes at most the
    // number of bytes that the request encodes, which is the size of `geometry`.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), FSGEOMETRY, &raw mut geometry) };
    Errno::result(status).ok().map(|_| geometry.flags & REFLINK != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn request_has_the_number_of_the_kernel() {
        assert_eq!((FSGEOMETRY, std::mem::offset_of!(Geometry, flags)), (0x8100_587e, 92));
    }

    #[test]
    fn other_file_system_does_not_answer() {
        assert_eq!(has_reflink(std::fs::File::open("/proc/self/maps").unwrap().as_fd()), None);
    }
}
