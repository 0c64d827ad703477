//! Prints the plan as JSON.

use capulet_plan::Direction;
use capulet_plan::estimate::{CollectiveSteps, Count, IndependentSteps, NodeSet, Round, Steps};
use serde_json::{Value, json};

use super::planned::{Planned, reason, reason_name, way_name};

/// The largest numbers of rounds, of collective buffers and of shares that are listed, over all node
/// groups.
const ROUNDS_MAX: usize = 1000;
const BUFFERS_MAX: usize = 20_000;
const SHARES_MAX: usize = 100_000;

/// The plan as one JSON object. A number that is known only within bounds is `[least, most]`, where
/// `most` may be null.
pub(crate) fn of(planned: &Planned) -> String {
    let (agreed, setup) = (&planned.estimate.agreed, &planned.setup);
    let plan = match planned.estimate.plan {
        None => json!({"kind": "independent", "reason": "independent"}),
        Some(plan) => json!({
            "kind": match plan {
                capulet_plan::Plan::Nothing => "nothing",
                capulet_plan::Plan::Independent(_) => "independent",
                capulet_plan::Plan::TwoPhase(_) => "collective",
            },
            "reason": reason(plan).map(reason_name),
        }),
    };
    let steps = match &planned.estimate.steps {
        Steps::Nothing => Value::Null,
        Steps::Independent(ranks) => json!({"ranks": ranks.iter().map(independent).collect::<Vec<_>>()}),
        Steps::Collective(steps) => collective(planned, steps),
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
        "steps": steps,
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

fn independent(steps: &IndependentSteps) -> Value {
    json!({
        "way": way_name(steps.way),
        "pieces": count(steps.pieces),
        "batches": count(steps.batches),
        "copied_bytes": steps.copied_bytes,
        "buffer_bytes": steps.buffer_bytes,
    })
}

fn collective(planned: &Planned, steps: &CollectiveSteps) -> Value {
    let setup = &planned.setup;
    let mut room = Room { rounds: ROUNDS_MAX, buffers: BUFFERS_MAX, shares: SHARES_MAX };
    let node_sets: Vec<Value> =
        steps.node_sets.iter().map(|node_set| node_set_of(node_set, &mut room)).collect();
    json!({
        "collective_buffer_bytes": steps.grid.collective_buffer_bytes,
        "align_bytes": steps.grid.align_bytes,
        "unit_bytes": steps.grid.unit_bytes,
        "aggregators": setup.aggregators,
        "exchanges": steps.exchanges,
        "messages": count(steps.messages),
        "shared_bytes": setup.ranks_by_node().iter().map(|ranks| setup.shared_bytes(ranks.len())).collect::<Vec<_>>(),
        "node_sets": node_sets,
    })
}

/// Numbers of entries that may still be listed.
struct Room {
    rounds: usize,
    buffers: usize,
    shares: usize,
}

fn node_set_of(node_set: &NodeSet, room: &mut Room) -> Value {
    let totals = &node_set.totals;
    let mut rounds = Vec::new();
    for round in &node_set.rounds {
        let shares = round.buffers.iter().map(|buffer| buffer.shares.len()).sum::<usize>();
        if room.rounds == 0 || room.buffers < round.buffers.len() || room.shares < shares {
            break;
        }
        room.rounds -= 1;
        room.buffers -= round.buffers.len();
        room.shares -= shares;
        rounds.push(round_of(round));
    }
    json!({
        "nodes": node_set.nodes,
        "whole": node_set.is_whole,
        "rounds": totals.rounds,
        "rounds_most": node_set.rounds_most,
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
    let buffers: Vec<Value> = round
        .buffers
        .iter()
        .map(|buffer| {
            let shares =
                buffer.shares.iter().map(|share| [u64::from(share.rank), share.part.end - share.part.start]);
            json!({
                "aggregator": buffer.aggregator,
                "start": buffer.file.start,
                "end": buffer.file.end,
                "pieces": count(buffer.pieces),
                "bytes_by_rank": shares.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"base": round.base, "pairs_of_nodes": round.pairs, "buffers": buffers})
}
