//! Access modes (MPI 4.1, 14.2.1).

use std::ops::BitOr;

use crate::error::{Error, Result};

/// How a file is opened: a set of the `MPI_MODE_*` flags of the standard.
///
/// The bits are those of this crate. The C ABI converts the numbers of its MPI to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessMode(u32);

impl AccessMode {
    /// `MPI_MODE_CREATE`: create the file if it does not exist.
    pub const CREATE: Self = Self(1);
    /// `MPI_MODE_RDONLY`: read only.
    pub const READ_ONLY: Self = Self(2);
    /// `MPI_MODE_WRONLY`: write only.
    pub const WRITE_ONLY: Self = Self(4);
    /// `MPI_MODE_RDWR`: read and write.
    pub const READ_WRITE: Self = Self(8);
    /// `MPI_MODE_DELETE_ON_CLOSE`: delete the file when it is closed.
    pub const DELETE_ON_CLOSE: Self = Self(16);
    /// `MPI_MODE_UNIQUE_OPEN`: no other process opens the file. Capulet does not rely on this promise.
    pub const UNIQUE_OPEN: Self = Self(32);
    /// `MPI_MODE_EXCL`: creating a file that exists is an error.
    pub const EXCLUSIVE: Self = Self(64);
    /// `MPI_MODE_APPEND`: all file pointers start at the end of the file.
    pub const APPEND: Self = Self(128);
    /// `MPI_MODE_SEQUENTIAL`: the file is accessed only at the shared file pointer.
    pub const SEQUENTIAL: Self = Self(256);

    const ALL: u32 = 511;

    /// The mode with these bits. [`AccessMode::check`], which open calls, rejects unknown bits.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether data may be read.
    pub fn reads(self) -> bool {
        !self.contains(Self::WRITE_ONLY)
    }

    /// Whether data may be written.
    pub fn writes(self) -> bool {
        !self.contains(Self::READ_ONLY)
    }

    /// Checks the combination of flags.
    ///
    /// # Errors
    /// Class `MPI_ERR_AMODE` unless exactly one of read-only, write-only and read-write is set; for
    /// create or exclusive with read-only; for sequential with read-write; and for unknown bits.
    pub fn check(self) -> Result<()> {
        let ways = [Self::READ_ONLY, Self::WRITE_ONLY, Self::READ_WRITE];
        let refuse = |reason: &'static str| Err(Error::Mode { bits: self.0, reason });
        if self.0 & !Self::ALL != 0 {
            return refuse("unknown flags");
        }
        if ways.iter().filter(|way| self.contains(**way)).count() != 1 {
            return refuse("exactly one of read-only, write-only and read-write is needed");
        }
        if self.contains(Self::READ_ONLY) && (self.contains(Self::CREATE) || self.contains(Self::EXCLUSIVE)) {
            return refuse("a file opened read-only cannot be created");
        }
        if self.contains(Self::READ_WRITE) && self.contains(Self::SEQUENTIAL) {
            return refuse("sequential access cannot both read and write");
        }
        Ok(())
    }
}

impl BitOr for AccessMode {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts which of all 512 combinations are allowed. The expected number follows from the rules of
    /// the standard.
    #[test]
    fn check_allows_exactly_the_combinations_of_the_standard() {
        let allowed = (0..512).filter(|bits| AccessMode::from_bits(*bits).check().is_ok()).count();
        // Six other flags give 2^6 combinations for each way. Read-only excludes create and exclusive;
        // read-write excludes sequential.
        assert_eq!(allowed, (1 << 4) + (1 << 6) + (1 << 5));
        assert!(AccessMode::from_bits(512 | 2).check().is_err());
        assert!(AccessMode::from_bits(0).check().is_err());
    }
}
