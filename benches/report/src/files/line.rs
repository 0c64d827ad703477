//! What a launch prints: one JSON value a line.

use serde::{Deserialize, Serialize};

/// A line of a launch's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Start(Start),
    /// A row begins; a launch that ends before the row does has failed in it.
    Begin(Head),
    /// A row has ended.
    Row(Sample),
}

/// What a launch is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// What the MPI library says it is.
    pub library: String,
    /// Who serves the files: `capulet`, `ompio` or `romio`.
    pub layer: String,
    /// How many rows will follow.
    pub rows: u64,
}

/// Which row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its number in the suite, the same for all contenders.
    pub id: u32,
    /// `collective` or `independent`.
    pub suite: String,
    /// The pattern of the access.
    pub case: String,
    /// `write` or `read`.
    pub op: String,
    /// What was there before: `fresh` is nothing, `existing` a whole file.
    pub state: String,
}

/// A row, measured once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which row.
    #[serde(flatten)]
    pub head: Head,
    /// Payload of all ranks.
    pub bytes: u64,
    /// Runs of the file that the ranks access, in all.
    pub pieces: u64,
    /// Accesses, or openings; the times are of all of them.
    pub operations: u64,
    /// From the first rank's begin to the last one's end.
    pub seconds: f64,
    /// The same of setting the view, where it is not part of the row.
    pub view_seconds: f64,
    /// The same of moving as many bytes in one piece a rank by the system's own calls; of opening, where that is the row.
    pub limit_seconds: f64,
    /// Of the whole file after a write.
    pub hash: String,
    /// Bytes in the holes of a fresh file that are not 0; the standard does not say what they are.
    pub strays: u64,
    /// What went wrong: an error, or a wrong byte.
    pub fault: Option<String>,
}
