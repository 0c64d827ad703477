//! The subject of a check, and the accesses that checks have in common.

use crate::{Batch, BatchResult, Driver, DriverFile, DriverFileExt, Error, OpenOptions, Transfer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The driver to check, and the paths for its files.
pub struct Subject<'a> {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) fresh_path: &'a dyn Fn() -> PathBuf,
}

/// One check.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The property that the check proves.
    pub name: &'static str,
    /// Runs the check. Panics if the property does not hold.
    pub run: fn(&Subject<'_>),
}

impl Subject<'_> {
    pub(super) fn path(&self) -> PathBuf {
        (self.fresh_path)()
    }

    pub(super) fn open(&self, path: &Path, options: &OpenOptions) -> Arc<dyn DriverFile> {
        self.driver.open(path, options).expect("the file opens")
    }

    /// A new empty file for reading and writing.
    pub(super) fn create(&self) -> Arc<dyn DriverFile> {
        self.open(&self.path(), &OpenOptions::read_write().create(true).exclusive(true))
    }

    /// The error of an open that must fail.
    pub(super) fn refused(&self, path: &Path, options: &OpenOptions) -> Error {
        self.driver.open(path, options).expect_err("the open is refused")
    }
}

/// Bytes that differ from their neighbors. None is zero.
pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251) as u8 + 1).collect()
}

/// Writes pieces given as (offset, bytes) in one batch. Panics unless all bytes are written.
pub(super) fn write(file: &dyn DriverFile, pieces: &[(u64, &[u8])]) {
    let transfers = pieces.iter().map(|(offset, bytes)| Transfer::from_memory(*offset, bytes)).collect();
    let batch = Batch::write(transfers);
    let asked = batch.bytes();
    let result = file.submit(batch).wait();
    assert!(result.error.is_none() && result.bytes == asked, "{result:?} of {asked} bytes");
}

/// Reads pieces given as (offset, length) in one batch. Returns the result and the memory of each piece,
/// which holds 0xA5 where no byte was read.
pub(super) fn read(file: &dyn DriverFile, pieces: &[(u64, usize)]) -> (BatchResult, Vec<Vec<u8>>) {
    let mut memory: Vec<_> = pieces.iter().map(|(_, bytes)| vec![0xA5; *bytes]).collect();
    let batch = Batch::read(
        pieces
            .iter()
            .zip(&mut memory)
            .map(|((offset, _), bytes)| Transfer::into_memory(*offset, bytes))
            .collect(),
    );
    let result = file.submit(batch).wait();
    (result, memory)
}

/// The content of the whole file.
pub(super) fn content(file: &dyn DriverFile) -> Vec<u8> {
    let len = file.len().expect("the length is known");
    // The buffer has one byte more than the file, to check that the read stops at the end.
    let mut bytes = vec![0xA5; usize::try_from(len).expect("a file of a test fits in memory") + 1];
    let read = file.read_at(0, &mut bytes).expect("the file can be read");
    assert_eq!(read as u64, len, "a longer read returns the whole file");
    bytes.truncate(read);
    bytes
}
