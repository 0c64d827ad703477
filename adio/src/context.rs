//! What a process brings to every file that it opens.

use std::path::PathBuf;

use capulet_drivers::Registry;

/// Drivers, hints and reporting for the files of a process. A value: nothing here is global.
#[derive(Debug, Clone)]
pub struct Context {
    /// Which storage a file name belongs to.
    pub registry: Registry,
    /// A hint file in ROMIO's form (`ROMIO_HINTS`), read by rank 0 at open. The program's own hints win over it.
    pub hint_file: Option<PathBuf>,
    /// Hints that win over the program's own (`capulet run --hint`).
    pub hints: Vec<(String, String)>,
    /// Print a table of counts for each file when it is closed (`CAPULET_STATS`).
    pub stats: bool,
}

impl Context {
    /// The drivers of `registry`, no hints, no statistics.
    pub fn new(registry: Registry) -> Self {
        Self { registry, hint_file: None, hints: Vec::new(), stats: false }
    }
}
