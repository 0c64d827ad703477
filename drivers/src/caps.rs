//! What a storage can do, how its files are laid out, and what it cost.

use std::fmt;
use std::ops::BitOr;

/// A set of capabilities. Upper layers plan by these and never by a driver's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caps(u32);

impl Caps {
    /// No capability at all.
    pub const NONE: Self = Self(0);
    /// [`try_lock`](crate::DriverFile::try_lock) works, and excludes every process that opens the file.
    pub const LOCKS: Self = Self(1);
    /// A batch of many extents costs less than its transfers one by one would.
    pub const LIST_IO: Self = Self(1 << 1);
    /// Bytes written are seen by every process's next read, with no sync between.
    pub const IMMEDIATE_VISIBILITY: Self = Self(1 << 2);
    /// A write changes the bytes asked for and no other, even against concurrent writers of neighboring bytes elsewhere.
    pub const BYTE_WRITES: Self = Self(1 << 3);
    /// A file that was deleted while open stays usable.
    pub const UNLINK_OPEN: Self = Self(1 << 4);
    /// Processes that open one path get one file. Not so for the memory of one process.
    pub const PROCESS_SHARED: Self = Self(1 << 5);
    /// A completion can be pending: transfers go on after `submit` has returned.
    pub const PENDING: Self = Self(1 << 6);

    /// What is stored is in memory: a read waits for nothing, and costs a call and a copy.
    pub const IN_MEMORY: Self = Self(1 << 7);

    const NAMES: [(Self, &'static str); 8] = [
        (Self::LOCKS, "LOCKS"),
        (Self::LIST_IO, "LIST_IO"),
        (Self::IMMEDIATE_VISIBILITY, "IMMEDIATE_VISIBILITY"),
        (Self::BYTE_WRITES, "BYTE_WRITES"),
        (Self::UNLINK_OPEN, "UNLINK_OPEN"),
        (Self::PROCESS_SHARED, "PROCESS_SHARED"),
        (Self::PENDING, "PENDING"),
        (Self::IN_MEMORY, "IN_MEMORY"),
    ];

    /// Whether every capability of `wanted` is in this set.
    pub const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Both sets together.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the capabilities of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The set as a number, for another process of the same program.
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

/// How the bytes of a file lie on its storage. Hints for alignment: nothing is wrong if they are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLayout {
    /// The unit in which the storage likes to move bytes; at least 1.
    pub block_bytes: u64,
    /// Consecutive bytes that lie on one server before the next one's turn; the block where nothing is striped; at least 1.
    pub stripe_bytes: u64,
    /// Servers over which the file is striped; 1 where nothing is striped.
    pub stripe_count: u32,
}

/// Which file an open file is. Two that are open at the same time on one machine have the same identity exactly if they are
/// the same file; other machines may see another device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The number of the file system.
    pub device: u64,
    /// The number of the file there.
    pub file: u64,
}

impl FileLayout {
    /// A file that is not striped, in blocks of `block_bytes` (at least 1).
    pub fn unstriped(block_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        Self { block_bytes, stripe_bytes: block_bytes, stripe_count: 1 }
    }
}

/// Counts of the system calls made through one open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SystemCalls {
    /// Calls that read, repeated ones included.
    pub reads: u64,
    /// Calls that write, repeated ones included.
    pub writes: u64,
    /// All other calls: open, length, truncation, reservation, sync, locks.
    pub other: u64,
    /// Of the reads and writes, those that were interrupted, told to come again, or moved less than was asked for.
    pub incomplete: u64,
}

impl SystemCalls {
    /// All calls.
    pub const fn total(&self) -> u64 {
        self.reads + self.writes + self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_unite_and_subtract() {
        let caps = Caps::LOCKS | Caps::LIST_IO;
        assert!(caps.contains(Caps::LOCKS) && caps.contains(Caps::NONE));
        assert!(!caps.contains(Caps::LOCKS | Caps::BYTE_WRITES));
        assert_eq!(caps.without(Caps::LOCKS | Caps::PENDING), Caps::LIST_IO);
    }

    #[test]
    fn debug_names_each_capability() {
        assert_eq!(format!("{:?}", Caps::LOCKS | Caps::BYTE_WRITES), r#"{"LOCKS", "BYTE_WRITES"}"#);
    }

    #[test]
    fn an_unstriped_layout_has_no_zero_in_it() {
        let layout = FileLayout::unstriped(0);
        assert_eq!((layout.block_bytes, layout.stripe_bytes, layout.stripe_count), (1, 1, 1));
    }
}
