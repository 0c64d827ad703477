//! Prints the plan as JSON.

use capulet_plan::Direction;
use capulet_plan::outline::{Alone, Count, Course, Crew, Round, Together};
use serde_json::{Value, json};

use super::planned::{Planned, reason, reason_name, way_name};

/// The largest numbers of rounds, of collective buffers and of shares that are listed, over all node
/// groups.
const ROUNDS_MAX: usize = 1000;
const WINDOWS_MAX: usize = 20_000;
const SHARES_MAX: usize = 100_000;

/// The plan as one JSON object. A number that is known only within bounds is `[least, most]`, where
/// `most` may be null.
pub(crate) fn of(planned: &Planned) -> String {
    let (agreed, setup) = (&planned.outline.agreed, &planned.setup);
    let plan = match planned.outline.plan {
        None => json!({"kind": "alone", "reason": "independent"}),
        Some(plan) => json!({
            "kind": match plan {
                capulet_plan::Plan::Nothing => "nothing",
                capulet_plan::Plan::Independent(_) => "alone",
                capulet_plan::Plan::TwoPhase(_) => "together",
            },
            "reason": reason(plan).map(reason_name),
        }),
    };
    let course = match &planned.outline.course {
        Course::Nothing => Value::Null,
        Course::Alone(ranks) => json!({"ranks": ranks.iter().map(alone).collect::<Vec<_>>()}),
        Course::Together(together) => gathered(planned, together),
    };
    let value = json!({
        "direction": if setup.direction == Direction::Read { "read" } else { "write" },
        "collective": setup.is_collective,
        "ranks": setup.node_of.len(),
        "nodes": setup.nodes(),
        "access": {
            "first": (agreed.bytes > 0).then_some(agreed.first),
            "end": (agreed.bytes > 0).then_some(agreed.end),
            "bytes": agreed.bytes,
            "runs": agreed.runs,
            "active_ranks": agreed.active_ranks,
            "monotone": agreed.monotone,
        },
        "plan": plan,
        "course": course,
    });
    format!("{value:#}\n")
}

fn count(count: Count) -> Value {
    if count.is_exact() {
        json!(count.least)
    } else {
        json!([count.least, (count.most < u64::MAX).then_some(count.most)])
    }
}

fn alone(alone: &Alone) -> Value {
    json!({
        "way": way_name(alone.way),
        "pieces": count(alone.pieces),
        "batches": count(alone.batches),
        "copied_bytes": alone.copied_bytes,
        "buffer_bytes": alone.buffer_bytes,
    })
}

fn gathered(planned: &Planned, together: &Together) -> Value {
    let setup = &planned.setup;
    let mut room = Room { rounds: ROUNDS_MAX, windows: WINDOWS_MAX, shares: SHARES_MAX };
    let crews: Vec<Value> = together.crews.iter().map(|crew| crew_of(crew, &mut room)).collect();
    json!({
        "window_bytes": together.grid.window_bytes,
        "align_bytes": together.grid.align_bytes,
        "unit_bytes": together.grid.unit_bytes,
        "aggregators": setup.aggregators,
        "exchanges": together.exchanges,
        "messages": count(together.messages),
        "shared_bytes": setup.ranks_by_node().iter().map(|ranks| setup.shared_bytes(ranks.len())).collect::<Vec<_>>(),
        "crews": crews,
    })
}

/// Numbers of entries that may still be listed.
struct Room {
    rounds: usize,
    windows: usize,
    shares: usize,
}

fn crew_of(crew: &Crew, room: &mut Room) -> Value {
    let totals = &crew.totals;
    let mut rounds = Vec::new();
    for round in &crew.rounds {
        let shares = round.windows.iter().map(|window| window.shares.len()).sum::<usize>();
        if room.rounds == 0 || room.windows < round.windows.len() || room.shares < shares {
            break;
        }
        room.rounds -= 1;
        room.windows -= round.windows.len();
        room.shares -= shares;
        rounds.push(round_of(round));
    }
    json!({
        "nodes": crew.nodes,
        "whole": crew.is_whole,
        "rounds": totals.rounds,
        "rounds_most": crew.rounds_most,
        "pieces": count(totals.pieces),
        "batches": count(totals.batches),
        "copied_bytes": count(totals.copied_bytes),
        "exchanged_bytes": count(totals.exchanged_bytes),
        "remote_bytes": totals.remote_bytes,
        "barriers": count(totals.barriers),
        "overlapped": totals.is_overlapped,
        "listed_rounds": rounds,
    })
}

fn round_of(round: &Round) -> Value {
    let windows: Vec<Value> = round
        .windows
        .iter()
        .map(|window| {
            let shares =
                window.shares.iter().map(|share| [u64::from(share.rank), share.part.end - share.part.start]);
            json!({
                "aggregator": window.aggregator,
                "start": window.file.start,
                "end": window.file.end,
                "pieces": count(window.pieces),
                "bytes_by_rank": shares.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"base": round.base, "pairs_of_nodes": round.pairs, "windows": windows})
}
