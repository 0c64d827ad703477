//! Why there is no plan.

use std::io;
use std::path::PathBuf;

/// The command line, or a file that it names, is wrong.
const EXIT_BAD_INPUT: u8 = 2;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {cause}", path = path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{path}: line {line}: {what}; a line has the form rank,offset,length", path = path.display())]
    Line { path: PathBuf, line: u64, what: String },
    #[error("{path}: more than {most} runs", path = path.display())]
    TooManyRuns { path: PathBuf, most: usize },
    #[error("{0}")]
    Wrong(String),
    #[error("hint {key}: {value} is not {wanted}")]
    HintValue { key: String, value: String, wanted: &'static str },
    #[error("hint {key}: plans do not depend on it; they depend on {known}")]
    HintKey { key: String, known: String },
    #[error("{path}: cannot be written: {cause}", path = path.display())]
    Unwritable { path: PathBuf, cause: io::Error },
    #[error("the plan cannot be printed: {0}")]
    Output(io::Error),
}

impl Error {
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unwritable { .. } | Self::Output(_) => 1,
            _ => EXIT_BAD_INPUT,
        }
    }
}
