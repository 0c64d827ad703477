//! The errors of a bench. The most important one: two ways to do the same have different results.

use std::io;

use capulet_datatype::{TranslateError, TypeError};

/// Why a bench ended early.
#[derive(Debug)]
pub enum BenchError {
    /// Two contenders disagree. The text tells about what.
    Disagree(String),
    /// A type cannot be built, or a range is wrong.
    Type(TypeError),
    /// A type cannot be translated.
    Translate(TranslateError),
    /// The rows cannot be written.
    Output(io::Error),
}

impl std::fmt::Display for BenchError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BenchError::Disagree(what) => write!(formatter, "{what} differ"),
            BenchError::Type(error) => write!(formatter, "{error}"),
            BenchError::Translate(error) => write!(formatter, "{error}"),
            BenchError::Output(error) => write!(formatter, "cannot write the rows: {error}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<TypeError> for BenchError {
    fn from(error: TypeError) -> Self {
        Self::Type(error)
    }
}

impl From<TranslateError> for BenchError {
    fn from(error: TranslateError) -> Self {
        Self::Translate(error)
    }
}

impl From<io::Error> for BenchError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Compares two results byte by byte. `what` names the two.
///
/// # Errors
/// [`BenchError::Disagree`], with the first byte that differs.
pub(crate) fn agree(found: &[u8], expected: &[u8], what: impl Fn() -> String) -> Result<(), BenchError> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(found.len().min(expected.len()));
    Err(BenchError::Disagree(format!("{}, at byte {at},", what())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_differing_byte_is_named() {
        assert!(agree(b"abc", b"abc", String::new).is_ok());
        let error = agree(b"abcd", b"abXd", || "images".into()).expect_err("they differ");
        assert_eq!(error.to_string(), "images, at byte 2, differ");
        assert!(agree(b"ab", b"abc", String::new).is_err(), "the second slice is longer");
    }
}
