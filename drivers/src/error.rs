//! The errors of drivers, classified by the reaction of the caller.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of a driver's call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an error, on which a caller can act. The layers above map each kind to one MPI error class
/// (MPI-4.1, section 14.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file does not exist, or the folder for a new file does not exist.
    NotFound,
    /// The file exists already.
    Exists,
    /// The user lacks the permission.
    Permission,
    /// The file or its file system is read-only.
    ReadOnly,
    /// The storage is full.
    NoSpace,
    /// The user's quota is used up.
    Quota,
    /// The offset or length exceeds what the storage or the limits of the process allow.
    TooLarge,
    /// The path cannot name a file: it is too long, contains a NUL byte, names a directory, or has a file in
    /// the place of a folder.
    BadName,
    /// Another user of the file excludes the operation at present.
    Busy,
    /// The storage does not support the operation.
    Unsupported,
    /// The file was closed before the call: a bug of the caller.
    Closed,
    /// All other errors of a storage.
    Io,
}

impl ErrorKind {
    /// The kind of a system error.
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(code) => Self::of_code(code),
            None => match error.kind() {
                io::ErrorKind::NotFound => Self::NotFound,
                io::ErrorKind::AlreadyExists => Self::Exists,
                io::ErrorKind::PermissionDenied => Self::Permission,
                io::ErrorKind::StorageFull => Self::NoSpace,
                io::ErrorKind::InvalidInput => Self::BadName,
                io::ErrorKind::Unsupported => Self::Unsupported,
                _ => Self::Io,
            },
        }
    }

    fn of_code(code: i32) -> Self {
        match code {
            libc::ENOENT => Self::NotFound,
            libc::EEXIST => Self::Exists,
            libc::EACCES | libc::EPERM => Self::Permission,
            libc::EROFS => Self::ReadOnly,
            libc::ENOSPC => Self::NoSpace,
            libc::EDQUOT => Self::Quota,
            libc::EFBIG | libc::EOVERFLOW => Self::TooLarge,
            libc::ENAMETOOLONG | libc::EISDIR | libc::ENOTDIR | libc::ELOOP => Self::BadName,
            libc::EBUSY | libc::ETXTBSY | libc::EAGAIN | libc::EDEADLK => Self::Busy,
            libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOLCK | libc::ENODEV | libc::ENXIO | libc::ESPIPE => {
                Self::Unsupported
            }
            _ => Self::Io,
        }
    }
}

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// The search for the driver or the file system of a name.
    Resolve,
    /// [`Driver::open`](crate::Driver::open).
    Open,
    /// [`Driver::delete`](crate::Driver::delete).
    Delete,
    /// A batch that reads.
    Read,
    /// A batch that writes.
    Write,
    /// [`DriverFile::len`](crate::DriverFile::len).
    Length,
    /// [`DriverFile::set_len`](crate::DriverFile::set_len).
    SetLength,
    /// [`DriverFile::preallocate`](crate::DriverFile::preallocate).
    Preallocate,
    /// [`DriverFile::sync`](crate::DriverFile::sync).
    Sync,
    /// [`DriverFile::refresh`](crate::DriverFile::refresh).
    Refresh,
    /// [`DriverFile::try_lock`](crate::DriverFile::try_lock).
    Lock,
    /// [`DriverFile::close`](crate::DriverFile::close).
    Close,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "resolve",
            Self::Open => "open",
            Self::Delete => "delete",
            Self::Read => "read",
            Self::Write => "write",
            Self::Length => "get the length of",
            Self::SetLength => "set the length of",
            Self::Preallocate => "preallocate",
            Self::Sync => "sync",
            Self::Refresh => "refresh",
            Self::Lock => "lock",
            Self::Close => "close",
        })
    }
}

/// An error of a driver: operation, path, offset and reason. Cheap to clone.
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct Error(Arc<Detail>);

#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}{}: {source}", path.display(), at(*offset))]
struct Detail {
    kind: ErrorKind,
    operation: Operation,
    path: PathBuf,
    offset: Option<u64>,
    source: io::Error,
}

fn at(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at offset {offset}"))
}

impl Error {
    /// An error of a given kind, with its reason.
    pub fn new(kind: ErrorKind, operation: Operation, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_path_buf(), source.into());
        Self(Arc::new(Detail { kind, operation, path, offset: None, source }))
    }

    /// An error that the system reported. Its kind follows from the code of the system.
    pub fn system(operation: Operation, path: &Path, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        Self::new(ErrorKind::of(&source), operation, path, source)
    }

    /// An error with a text as its reason.
    pub fn message(kind: ErrorKind, operation: Operation, path: &Path, reason: impl Into<String>) -> Self {
        Self::new(kind, operation, path, io::Error::other(reason.into()))
    }

    /// The error of a call on a file after its [`DriverFile::close`](crate::DriverFile::close).
    pub fn closed(operation: Operation, path: &Path) -> Self {
        Self::message(ErrorKind::Closed, operation, path, "the file is closed")
    }

    /// The error of a close of a file that has other references.
    pub(crate) fn in_use(path: &Path) -> Self {
        Self::message(ErrorKind::Busy, Operation::Close, path, "the file is still in use")
    }

    /// The same error with a file offset.
    pub fn at(self, offset: u64) -> Self {
        let Detail { kind, operation, ref path, ref source, .. } = *self.0;
        let source = source
            .raw_os_error()
            .map_or_else(|| io::Error::new(source.kind(), source.to_string()), io::Error::from_raw_os_error);
        Self(Arc::new(Detail { kind, operation, path: path.clone(), offset: Some(offset), source }))
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The file offset of the failure, if the operation has one.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The error code of the system, if the error came from the system.
    pub fn system_code(&self) -> Option<i32> {
        self.0.source.raw_os_error()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn error_codes_map_to_kinds() {
        for (code, kind) in [
            (libc::ENOENT, ErrorKind::NotFound),
            (libc::EEXIST, ErrorKind::Exists),
            (libc::EACCES, ErrorKind::Permission),
            (libc::EPERM, ErrorKind::Permission),
            (libc::EROFS, ErrorKind::ReadOnly),
            (libc::ENOSPC, ErrorKind::NoSpace),
            (libc::EDQUOT, ErrorKind::Quota),
            (libc::EFBIG, ErrorKind::TooLarge),
            (libc::ENAMETOOLONG, ErrorKind::BadName),
            (libc::EISDIR, ErrorKind::BadName),
            (libc::ENOTDIR, ErrorKind::BadName),
            (libc::EBUSY, ErrorKind::Busy),
            (libc::ETXTBSY, ErrorKind::Busy),
            (libc::EOPNOTSUPP, ErrorKind::Unsupported),
            (libc::EIO, ErrorKind::Io),
        ] {
            assert_eq!(ErrorKind::of(&io::Error::from_raw_os_error(code)), kind, "code {code}");
        }
    }

    #[test]
    fn message_has_operation_path_offset_and_reason() {
        let error =
            Error::system(Operation::Write, Path::new("/data/a"), io::Error::from_raw_os_error(libc::ENOSPC))
                .at(12);
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert_eq!((error.offset(), error.system_code()), (Some(12), Some(libc::ENOSPC)));
        let text = error.to_string();
        assert!(text.starts_with("cannot write /data/a at offset 12: No space left"), "{text}");
        assert!(error.source().is_some());
    }
}
