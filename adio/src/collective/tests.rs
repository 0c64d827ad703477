//! Operations of several files on one shared memory. One thread begins and polls them, in the order of a
//! seeded schedule.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use capulet_comm::local::{LocalBuffer, LocalChannel, LocalLeaders};
use capulet_comm::work::Work;
use capulet_comm::{Agree, ErrorClass, Leaders, NodeShared, Track};
use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::wrappers::{FaultPlan, Faulty};
use capulet_drivers::{Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::two_phase::{NodeExchange, Nodes};
use capulet_sieve::{
    Access, Agreed, Direction, Holes, Memory, PlanHints, Resources, Sieves, Summary, Target,
};
use proptest::prelude::*;

use super::operation::{CollectiveOperation, OperationContext};
use super::queue::{Queue, Request};
use crate::error::{Error, Result};
use crate::outcome::Outcome;

const CELLS: usize = 300;
const CELL: usize = 8;

/// The ranks of some nodes in ascending order, some files, and a queue for each rank.
struct Simulation {
    nodes: usize,
    ranks: usize,
    channels: Vec<Vec<Arc<dyn Agree>>>,
    files: Vec<Vec<Arc<dyn DriverFile>>>,
    buffers: Vec<Arc<dyn NodeShared>>,
    /// For each file and node: the channel for the data of operations, and the channel for the order of
    /// operations.
    leaders: Vec<Vec<[Arc<dyn Leaders>; 2]>>,
    queues: Vec<Queue>,
    begun: Vec<Vec<u64>>,
}

impl Simulation {
    fn new(nodes: usize, ranks: usize, files: &[Arc<dyn DriverFile>]) -> Self {
        let channels = |_: &Arc<dyn DriverFile>| {
            LocalChannel::team(ranks).into_iter().map(|end| Arc::new(end) as Arc<dyn Agree>).collect()
        };
        let sizes = (0..nodes).map(|node| ranks_of(node, nodes, ranks).len());
        let buffers = sizes.flat_map(|size| LocalBuffer::team(size, 16_384));
        let leaders = |file: usize| {
            let teams = [0, 1].map(|channel| LocalLeaders::team(nodes, (file * 2 + channel) as u64));
            let [data, order] =
                teams.map(|team| team.into_iter().map(|end| Arc::new(end) as Arc<dyn Leaders>));
            data.zip(order).map(|(data, order)| [data, order]).collect()
        };
        Self {
            nodes,
            ranks,
            leaders: (0..files.len()).map(leaders).collect(),
            channels: files.iter().map(channels).collect(),
            files: files.iter().map(|file| vec![file.clone(); ranks]).collect(),
            buffers: buffers.map(|buffer| Arc::new(buffer) as Arc<dyn NodeShared>).collect(),
            queues: (0..ranks).map(|_| Queue::default()).collect(),
            begun: vec![vec![0; files.len()]; ranks],
        }
    }

    fn begin(&mut self, rank: usize, file: usize, direction: Direction, access: Result<Access>) -> Request {
        let number = self.begun[rank][file];
        self.begun[rank][file] += 1;
        let context = self.operation_context(rank, file, number);
        self.queues[rank].push(CollectiveOperation::new(context, number, direction, access))
    }

    fn operation_context(&self, rank: usize, file: usize, number: u64) -> OperationContext {
        let buffer = self.buffers[rank].clone();
        let node = node_of(rank, self.nodes, self.ranks);
        let size = ranks_of(node, self.nodes, self.ranks).len();
        let [data, order] = &self.leaders[file][node];
        let (is_leader, several) = (buffer.place() == 0, self.nodes > 1);
        let aggregators: Vec<usize> =
            (0..self.nodes).map(|node| ranks_of(node, self.nodes, self.ranks).len()).collect();
        let internode = || NodeExchange {
            nodes: Arc::new(Nodes::new(node, &aggregators, vec![node as u32; size], self.nodes as u32)),
            leaders: is_leader.then(|| data.clone()),
            may_exchange: true,
            operation: number as u32,
        };
        OperationContext {
            internode: several.then(internode),
            order: (several && is_leader).then(|| order.clone()),
            agree: self.channels[file][rank].clone(),
            file_id: file as u32 + 1,
            shared_memory: Arc::new(move || Some(buffer.clone())),
            target: Target {
                file: self.files[file][rank].clone(),
                isolation: None,
                counters: Arc::default(),
                holes: Holes::Untouched,
                sieves: Sieves::default(),
            },
            hints: PlanHints::default(),
            in_memory: rank.is_multiple_of(2),
            collective_buffer_bytes: 4096,
            stripe_bytes: 0,
            aggregators: size,
        }
    }

    fn poll(&self, rank: usize) {
        self.queues[rank].advance();
    }
}

/// The node of a rank. The nodes have consecutive ranks, and as equal numbers of ranks as possible.
fn node_of(rank: usize, nodes: usize, ranks: usize) -> usize {
    rank * nodes / ranks
}

fn ranks_of(node: usize, nodes: usize, ranks: usize) -> Vec<usize> {
    (0..ranks).filter(|rank| node_of(*rank, nodes, ranks) == node).collect()
}

/// The cells of `rank` in place `place` of a file. The cells of a place belong to the ranks in cyclic
/// order.
fn access(ranks: usize, rank: usize, place: usize, memory: &mut [u8]) -> Access {
    let byte = Datatype::named(Named::Byte);
    let block = Datatype::contiguous(CELL as u64, &byte).expect("the type is small");
    let spaced = Datatype::resized(0, (CELL * ranks) as i64, &block).expect("the type is small");
    let tiled = Tiled::new(byte.layout().clone(), memory.len() as u64).expect("the type is small");
    // SAFETY: `# Safety` of `Memory::new`: `tiled` describes exactly the bytes of `memory`. In every
    // caller `memory` outlives the operation, and is not used before the operation is over.
    let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled) };
    let start = (place * CELLS * CELL * ranks + rank * CELL) as u64;
    Access::new(start, &Tiled::until(spaced.layout().clone(), 1 << 40), 0, user, memory.len() as u64)
        .expect("the access is valid")
}

fn value(file: usize, place: usize, rank: usize, at: usize) -> u8 {
    (file * 67 + place * 31 + rank * 7 + at * 3 + at / 256) as u8
}

fn new_file(driver: &dyn Driver, name: &str) -> Arc<dyn DriverFile> {
    driver.open(name.as_ref(), &OpenOptions::read_write().create(true)).expect("a file in memory opens")
}

fn ended(request: &Request) -> bool {
    request.as_completion().completion().is_some()
}

/// The outcome of an operation that is over.
fn outcome(request: Request) -> Outcome {
    assert!(ended(&request), "the operation is over");
    request.wait()
}

#[test]
fn operation_completes_before_an_earlier_one_that_a_rank_has_not_begun() {
    begin_late(1);
    begin_late(2);
}

/// A thread takes an operation out of the line before it counts what the operation moved, and before it drops
/// it.
#[test]
fn queue_is_drained_when_no_thread_holds_an_operation_of_it() {
    let driver = MemDriver::new();
    let files = [new_file(&driver, "a")];
    let mut simulation = Simulation::new(1, 2, &files);
    let mut memory = [vec![1_u8; CELLS * CELL], vec![2_u8; CELLS * CELL]];
    let [first, second] = memory.each_mut();
    let request = simulation.begin(0, 0, Direction::Write, Ok(access(2, 0, 0, first)));
    let (told, hear) = mpsc::channel();
    let (release, released) = mpsc::channel();
    request.on_completion(move || {
        told.send(()).expect("the test listens");
        released.recv().expect("the test goes on");
    });
    let other = simulation.begin(1, 0, Direction::Write, Ok(access(2, 1, 0, second)));
    let (simulation, request) = (&simulation, &request);
    thread::scope(|scope| {
        scope.spawn(move || {
            while !ended(request) {
                simulation.poll(1);
                simulation.poll(0);
            }
        });
        hear.recv().expect("the operation ends");
        let drained = scope.spawn(|| simulation.queues[0].drain(1));
        thread::sleep(Duration::from_millis(50));
        let is_early = drained.is_finished();
        release.send(()).expect("the thread waits");
        assert!(!is_early, "a thread was still telling the outcome");
    });
    assert!(ended(&other));
}

fn begin_late(nodes: usize) {
    let driver = MemDriver::new();
    let files = [new_file(&driver, "a"), new_file(&driver, "b")];
    let mut simulation = Simulation::new(nodes, 2, &files);
    let mut memory = vec![vec![vec![1_u8; CELLS * CELL]; 2]; 2];
    let mut begin = |simulation: &mut Simulation, rank: usize, file: usize| {
        let access = access(2, rank, 0, &mut memory[rank][file]);
        simulation.begin(rank, file, Direction::Write, Ok(access))
    };
    let poll_all = |simulation: &Simulation| {
        for step in 0..2000 {
            simulation.poll(step % 2);
        }
    };
    let first = begin(&mut simulation, 0, 0);
    let second = [begin(&mut simulation, 0, 1), begin(&mut simulation, 1, 1)];
    poll_all(&simulation);
    assert!(!ended(&first) && second.iter().all(ended));
    let late = begin(&mut simulation, 1, 0);
    poll_all(&simulation);
    assert!(ended(&first) && ended(&late));
    for request in second.into_iter().chain([first, late]) {
        assert_eq!(outcome(request).into_result().expect("the operation succeeds"), (CELLS * CELL) as u64);
    }
}

#[test]
fn error_on_one_rank_fails_only_its_operation_and_on_all_ranks() {
    let files = [new_file(&MemDriver::new(), "a")];
    let mut simulation = Simulation::new(2, 3, &files);
    let mut memory = vec![vec![7_u8; CELLS * CELL]; 6];
    let mut requests = Vec::new();
    for (at, memory) in memory.iter_mut().enumerate() {
        let (number, rank) = (at / 3, at % 3);
        let wrong = number == 0 && rank == 1;
        let access = if wrong {
            Err(Error::argument(ErrorClass::Count, "injected by the test"))
        } else {
            Ok(access(3, rank, 0, memory))
        };
        requests.push(simulation.begin(rank, 0, Direction::Write, access));
    }
    (0..6000).for_each(|step| simulation.poll(step % 3));
    for (at, request) in requests.into_iter().enumerate() {
        let outcome = outcome(request);
        match at / 3 {
            0 => {
                assert_eq!(outcome.bytes, 0);
                assert_eq!(outcome.error.map(|error| error.class()), Some(ErrorClass::Count));
            }
            _ => assert_eq!(outcome.into_result().expect("the operation succeeds"), (CELLS * CELL) as u64),
        }
    }
}

/// A nonblocking operation with the number of this blocking access would use the track of the operation
/// in progress. On one rank the access ends before that operation, on the other ranks after it.
#[test]
fn blocking_access_does_not_disturb_operations_in_progress() {
    let driver = Arc::new(MemDriver::new());
    let mut simulation = Simulation::new(1, 3, &[new_file(driver.as_ref(), "a")]);
    let full = Faulty::new(driver, FaultPlan::parse("write@*:nospace").expect("the fault plan is valid"));
    simulation.files[0][0] = full.open("a".as_ref(), &OpenOptions::read_write()).expect("the file opens");
    let mut memory = vec![vec![7_u8; CELLS * CELL]; 3];
    let first: Vec<Request> = (0..3)
        .map(|rank| simulation.begin(rank, 0, Direction::Write, Ok(access(3, rank, 0, &mut memory[rank]))))
        .collect();
    let number = u64::from(Track::SPARE);
    let wait = |rank: usize| {
        let nothing = (Agreed::of(&[Summary::empty()]), Resources { shared_memory: true, in_memory: false });
        let access = access(3, rank, 0, &mut []);
        let context = simulation.operation_context(rank, 0, number);
        simulation.queues[rank].push(CollectiveOperation::already_agreed(
            context,
            number,
            Direction::Write,
            access,
            nothing,
        ))
    };
    let early = wait(0);
    (0..3000).for_each(|step| simulation.poll(step % 3));
    let waited: Vec<Request> = [early].into_iter().chain([1, 2].map(wait)).collect();
    (0..3000).for_each(|step| simulation.poll(step % 3));
    for (rank, request) in first.into_iter().enumerate() {
        let class = outcome(request).error.map(|error| error.class());
        assert_eq!(class, Some(ErrorClass::NoSpace), "rank {rank}");
    }
    for request in waited {
        assert_eq!(outcome(request).into_result().expect("the operation succeeds"), 0);
    }
}

/// Two ranks read pieces of 4 KiB. In the combined access the gaps are as large as the pieces, so
/// independent reads are faster if the storage is memory. One of the ranks does not see that it is
/// memory.
#[test]
fn ranks_with_different_storage_capabilities_choose_the_same_plan() {
    const PIECE: usize = 4096;
    for nodes in [1, 2] {
        let files = [new_file(&MemDriver::new(), "a")];
        files[0].write_all_at(0, &vec![3; 64 * PIECE]).expect("a write to memory succeeds");
        let mut simulation = Simulation::new(nodes, 2, &files);
        let mut memory = vec![vec![0_u8; 16 * PIECE]; 2];
        let byte = Datatype::named(Named::Byte);
        let mut requests = Vec::new();
        for (rank, memory) in memory.iter_mut().enumerate() {
            let piece = Datatype::contiguous(PIECE as u64, &byte).expect("the type is small");
            let sparse = Datatype::resized(0, 4 * PIECE as i64, &piece).expect("the type is small");
            let tiled = Tiled::new(byte.layout().clone(), memory.len() as u64).expect("the type is small");
            // SAFETY: `# Safety` of `Memory::new`: `tiled` describes exactly the bytes of `memory`, which
            // outlives the operation and is not used before the operation is over.
            let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled) };
            let view = Tiled::until(sparse.layout().clone(), 1 << 40);
            let access = Access::new((2 * rank * PIECE) as u64, &view, 0, user, 16 * PIECE as u64);
            requests.push(simulation.begin(
                rank,
                0,
                Direction::Read,
                Ok(access.expect("the access is valid")),
            ));
        }
        (0..6000).for_each(|step| simulation.poll(step % 2));
        for request in requests {
            assert_eq!(outcome(request).into_result().expect("the operation succeeds"), 16 * PIECE as u64);
        }
        assert!(memory.iter().flatten().all(|byte| *byte == 3));
    }
}

/// The channel of a leader, of which one send fails.
#[derive(Debug)]
struct FailingLeaders {
    channel: Arc<dyn Leaders>,
    sends_before: AtomicU32,
}

impl Leaders for FailingLeaders {
    fn node(&self) -> usize {
        self.channel.node()
    }

    fn nodes(&self) -> usize {
        self.channel.nodes()
    }

    fn send(&self, node: usize, message: Vec<u8>) -> capulet_comm::Result<()> {
        match self.sends_before.fetch_sub(1, Relaxed) {
            0 => Err(capulet_comm::Error::Elsewhere { class: ErrorClass::Other }),
            _ => self.channel.send(node, message),
        }
    }

    fn try_receive(&self) -> capulet_comm::Result<Option<(usize, Vec<u8>)>> {
        self.channel.try_receive()
    }

    fn is_sent(&self) -> capulet_comm::Result<bool> {
        self.channel.is_sent()
    }
}

/// A sequence of steps. In each step a rank begins its next operation on a file, and then some ranks
/// poll.
#[derive(Debug, Clone)]
struct Scenario {
    nodes: usize,
    ranks: usize,
    files: usize,
    /// For each file, its operations: true for a read.
    operations: Vec<Vec<bool>>,
    /// Rank, file, and the ranks that poll afterwards.
    begins: Vec<(usize, usize, Vec<usize>)>,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (1usize..6, 1usize..4, 1usize..4).prop_flat_map(|(ranks, nodes, files)| {
        let operations = prop::collection::vec(prop::collection::vec(any::<bool>(), 1..12), files);
        let step = (0..ranks, 0..files, prop::collection::vec(0..ranks, 0..12));
        (operations, prop::collection::vec(step, 0..200)).prop_map(move |(operations, begins)| Scenario {
            nodes: nodes.min(ranks),
            ranks,
            files,
            operations,
            begins,
        })
    })
}

/// The memory of each rank, by file and operation.
type Buffers = Vec<Vec<Vec<Vec<u8>>>>;

impl Scenario {
    fn empty_buffers(&self) -> Buffers {
        let of_file = |all: &Vec<bool>| vec![vec![0; CELLS * CELL]; all.len()];
        (0..self.ranks).map(|_| self.operations.iter().map(of_file).collect()).collect()
    }
}

/// The error class of each operation, by file and place. Fails unless it is the same on all ranks.
fn classes_of(
    requests: Vec<(usize, usize, usize, Request)>,
) -> std::result::Result<BTreeMap<(usize, usize), Option<ErrorClass>>, TestCaseError> {
    let mut classes = BTreeMap::new();
    for (rank, file, place, request) in requests {
        let class = outcome(request).error.map(|error| error.class());
        prop_assert_eq!(*classes.entry((file, place)).or_insert(class), class, "rank {}", rank);
    }
    Ok(classes)
}

/// Runs a scenario: its steps, then all operations that have not begun, then polls of the ranks in cyclic
/// order until all operations are over.
fn run(
    scenario: &Scenario,
    simulation: &mut Simulation,
    buffers: &mut Buffers,
) -> Vec<(usize, usize, usize, Request)> {
    let mut requests = Vec::new();
    let rest = (0..scenario.ranks)
        .flat_map(|rank| (0..scenario.files).map(move |file| (rank, file)))
        .flat_map(|(rank, file)| scenario.operations[file].iter().map(move |_| (rank, file, Vec::new())));
    for (rank, file, polls) in scenario.begins.iter().cloned().chain(rest) {
        let number = simulation.begun[rank][file] as usize;
        if let Some(reads) = scenario.operations[file].get(number) {
            let direction = if *reads { Direction::Read } else { Direction::Write };
            let access = access(scenario.ranks, rank, number, &mut buffers[rank][file][number]);
            requests.push((rank, file, number, simulation.begin(rank, file, direction, Ok(access))));
        }
        for rank in polls {
            simulation.poll(rank);
        }
    }
    let mut step = 0;
    while !requests.iter().all(|(.., request)| ended(request)) {
        simulation.poll(step % scenario.ranks);
        step += 1;
        assert!(step < 1_000_000, "the operations make no progress");
    }
    requests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn operations_in_any_order_move_their_bytes(scenario in scenarios()) {
        let driver = MemDriver::new();
        let files: Vec<_> = (0..scenario.files).map(|at| new_file(&driver, &at.to_string())).collect();
        let bytes_of = |file: usize, place: usize, rank: usize| -> Vec<u8> {
            (0..CELLS * CELL).map(|at| value(file, place, rank, at)).collect()
        };
        let mut buffers: Buffers = Vec::new();
        for rank in 0..scenario.ranks {
            buffers.push(Vec::new());
            for (file, operations) in scenario.operations.iter().enumerate() {
                let of = |(place, reads): (usize, &bool)| {
                    if *reads { vec![0; CELLS * CELL] } else { bytes_of(file, place, rank) }
                };
                buffers[rank].push(operations.iter().enumerate().map(of).collect());
            }
        }
        let cell_of = |file: usize, place: usize, cell: usize, rank: usize| {
            (cell * CELL..(cell + 1) * CELL).map(move |at| value(file, place, rank, at))
        };
        let mut expected = Vec::new();
        for (file, operations) in scenario.operations.iter().enumerate() {
            let cells = (0..operations.len()).flat_map(|place| (0..CELLS).map(move |cell| (place, cell)));
            let whole: Vec<u8> = cells
                .flat_map(|(place, cell)| {
                    (0..scenario.ranks).flat_map(move |rank| cell_of(file, place, cell, rank))
                })
                .collect();
            // Places that are read contain their data before; places that are written do not.
            let place_bytes = CELLS * CELL * scenario.ranks;
            for (place, reads) in operations.iter().enumerate() {
                let span = place * place_bytes..(place + 1) * place_bytes;
                let before = if *reads { whole[span.clone()].to_vec() } else { vec![0xEE; place_bytes] };
                files[file].write_all_at(span.start as u64, &before).expect("a write to memory succeeds");
            }
            expected.push(whole);
        }
        let mut simulation = Simulation::new(scenario.nodes, scenario.ranks, &files);
        let requests = run(&scenario, &mut simulation, &mut buffers);
        let operations: usize = scenario.operations.iter().map(Vec::len).sum();
        prop_assert_eq!(requests.len(), scenario.ranks * operations);
        for (rank, file, place, request) in requests {
            let outcome = outcome(request);
            prop_assert!(outcome.error.is_none());
            prop_assert_eq!(outcome.bytes, (CELLS * CELL) as u64);
            prop_assert!(buffers[rank][file][place] == bytes_of(file, place, rank));
        }
        for (file, expected) in files.iter().zip(expected) {
            let mut found = vec![0; expected.len()];
            prop_assert_eq!(file.read_at(0, &mut found).expect("a read from memory succeeds"), found.len());
            prop_assert!(found == expected);
        }
        prop_assert!(simulation.queues.iter().all(|queue| !queue.is_busy()));
    }

    #[test]
    fn storage_fault_fails_only_operations_of_its_file_on_all_ranks(
        scenario in scenarios(),
        at in 0u32..30,
        which in 0usize..4,
    ) {
        let driver = Arc::new(MemDriver::new());
        let files: Vec<_> =
            (0..scenario.files).map(|at| new_file(driver.as_ref(), &at.to_string())).collect();
        let mut simulation = Simulation::new(scenario.nodes, scenario.ranks, &files);
        let plan = FaultPlan::parse(&format!("write@{at}:nospace;read@{at}:io"));
        let faulty = Faulty::new(driver, plan.expect("the fault plan is valid"));
        let faulty = faulty.open("0".as_ref(), &OpenOptions::read_write()).expect("the file opens");
        let failing = which % scenario.ranks;
        simulation.files[0][failing] = faulty;
        let mut buffers = scenario.empty_buffers();
        let classes = classes_of(run(&scenario, &mut simulation, &mut buffers))?;
        prop_assert!(classes.iter().all(|((file, _), class)| *file == 0 || class.is_none()));
    }

    #[test]
    fn failed_exchange_fails_at_most_one_operation(
        scenario in scenarios(),
        (nodes, each) in (2usize..6, 1usize..3),
        (at, which) in (0u32..60, 0usize..6),
    ) {
        let scenario = Scenario { nodes, ranks: nodes * each, begins: Vec::new(), ..scenario };
        let driver = MemDriver::new();
        let files: Vec<_> = (0..scenario.files).map(|at| new_file(&driver, &at.to_string())).collect();
        let mut simulation = Simulation::new(nodes, scenario.ranks, &files);
        let [data, _] = &mut simulation.leaders[0][which % nodes];
        *data = Arc::new(FailingLeaders { channel: data.clone(), sends_before: at.into() });
        let mut buffers = scenario.empty_buffers();
        let classes = classes_of(run(&scenario, &mut simulation, &mut buffers))?;
        prop_assert!(classes.values().filter(|class| class.is_some()).count() <= 1);
    }
}
