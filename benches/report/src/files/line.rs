//! The output of a launch: one JSON value on each line.

use serde::{Deserialize, Serialize};

/// A line of a launch's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Start(Start),
    /// A row begins. A launch that ends before the row ends has failed in it.
    Begin(Head),
    /// A row has ended.
    Row(Sample),
}

/// Announcement of a launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Name and version of the MPI library, as the library gives them.
    pub library: String,
    /// The layer that serves the files: `capulet`, `ompio` or `romio`.
    pub layer: String,
    /// Number of rows that follow.
    pub rows: u64,
}

/// Identification of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of the row in the suite, the same for all contenders.
    pub id: u32,
    /// `collective`, `independent` or `atomic`.
    pub suite: String,
    /// The pattern of the access.
    pub case: String,
    /// `write` or `read`.
    pub op: String,
    /// State of the file before: `fresh` means no file, `existing` a complete file.
    pub state: String,
}

/// One measurement of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The row.
    #[serde(flatten)]
    pub head: Head,
    /// Bytes of payload of all ranks.
    pub bytes: u64,
    /// Runs of the file that all ranks access together.
    pub pieces: u64,
    /// Number of accesses or openings. The times are for all of them.
    pub operations: u64,
    /// Seconds from the begin of the first rank to the end of the last.
    pub seconds: f64,
    /// The same for setting the view, if this is not part of the row.
    pub view_seconds: f64,
    /// The same for the limit: each rank moves the same number of bytes in one piece with the system's
    /// calls, or opens the file if the row is about opening.
    pub limit_seconds: f64,
    /// Seconds of the same accesses without atomic mode, beside a rank that is alone in atomic mode on another
    /// node than rank 0. `None` in other rows.
    #[serde(default)]
    pub plain_seconds: Option<f64>,
    /// Seconds of one raw round trip of 64 bytes over TCP between this rank and rank 0. `None` in other rows,
    /// and if the rank reaches no address of rank 0.
    #[serde(default)]
    pub round_trip_seconds: Option<f64>,
    /// Hash of the whole file after a write.
    pub hash: String,
    /// Bytes in the holes of a fresh file that are not 0. The standard does not define the contents of
    /// holes.
    pub strays: u64,
    /// The fault: an error or a wrong byte. `None` if all is right.
    pub fault: Option<String>,
}

impl Sample {
    /// What atomic mode adds to one access, in raw round trips. `None` if one of the times was not measured.
    pub fn round_trips(&self) -> Option<f64> {
        let added_seconds = (self.seconds - self.plain_seconds?) / self.operations as f64;
        Some(added_seconds / self.round_trip_seconds?)
    }
}
