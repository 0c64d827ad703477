//! The result of an access.

use crate::error::{Error, Result};

/// The result of an access on this rank.
#[derive(Debug, Default)]
#[must_use = "an access can fail, or read fewer bytes than requested"]
pub struct Outcome {
    /// The number of bytes moved, from the start of the access. Fewer than requested, without an error,
    /// if a read meets the end of the file.
    pub bytes: u64,
    /// The error. A collective access reports an error of any rank on all ranks.
    pub error: Option<Error>,
}

impl Outcome {
    pub(crate) fn failed(error: Error) -> Self {
        Self { bytes: 0, error: Some(error) }
    }

    /// The number of bytes moved, or the error.
    ///
    /// # Errors
    /// The error of the access.
    pub fn into_result(self) -> Result<u64> {
        self.error.map_or(Ok(self.bytes), Err)
    }
}
