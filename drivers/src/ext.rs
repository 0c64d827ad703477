//! Convenience methods over [`DriverFile::submit`].

use std::ops::Range;
use std::thread;
use std::time::Duration;

use crate::{Batch, DriverFile, LockGuard, LockMode, Result, Transfer};

mod sealed {
    pub trait Sealed {}
    impl<F: super::DriverFile + ?Sized> Sealed for F {}
}

/// Blocking transfers of one range, and blocking locks. Implemented for every [`DriverFile`]. Sealed: no
/// other type can implement it.
pub trait DriverFileExt: DriverFile + sealed::Sealed {
    /// Reads the bytes from `offset` on into `memory`. Blocks. Returns the number of bytes read, which is
    /// short only at the end of the file.
    ///
    /// # Errors
    /// The errors of [`DriverFile::submit`]. An error does not say how many bytes were read.
    fn read_at(&self, offset: u64, memory: &mut [u8]) -> Result<usize> {
        let batch = Batch::read(vec![Transfer::into_memory(offset, memory)]);
        self.submit(batch).wait().into_result().map(|bytes| bytes as usize)
    }

    /// Writes all of `memory` at `offset`. Blocks.
    ///
    /// # Errors
    /// The errors of [`DriverFile::submit`]. After an error a part may have been written.
    fn write_all_at(&self, offset: u64, memory: &[u8]) -> Result<()> {
        let batch = Batch::write(vec![Transfer::from_memory(offset, memory)]);
        self.submit(batch).wait().into_result().map(|_| ())
    }

    /// Repeats [`DriverFile::try_lock`] until the range is free. Blocks, with pauses of 20 us to 1 ms. The
    /// order of waiting callers is not kept.
    ///
    /// # Errors
    /// The errors of [`DriverFile::try_lock`].
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
