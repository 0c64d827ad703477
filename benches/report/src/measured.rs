//! The output of the bench of one MPI: one JSON value on each line.

use serde::{Deserialize, Serialize};

/// A line of a bench's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Start(Start),
    /// A row. The bench prints it as soon as it is measured.
    Row(Measured),
}

/// Announcement of a bench.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Name and version of the MPI library, as the library gives them.
    pub library: String,
    /// Number of rows that follow.
    pub rows: usize,
}

/// The unit of a row's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Payload per time. More is better.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Time per call. Less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Time per call. Less is better.
    #[serde(rename = "ms")]
    Milliseconds,
}

impl Unit {
    /// Converts a time per call, in seconds, to this unit, for a call that moves `bytes`.
    pub fn of(self, seconds: f64, bytes: u64) -> f64 {
        match self {
            Unit::GigabytesPerSecond => bytes as f64 / seconds / 1e9,
            Unit::Nanoseconds => seconds * 1e9,
            Unit::Milliseconds => seconds * 1e3,
        }
    }

    /// Name of the unit.
    pub fn name(self) -> &'static str {
        match self {
            Unit::GigabytesPerSecond => "GB/s",
            Unit::Nanoseconds => "ns",
            Unit::Milliseconds => "ms",
        }
    }
}

/// Seconds per call, over all samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The median sample.
    pub median: f64,
    /// The shortest sample.
    pub best: f64,
}

/// A contender that Capulet is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// The MPI library of the process.
    Mpi,
    /// Loops that are written for this one type.
    Hand,
    /// `memcpy` of the same number of bytes.
    Memcpy,
    /// The cache lines touched, with nothing moved.
    Lines,
}

/// The times of another contender, and their ratio to Capulet's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// The contender.
    pub peer: Peer,
    /// Seconds per call.
    pub times: Times,
    /// The median over the samples of its time divided by Capulet's.
    pub ratio: f64,
}

/// A row of one MPI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The group of cases.
    pub suite: String,
    /// The data that is moved.
    pub case: String,
    /// The type of the elements.
    pub element: String,
    /// The operation.
    pub op: String,
    /// The unit in which the row is shown.
    pub unit: Unit,
    /// Bytes of payload that a call moves. Both directions count.
    pub bytes: u64,
    /// Instances of the type that a call moves.
    pub count: u64,
    /// Capulet's seconds per call.
    pub ours: Times,
    /// The other contenders, each at most once.
    pub others: Vec<Other>,
}

impl Measured {
    /// The times of a peer, if it took part.
    pub fn other(&self, peer: Peer) -> Option<&Other> {
        self.others.iter().find(|other| other.peer == peer)
    }
}
