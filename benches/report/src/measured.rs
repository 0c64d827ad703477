//! What a bench of one MPI prints: one JSON value a line.

use serde::{Deserialize, Serialize};

/// A line of a bench's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Start(Start),
    /// A row, as soon as it is measured.
    Row(Measured),
}

/// What a bench is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// What the MPI library says it is.
    pub library: String,
    /// How many rows will follow.
    pub rows: usize,
}

/// What a row's numbers are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Payload per time; more is better.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Time per call; less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Time per call; less is better.
    #[serde(rename = "ms")]
    Milliseconds,
}

impl Unit {
    /// A time per call in this unit, for a call that moves `bytes`.
    pub fn of(self, seconds: f64, bytes: u64) -> f64 {
        match self {
            Unit::GigabytesPerSecond => bytes as f64 / seconds / 1e9,
            Unit::Nanoseconds => seconds * 1e9,
            Unit::Milliseconds => seconds * 1e3,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Unit::GigabytesPerSecond => "GB/s",
            Unit::Nanoseconds => "ns",
            Unit::Milliseconds => "ms",
        }
    }
}

/// Seconds per call over all samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The median sample.
    pub median: f64,
    /// The shortest sample.
    pub best: f64,
}

/// Whom we are measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// The MPI library of the process.
    Mpi,
    /// Loops for this one type.
    Hand,
    /// `memcpy` of as many bytes.
    Memcpy,
    /// The cache lines touched, and nothing moved.
    Lines,
}

/// Another's times, and how they stand to ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// Who.
    pub peer: Peer,
    /// Seconds per call.
    pub times: Times,
    /// The median over the samples of their time by ours.
    pub ratio: f64,
}

/// A row of one MPI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The group of cases.
    pub suite: String,
    /// What is moved.
    pub case: String,
    /// Of which elements.
    pub element: String,
    /// What is done with it.
    pub op: String,
    /// The unit to show.
    pub unit: Unit,
    /// Bytes of payload that a call moves; both directions count.
    pub bytes: u64,
    /// Instances of the type that a call moves.
    pub count: u64,
    /// Seconds per call.
    pub ours: Times,
    /// The others, each at most once.
    pub others: Vec<Other>,
}

impl Measured {
    /// The times of a peer, if it took part.
    pub fn other(&self, peer: Peer) -> Option<&Other> {
        self.others.iter().find(|other| other.peer == peer)
    }
}
