//! Hints from the command line, and their form in the environment, where the library reads them.

use std::fmt;
use std::str::FromStr;

/// The environment variable in which the library finds the hints.
pub(crate) const HINTS_VARIABLE: &str = "CAPULET_HINTS";

/// One `MPI_Info` pair that applies to every file that the program opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hint {
    key: String,
    value: String,
}

impl fmt::Display for Hint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.key, self.value)
    }
}

/// Why a hint is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HintError {
    /// The text has no `=`.
    #[error("a hint has the form key=value, as in cb_buffer_size=16777216")]
    NoEquals,
    /// The key before the `=` is empty.
    #[error("the key before '=' is empty")]
    EmptyKey,
    /// The value after the `=` is empty.
    #[error("the value after '=' is empty; MPI has no empty hints")]
    EmptyValue,
    /// The hint contains a `;`, which separates hints in the variable.
    #[error("a hint cannot contain ';', which separates the hints in CAPULET_HINTS")]
    Semicolon,
    /// The hint contains a NUL, which no variable can hold.
    #[error("a hint cannot contain a NUL byte")]
    Nul,
}

impl Hint {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for Hint {
    type Err = HintError;

    fn from_str(text: &str) -> Result<Self, HintError> {
        let (key, value) = text.split_once('=').ok_or(HintError::NoEquals)?;
        let (key, value) = (key.trim(), value.trim());
        if text.contains('\0') {
            return Err(HintError::Nul);
        }
        if text.contains(';') {
            return Err(HintError::Semicolon);
        }
        if key.is_empty() {
            return Err(HintError::EmptyKey);
        }
        if value.is_empty() {
            return Err(HintError::EmptyValue);
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

/// Encodes the hints as one string: `key=value` pairs, separated by `;`. The first `=` of a pair ends its
/// key.
pub(crate) fn encode(hints: &[Hint]) -> String {
    hints.iter().map(|hint| format!("{}={}", hint.key, hint.value)).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(text: &str) -> Hint {
        text.parse().expect("the hint is well formed")
    }

    #[test]
    fn first_equals_sign_ends_the_key() {
        assert_eq!(hint("a=b=c"), Hint { key: "a".into(), value: "b=c".into() });
        assert_eq!(hint(" cb_nodes = 2 "), Hint { key: "cb_nodes".into(), value: "2".into() });
    }

    #[test]
    fn each_malformed_hint_has_its_error() {
        assert_eq!("cb_nodes".parse::<Hint>(), Err(HintError::NoEquals));
        assert_eq!("".parse::<Hint>(), Err(HintError::NoEquals));
        assert_eq!("=2".parse::<Hint>(), Err(HintError::EmptyKey));
        assert_eq!("cb_nodes=".parse::<Hint>(), Err(HintError::EmptyValue));
        assert_eq!("a=b\0".parse::<Hint>(), Err(HintError::Nul));
        assert_eq!("a=b;c=d".parse::<Hint>(), Err(HintError::Semicolon));
    }

    #[test]
    fn hints_are_encoded_as_one_string() {
        assert_eq!(encode(&[]), "");
        assert_eq!(encode(&[hint("a=1"), hint(r"path=c:\x=y")]), r"a=1;path=c:\x=y");
    }
}
