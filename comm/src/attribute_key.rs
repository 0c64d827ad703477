//! The keys of the attributes that this crate stores in the MPI objects of users.

use std::ffi::c_int;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::Result;
use crate::process::process;

/// An attribute key of this crate. It is created at its first use and never freed.
#[derive(Debug)]
pub(crate) struct AttributeKey {
    key: OnceLock<c_int>,
    /// Locked while the key is created.
    creating: Mutex<()>,
    create: fn() -> Result<c_int>,
}

impl AttributeKey {
    /// A key that `create` creates.
    pub(crate) const fn new(create: fn() -> Result<c_int>) -> Self {
        Self { key: OnceLock::new(), creating: Mutex::new(()), create }
    }

    /// The key. The first call prepares this process and creates the key. Local.
    ///
    /// # Errors
    /// If MPI is not initialized, is finalized, or fails.
    pub(crate) fn get(&self) -> Result<c_int> {
        match self.key.get() {
            Some(key) => Ok(*key),
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Result<c_int> {
        process()?;
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = self.key.get() {
            return Ok(*key);
        }
        let key = (self.create)()?;
        Ok(*self.key.get_or_init(|| key))
    }
}
