//! `capulet bench plan`: the cost of planning for one of very many ranks.
//!
//! The part of one rank is carried out and measured with the functions that the library calls. The number
//! of messages and the costs of ROMIO are formulas.

mod draw;
mod formulas;
mod rank;
mod row;
mod table;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use self::formulas::Formulas;
use self::rank::{Scenario, View};
use self::row::Row;
use crate::args::{BAD, BenchArgs};

const RANKS: [u64; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];
const PIECES: u64 = 1_000_000_000;
const QUICK_RANKS: [u64; 3] = [1_000, 10_000, 100_000];
const QUICK_PIECES: u64 = 10_000_000;
const QUICK_SAMPLES: u16 = 1;

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    View(String),
    #[error("{path}: cannot be written: {cause}", path = path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("the rows cannot be printed: {0}")]
    Output(io::Error),
}

/// Measures and prints.
pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    match print(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{BAD}capulet:{BAD:#} {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(args: &BenchArgs) -> Result<(), Failure> {
    let (ranks, pieces, samples) = if args.quick {
        (&QUICK_RANKS[..], QUICK_PIECES, QUICK_SAMPLES)
    } else {
        (&RANKS[..], PIECES, args.runs)
    };
    let mut rows = Vec::new();
    for view in [View::Strided, View::Irregular] {
        for ranks in ranks {
            let scenario = Scenario { view, ranks: *ranks, pieces };
            if args.case.as_ref().is_some_and(|case| !scenario.view.name().contains(case.as_str())) {
                continue;
            }
            let measured = rank::measure(scenario, samples).map_err(Failure::View)?;
            let (ours, romio) = (formulas::ours(scenario, &measured), formulas::romio(scenario));
            rows.push(Row { scenario, measured, ours, romio });
        }
    }
    let json = format!("{:#}\n", Value::from(rows.iter().map(json_of).collect::<Vec<_>>()));
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|cause| Failure::File { path: path.to_owned(), cause })
    };
    if let Some(path) = &args.save {
        write(path, &json)?;
    }
    if let Some(path) = &args.svg {
        write(path, &draw::of(&rows))?;
    }
    let text = if args.json { json } else { table::of(&rows) };
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Failure::Output)
}

fn json_of(row: &Row) -> Value {
    let formulas = |formulas: &Formulas| {
        json!({
            "memory_bytes": formulas.memory_bytes,
            "sent_bytes": formulas.sent_bytes,
            "messages": formulas.messages,
        })
    };
    let Row { scenario, measured, ours, romio } = row;
    json!({
        "view": scenario.view.name(),
        "ranks": scenario.ranks,
        "nodes": scenario.nodes(),
        "pieces": scenario.pieces,
        "pieces_of_rank": scenario.pieces_of_rank(),
        "rounds": measured.rounds,
        "measured": {
            "nodes_ns": measured.nodes_ns,
            "view_ns": measured.view_ns,
            "choice_ns": measured.choice_ns,
            "round_ns": measured.round_ns,
            "nodes_bytes": measured.nodes_bytes,
            "view_bytes": measured.view_bytes,
            "peak_bytes": measured.peak_bytes,
            "described_bytes": measured.described_bytes,
            "nodes_met": measured.nodes_met,
            "bytes_of_round": measured.bytes_of_round,
        },
        "formulas": { "ours": formulas(ours), "romio": formulas(romio) },
    })
}
