//! Collective accesses of ranks on several nodes, run by one thread, and their expected results.

use std::sync::Arc;

use capulet_comm::local::{LocalBuffer, LocalLeaders};
use capulet_comm::{CombinedOfNodes, Leaders, NodeValues};
use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::two_phase::{NodeExchange, NodeGroup, Nodes, Operation, Surveyed, decline_exchange};
use capulet_sieve::{Access, Agreed, Counters, Holes, KnownOutcome, Memory, Sieves, Summary, Target};

use crate::placement;

pub(crate) const FILE_BYTES: usize = 60_000;
/// Bytes of user memory for each byte of data.
pub(crate) const MEMORY_STEP: usize = 3;

/// The part of the file that one rank accesses: runs of units, or equal runs at equal distances.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Runs(Vec<(usize, usize)>),
    Row { start: usize, count: usize, len: usize, stride: usize },
}

/// One collective access.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) direction: Direction,
    pub(crate) unit: usize,
    /// Whether user memory has gaps.
    pub(crate) is_spread: bool,
    pub(crate) shapes: Vec<Shape>,
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The node of each rank.
    pub(crate) placement: Vec<usize>,
    /// The wanted aggregators of each node. At least one node has one.
    pub(crate) aggregators: Vec<usize>,
    pub(crate) collective_buffer_bytes: u64,
    pub(crate) calls: Vec<Call>,
    /// The rank that is polled next, step by step. The schedule repeats.
    pub(crate) schedule: Vec<usize>,
    pub(crate) holes: Holes,
    pub(crate) seed: u64,
    /// By node.
    pub(crate) may_exchange: Vec<bool>,
    /// A node that has no shared memory. For scenarios of one call only.
    pub(crate) without: Option<usize>,
    /// Whether the ranks took the survey together with an agreement, before the operation.
    pub(crate) is_surveyed: bool,
}

impl Shape {
    pub(crate) fn runs(&self) -> Vec<(usize, usize)> {
        match self {
            Shape::Runs(runs) => runs.clone(),
            Shape::Row { start, count, len, stride } => {
                (0..*count).map(|run| (start + run * stride, *len)).collect()
            }
        }
    }
}

impl Call {
    /// The ranges of the file, in rising order.
    pub(crate) fn ranges(&self, rank: usize) -> Vec<std::ops::Range<usize>> {
        let clip = |at: usize| (at * self.unit).min(FILE_BYTES);
        let runs = self.shapes[rank].runs();
        runs.iter()
            .map(|(start, len)| clip(*start)..clip(start + len))
            .filter(|run| !run.is_empty())
            .collect()
    }

    pub(crate) fn bytes_of(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        self.ranges(rank).into_iter().flatten()
    }

    pub(crate) fn step(&self) -> usize {
        if self.is_spread { MEMORY_STEP } else { 1 }
    }

    pub(crate) fn access(&self, rank: usize, memory: &mut [u8]) -> Access {
        let byte = Datatype::named(Named::Byte);
        let ranges = self.ranges(rank);
        let filetype = match &self.shapes[rank] {
            // a regular row is described as a vector, unless the end of the file cuts it
            Shape::Row { start, count, len, stride }
                if *count > 0 && (start + (count - 1) * stride + len) * self.unit <= FILE_BYTES =>
            {
                let row = Datatype::hvector(
                    *count as u64,
                    (len * self.unit) as u64,
                    (stride * self.unit) as i64,
                    &byte,
                );
                let row = row.expect("the datatype is valid");
                Datatype::hindexed(&[1], &[(start * self.unit) as i64], &row)
            }
            _ => {
                let places: Vec<i64> = ranges.iter().map(|run| run.start as i64).collect();
                let lengths: Vec<u64> = ranges.iter().map(|run| run.len() as u64).collect();
                Datatype::hindexed(&lengths, &places, &byte)
            }
        };
        let bytes = ranges.iter().map(std::ops::Range::len).sum::<usize>() as u64;
        assert_eq!(memory.len(), bytes as usize * self.step());
        let element = Datatype::resized(0, self.step() as i64, &byte).expect("the datatype is valid");
        let tiled = Tiled::new(element.layout().clone(), bytes).expect("the tiling is small");
        // SAFETY: `# Safety` of `Memory::new`: the layout reaches no byte beyond `memory`, which lives
        // until the scenario ends.
        let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled) };
        let view = Tiled::until(filetype.expect("the datatype is valid").layout().clone(), 1 << 40);
        Access::new(0, &view, 0, user, bytes).expect("the offsets are small")
    }

    /// User memory that holds these bytes.
    pub(crate) fn spread(&self, bytes: &[u8]) -> Vec<u8> {
        let mut memory = vec![0x5A; bytes.len() * self.step()];
        bytes.iter().enumerate().for_each(|(at, byte)| memory[at * self.step()] = *byte);
        memory
    }
}

impl Scenario {
    pub(crate) fn ranks(&self) -> usize {
        self.placement.len()
    }

    pub(crate) fn node_count(&self) -> usize {
        placement::node_count(&self.placement)
    }

    /// The ranks of a node.
    pub(crate) fn ranks_of(&self, node: usize) -> Vec<usize> {
        placement::ranks_of(&self.placement, node)
    }

    /// The nodes as the ranks of one node see them.
    pub(crate) fn nodes(&self, node: usize) -> Nodes {
        placement::nodes(&self.placement, &self.aggregators, node)
    }
}

pub(crate) fn value(call: usize, rank: usize, at: usize) -> u8 {
    (call * 101 + rank * 29 + at * 7 + at / 256) as u8
}

/// The buffers of each call, by rank.
pub(crate) type Buffers = Vec<Vec<Vec<u8>>>;

pub(crate) fn first_contents() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at * 3) as u8).collect()
}

/// Returns the buffers before the calls, the buffers after each call, and the file after all calls.
pub(crate) fn expected(scenario: &Scenario) -> (Buffers, Buffers, Vec<u8>) {
    let mut file = first_contents();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (number, call) in scenario.calls.iter().enumerate() {
        let bytes = |rank: usize| call.bytes_of(rank).count();
        match call.direction {
            Direction::Write => {
                let data =
                    |rank: usize| (0..bytes(rank)).map(|at| value(number, rank, at)).collect::<Vec<_>>();
                for rank in 0..scenario.ranks() {
                    call.bytes_of(rank).zip(data(rank)).for_each(|(at, byte)| file[at] = byte);
                }
                let buffers: Vec<_> = (0..scenario.ranks()).map(|rank| call.spread(&data(rank))).collect();
                before.push(buffers.clone());
                after.push(buffers);
            }
            Direction::Read => {
                let read = |rank: usize| call.bytes_of(rank).map(|at| file[at]).collect::<Vec<_>>();
                before
                    .push((0..scenario.ranks()).map(|rank| call.spread(&vec![0xAA; bytes(rank)])).collect());
                after.push((0..scenario.ranks()).map(|rank| call.spread(&read(rank))).collect());
            }
        }
    }
    (before, after, file)
}

/// The outcomes of all calls.
pub(crate) struct Outcomes {
    /// By rank and call: the bytes moved, and whether there was an error.
    pub(crate) calls: Vec<Vec<(u64, bool)>>,
    /// By rank that finished a call: whether the ranks must still agree on its outcome.
    must_agree: Vec<bool>,
    /// By rank.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Messages between nodes, by call.
    pub(crate) messages: Vec<u64>,
}

impl Outcomes {
    /// Whether all ranks must agree on the outcome or none. Otherwise some ranks wait forever for the others.
    pub(crate) fn is_one_outcome(&self) -> bool {
        self.must_agree.iter().all(|must_agree| *must_agree == self.must_agree[0])
    }
}

/// Makes one leader's end of a channel.
pub(crate) type Wrap<'a> = &'a dyn Fn(Arc<LocalLeaders>) -> Arc<dyn Leaders>;

/// The shared memory of each rank: the ranks of a node share one buffer.
fn buffers_of(scenario: &Scenario) -> Vec<Arc<LocalBuffer>> {
    let mut buffers: Vec<Option<LocalBuffer>> = (0..scenario.ranks()).map(|_| None).collect();
    for node in 0..scenario.node_count() {
        let ranks = scenario.ranks_of(node);
        let team = LocalBuffer::team(ranks.len(), 4 * scenario.collective_buffer_bytes as usize);
        ranks.into_iter().zip(team).for_each(|(rank, buffer)| buffers[rank] = Some(buffer));
    }
    buffers.into_iter().flatten().map(Arc::new).collect()
}

/// The survey as the ranks of a node know it before an operation.
fn surveyed(scenario: &Scenario, accesses: &[Access], node: usize) -> Option<Surveyed> {
    let of_node = |node: usize| {
        let of_rank = |rank: usize| {
            let span = Some(accesses[rank].span());
            Surveyed::values(span, scenario.may_exchange[node], scenario.is_surveyed, 1)
        };
        let values = scenario.ranks_of(node).into_iter().map(of_rank);
        values.reduce(|mut left, right| {
            for lane in 0..left.values.len() {
                left.values[lane] = left.ops[lane].apply(left.values[lane], right.values[lane]);
            }
            left
        })
    };
    let nodes: Vec<NodeValues> = (0..scenario.node_count()).filter_map(of_node).collect();
    let all = nodes.iter().map(|node| node.values).reduce(nodes[0].join).expect("there is a node");
    Surveyed::of(CombinedOfNodes { own: nodes[node].values, all })
}

/// Runs the scenario. `files` has one handle for each rank.
pub(crate) fn run(
    scenario: &Scenario,
    files: &[Arc<dyn DriverFile>],
    buffers: &mut Buffers,
    wrap: Wrap<'_>,
) -> Outcomes {
    let shared = buffers_of(scenario);
    let counters: Vec<_> = (0..scenario.ranks()).map(|_| Arc::new(Counters::default())).collect();
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
    let channels: Vec<Vec<Arc<LocalLeaders>>> = (0..scenario.calls.len())
        .map(|call| LocalLeaders::team(scenario.node_count(), scenario.seed + call as u64))
        .map(|team| team.into_iter().map(Arc::new).collect())
        .collect();
    let wrapped: Vec<Vec<Arc<dyn Leaders>>> =
        channels.iter().map(|channel| channel.iter().map(|end| wrap(end.clone())).collect()).collect();
    let internode = |rank: usize, call: usize| {
        let node = scenario.placement[rank];
        NodeExchange {
            nodes: Arc::new(scenario.nodes(node)),
            leaders: (scenario.ranks_of(node)[0] == rank).then(|| wrapped[call][node].clone()),
            may_exchange: scenario.may_exchange[node],
            unit_bytes: 1,
            operation: call as u32,
            surveyed: surveyed(scenario, &accesses[call], node),
        }
    };
    let start = |rank: usize, call: usize| {
        let target = Target {
            file: files[rank].clone(),
            isolation: None,
            counters: counters[rank].clone(),
            holes: scenario.holes,
            sieves: Sieves::default(),
        };
        let (shared, internode) = (shared[rank].clone(), internode(rank, call));
        let team =
            NodeGroup::among(internode, shared, scenario.collective_buffer_bytes, 0, agreed[call].grain)
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
    let mut outcomes = vec![Vec::new(); scenario.ranks()];
    let mut must_agree = Vec::new();
    let mut under_way: Vec<_> = (0..scenario.ranks())
        .map(|rank| (Some(scenario.placement[rank]) != scenario.without).then(|| start(rank, 0)))
        .collect();
    let mut declined = Vec::new();
    for rank in (0..scenario.ranks()).filter(|rank| Some(scenario.placement[*rank]) == scenario.without) {
        outcomes[rank].push((0, false));
        let internode = internode(rank, 0);
        declined
            .push(std::thread::spawn(move || decline_exchange(&internode).expect("no leader has failed")));
    }
    let steps = scenario.schedule.iter().copied().cycle();
    let mut idle = 0;
    for rank in steps.map(|rank| rank % scenario.ranks()) {
        idle += 1;
        if idle % 1000 == 0 {
            // A thread that the loop waits for may need this core.
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        assert!(idle < 3_000_000, "the operations make no progress");
        let Some(operation) = &mut under_way[rank] else {
            if under_way.iter().all(Option::is_none) {
                break;
            }
            // This rank has finished. Its turn goes to the other operations, because a schedule may leave
            // a rank out.
            under_way.iter_mut().flatten().for_each(|operation| {
                operation.poll();
            });
            continue;
        };
        if operation.poll() {
            let done = operation.take_outcome();
            under_way[rank] = None;
            outcomes[rank].push((done.bytes, done.error.is_some()));
            must_agree.push(done.outcome == KnownOutcome::Unknown);
            let next = outcomes[rank].len();
            under_way[rank] = (next < scenario.calls.len()).then(|| start(rank, next));
        }
    }
    drop(under_way);
    for thread in declined {
        thread.join().expect("the other leaders take part");
    }
    let messages = channels.iter().map(|channel| channel[0].messages_sent()).collect();
    Outcomes { calls: outcomes, must_agree, counters, messages }
}

pub(crate) fn plain(end: Arc<LocalLeaders>) -> Arc<dyn Leaders> {
    end
}

pub(crate) fn file_of(driver: &dyn Driver) -> Arc<dyn DriverFile> {
    let file = driver
        .open("scenario".as_ref(), &OpenOptions::read_write().create(true))
        .expect("the file in memory opens");
    file.write_all_at(0, &first_contents()).expect("the file in memory is written");
    file
}

pub(crate) fn contents(file: &dyn DriverFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().expect("the file in memory has a length") as usize];
    assert_eq!(file.read_at(0, &mut bytes).expect("the file in memory is read"), bytes.len());
    bytes
}
