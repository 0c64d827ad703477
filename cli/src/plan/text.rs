//! Prints the plan in words.

use std::fmt::Write;

use capulet_plan::choice::{LARGE_RUN_BYTES, SPARSE_FACTOR};
use capulet_plan::estimate::{CollectiveSteps, Count, IndependentSteps, NodeSet, Steps, Totals};
use capulet_plan::{Direction, Plan, Reason, Way};
use indicatif::{BinaryBytes, HumanCount};

use super::planned::{self, Planned};

/// Largest number of rounds, nodes and ranks that are listed one by one.
const LINES_MAX: usize = 12;

/// The plan in words, line by line.
pub(crate) fn of(planned: &Planned) -> String {
    [access(planned), choice(planned), steps(planned)].concat()
}

fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `count` with its noun: `one` for the count 1, `many` for other counts.
fn several(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

fn count(count: Count) -> String {
    match count {
        Count { least, most } if least == most => number(least),
        Count { least, most: u64::MAX } => format!("{} or more", number(least)),
        Count { least, most } => format!("{} to {}", number(least), number(most)),
    }
}

fn pieces_in_words(pieces: Count) -> String {
    format!("{} {}", count(pieces), if pieces == Count::exactly(1) { "piece" } else { "pieces" })
}

fn batches_in_words(batches: Count) -> String {
    format!("{} {}", count(batches), if batches == Count::exactly(1) { "batch" } else { "batches" })
}

fn bytes(bytes: u64) -> String {
    if bytes < 1024 { several(bytes, "byte", "bytes") } else { BinaryBytes(bytes).to_string() }
}

fn access(planned: &Planned) -> String {
    let (agreed, setup) = (&planned.estimate.agreed, &planned.setup);
    let verb = if setup.direction == Direction::Read { "read" } else { "write" };
    let kind = if setup.is_collective { "Collective" } else { "Independent" };
    let ranks = several(setup.node_of.len() as u64, "rank", "ranks");
    let nodes = several(setup.nodes() as u64, "node", "nodes");
    let mut text = format!("Access    {kind} {verb} of {ranks} on {nodes}: ");
    if agreed.bytes == 0 {
        text.push_str("no byte.\n");
        return text;
    }
    let runs = several(agreed.runs, "run", "runs");
    let all = several(agreed.bytes, "byte", "bytes");
    let mean = bytes(agreed.bytes / agreed.runs.max(1));
    let _ = writeln!(
        text,
        "{all} in {runs} of {mean} on average,\n          from file offset {} up to {}.",
        number(agreed.first),
        number(agreed.end)
    );
    text
}

fn choice(planned: &Planned) -> String {
    let Some(plan) = planned.estimate.plan else {
        return "Plan      Each rank by itself: the access is independent.\n".to_owned();
    };
    let how = match plan {
        Plan::Nothing => return "Plan      Nothing is moved.\n".to_owned(),
        Plan::Independent(_) => "Each rank by itself",
        Plan::TwoPhase(_) => "Two-phase, with collective buffers",
    };
    let why = planned::reason(plan).map_or_else(String::new, |reason| because(planned, reason));
    format!("Plan      {how}: {why}.\n")
}

fn because(planned: &Planned, reason: Reason) -> String {
    let agreed = &planned.estimate.agreed;
    match reason {
        Reason::Hint => "a hint says so".to_owned(),
        Reason::NotMonotone => {
            "the file offsets of some rank decrease, and collective buffers need them in order".to_owned()
        }
        Reason::OneRunEach => {
            "no rank has more than one run on average, so there is nothing to gather".to_owned()
        }
        Reason::LargeRuns => format!(
            "the runs are large ({} or more on average), so a system call costs less than a copy",
            bytes(LARGE_RUN_BYTES)
        ),
        Reason::Sparse => format!(
            "less than one byte in {} of the span is accessed, so collective buffers would be nearly empty",
            number(SPARSE_FACTOR)
        ),
        Reason::InMemory => {
            "the storage is memory, so reading the bytes between the runs costs more than a call for each run"
                .to_owned()
        }
        Reason::SmallRuns => {
            format!("{}, each too small for a system call of its own", several(agreed.runs, "run", "runs"))
        }
        Reason::NoSharedMemory => "there is no shared memory for collective buffers".to_owned(),
    }
}

fn steps(planned: &Planned) -> String {
    match &planned.estimate.steps {
        Steps::Nothing => String::new(),
        Steps::Independent(ranks) => independent(planned, ranks),
        Steps::Collective(steps) => collective(planned, steps),
    }
}

/// Describes independent access. Consecutive ranks that do the same share a line.
fn independent(planned: &Planned, ranks: &[IndependentSteps]) -> String {
    let mut text = String::new();
    let mut groups: Vec<(usize, usize, &IndependentSteps)> = Vec::new();
    for (rank, own) in ranks.iter().enumerate() {
        match groups.last_mut().filter(|(_, _, last)| *last == own) {
            Some((_, end, _)) => *end = rank + 1,
            None => groups.push((rank, rank + 1, own)),
        }
    }
    for (group, (start, end, steps)) in groups.iter().take(LINES_MAX).enumerate() {
        let ranks =
            if end - start == 1 { format!("rank {start}") } else { format!("ranks {start} to {}", end - 1) };
        let each = if end - start == 1 { "" } else { " each" };
        let how = match steps.way {
            _ if steps.pieces.most == 0 => "nothing to move".to_owned(),
            way => format!(
                "{}; {} in {}{each}, {} copied",
                in_words(way),
                pieces_in_words(steps.pieces),
                batches_in_words(steps.batches),
                bytes(steps.copied_bytes)
            ),
        };
        let _ = writeln!(text, "{}{ranks}: {how}", if group == 0 { "Method    " } else { "          " });
    }
    if groups.len() > LINES_MAX {
        let _ = writeln!(text, "          and so on: {} groups of ranks in all", number(groups.len() as u64));
    }
    let pieces: Count = ranks.iter().map(|rank| rank.pieces).sum();
    let _ = writeln!(
        text,
        "Calls     {} pieces of the file in all, at most one system call for each",
        count(pieces)
    );
    let agreements = if planned.setup.is_collective { "those of two agreements" } else { "none" };
    let _ = writeln!(text, "Messages  {agreements}");
    let buffer = ranks.iter().map(|rank| rank.buffer_bytes).max().unwrap_or(0);
    let _ = writeln!(text, "Memory    {} of buffer on each rank", bytes(buffer));
    text
}

fn in_words(way: Way) -> &'static str {
    match way {
        Way::List => "directly between file and user memory",
        Way::Packed => "one run of the file after the other, through a buffer",
        Way::SieveBuffer => "the whole span, through a sieve buffer",
    }
}

fn collective(planned: &Planned, steps: &CollectiveSteps) -> String {
    let mut text = String::new();
    let setup = &planned.setup;
    let grid = steps.grid;
    let least = usize::from(!steps.exchanges);
    let aggregators: u64 = setup.aggregators.iter().map(|count| (*count).max(least) as u64).sum();
    let units = if setup.direction == Direction::Read { grid.read_unit_bytes() } else { grid.unit_bytes };
    let _ = writeln!(
        text,
        "Buffers   {} with {} each; rounds begin at multiples of {}; one mark for {}",
        several(aggregators, "aggregator", "aggregators"),
        bytes(grid.collective_buffer_bytes),
        bytes(grid.align_bytes),
        bytes(units)
    );
    if setup.nodes() > 1 {
        let how = if steps.exchanges {
            "exchange data: each collective buffer holds the bytes of all nodes in its range"
        } else {
            "do not exchange data: the bytes of each node lie after those of the nodes before it"
        };
        let _ = writeln!(text, "Nodes     {how}");
    }
    for (at, node_set) in steps.node_sets.iter().take(LINES_MAX).enumerate() {
        let head = if at == 0 { "Rounds    " } else { "          " };
        let node =
            if steps.node_sets.len() > 1 { format!("node {}: ", node_set.nodes[0]) } else { String::new() };
        let _ = writeln!(text, "{head}{node}{}", rounds_in_words(node_set));
        if steps.node_sets.len() == 1 {
            text.push_str(&rounds(node_set));
        }
    }
    if steps.node_sets.len() > LINES_MAX {
        let _ = writeln!(text, "          and so on: {} nodes in all", number(steps.node_sets.len() as u64));
    }
    text.push_str(&costs(planned, steps));
    text
}

fn rounds_in_words(node_set: &NodeSet) -> String {
    if node_set.is_whole {
        return number(node_set.totals.rounds);
    }
    let most = number(node_set.rounds_most);
    format!("{most} at most; the lines below are about the first {}", number(node_set.totals.rounds))
}

fn rounds(node_set: &NodeSet) -> String {
    let mut text = String::new();
    for (at, round) in node_set.rounds.iter().take(LINES_MAX).enumerate() {
        let end = round.buffers.last().map_or(round.base, |buffer| buffer.file.end);
        let shares: u64 = round
            .buffers
            .iter()
            .flat_map(|buffer| &buffer.shares)
            .map(|share| share.part.end - share.part.start)
            .sum();
        let pieces: Count = round.buffers.iter().map(|buffer| buffer.pieces).sum();
        let owners: Vec<u32> = round.buffers.iter().map(|buffer| buffer.aggregator).collect();
        let _ = writeln!(
            text,
            "          {:>4}  {} to {}: {}, {}, {}",
            at + 1,
            number(round.base),
            number(end),
            bytes(shares),
            pieces_in_words(pieces),
            owners_in_words(&owners)
        );
    }
    if node_set.rounds.len() > LINES_MAX {
        text.push_str("          and so on\n");
    }
    text
}

fn owners_in_words(owners: &[u32]) -> String {
    match owners {
        [] => "no buffers".to_owned(),
        [one] => format!("buffer of rank {one}"),
        [first, .., last] => format!("buffers of {} ranks, {first} to {last}", number(owners.len() as u64)),
    }
}

fn costs(planned: &Planned, steps: &CollectiveSteps) -> String {
    let mut text = String::new();
    let setup = &planned.setup;
    let total =
        |of: fn(&Totals) -> Count| steps.node_sets.iter().map(|node_set| of(&node_set.totals)).sum::<Count>();
    let (pieces, batches) = (total(|totals| totals.pieces), total(|totals| totals.batches));
    let _ = writeln!(
        text,
        "Calls     {} of the file in {}, at most one system call for each piece",
        pieces_in_words(pieces),
        batches_in_words(batches)
    );
    let is_overlapped = steps.node_sets.iter().any(|node_set| node_set.totals.is_overlapped);
    let again = if is_overlapped {
        "; ranks write the same bytes, so rounds with such bytes are filled again in the order of the ranks"
    } else {
        ""
    };
    let copied = total(|totals| totals.copied_bytes);
    let _ = writeln!(text, "Copies    {} bytes from or to user memory{again}", count(copied));
    let barriers = steps.node_sets.iter().map(|node_set| node_set.totals.barriers);
    let least = barriers.clone().map(|barriers| barriers.least).max().unwrap_or(0);
    let most = barriers.map(|barriers| barriers.most).max().unwrap_or(0);
    let barriers = count(Count { least, most });
    let _ = writeln!(text, "Barriers  {barriers} on a node, and two agreements of all ranks");
    let messages = if setup.nodes() == 1 {
        "none: the ranks of a node use shared memory".to_owned()
    } else {
        let exchanged = total(|totals| totals.exchanged_bytes);
        format!(
            "{} between nodes, with {} bytes of data and descriptions",
            count(steps.messages),
            count(exchanged)
        )
    };
    let _ = writeln!(text, "Messages  {messages}");
    let shared = setup.ranks_by_node().iter().map(|ranks| setup.shared_bytes(ranks.len())).max().unwrap_or(0);
    let _ =
        writeln!(text, "Memory    {} shared on a node: collective buffers and maps of marks", bytes(shared));
    text
}
