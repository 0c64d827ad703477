//! The smallest driver that keeps the contract, as a start for a new driver. It stores in ordinary files
//! through the standard library.
//!
//! It has no locks and reserves no storage: `preallocate` only extends the file.

use crate::{
    Access, Batch, BatchResult, Caps, Completion, Direction, Driver, DriverFile, Error, ErrorKind,
    FileIdentity, FileLayout, LockGuard, LockMode, OpenOptions, Operation, Result, SystemCalls, Transfer,
};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The template driver. It has no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct TemplateDriver;

impl Driver for TemplateDriver {
    fn name(&self) -> &'static str {
        "template"
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
        let failed = |source| Error::system(Operation::Open, path, source);
        let mut system = File::options();
        system.read(options.access.readable()).write(options.access.writable()).mode(options.permissions);
        // The standard library creates a file only if it opens the file for writing. So an open for reading
        // creates the file first.
        if options.create && !options.access.writable() {
            let exclusive = options.exclusive;
            File::options()
                .write(true)
                .create(!exclusive)
                .create_new(exclusive)
                .open(path)
                .map_err(failed)?;
        } else {
            system.create(options.create).create_new(options.create && options.exclusive);
        }
        let file = system.open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        Ok(Arc::new(TemplateFile { file: Some(file), path: path.to_path_buf(), access: options.access }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|source| Error::system(Operation::Delete, path, source))
    }

    fn lasting_path(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    }
}

#[derive(Debug)]
struct TemplateFile {
    /// `None` after the close.
    file: Option<File>,
    path: PathBuf,
    access: Access,
}

impl TemplateFile {
    fn failed(&self, operation: Operation, source: io::Error) -> Error {
        Error::system(operation, &self.path, source)
    }

    fn file(&self, operation: Operation) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| Error::closed(operation, &self.path))
    }

    fn check(&self, operation: Operation, allowed: bool, refusal: ErrorKind) -> Result<()> {
        if allowed {
            return Ok(());
        }
        Err(Error::message(refusal, operation, &self.path, "the file was not opened for this access"))
    }

    fn check_length(&self, operation: Operation, bytes: u64) -> Result<()> {
        if i64::try_from(bytes).is_ok() {
            return Ok(());
        }
        Err(self.failed(operation, io::Error::from_raw_os_error(libc::EFBIG)))
    }

    /// Moves one transfer through a buffer, piece by piece. Adds the moved bytes to `moved`. Returns false if
    /// the file ends before the transfer does.
    fn transfer(&self, operation: Operation, transfer: &Transfer<'_>, moved: &mut u64) -> Result<bool> {
        const BUFFER_BYTES: usize = 16 << 10;
        let mut buffer = [0; BUFFER_BYTES];
        let (file, offset, memory) = (self.file(operation)?, transfer.offset, &transfer.memory);
        if memory.bytes() > 0 {
            self.check_length(operation, offset.saturating_add(memory.bytes() as u64))?;
        }
        let mut done = 0;
        while done < memory.bytes() {
            let piece = &mut buffer[..BUFFER_BYTES.min(memory.bytes() - done)];
            let at = offset + done as u64;
            let answer = if operation == Operation::Read {
                file.read_at(piece, at)
            } else {
                memory.copy_out(done, piece);
                file.write_at(piece, at)
            };
            let bytes = match answer {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed(operation, error).at(at)),
                Ok(0) if operation == Operation::Read => return Ok(false),
                Ok(0) => return Err(self.failed(operation, io::ErrorKind::WriteZero.into()).at(at)),
                Ok(bytes) => bytes,
            };
            if operation == Operation::Read {
                memory.copy_in(done, &piece[..bytes]);
            }
            done += bytes;
            *moved += bytes as u64;
        }
        Ok(true)
    }
}

impl DriverFile for TemplateFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn caps(&self) -> Caps {
        Caps::PROCESS_SHARED | Caps::UNLINK_OPEN
    }

    fn layout(&self) -> FileLayout {
        FileLayout::unstriped(4096)
    }

    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    fn submit(&self, batch: Batch<'_>) -> Completion {
        let operation = match batch.direction() {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        };
        let allowed = match batch.direction() {
            _ if self.file.is_none() => Err(Error::closed(operation, &self.path)),
            _ if batch.bytes() == 0 => Ok(()),
            Direction::Read => self.check(operation, self.access.readable(), ErrorKind::Permission),
            Direction::Write => self.check(operation, self.access.writable(), ErrorKind::ReadOnly),
        };
        let mut moved = 0;
        let outcome = allowed.and_then(|()| {
            for transfer in batch.transfers() {
                if !self.transfer(operation, transfer, &mut moved)? {
                    break;
                }
            }
            Ok(())
        });
        Completion::ready(BatchResult { bytes: moved, error: outcome.err() })
    }

    fn would_wait(&self, _offset: u64) -> Option<bool> {
        None
    }

    fn len(&self) -> Result<u64> {
        let status = self.file(Operation::Length)?.metadata();
        Ok(status.map_err(|source| self.failed(Operation::Length, source))?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let file = self.file(Operation::SetLength)?;
        self.check(Operation::SetLength, self.access.writable(), ErrorKind::ReadOnly)?;
        self.check_length(Operation::SetLength, bytes)?;
        file.set_len(bytes).map_err(|source| self.failed(Operation::SetLength, source))
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.file(Operation::Preallocate)?;
        self.check(Operation::Preallocate, self.access.writable(), ErrorKind::ReadOnly)?;
        self.check_length(Operation::Preallocate, bytes)?;
        if bytes > self.len()? { self.set_len(bytes) } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        self.file(Operation::Sync)?.sync_all().map_err(|source| self.failed(Operation::Sync, source))
    }

    fn refresh(&self) -> Result<()> {
        // The storage below is not known. A real driver discards what this node has cached.
        self.file(Operation::Refresh).map(|_| ())
    }

    fn try_lock(&self, _range: Range<u64>, _mode: LockMode) -> Result<Option<LockGuard>> {
        self.file(Operation::Lock)?;
        Err(Error::message(ErrorKind::Unsupported, Operation::Lock, &self.path, "the template has no locks"))
    }

    fn system_calls(&self) -> SystemCalls {
        SystemCalls::default()
    }

    fn close(&mut self) -> Result<()> {
        let file = self.file.take().ok_or_else(|| Error::closed(Operation::Close, &self.path))?;
        // The close of the standard library returns no error.
        nix::unistd::close(file).map_err(|source| self.failed(Operation::Close, source.into()))
    }
}
