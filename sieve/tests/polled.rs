//! Two-phase operations, polled by one thread in the order of a seeded schedule. Ranks run ahead and fall
//! behind, operations follow each other on the same shared memory without a pause, and several ranks
//! write the same bytes.
//!
//! The oracle is an array of bytes. It applies the operations one after the other, and in each write the
//! ranks in order.

use std::sync::Arc;

use capulet_comm::NodeShared;
use capulet_comm::local::LocalBuffer;
use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::two_phase::{NodeGroup, Operation};
use capulet_sieve::{Access, Agreed, Counters, Holes, Memory, Sieves, Summary, Target};
use proptest::prelude::*;

const FILE_BYTES: usize = 40_000;

/// One collective access: the runs of each rank, in units, in rising order and not adjacent.
#[derive(Debug, Clone)]
struct Call {
    direction: Direction,
    unit: usize,
    runs: Vec<Vec<(usize, usize)>>,
}

#[derive(Debug, Clone)]
struct Scenario {
    ranks: usize,
    aggregators: usize,
    collective_buffer_bytes: u64,
    calls: Vec<Call>,
    /// The rank that is polled next, step by step. The schedule repeats.
    schedule: Vec<usize>,
}

impl Call {
    fn bytes_of(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        let runs = self.runs[rank].iter();
        runs.flat_map(|&(start, len)| start * self.unit..((start + len) * self.unit).min(FILE_BYTES))
    }

    fn access(&self, rank: usize, memory: &mut [u8]) -> Access {
        let byte = Datatype::named(Named::Byte);
        let clip = |at: usize| (at * self.unit).min(FILE_BYTES);
        let runs = self.runs[rank].iter().map(|&(start, len)| (clip(start), clip(start + len)));
        let (displacements, lengths): (Vec<i64>, Vec<u64>) =
            runs.map(|(start, end)| (start as i64, (end - start) as u64)).unzip();
        let filetype = Datatype::hindexed(&lengths, &displacements, &byte).expect("the datatype is valid");
        let tiled = Tiled::new(byte.layout().clone(), memory.len() as u64).expect("the tiling is small");
        // SAFETY: `# Safety` of `Memory::new`: the layout has as many bytes as `memory`, which lives
        // until the scenario ends.
        let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled) };
        let view = Tiled::until(filetype.layout().clone(), 1 << 40);
        Access::new(0, &view, 0, user, memory.len() as u64).expect("the offsets are small")
    }
}

fn value(call: usize, rank: usize, at: usize) -> u8 {
    (call * 101 + rank * 29 + at * 7 + at / 256) as u8
}

/// The buffers of each call, by rank.
type Buffers = Vec<Vec<Vec<u8>>>;

/// Returns the buffers before the calls, the buffers after each call, and the file after all calls.
fn expected(scenario: &Scenario) -> (Buffers, Buffers, Vec<u8>) {
    let mut file: Vec<u8> = (0..FILE_BYTES).map(|at| (at * 3) as u8).collect();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (number, call) in scenario.calls.iter().enumerate() {
        let bytes = |rank: usize| call.bytes_of(rank).count();
        match call.direction {
            Direction::Write => {
                let buffers: Vec<Vec<u8>> = (0..scenario.ranks)
                    .map(|rank| (0..bytes(rank)).map(|at| value(number, rank, at)).collect())
                    .collect();
                for (rank, buffer) in buffers.iter().enumerate() {
                    for (at, byte) in call.bytes_of(rank).zip(buffer) {
                        file[at] = *byte;
                    }
                }
                before.push(buffers.clone());
                after.push(buffers);
            }
            Direction::Read => {
                before.push((0..scenario.ranks).map(|rank| vec![0xAA; bytes(rank)]).collect());
                after.push(
                    (0..scenario.ranks)
                        .map(|rank| call.bytes_of(rank).map(|at| file[at]).collect())
                        .collect(),
                );
            }
        }
    }
    (before, after, file)
}

/// The outcomes of the calls of each rank: the bytes moved, and whether there was an error.
type Outcomes = Vec<Vec<(u64, bool)>>;

/// Runs the scenario. `files` has one handle for each rank.
fn run(scenario: &Scenario, files: &[Arc<dyn DriverFile>], buffers: &mut Buffers) -> Outcomes {
    let shared = LocalBuffer::team(scenario.ranks, 2 * scenario.collective_buffer_bytes as usize);
    let shared: Vec<Arc<dyn NodeShared>> = shared.into_iter().map(|end| Arc::new(end) as _).collect();
    let counters: Vec<Arc<Counters>> = (0..scenario.ranks).map(|_| Arc::default()).collect();
    let accesses: Vec<Vec<Access>> = scenario
        .calls
        .iter()
        .zip(buffers)
        .map(|(call, buffers)| {
            buffers.iter_mut().enumerate().map(|(rank, buffer)| call.access(rank, buffer)).collect()
        })
        .collect();
    let agreed: Vec<Agreed> =
        accesses.iter().map(|ranks| Agreed::of(&ranks.iter().map(Summary::of).collect::<Vec<_>>())).collect();
    let start = |rank: usize, call: usize| {
        let (file, counters) = (files[rank].clone(), counters[rank].clone());
        let target =
            Target { file, isolation: None, counters, holes: Holes::Untouched, sieves: Sieves::default() };
        let team = NodeGroup::new(
            shared[rank].clone(),
            scenario.aggregators,
            scenario.collective_buffer_bytes,
            0,
            agreed[call].grain,
        )
        .ending_at(agreed[call].end);
        // SAFETY: all simulated ranks of a call pass the same direction, first byte, and values for their
        // node groups.
        unsafe {
            Operation::start(
                target,
                team,
                accesses[call][rank].clone(),
                scenario.calls[call].direction,
                agreed[call].first,
            )
        }
    };
    let mut outcomes: Outcomes = vec![Vec::new(); scenario.ranks];
    let mut under_way: Vec<_> = (0..scenario.ranks).map(|rank| Some(start(rank, 0))).collect();
    let steps = scenario.schedule.iter().copied().cycle();
    let mut idle = 0;
    for rank in steps.map(|rank| rank % scenario.ranks) {
        idle += 1;
        assert!(idle < 1_000_000, "the operations make no progress");
        let Some(operation) = &mut under_way[rank] else {
            if under_way.iter().all(Option::is_none) {
                break;
            }
            // This rank has finished. Its turn goes to another operation, because a schedule may leave
            // a rank out.
            if let Some(operation) = under_way.iter_mut().flatten().next() {
                operation.poll();
            }
            continue;
        };
        if operation.poll() {
            let done = under_way[rank].take().expect("the operation is in flight").take_outcome();
            outcomes[rank].push((done.bytes, done.error.is_some()));
            let next = outcomes[rank].len();
            under_way[rank] = (next < scenario.calls.len()).then(|| start(rank, next));
        }
    }
    outcomes
}

fn file_of(driver: &dyn Driver) -> Arc<dyn DriverFile> {
    let file = driver
        .open("scenario".as_ref(), &OpenOptions::read_write().create(true))
        .expect("the file in memory opens");
    file.write_all_at(0, &(0..FILE_BYTES).map(|at| (at * 3) as u8).collect::<Vec<_>>())
        .expect("the file in memory is written");
    file
}

fn contents(file: &dyn DriverFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().expect("the file in memory has a length") as usize];
    assert_eq!(file.read_at(0, &mut bytes).expect("the file in memory is read"), bytes.len());
    bytes
}

/// Runs of one rank in units, from alternating gaps and lengths.
fn runs() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((1usize..200, 1usize..120), 0..60).prop_map(|pairs| {
        let mut at = 0;
        pairs
            .into_iter()
            .map(|(gap, len)| {
                let start = at + gap;
                at = start + len;
                (start, len)
            })
            .collect()
    })
}

fn calls(ranks: usize) -> impl Strategy<Value = Vec<Call>> {
    let call =
        (any::<bool>(), prop::sample::select(vec![1usize, 4, 8, 64]), prop::collection::vec(runs(), ranks))
            .prop_map(|(reads, unit, mut runs)| {
                for rank in &mut runs {
                    rank.retain(|(start, _)| start * unit < FILE_BYTES);
                }
                Call { direction: if reads { Direction::Read } else { Direction::Write }, unit, runs }
            });
    prop::collection::vec(call, 1..5)
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (1usize..6, 1usize..6, 0u32..4).prop_flat_map(|(ranks, aggregators, size)| {
        (calls(ranks), prop::collection::vec(0usize..ranks, 1..40)).prop_map(move |(calls, mut schedule)| {
            schedule.extend(0..ranks);
            Scenario { ranks, aggregators, collective_buffer_bytes: 1024 << size, calls, schedule }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn operations_take_effect_in_order_and_overlaps_in_rank_order(scenario in scenarios()) {
        let file = file_of(&MemDriver::new());
        let (mut buffers, after, expected) = expected(&scenario);
        let outcomes = run(&scenario, &vec![file.clone(); scenario.ranks], &mut buffers);
        for (rank, outcomes) in outcomes.iter().enumerate() {
            for (call, (bytes, failed)) in outcomes.iter().enumerate() {
                prop_assert!(!failed);
                prop_assert_eq!(*bytes, after[call][rank].len() as u64);
            }
        }
        prop_assert!(contents(file.as_ref()) == expected);
        prop_assert!(buffers == after);
    }

    #[test]
    fn fault_ends_its_operation_on_all_ranks_and_no_other_one(
        scenario in scenarios(),
        at in 0u32..40,
        where_ in 0usize..6,
    ) {
        let driver = Arc::new(MemDriver::new());
        let file = file_of(driver.as_ref());
        let plan = FaultPlan::parse(&format!("write@{at}:nospace;read@{at}:io"))
            .expect("the fault plan is valid");
        let faulty = Faulty::new(driver, plan).open("scenario".as_ref(), &OpenOptions::read_write())
            .expect("the file opens");
        let mut files = vec![file.clone(); scenario.ranks];
        files[where_ % scenario.ranks] = faulty;
        let (mut buffers, after, expected) = expected(&scenario);
        let outcomes = run(&scenario, &files, &mut buffers);
        let failed = |call: usize| outcomes.iter().any(|outcomes| outcomes[call].1);
        for (rank, outcomes) in outcomes.iter().enumerate() {
            prop_assert_eq!(outcomes.len(), scenario.calls.len());
            for (call, (bytes, own_failure)) in outcomes.iter().enumerate() {
                prop_assert!(!own_failure || rank == where_ % scenario.ranks);
                prop_assert!(*bytes <= after[call][rank].len() as u64);
                prop_assert!(failed(call) || *bytes == after[call][rank].len() as u64);
            }
        }
        // A byte that no write covers has its old value.
        let after = contents(file.as_ref());
        let mut asked = vec![false; FILE_BYTES];
        for call in scenario.calls.iter().filter(|call| call.direction == Direction::Write) {
            for rank in 0..scenario.ranks {
                call.bytes_of(rank).for_each(|at| asked[at] = true);
            }
        }
        for at in 0..FILE_BYTES {
            prop_assert!(asked[at] || after[at] == expected[at]);
        }
    }
}
