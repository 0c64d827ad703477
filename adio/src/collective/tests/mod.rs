//! Operations of several files on one shared memory. One thread begins and polls them, in the order of a
//! seeded schedule.

mod random;

use std::collections::BTreeMap;
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
            unit_bytes: 1,
            operation: number as u32,
            surveyed: None,
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
    let (sender, receiver) = mpsc::channel();
    let (release, released) = mpsc::channel();
    request.on_completion(move || {
        sender.send(()).expect("the test listens");
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
        receiver.recv().expect("the operation ends");
        let drained = scope.spawn(|| simulation.queues[0].drain(1));
        thread::sleep(Duration::from_millis(50));
        let is_early = drained.is_finished();
        release.send(()).expect("the thread waits");
        assert!(!is_early, "a thread was still publishing the outcome");
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
