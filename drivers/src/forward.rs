//! Implements the traits for pointers to drivers and files. The lint reports a trait method with a default
//! body that is not forwarded here.
#![deny(clippy::missing_trait_methods)]

use crate::{
    Batch, Caps, Completion, Driver, DriverFile, Error, FileIdentity, FileLayout, LockGuard, LockMode,
    OpenOptions, Result, SystemCalls,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Forwards each method to the pointee. `close` needs a unique reference to the pointee, and `unique` returns
/// none where the pointer has no such reference.
macro_rules! forward {
    ($($pointer:ty, unique: $unique:expr;)*) => {$(
        impl<T: Driver + ?Sized> Driver for $pointer {
            fn name(&self) -> &'static str {
                (**self).name()
            }

            fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn DriverFile>> {
                (**self).open(path, options)
            }

            fn delete(&self, path: &Path) -> Result<()> {
                (**self).delete(path)
            }

            fn lasting_path(&self, path: &Path) -> PathBuf {
                (**self).lasting_path(path)
            }
        }

        impl<T: DriverFile + ?Sized> DriverFile for $pointer {
            fn path(&self) -> &Path {
                (**self).path()
            }

            fn caps(&self) -> Caps {
                (**self).caps()
            }

            fn layout(&self) -> FileLayout {
                (**self).layout()
            }

            fn identity(&self) -> Option<FileIdentity> {
                (**self).identity()
            }

            fn submit(&self, batch: Batch<'_>) -> Completion {
                (**self).submit(batch)
            }

            fn would_wait(&self, offset: u64) -> Option<bool> {
                (**self).would_wait(offset)
            }

            fn len(&self) -> Result<u64> {
                (**self).len()
            }

            fn set_len(&self, bytes: u64) -> Result<()> {
                (**self).set_len(bytes)
            }

            fn preallocate(&self, bytes: u64) -> Result<()> {
                (**self).preallocate(bytes)
            }

            fn sync(&self) -> Result<()> {
                (**self).sync()
            }

            fn refresh(&self) -> Result<()> {
                (**self).refresh()
            }

            fn try_lock(&self, range: Range<u64>, mode: LockMode) -> Result<Option<LockGuard>> {
                (**self).try_lock(range, mode)
            }

            fn system_calls(&self) -> SystemCalls {
                (**self).system_calls()
            }

            fn close(&mut self) -> Result<()> {
                let unique: fn(&mut Self) -> Option<&mut T> = $unique;
                match unique(self) {
                    Some(file) => file.close(),
                    None => Err(Error::in_use(self.path())),
                }
            }
        }
    )*};
}

forward! {
    Arc<T>, unique: Arc::get_mut;
    Box<T>, unique: |file| Some(&mut **file);
    &T, unique: |_| None;
}
