//! Why there are no figures.

use std::io;
use std::path::PathBuf;

use plotters::drawing::DrawingAreaErrorKind;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {cause}", path = path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("{path}: not rows of capulet bench: {cause}", path = path.display())]
    Rows { path: PathBuf, cause: serde_json::Error },
    #[error("the font cannot be read")]
    Font,
    #[error("cannot draw: {0}")]
    Draw(String),
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for Error {
    fn from(cause: DrawingAreaErrorKind<E>) -> Self {
        Self::Draw(cause.to_string())
    }
}
