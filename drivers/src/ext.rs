//! Conveniences over [`DriverFile::submit`], for everyone and to be implemented by no one.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use crate::{Batch, DriverFile, LockGuard, LockMode, Result, Transfer};

mod sealed {
    pub trait Sealed {}
    impl<F: super::DriverFile + ?Sized> Sealed for F {}
}

/// Blocking transfers of one extent, and locks. Implemented for every [`DriverFile`]; sealed.
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

    /// [`DriverFile::try_lock`] until it is free; blocks. Not in the order of coming.
    ///
    /// # Errors
    /// Those of [`DriverFile::try_lock`].
    fn lock(&self, range: Range<u64>, mode: LockMode) -> Result<LockGuard> {
        let mut pause = Duration::from_micros(20);
        loop {
            if let Some(guard) = self.try_lock(range.clone(), mode)? {
                return Ok(guard);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }
}

impl<F: DriverFile + ?Sized> DriverFileExt for F {}
