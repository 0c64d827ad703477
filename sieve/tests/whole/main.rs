//! Collective accesses as a program makes them: views and memory of random types, hints, any number of
//! ranks on any number of nodes, files that end anywhere. The chosen plan is carried out by one thread in
//! the order of a seeded schedule.
//!
//! The oracle is an array of bytes, with places that the test lists itself. It applies the ranks of a
//! write in order.

#[path = "../nodes/placement.rs"]
mod placement;
mod types;

use std::sync::Arc;

use capulet_comm::Leaders;
use capulet_comm::local::{LocalBuffer, LocalLeaders};
use capulet_datatype::Tiled;
use capulet_drivers::mem::MemDriver;
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_plan::{CollectiveMode, PlanHints};
use capulet_sieve::two_phase::{NodeExchange, NodeGroup, Operation};
use capulet_sieve::{
    Access, Agreed, Counters, Holes, Memory, Plan, Resources, Sieves, Summary, Target, choose, independent,
};
use proptest::prelude::*;

use types::{Bytes, Spec, specs};

/// No access reaches beyond this file offset.
const FILE_BYTES_MAX: usize = 60_000;
/// No access has more user memory than this.
const MEMORY_BYTES_MAX: usize = 30_000;

/// The part of one rank in a call.
#[derive(Debug, Clone)]
struct Part {
    filetype: Spec,
    displacement: usize,
    /// Bytes of the view before the access.
    start: usize,
    memory: Spec,
    count: u64,
}

#[derive(Debug, Clone)]
struct Call {
    direction: Direction,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
struct Scenario {
    /// The node of each rank. The ranks of a node need not be consecutive.
    placement: Vec<usize>,
    hints: PlanHints,
    /// Whether the file is in memory, as the ranks agreed.
    in_memory: bool,
    /// By node.
    aggregators: Vec<usize>,
    collective_buffer_bytes: u64,
    stripe_bytes: u64,
    /// Bytes of the file before all calls.
    file_bytes: usize,
    calls: Vec<Call>,
    schedule: Vec<usize>,
    seed: u64,
}

fn parts() -> impl Strategy<Value = Part> {
    (specs(), 0usize..6000, 0usize..500, specs(), 0u64..40).prop_map(
        |(filetype, displacement, start, memory, count)| Part {
            filetype,
            displacement,
            start,
            memory,
            count,
        },
    )
}

/// Parts of the most usual kind: all ranks have the same filetype, and each rank has its own share of it.
fn shares(ranks: usize) -> impl Strategy<Value = Vec<Part>> {
    (specs(), 0usize..3000, specs(), 1u64..40).prop_map(move |(own, displacement, memory, count)| {
        let (_, bytes) = own.made(false);
        let part = |rank: usize| Part {
            filetype: Spec::Padded { gap: ((ranks - 1) * bytes.extent) as u64, of: Box::new(own.clone()) },
            displacement: displacement + rank * bytes.extent,
            start: 0,
            memory: memory.clone(),
            count,
        };
        (0..ranks).map(part).collect()
    })
}

/// Parts in which all offsets and lengths are multiples of a unit, which may be as large as a collective
/// buffer.
fn aligned(ranks: usize) -> impl Strategy<Value = Vec<Part>> {
    prop::sample::select(vec![64u64, 512, 4096]).prop_flat_map(move |unit| {
        let part = (0usize..4, 1u64..6, 1u64..3, 0u64..3, 0u64..6).prop_map(
            move |(start, count, length, gap, instances)| Part {
                filetype: Spec::Vector { count, length, gap: gap * unit, of: Box::new(Spec::Bytes(unit)) },
                displacement: start * unit as usize,
                start: 0,
                memory: Spec::Bytes(unit),
                count: instances,
            },
        );
        prop::collection::vec(part, ranks)
    })
}

fn calls(ranks: usize) -> impl Strategy<Value = Vec<Call>> {
    let parts = prop_oneof![
        prop::collection::vec(parts(), ranks).boxed(),
        shares(ranks).boxed(),
        aligned(ranks).boxed()
    ];
    let call = (any::<bool>(), parts).prop_map(|(reads, parts)| {
        let direction = if reads { Direction::Read } else { Direction::Write };
        Call { direction, parts }
    });
    prop::collection::vec(call, 1..4)
}

fn modes() -> impl Strategy<Value = CollectiveMode> {
    prop::sample::select(vec![
        CollectiveMode::Enable,
        CollectiveMode::Enable,
        CollectiveMode::Automatic,
        CollectiveMode::Disable,
    ])
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let placement = (1usize..8).prop_flat_map(|ranks| {
        (1..=ranks.min(4)).prop_flat_map(move |nodes| {
            prop::collection::vec(0..nodes, ranks).prop_map(move |mut placement| {
                // Every node has a rank, and nodes are numbered by their first ranks.
                (0..nodes).for_each(|node| placement[node] = node);
                placement
            })
        })
    });
    // No other program writes to the file, so the promise holds.
    let holes = prop::sample::select(vec![Holes::Untouched, Holes::Rewritten]);
    let hints = (modes(), modes(), holes, any::<bool>())
        .prop_map(|(read, write, holes, in_memory)| (PlanHints { read, write, holes }, in_memory));
    let buffers = prop::sample::select(vec![64u64, 300, 512, 4096, 12_288]);
    let stripes = prop::sample::select(vec![0u64, 0, 256, 4096, 16_384, 24_576]);
    let file_bytes = prop_oneof![Just(FILE_BYTES_MAX), Just(0), 0..FILE_BYTES_MAX];
    let aggregators = prop::collection::vec(1usize..5, 4);
    (placement, hints, aggregators, buffers, stripes, file_bytes, any::<u32>()).prop_flat_map(
        |(
            placement,
            (hints, in_memory),
            aggregators,
            collective_buffer_bytes,
            stripe_bytes,
            file_bytes,
            seed,
        )| {
            let ranks = placement.len();
            (calls(ranks), prop::collection::vec(0..ranks, 1..40)).prop_map(move |(calls, mut schedule)| {
                schedule.extend(0..ranks);
                Scenario {
                    placement: placement.clone(),
                    hints,
                    in_memory,
                    aggregators: aggregators.clone(),
                    collective_buffer_bytes,
                    stripe_bytes,
                    file_bytes,
                    calls,
                    schedule,
                    seed: seed.into(),
                }
            })
        },
    )
}

/// A part with its types and the bytes that they name.
struct Made {
    view: Tiled,
    displacement: usize,
    start: usize,
    filetype: Bytes,
    tiled: Tiled,
    memory: Bytes,
    /// Bytes of payload.
    bytes: usize,
}

impl Made {
    fn of(part: &Part) -> Self {
        let (filetype, file_bytes) = part.filetype.made(false);
        let (memory, memory_bytes) = part.memory.made(true);
        let mut made = Self {
            view: Tiled::until(filetype.layout().clone(), 1 << 40),
            displacement: part.displacement,
            start: part.start,
            filetype: file_bytes,
            tiled: Tiled::new(memory.layout().clone(), 0).expect("an empty tiling is valid"),
            memory: memory_bytes,
            bytes: 0,
        };
        let size = made.memory.places.len();
        if made.filetype.places.is_empty() || size == 0 {
            return made;
        }
        // As many instances as fit in the file and the memory.
        let fits = |count: &u64| {
            let bytes = *count as usize * size;
            bytes == 0
                || (made.offset(bytes - 1) < FILE_BYTES_MAX
                    && *count as usize * made.memory.extent <= MEMORY_BYTES_MAX)
        };
        let count = (0..=part.count).rev().find(fits).unwrap_or(0);
        made.tiled = Tiled::new(memory.layout().clone(), count).expect("the tiling is small");
        made.bytes = count as usize * size;
        made
    }

    /// The file offset of byte `k` of the access.
    fn offset(&self, k: usize) -> usize {
        self.displacement + self.filetype.place(self.start + k)
    }

    fn memory_bytes(&self) -> usize {
        if self.bytes == 0 { 0 } else { self.bytes / self.memory.places.len() * self.memory.extent }
    }

    fn access(&self, memory: &mut [u8]) -> Access {
        assert_eq!(memory.len(), self.memory_bytes());
        // SAFETY: `# Safety` of `Memory::new`: the instances of the type end within `memory`, which lives
        // until the call is over.
        let user = unsafe { Memory::new(memory.as_mut_ptr(), self.tiled.clone()) };
        Access::new(self.displacement as u64, &self.view, self.start as u64, user, self.bytes as u64)
            .expect("the offsets are small")
    }
}

fn value(call: usize, rank: usize, k: usize) -> u8 {
    (call * 101 + rank * 29 + k * 7 + k / 256) as u8
}

/// Carries a call out. Returns the bytes of each rank, and whether it failed.
fn run(
    scenario: &Scenario,
    number: usize,
    parts: &[Made],
    file: &Arc<dyn DriverFile>,
    memories: &mut [Vec<u8>],
) -> Vec<(u64, bool)> {
    let direction = scenario.calls[number].direction;
    let accesses: Vec<Access> =
        parts.iter().zip(memories).map(|(part, memory)| part.access(memory)).collect();
    let agreed = Agreed::of(&accesses.iter().map(Summary::of).collect::<Vec<_>>());
    let target = || Target {
        file: file.clone(),
        isolation: None,
        counters: Arc::new(Counters::default()),
        holes: scenario.hints.holes,
        sieves: Sieves::default(),
    };
    let resources = Resources { shared_memory: true, in_memory: scenario.in_memory };
    match choose(direction, &agreed, scenario.hints, resources) {
        Plan::Nothing => vec![(0, false); parts.len()],
        Plan::Independent(_) => {
            let alone = |access: &Access| independent::run(&target(), access, direction);
            accesses.iter().map(alone).map(|done| (done.bytes, done.error.is_some())).collect()
        }
        Plan::TwoPhase(_) => {
            let (teams, _channels) = teams(scenario, number, &agreed);
            let start = |(team, access): (NodeGroup, Access)| {
                // SAFETY: all simulated ranks of a call pass the same direction, first byte, and values for
                // their node groups.
                Some(unsafe { Operation::start(target(), team, access, direction, agreed.first) })
            };
            poll(scenario, teams.into_iter().zip(accesses).map(start).collect())
        }
    }
}

/// The node groups of all ranks, and the channels between the leaders, which must outlive the operation.
fn teams(scenario: &Scenario, number: usize, agreed: &Agreed) -> (Vec<NodeGroup>, Vec<Arc<dyn Leaders>>) {
    let (ranks, nodes) = (scenario.placement.len(), placement::node_count(&scenario.placement));
    let channels: Vec<Arc<dyn Leaders>> = LocalLeaders::team(nodes, scenario.seed + number as u64)
        .into_iter()
        .map(|end| Arc::new(end) as Arc<dyn Leaders>)
        .collect();
    let mut teams: Vec<Option<NodeGroup>> = (0..ranks).map(|_| None).collect();
    for (node, channel) in channels.iter().enumerate() {
        let known = Arc::new(placement::nodes(&scenario.placement, &scenario.aggregators, node));
        let members = placement::ranks_of(&scenario.placement, node);
        let buffers = LocalBuffer::team(members.len(), 4 * scenario.collective_buffer_bytes as usize);
        for (&rank, buffer) in members.iter().zip(buffers) {
            let (buffer, bytes) = (Arc::new(buffer), scenario.collective_buffer_bytes);
            let team = if nodes == 1 {
                NodeGroup::new(
                    buffer,
                    ranks.min(scenario.aggregators[0]),
                    bytes,
                    scenario.stripe_bytes,
                    agreed.grain,
                )
            } else {
                let internode = NodeExchange {
                    nodes: known.clone(),
                    leaders: (members[0] == rank).then(|| channel.clone()),
                    may_exchange: true,
                    unit_bytes: 1,
                    operation: number as u32,
                    surveyed: None,
                };
                NodeGroup::among(internode, buffer, bytes, scenario.stripe_bytes, agreed.grain)
            };
            teams[rank] = Some(team.ending_at(agreed.end));
        }
    }
    (teams.into_iter().flatten().collect(), channels)
}

/// Polls operations in the order of the schedule until all are over.
fn poll(scenario: &Scenario, mut operations: Vec<Option<Operation>>) -> Vec<(u64, bool)> {
    let mut outcomes = vec![(0, true); operations.len()];
    for (step, &rank) in scenario.schedule.iter().cycle().enumerate() {
        assert!(step < 3_000_000, "the operations make no progress");
        let Some(operation) = &mut operations[rank] else {
            if operations.iter().all(Option::is_none) {
                break;
            }
            continue;
        };
        if operation.poll() {
            let done = operation.take_outcome();
            outcomes[rank] = (done.bytes, done.error.is_some());
            operations[rank] = None;
        }
    }
    outcomes
}

/// The number of cases, from `PROPTEST_CASES`. `make test-long` sets 50,000.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12_000)
}

fn contents(file: &dyn DriverFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().expect("the file in memory has a length") as usize];
    assert_eq!(file.read_at(0, &mut bytes).expect("the file in memory is read"), bytes.len());
    bytes
}

/// Carries out all calls of a scenario, and compares the file, the memory and the counts with the oracle.
fn check(scenario: &Scenario) -> Result<(), TestCaseError> {
    let mut expected: Vec<u8> = (0..scenario.file_bytes).map(|at| (at * 3) as u8).collect();
    let driver = MemDriver::new();
    let file = driver
        .open("whole".as_ref(), &OpenOptions::read_write().create(true))
        .expect("the file in memory opens");
    file.write_all_at(0, &expected).expect("the file in memory is written");
    for (number, call) in scenario.calls.iter().enumerate() {
        let parts: Vec<Made> = call.parts.iter().map(Made::of).collect();
        let mut memories: Vec<Vec<u8>> = parts.iter().map(|part| vec![0x5A; part.memory_bytes()]).collect();
        let mut after = memories.clone();
        let mut moved = Vec::new();
        for (rank, part) in parts.iter().enumerate() {
            let is_write = call.direction == Direction::Write;
            let bytes = (0..part.bytes).take_while(|k| is_write || part.offset(*k) < expected.len()).count();
            moved.push((bytes as u64, false));
            for k in 0..bytes {
                let (at, place) = (part.offset(k), part.memory.place(k));
                if is_write {
                    let end = expected.len().max(at + 1);
                    expected.resize(end, 0);
                    expected[at] = value(number, rank, k);
                    memories[rank][place] = expected[at];
                    after[rank][place] = expected[at];
                } else {
                    after[rank][place] = expected[at];
                }
            }
        }
        prop_assert_eq!(run(scenario, number, &parts, &file, &mut memories), moved);
        prop_assert!(memories == after, "the memory differs after call {}", number);
        prop_assert!(contents(file.as_ref()) == expected, "the file differs after call {}", number);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn requested_bytes_are_moved_and_no_others(scenario in scenarios()) {
        check(&scenario)?;
    }
}

/// If a unit of marks were larger than the greatest fragment that a remote rank can send, no byte of it
/// would ever fit.
#[test]
fn pieces_may_be_as_large_as_a_collective_buffer() {
    let sizes =
        [(4096, 4096), (12_288, 4096), (8192, 4096), (4096, 2048), (4096, 1000), (512, 4096), (64, 64)];
    for (collective_buffer_bytes, piece) in sizes {
        for direction in [Direction::Read, Direction::Write] {
            let part = |rank: usize| Part {
                filetype: Spec::Padded { gap: 3 * piece as u64, of: Box::new(Spec::Bytes(piece as u64)) },
                displacement: 2 * rank * piece,
                start: 0,
                memory: Spec::Bytes(piece as u64),
                count: 3,
            };
            let scenario = Scenario {
                placement: vec![0, 1],
                hints: PlanHints {
                    read: CollectiveMode::Enable,
                    write: CollectiveMode::Enable,
                    ..PlanHints::default()
                },
                in_memory: false,
                aggregators: vec![1; 4],
                collective_buffer_bytes,
                stripe_bytes: 0,
                file_bytes: FILE_BYTES_MAX,
                calls: vec![Call { direction, parts: (0..2).map(part).collect() }],
                schedule: vec![0, 1],
                seed: 0,
            };
            check(&scenario).expect("the access moves the requested bytes");
        }
    }
}
