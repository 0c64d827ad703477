//! The properties of a storage (capabilities), of a file (layout, identity), and its count of system calls.

use std::fmt;
use std::ops::BitOr;

/// A set of capabilities. Upper layers plan by capabilities, never by the name of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caps(u32);

impl Caps {
    /// No capability at all.
    pub const NONE: Self = Self(0);
    /// [`try_lock`](crate::DriverFile::try_lock) is supported. A lock excludes every process of the same machine
    /// that opens the file. A mount option may decide whether a lock excludes processes of other machines, so
    /// the user of a lock must try this out.
    pub const LOCKS: Self = Self(1);
    /// The next read of any process sees written bytes, without a sync.
    pub const IMMEDIATE_VISIBILITY: Self = Self(1 << 1);
    /// A write changes only the requested bytes, also while other machines write neighboring bytes.
    pub const BYTE_WRITES: Self = Self(1 << 2);
    /// An open file stays usable after it was deleted.
    pub const UNLINK_OPEN: Self = Self(1 << 3);
    /// All processes that open a path get the same file. Files in the memory of one process lack this.
    pub const PROCESS_SHARED: Self = Self(1 << 4);
    /// The data is in memory: a read never waits for a device. It costs one call and one copy.
    pub const IN_MEMORY: Self = Self(1 << 5);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::LOCKS, "LOCKS"),
        (Self::IMMEDIATE_VISIBILITY, "IMMEDIATE_VISIBILITY"),
        (Self::BYTE_WRITES, "BYTE_WRITES"),
        (Self::UNLINK_OPEN, "UNLINK_OPEN"),
        (Self::PROCESS_SHARED, "PROCESS_SHARED"),
        (Self::IN_MEMORY, "IN_MEMORY"),
    ];

    /// Whether every capability of `wanted` is in this set.
    pub const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The union of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the capabilities of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The set as a number, to send to another process of the same program.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set that [`Caps::bits`] gave.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl BitOr for Caps {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl fmt::Debug for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(cap, _)| self.contains(*cap)).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}

/// The placement of the bytes of a file on its storage. These are hints for alignment: an access that ignores
/// them is still correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLayout {
    /// The preferred unit of a transfer, in bytes; at least 1.
    pub block_bytes: u64,
    /// The length of a stripe, in bytes: consecutive bytes on one server. The block length where the file is
    /// not striped. At least 1.
    pub stripe_bytes: u64,
    /// The number of servers that hold the stripes; 1 where the file is not striped.
    pub stripe_count: u32,
    /// If two machines write to one unit of this length at the same time, bytes may be lost. Units begin at
    /// multiples of the length, in bytes. 1 where [`Caps::BYTE_WRITES`] is set.
    pub write_unit_bytes: u64,
}

/// The identity of an open file. Two files that are open on one machine at the same time have the same
/// identity if and only if they are the same file. Another machine may see another device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The number of the file system.
    pub device: u64,
    /// The number of the file in the file system.
    pub file: u64,
}

impl FileLayout {
    /// The layout of a file without stripes, in blocks of `block_bytes`. Zero counts as 1. Machines may write to
    /// neighboring bytes.
    pub fn unstriped(block_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        Self { block_bytes, stripe_bytes: block_bytes, stripe_count: 1, write_unit_bytes: 1 }
    }
}

/// Counts of the system calls made through one open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SystemCalls {
    /// Calls that read, including repeated calls.
    pub reads: u64,
    /// Calls that write, including repeated calls.
    pub writes: u64,
    /// All other calls: open, length, truncation, reservation, sync, locks.
    pub other: u64,
    /// Reads and writes that a signal interrupted, that returned `EAGAIN`, or that moved fewer bytes than
    /// requested.
    pub incomplete: u64,
}

impl SystemCalls {
    /// The number of all calls.
    pub const fn total(&self) -> u64 {
        self.reads + self.writes + self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_unite_and_subtract() {
        let caps = Caps::LOCKS | Caps::UNLINK_OPEN;
        assert!(caps.contains(Caps::LOCKS) && caps.contains(Caps::NONE));
        assert!(!caps.contains(Caps::LOCKS | Caps::BYTE_WRITES));
        assert_eq!(caps.without(Caps::LOCKS | Caps::IN_MEMORY), Caps::UNLINK_OPEN);
    }

    #[test]
    fn debug_names_each_capability() {
        assert_eq!(format!("{:?}", Caps::LOCKS | Caps::BYTE_WRITES), r#"{"LOCKS", "BYTE_WRITES"}"#);
    }

    #[test]
    fn unstriped_layout_has_no_zero() {
        let layout = FileLayout::unstriped(0);
        assert_eq!((layout.block_bytes, layout.stripe_bytes, layout.stripe_count), (1, 1, 1));
    }
}
