//! Samples for tests.

use std::collections::BTreeMap;

use super::{Contender, Group, Head, Sample};

/// A row that takes `seconds`. Its limit is half a second.
pub(super) fn sample(id: u32, seconds: f64) -> Sample {
    Sample {
        head: Head {
            id,
            suite: "collective".into(),
            case: format!("case {id}"),
            op: "write".into(),
            state: "fresh".into(),
        },
        bytes: 1_000_000,
        pieces: 10,
        operations: 1,
        seconds,
        view_seconds: 0.0,
        limit_seconds: 0.5,
        plain_seconds: None,
        round_trip_seconds: None,
        hash: "one".into(),
        strays: 0,
        fault: None,
    }
}

pub(super) fn contender(name: &str, runs: &[&[Sample]]) -> Contender {
    Contender { name: name.into(), runs: runs.iter().map(|run| run.to_vec()).collect(), lost: Vec::new() }
}

pub(super) fn group(ours: Contender, peers: Vec<Contender>) -> Group {
    Group { mpi: "openmpi".into(), storage: "tmpfs".into(), ranks: 4, ours, peers, counts: BTreeMap::new() }
}
