//! A file that a rank opens when it first needs the file. A rank that moves no bytes never opens it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use capulet_drivers::{
    Batch, BatchResult, Caps, Completion, Direction, Driver, DriverFile, Error, ErrorKind, FileIdentity,
    FileLayout, LockGuard, LockMode, OpenOptions, Operation, Result, SystemCalls,
};

use crate::calls::Calls;

/// Opens one file, and counts the opens.
#[derive(Debug, Clone)]
pub(crate) struct Opener {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) path: PathBuf,
    pub(crate) calls: Arc<Calls>,
}

impl Opener {
    pub(crate) fn open(&self, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        self.calls.opened();
        self.driver.open(&self.path, options)
    }
}

/// The properties of an open file that the leader of a node passes to the other ranks of the node, which may
/// open the file later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    identity: FileIdentity,
    caps: Caps,
    layout: FileLayout,
}

impl Known {
    /// `None` if the storage reports no identity of the file.
    pub(crate) fn of(file: &dyn DriverFile) -> Option<Self> {
        Some(Self { identity: file.identity()?, caps: file.caps(), layout: file.layout() })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let FileLayout { block_bytes, stripe_bytes, stripe_count, write_unit_bytes } = self.layout;
        let FileIdentity { device, file } = self.identity;
        let caps = self.caps.bits().into();
        let numbers = [device, file, caps, block_bytes, stripe_bytes, stripe_count.into(), write_unit_bytes];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [device, file, caps, block_bytes, stripe_bytes, stripe_count, write_unit_bytes] =
            *numbers.as_slice()
        else {
            return None;
        };
        Some(Self {
            identity: FileIdentity { device, file },
            caps: Caps::from_bits(caps as u32),
            layout: FileLayout {
                block_bytes,
                stripe_bytes,
                stripe_count: stripe_count as u32,
                write_unit_bytes,
            },
        })
    }
}

/// A file that another rank of the node has open. The first call that needs the file opens it. The name must
/// then still refer to the same file. If the open fails, the call returns the error, and the next call tries
/// again.
#[derive(Debug)]
pub(crate) struct OnDemand {
    opener: Opener,
    options: OpenOptions,
    known: Known,
    file: OnceLock<Arc<dyn DriverFile>>,
    opening: Mutex<()>,
    /// Whether the file was closed without an open. An opened driver file keeps its own record of the close.
    is_closed: bool,
}

impl OnDemand {
    /// `options` must not create.
    pub(crate) fn new(mut opener: Opener, options: OpenOptions, known: Known) -> Self {
        // The program may change its folder before the file is opened.
        opener.path = opener.driver.lasting_path(&opener.path);
        Self { opener, options, known, file: OnceLock::new(), opening: Mutex::new(()), is_closed: false }
    }

    fn file(&self, operation: Operation) -> Result<&Arc<dyn DriverFile>> {
        if let Some(file) = self.opened(operation)? {
            return Ok(file);
        }
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let mut file = self.opener.open(&self.options)?;
        if file.identity() != Some(self.known.identity) {
            // Nothing was written to this file, so an error of the close loses no data.
            let _ = file.close();
            let reason = "another file has got this name since the file was opened";
            return Err(Error::message(ErrorKind::NotFound, Operation::Open, &self.opener.path, reason));
        }
        tracing::debug!(path = %self.opener.path.display(), "opened on demand");
        Ok(self.file.get_or_init(|| file))
    }

    /// The file, if an earlier call has opened it. Fails after a close without an open.
    fn opened(&self, operation: Operation) -> Result<Option<&Arc<dyn DriverFile>>> {
        if self.is_closed {
            return Err(Error::closed(operation, &self.opener.path));
        }
        Ok(self.file.get())
    }
}

impl DriverFile for OnDemand {
    fn path(&self) -> &Path {
        &self.opener.path
    }

    fn caps(&self) -> Caps {
        self.known.caps
    }

    fn layout(&self) -> FileLayout {
        self.known.layout
    }

    fn identity(&self) -> Option<FileIdentity> {
        Some(self.known.identity)
    }

    fn submit(&self, batch: Batch<'_>) -> Completion {
        let operation = match batch.direction() {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        };
        match self.file(operation) {
            Ok(file) => file.submit(batch),
            Err(error) => Completion::ready(BatchResult::failed(0, error)),
        }
    }

    fn would_wait(&self, offset: u64) -> Option<bool> {
        self.file(Operation::Read).ok()?.would_wait(offset)
    }

    fn len(&self) -> Result<u64> {
        self.file(Operation::Length)?.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file(Operation::SetLength)?.set_len(bytes)
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.file(Operation::Preallocate)?.preallocate(bytes)
    }

    fn sync(&self) -> Result<()> {
        // Without an open, this rank has written nothing, so no data must be forced to the device.
        self.opened(Operation::Sync)?.map_or(Ok(()), DriverFile::sync)
    }

    fn refresh(&self) -> Result<()> {
        // A later open sees the state of the file at that time.
        self.opened(Operation::Refresh)?.map_or(Ok(()), DriverFile::refresh)
    }

    fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
        self.file(Operation::Lock)?.try_lock(range, mode)
    }

    fn system_calls(&self) -> SystemCalls {
        self.file.get().map(DriverFile::system_calls).unwrap_or_default()
    }

    fn close(&mut self) -> Result<()> {
        self.opened(Operation::Close)?;
        if let Some(file) = self.file.get_mut() {
            return file.close();
        }
        self.is_closed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capulet_drivers::DriverFileExt;
    use capulet_drivers::posix::PosixDriver;

    /// An open file, and an [`OnDemand`] for the same file.
    fn pair(folder: &tempfile::TempDir) -> (Arc<dyn DriverFile>, OnDemand) {
        let driver: Arc<dyn Driver> = Arc::new(PosixDriver::default());
        let opener = Opener { driver, path: folder.path().join("data"), calls: Arc::default() };
        let options = OpenOptions::read_write();
        let first = opener.open(&options.clone().create(true)).expect("opens");
        let known = Known::of(first.as_ref()).expect("a file of the system has an identity");
        assert_eq!(Known::from_bytes(&known.to_bytes()), Some(known));
        assert_eq!(Known::from_bytes(&known.to_bytes()[1..]), None);
        let later = Opener { calls: Arc::default(), ..opener };
        (first, OnDemand::new(later, options, known))
    }

    fn opens(file: &OnDemand) -> u64 {
        file.opener.calls.values()[0]
    }

    #[test]
    fn file_is_opened_once_by_the_first_call_that_needs_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, later) = pair(&folder);
        assert_eq!((later.caps(), later.layout()), (first.caps(), first.layout()));
        later.sync().expect("nothing to do");
        assert_eq!((opens(&later), later.system_calls().total()), (0, 0));
        let later = &later;
        std::thread::scope(|scope| {
            for at in 0..8_u8 {
                scope.spawn(move || later.write_all_at(at.into(), &[at]).expect("writes"));
            }
        });
        assert_eq!(opens(later), 1);
        assert!(later.system_calls().writes >= 8);
        let mut bytes = [9; 9];
        assert_eq!(first.read_at(0, &mut bytes).expect("reads"), 8);
        assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 6, 7, 9]);
        assert_eq!(later.len().expect("a length"), 8);
    }

    #[test]
    fn close_of_an_unopened_file_opens_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_first, mut never) = pair(&folder);
        never.refresh().expect("nothing to do");
        never.close().expect("nothing to do");
        assert_eq!(opens(&never), 0);
        for error in [
            never.write_all_at(0, b"lost").expect_err("closed"),
            never.len().expect_err("closed"),
            never.sync().expect_err("closed"),
            never.refresh().expect_err("closed"),
            never.close().expect_err("closed"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Closed);
        }
        assert_eq!(opens(&never), 0, "a closed file is not opened again");
        let (first, mut later) = pair(&folder);
        later.write_all_at(0, b"kept").expect("writes");
        later.refresh().expect("sees all");
        let calls = later.system_calls().other;
        later.close().expect("closes");
        assert_eq!(later.system_calls().other - calls, 1);
        assert_eq!(later.write_all_at(0, b"lost").expect_err("closed").kind(), ErrorKind::Closed);
        assert_eq!(later.close().expect_err("closed").kind(), ErrorKind::Closed);
        let mut bytes = [0; 5];
        assert_eq!((first.read_at(0, &mut bytes).expect("reads"), &bytes[..4]), (4, &b"kept"[..]));
    }

    #[test]
    fn another_file_with_the_name_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, later) = pair(&folder);
        let (name, aside) = (folder.path().join("data"), folder.path().join("aside"));
        std::fs::rename(&name, &aside).expect("renames");
        let gone = later.write_all_at(0, b"lost").expect_err("no such file");
        assert_eq!((gone.kind(), gone.operation()), (ErrorKind::NotFound, Operation::Open));
        std::fs::write(&name, "other").expect("writes");
        let other = later.write_all_at(0, b"lost").expect_err("another file");
        assert_eq!((other.kind(), other.operation()), (ErrorKind::NotFound, Operation::Open));
        assert_eq!(later.len().expect_err("another file").kind(), ErrorKind::NotFound);
        assert_eq!(std::fs::read(&name).expect("reads"), b"other");
        std::fs::rename(&aside, &name).expect("renames");
        later.write_all_at(0, b"found").expect("the file is back");
        assert_eq!((first.len().expect("a length"), opens(&later)), (5, 4));
    }
}
