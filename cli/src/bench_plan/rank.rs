//! The work of one rank to plan its part of an access, and in the first round.

use std::hint::black_box;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

use capulet_datatype::{Cursor, Datatype, Named, Tiled};
use capulet_plan::aggregators::{ConfigList, aggregators_by_node};
use capulet_plan::wire::{HEADER_BYTES, RunWriter, VIEW_BYTES_MAX, encode_view};
use capulet_plan::{Agreed, Direction, FileSide, Grid, Plan, PlanHints, Resources, Summary, choose};

use crate::heap::HEAP;

/// Ranks on a node.
pub(super) const NODE_RANKS: u64 = 64;
/// Bytes of a collective buffer. Every rank is an aggregator and has one.
const COLLECTIVE_BUFFER_BYTES: u64 = 1 << 20;
/// Bytes of a piece of the strided view.
const PIECE_BYTES: u64 = 8;
/// Mean bytes of a piece of the irregular view.
const IRREGULAR_BYTES: u64 = 28;

/// Where the pieces of the ranks lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Pieces of 8 bytes. The ranks own them in turn.
    Strided,
    /// Pieces of 8 to 48 bytes, owned by the ranks at random: a list.
    Irregular,
}

impl View {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Strided => "strided",
            Self::Irregular => "irregular",
        }
    }
}

/// An access of many ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) view: View,
    pub(super) ranks: u64,
    /// Pieces of all ranks.
    pub(super) pieces: u64,
}

impl Scenario {
    pub(super) fn nodes(self) -> u64 {
        self.ranks.div_ceil(NODE_RANKS)
    }

    pub(super) fn pieces_of_rank(self) -> u64 {
        self.pieces / self.ranks
    }

    /// One past the last byte of any rank, approximately.
    pub(super) fn file_bytes(self) -> u64 {
        let piece = if self.view == View::Strided { PIECE_BYTES } else { IRREGULAR_BYTES };
        self.pieces * piece
    }
}

/// Costs of the rank in the middle: medians of times, exact bytes of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    /// Time to find the aggregators of each node.
    pub(super) nodes_ns: u64,
    /// Time to build the view.
    pub(super) view_ns: u64,
    /// Time to summarize the view and to choose the plan.
    pub(super) choice_ns: u64,
    /// Time to find the rank's bytes in each collective buffer of the first round, and to describe them
    /// to the nodes that the rank meets.
    pub(super) round_ns: u64,
    /// Heap bytes of the tables of nodes.
    pub(super) nodes_bytes: u64,
    /// Heap bytes of the view.
    pub(super) view_bytes: u64,
    /// The most heap bytes at any time during this work, without the lists of the caller.
    pub(super) peak_bytes: u64,
    /// Bytes of the headers and descriptions for other nodes in the first round.
    pub(super) described_bytes: u64,
    /// Other nodes in whose collective buffers the rank has bytes in the first round.
    pub(super) nodes_met: u64,
    /// Bytes of the rank in the first round.
    pub(super) bytes_of_round: u64,
    /// Rounds of the access.
    pub(super) rounds: u64,
}

/// The arguments with which the program makes the view.
enum Arguments {
    Row { count: u64, stride: i64 },
    List { lengths: Vec<u64>, places: Vec<i64> },
}

impl Arguments {
    fn of(scenario: Scenario) -> Self {
        let count = scenario.pieces_of_rank();
        if scenario.view == View::Strided {
            return Self::Row { count, stride: (PIECE_BYTES * scenario.ranks) as i64 };
        }
        // The rank owns one piece of as many as there are ranks, on average. The multiplicative generator
        // gives the same numbers everywhere.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut at = 0;
        let runs = (0..count).map(|_| {
            let bytes = 8 + 4 * random(11);
            // Up to twice the mean gap, which is the mean distance less the mean piece. Gaps are
            // multiples of 4 bytes.
            let gap = 4 * random((2 * IRREGULAR_BYTES * scenario.ranks - 2 * IRREGULAR_BYTES) / 4);
            let start = at + gap;
            at = start + bytes;
            (bytes, start as i64)
        });
        let (lengths, places) = runs.unzip();
        Self::List { lengths, places }
    }

    /// Builds the view of a rank as the library does.
    fn view(&self, rank: u64) -> Result<FileSide, String> {
        let byte = Datatype::named(Named::Byte);
        let (datatype, displacement) = match self {
            Self::Row { count, stride } => {
                (Datatype::hvector(*count, PIECE_BYTES, *stride, &byte), rank * PIECE_BYTES)
            }
            Self::List { lengths, places } => (Datatype::hindexed(lengths, places, &byte), 0),
        };
        let datatype = datatype.map_err(|error| error.to_string())?;
        let tiled = Tiled::new(datatype.layout().clone(), 1).map_err(|error| error.to_string())?;
        FileSide::of_view(displacement, &tiled, 0, datatype.size()).map_err(|error| error.to_string())
    }
}

/// Carries out the work of one rank `samples` times.
pub(super) fn measure(scenario: Scenario, samples: u16) -> Result<Measured, String> {
    let rank = scenario.ranks / 2;
    let arguments = Arguments::of(scenario);
    let mut all = Vec::new();
    for _ in 0..samples.max(1) {
        all.push(once(scenario, rank, &arguments)?);
    }
    let median = |of: fn(&Measured) -> u64| {
        let mut values: Vec<u64> = all.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Ok(Measured {
        nodes_ns: median(|one| one.nodes_ns),
        view_ns: median(|one| one.view_ns),
        choice_ns: median(|one| one.choice_ns),
        round_ns: median(|one| one.round_ns),
        view_bytes: median(|one| one.view_bytes),
        peak_bytes: median(|one| one.peak_bytes),
        ..all[0]
    })
}

fn nanoseconds(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

fn once(scenario: Scenario, rank: u64, arguments: &Arguments) -> Result<Measured, String> {
    let heap = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let start = Instant::now();
    let nodes = Nodes::of(scenario);
    let nodes_ns = nanoseconds(start);
    let nodes_bytes = HEAP.current_usage() - heap;
    let start = Instant::now();
    let side = arguments.view(rank)?;
    let view_ns = nanoseconds(start);
    let view_bytes = HEAP.current_usage() - heap - nodes_bytes;
    let start = Instant::now();
    let summary = Summary::of(&side);
    // The result of the allreduce.
    let agreed = Agreed {
        first: 0,
        end: scenario.file_bytes(),
        bytes: summary.bytes.saturating_mul(scenario.ranks),
        runs: scenario.pieces,
        active_ranks: scenario.ranks,
        monotone: summary.monotone,
        grain: summary.grain,
    };
    let resources = Resources { shared_memory: true, in_memory: false };
    let plan = black_box(choose(Direction::Write, &agreed, PlanHints::default(), resources));
    let choice_ns = nanoseconds(start);
    if !matches!(plan, Plan::TwoPhase(_)) {
        return Err(format!("the plan {plan:?} was chosen instead of two-phase"));
    }
    let start = Instant::now();
    let round = first_round(nodes, rank, &side, &agreed);
    let round_ns = nanoseconds(start);
    let peak_bytes = HEAP.peak_usage() - heap;
    let covered = COLLECTIVE_BUFFER_BYTES * scenario.ranks;
    Ok(Measured {
        nodes_ns,
        nodes_bytes: nodes_bytes as u64,
        view_ns,
        choice_ns,
        round_ns,
        view_bytes: view_bytes as u64,
        peak_bytes: peak_bytes as u64,
        described_bytes: round.described_bytes,
        nodes_met: round.nodes_met,
        bytes_of_round: round.bytes,
        rounds: scenario.file_bytes().div_ceil(covered),
    })
}

/// What a rank knows of the nodes, in the form in which the executor has it.
struct Nodes {
    ranks: Vec<u32>,
    /// Collective buffers of a round that come before those of each node. The last entry is their total.
    buffers_before: Vec<u64>,
    /// Which nodes know the view already.
    knowing: Vec<bool>,
}

impl Nodes {
    fn of(scenario: Scenario) -> Self {
        let size = |node: u64| NODE_RANKS.min(scenario.ranks - node * NODE_RANKS) as u32;
        let ranks: Vec<u32> = (0..scenario.nodes()).map(size).collect();
        let aggregators = aggregators_by_node(0, &ConfigList::default(), &[], &ranks);
        let mut buffers_before = Vec::with_capacity(ranks.len() + 1);
        let mut sum = 0;
        buffers_before.push(sum);
        buffers_before.extend(aggregators.iter().map(|count| {
            sum += u64::from(*count);
            sum
        }));
        Self { knowing: vec![false; ranks.len()], ranks, buffers_before }
    }

    fn buffers(&self) -> u64 {
        self.buffers_before[self.ranks.len()]
    }

    /// The node of the collective buffer number `buffer`.
    fn owner_of(&self, buffer: u64) -> usize {
        self.buffers_before.partition_point(|before| *before <= buffer) - 1
    }
}

#[derive(Debug, Default)]
struct Round {
    bytes: u64,
    nodes_met: u64,
    described_bytes: u64,
}

/// Walks the collective buffers of the first round, in steps from one node in which the rank has bytes to
/// the next.
fn first_round(mut nodes: Nodes, rank: u64, side: &FileSide, agreed: &Agreed) -> Round {
    let grid = Grid::new(COLLECTIVE_BUFFER_BYTES, COLLECTIVE_BUFFER_BYTES, 0, agreed.grain);
    let base = grid.base_of(agreed.first);
    let view = encode_view(side, VIEW_BYTES_MAX.min(COLLECTIVE_BUFFER_BYTES as usize / 4));
    let own = (rank / NODE_RANKS) as usize;
    let mut round = Round::default();
    let mut at = 0;
    while at < side.bytes() {
        let buffer = (side.offset_of(at) - base) / grid.collective_buffer_bytes;
        if buffer >= nodes.buffers() {
            break;
        }
        let node = nodes.owner_of(buffer);
        let buffers = nodes.buffers_before[node]..nodes.buffers_before[node + 1];
        let origin = grid.range(base, buffers.start).start;
        let part = side.within(&(origin..grid.range(base, buffers.end).start), at);
        round.bytes += part.end - part.start;
        if node == own {
            // The rank copies straight from user memory into each collective buffer of its own node.
            for buffer in buffers {
                black_box(side.within(&grid.range(base, buffer), at));
            }
        } else {
            round.nodes_met += 1;
            round.described_bytes += HEADER_BYTES as u64;
            round.described_bytes += match &view {
                Some(view) if !nodes.knowing[node] => view.len() as u64,
                Some(_) => 0,
                None => described(side, &part, origin, grid.unit_bytes),
            };
            nodes.knowing[node] = true;
        }
        at = part.end;
    }
    round
}

/// Bytes of the encoded runs of a part.
fn described(side: &FileSide, part: &Range<u64>, origin: u64, unit_bytes: u64) -> u64 {
    let mut cursor = Cursor::new(side.file().clone());
    cursor.seek(side.file_start() + part.start);
    let mut writer = RunWriter::new(origin, unit_bytes);
    let _ = cursor.for_each_run(part.end - part.start, |run| {
        writer.push((side.displacement_bytes() + run.offset) as u64, run.len);
        ControlFlow::<()>::Continue(())
    });
    writer.finish().len() as u64
}
