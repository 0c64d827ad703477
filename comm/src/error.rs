//! The errors of this crate.

use std::ffi::{c_char, c_int};

use capulet_datatype::TypeError;

use crate::class::ErrorClass;
use crate::ffi;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Each error has an [`ErrorClass`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An MPI function returned an error.
    #[error("{call} failed: {text} (code {code})")]
    Call {
        /// The name of the MPI function.
        call: &'static str,
        /// The error code that the function returned.
        code: c_int,
        /// The class of the code.
        class: ErrorClass,
        /// The text of the MPI library for the code.
        text: String,
    },
    /// An argument of the caller is invalid.
    #[error("{class}: {reason}")]
    Invalid {
        /// The MPI error class of the error.
        class: ErrorClass,
        /// What is wrong with the argument.
        reason: String,
    },
    /// A datatype has no layout.
    #[error("datatype: {0}")]
    Type(#[from] TypeError),
    /// The ranks of a collective call do not agree.
    #[error("the ranks disagree on {what}")]
    Disagreement {
        /// The value that differs between the ranks.
        what: &'static str,
    },
    /// Another rank failed and reported its error class.
    #[error("another rank failed: {class}")]
    Elsewhere {
        /// The class that the other rank reported.
        class: ErrorClass,
    },
    /// Memory for a message or a table cannot be allocated.
    #[error("out of memory: {bytes} bytes for {purpose}")]
    Memory {
        /// The size of the allocation that failed, in bytes.
        bytes: usize,
        /// What the memory is for.
        purpose: &'static str,
    },
    /// An operation on the words of another rank failed, or this rank cannot serve its words.
    #[error(transparent)]
    Words(#[from] capulet_word_server::Error),
    /// MPI is finalized, or this crate has already released its resources in `MPI_Finalize`.
    #[error("MPI is finalized")]
    Finalized,
}

impl Error {
    /// The MPI error class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Call { class, .. } | Error::Invalid { class, .. } | Error::Elsewhere { class } => *class,
            Error::Type(_) => ErrorClass::Type,
            Error::Disagreement { .. } => ErrorClass::NotSame,
            Error::Memory { .. } => ErrorClass::NoMem,
            Error::Words(_) | Error::Finalized => ErrorClass::Other,
        }
    }

    /// The error for an invalid argument.
    pub fn invalid(class: ErrorClass, reason: impl Into<String>) -> Self {
        Error::Invalid { class, reason: reason.into() }
    }
}

/// Converts the return code of the MPI function `call` into a result.
pub(crate) fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failure(call, code)) }
}

#[cold]
fn failure(call: &'static str, code: c_int) -> Error {
    Error::Call { call, code, class: ErrorClass::from_code(code), text: text_of(code) }
}

fn text_of(code: c_int) -> String {
    // MPI_MAX_ERROR_STRING is 256 in Open MPI, and 512 or 1024 in MPICH.
    let mut text = [0_u8; 4096];
    let mut length: c_int = 0;
    // SAFETY: MPI-4.0 section 9.3.5: MPI_Error_string writes at most MPI_MAX_ERROR_STRING characters and
    // one int. The buffer is longer than MPI_MAX_ERROR_STRING of every supported MPI, and both pointers are
    // valid for writes.
    let status = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
    let length = usize::try_from(length).unwrap_or(0).min(text.len());
    if status == 0 { String::from_utf8_lossy(&text[..length]).into_owned() } else { "no text".to_owned() }
}
