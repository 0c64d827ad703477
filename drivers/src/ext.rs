//! Conveniences over [`DriverFile::submit`], for everyone and to be implemented by no one.

use crate::{Batch, DriverFile, Result, Transfer};

mod sealed {
    pub trait Sealed {}
    impl<F: super::DriverFile + ?Sized> Sealed for F {}
}

/// Blocking transfers of one extent. Implemented for every [`DriverFile`]; sealed.
pub trait DriverFileExt: DriverFile + sealed::Sealed {
    /// Reads from `offset` on into `memory`; blocks. Returns the number of bytes read, short only at the end of the file.
    ///
    /// # Errors
    /// Those of [`DriverFile::submit`]; then nothing is said about how much was read.
    fn read_at(&self, offset: u64, memory: &mut [u8]) -> Result<usize> {
        let batch = Batch::read(vec![Transfer::into_memory(offset, memory)]);
        self.submit(batch).wait().into_result().map(|bytes| bytes as usize)
    }

    /// Writes all of `memory` at `offset`; blocks.
    ///
    /// # Errors
    /// Those of [`DriverFile::submit`]; then a part may have been written.
    fn write_all_at(&self, offset: u64, memory: &[u8]) -> Result<()> {
        let batch = Batch::write(vec![Transfer::from_memory(offset, memory)]);
        self.submit(batch).wait().into_result().map(|_| ())
    }
}

impl<F: DriverFile + ?Sized> DriverFileExt for F {}
