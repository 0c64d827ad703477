//! What can go wrong at the door to MPI.

use std::ffi::{c_char, c_int};

use capulet_datatype::TypeError;

use crate::class::ErrorClass;
use crate::ffi;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Every one has an [`ErrorClass`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An MPI function returned an error.
    #[error("{call} failed: {text} (code {code})")]
    Call {
        /// The name of the MPI function.
        call: &'static str,
        /// What it returned.
        code: c_int,
        /// The class of that code.
        class: ErrorClass,
        /// The MPI library's own words.
        text: String,
    },
    /// The caller gave something that cannot be used.
    #[error("{class}: {reason}")]
    Invalid {
        /// What it is called in MPI.
        class: ErrorClass,
        /// What exactly is wrong.
        reason: String,
    },
    /// A datatype has no layout.
    #[error("datatype: {0}")]
    Type(#[from] TypeError),
    /// The ranks of a collective call do not agree.
    #[error("the ranks disagree on {what}")]
    Disagreement {
        /// On what.
        what: &'static str,
    },
    /// Another rank failed, and told.
    #[error("another rank failed: {class}")]
    Elsewhere {
        /// The class that the other rank told.
        class: ErrorClass,
    },
    /// Memory for a message or a table could not be had.
    #[error("out of memory: {bytes} bytes for {purpose}")]
    Memory {
        /// How much was wanted.
        bytes: usize,
        /// What for.
        purpose: &'static str,
    },
    /// MPI is finalized (or this crate has already let go of its resources in `MPI_Finalize`).
    #[error("MPI is finalized")]
    Finalized,
}

impl Error {
    /// The MPI error class. Total.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Call { class, .. } | Error::Invalid { class, .. } | Error::Elsewhere { class } => *class,
            Error::Type(_) => ErrorClass::Type,
            Error::Disagreement { .. } => ErrorClass::NotSame,
            Error::Memory { .. } => ErrorClass::NoMem,
            Error::Finalized => ErrorClass::Other,
        }
    }

    /// An argument that cannot be used.
    pub fn invalid(class: ErrorClass, reason: impl Into<String>) -> Self {
        Error::Invalid { class, reason: reason.into() }
    }
}

/// Turns what an MPI function returned into a result.
pub(crate) fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failure(call, code)) }
}

#[cold]
fn failure(call: &'static str, code: c_int) -> Error {
    Error::Call { call, code, class: ErrorClass::from_code(code), text: text_of(code) }
}

fn text_of(code: c_int) -> String {
    // MPI_MAX_ERROR_STRING is 256 on Open MPI, 512 or 1024 on MPICH.
    let mut text = [0_u8; 4096];
    let mut length: c_int = 0;
    // SAFETY: the buffer is longer than MPI_MAX_ERROR_STRING of every MPI that we build for, and both pointers are
    // valid for writing during the call (MPI-4.0 section 9.3.4).
    let status = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0).min(text.len());
    if status == 0 { String::from_utf8_lossy(&text[..length]).into_owned() } else { "no text".to_owned() }
}
