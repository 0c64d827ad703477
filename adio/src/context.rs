//! The settings of a process for all files that it opens.

use std::path::PathBuf;

use capulet_drivers::Registry;

/// Drivers, hints and statistics for the files of a process. A value, not a global.
#[derive(Debug, Clone)]
pub struct Context {
    /// Maps a file name to its driver.
    pub registry: Registry,
    /// A hint file in the format of ROMIO (`ROMIO_HINTS`). Rank 0 reads it at open. The hints of the
    /// program take precedence over it.
    pub hint_file: Option<PathBuf>,
    /// Hints that take precedence over those of the program (`capulet run --hint`).
    pub hints: Vec<(String, String)>,
    /// Whether to print a table of counts for each file when it is closed (`CAPULET_STATS`).
    pub stats: bool,
}

impl Context {
    /// A context with the drivers of `registry`, no hints and no statistics.
    pub fn new(registry: Registry) -> Self {
        Self { registry, hint_file: None, hints: Vec::new(), stats: false }
    }
}
