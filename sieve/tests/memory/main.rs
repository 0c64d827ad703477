//! The memory that a rank takes for an access, besides the shared memory: at most 1 MiB and twice the
//! memory of its view, for any number of pieces. A leader of one of several nodes also holds the bytes
//! that are sent and that arrive in one step.

mod counted;

use std::sync::{Arc, Mutex, PoisonError};

use capulet_comm::Leaders;
use capulet_comm::local::{LocalBuffer, LocalLeaders};
use capulet_datatype::{Datatype, Named, Tiled};
use capulet_drivers::mem::MemDriver;
use capulet_drivers::{Direction, Driver, DriverFile, DriverFileExt, OpenOptions};
use capulet_sieve::two_phase::{NodeExchange, NodeGroup, Nodes, Operation};
use capulet_sieve::{Access, Agreed, Counters, Holes, Memory, Sieves, Summary, Target, independent};

use counted::{as_owner, forget_peaks, held_bytes, peak_bytes};

const RANKS: usize = 6;
const COLLECTIVE_BUFFER_BYTES: usize = 64 << 10;
/// Bytes of the file for each piece.
const SLOT_BYTES: usize = 16;
const SLACK_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct Case {
    nodes: usize,
    /// Pieces of each rank.
    pieces: usize,
    is_irregular: bool,
    direction: Direction,
}

fn value(at: usize) -> u8 {
    (at * 7 + at / 251) as u8
}

impl Case {
    /// Offset and length of a piece of a rank.
    fn piece(self, rank: usize, piece: usize) -> (usize, usize) {
        let slot = (piece * RANKS + rank) * SLOT_BYTES;
        if !self.is_irregular {
            return (slot, SLOT_BYTES / 2);
        }
        let chance = (slot as u64 + 5).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let len = 1 + chance as usize % 12;
        (slot + (chance >> 8) as usize % (SLOT_BYTES - len), len)
    }

    fn pieces_of(self, rank: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..self.pieces).map(move |piece| self.piece(rank, piece))
    }

    fn bytes_of(self, rank: usize) -> usize {
        self.pieces_of(rank).map(|(_, len)| len).sum()
    }

    fn view(self, rank: usize) -> Datatype {
        let byte = Datatype::named(Named::Byte);
        let view = if self.is_irregular {
            let (places, lengths): (Vec<i64>, Vec<u64>) =
                self.pieces_of(rank).map(|(at, len)| (at as i64, len as u64)).unzip();
            Datatype::hindexed(&lengths, &places, &byte)
        } else {
            let stride = (RANKS * SLOT_BYTES) as i64;
            let row = Datatype::hvector(self.pieces as u64, SLOT_BYTES as u64 / 2, stride, &byte)
                .expect("the datatype is valid");
            Datatype::hindexed(&[1], &[(rank * SLOT_BYTES) as i64], &row)
        };
        view.expect("the datatype is valid")
    }

    fn node_of(self, rank: usize) -> usize {
        rank * self.nodes / RANKS
    }

    fn ranks_per_node(self) -> usize {
        RANKS / self.nodes
    }

    fn is_leader(self, rank: usize) -> bool {
        rank.is_multiple_of(self.ranks_per_node())
    }

    /// The file before the access: the bytes to read, or zeros. It has its final length already, so that
    /// a write takes no memory.
    fn file(self) -> Arc<dyn DriverFile> {
        let file = MemDriver::new()
            .open("data".as_ref(), &OpenOptions::read_write().create(true))
            .expect("the file opens");
        let mut bytes = vec![0; self.pieces * RANKS * SLOT_BYTES];
        if self.direction == Direction::Read {
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = value(at));
        }
        file.write_all_at(0, &bytes).expect("the file in memory is written");
        file
    }

    /// The bytes of each rank in memory, before a write or after a read.
    fn data_of(self, rank: usize) -> Vec<u8> {
        self.pieces_of(rank).flat_map(|(at, len)| (at..at + len).map(value)).collect()
    }
}

fn access(view: &Datatype, memory: &mut [u8]) -> Access {
    let byte = Datatype::named(Named::Byte);
    let bytes = memory.len() as u64;
    let tiled = Tiled::new(byte.layout().clone(), bytes).expect("the tiling is small");
    // SAFETY: `# Safety` of `Memory::new`: the layout has as many bytes as `memory`, which outlives the
    // access in every caller.
    let user = unsafe { Memory::new(memory.as_mut_ptr(), tiled) };
    Access::new(0, &Tiled::until(view.layout().clone(), 1 << 40), 0, user, bytes)
        .expect("the offsets are small")
}

/// Which ranks share memory, and how the nodes reach each other.
struct Topology {
    case: Case,
    buffers: Vec<Arc<LocalBuffer>>,
    channels: Vec<Arc<LocalLeaders>>,
}

impl Topology {
    fn new(case: Case) -> Self {
        let buffers_each = if case.nodes > 1 { 4 } else { 2 };
        let team = |_| LocalBuffer::team(case.ranks_per_node(), buffers_each * COLLECTIVE_BUFFER_BYTES);
        let buffers = (0..case.nodes).flat_map(team).map(Arc::new).collect();
        let channels = LocalLeaders::team(case.nodes, 1).into_iter().map(Arc::new).collect();
        Self { case, buffers, channels }
    }

    fn team(&self, rank: usize, grain: u64) -> NodeGroup {
        let (case, buffer) = (self.case, self.buffers[rank].clone());
        if case.nodes == 1 {
            return NodeGroup::new(buffer, RANKS, COLLECTIVE_BUFFER_BYTES as u64, 0, grain);
        }
        let (node, ranks) = (case.node_of(rank), case.ranks_per_node());
        let blocks = vec![node as u32; ranks];
        let nodes = Nodes::new(node, &vec![ranks; case.nodes], blocks, case.nodes as u32);
        let channel = case.is_leader(rank).then(|| self.channels[node].clone() as Arc<dyn Leaders>);
        let internode = NodeExchange {
            nodes: Arc::new(nodes),
            leaders: channel,
            may_exchange: true,
            unit_bytes: 1,
            operation: 1,
            surveyed: None,
        };
        NodeGroup::among(internode, buffer, COLLECTIVE_BUFFER_BYTES as u64, 0, grain)
    }
}

/// The memory that one rank's access took.
#[derive(Debug)]
struct Taken {
    view_bytes: usize,
    /// The greatest number of bytes, besides those of the view.
    peak_bytes: usize,
}

/// Carries a case out, with two-phase or with each rank on its own, and returns the memory that each rank
/// took.
fn measure(case: Case, is_two_phase: bool) -> Vec<Taken> {
    // The owners are the ranks of one case at a time.
    static ONE_CASE: Mutex<()> = Mutex::new(());
    let _one_case = ONE_CASE.lock().unwrap_or_else(PoisonError::into_inner);
    let (file, topology) = (case.file(), Topology::new(case));
    let is_read = case.direction == Direction::Read;
    let mut memory: Vec<Vec<u8>> = (0..RANKS)
        .map(|rank| if is_read { vec![0; case.bytes_of(rank)] } else { case.data_of(rank) })
        .collect();
    let views: Vec<Datatype> = (0..RANKS).map(|rank| case.view(rank)).collect();
    let before: Vec<usize> = (0..RANKS).map(held_bytes).collect();
    forget_peaks();
    let accesses: Vec<Access> = views
        .iter()
        .zip(&mut memory)
        .enumerate()
        .map(|(rank, (view, memory))| as_owner(rank, || access(view, memory)))
        .collect();
    let counters: Vec<Arc<Counters>> = (0..RANKS).map(|_| Arc::default()).collect();
    let target = |rank: usize| Target {
        file: file.clone(),
        isolation: None,
        counters: counters[rank].clone(),
        holes: Holes::Untouched,
        sieves: Sieves::default(),
    };
    let summaries: Vec<Summary> =
        accesses.iter().enumerate().map(|(rank, access)| as_owner(rank, || Summary::of(access))).collect();
    let agreed = Agreed::of(&summaries);
    if is_two_phase {
        let start = |(rank, access): (usize, Access)| {
            as_owner(rank, || {
                let team = topology.team(rank, agreed.grain);
                // SAFETY: all simulated ranks of a call pass the same direction, first byte, and values for
                // their node groups.
                unsafe { Operation::start(target(rank), team, access, case.direction, agreed.first) }
            })
        };
        let mut under_way: Vec<Operation> = accesses.into_iter().enumerate().map(start).collect();
        let mut left = RANKS;
        let mut is_over = [false; RANKS];
        for step in 0.. {
            let rank = step % RANKS;
            if !is_over[rank] && as_owner(rank, || under_way[rank].poll()) {
                let done = under_way[rank].take_outcome();
                assert!(done.error.is_none() && done.bytes == case.bytes_of(rank) as u64);
                (is_over[rank], left) = (true, left - 1);
            }
            if left == 0 {
                break;
            }
            assert!(step < 10_000_000, "the operations make no progress");
        }
        assert!(counters.iter().all(|counters| Counters::get(&counters.rounds) > 0));
    } else {
        for (rank, access) in accesses.iter().enumerate() {
            let done = as_owner(rank, || independent::run(&target(rank), access, case.direction));
            assert!(done.error.is_none() && done.bytes == case.bytes_of(rank) as u64);
        }
    }
    let taken = (0..RANKS).map(|rank| Taken {
        view_bytes: views[rank].layout().heap_bytes(),
        peak_bytes: peak_bytes(rank) - before[rank],
    });
    let taken = taken.collect();
    check_bytes(case, file.as_ref(), &memory);
    taken
}

/// Checks that the bytes were moved.
fn check_bytes(case: Case, file: &dyn DriverFile, memory: &[Vec<u8>]) {
    if case.direction == Direction::Read {
        assert!((0..RANKS).all(|rank| memory[rank] == case.data_of(rank)));
        return;
    }
    let mut expected = vec![0; case.pieces * RANKS * SLOT_BYTES];
    for (at, len) in (0..RANKS).flat_map(|rank| case.pieces_of(rank)) {
        (at..at + len).for_each(|at| expected[at] = value(at));
    }
    let mut found = vec![1; expected.len()];
    assert_eq!(file.read_at(0, &mut found).expect("the file in memory is read"), found.len());
    assert!(found == expected);
}

fn cases() -> impl Iterator<Item = Case> {
    let shapes = [(1, false), (1, true), (3, false), (3, true)];
    [1_000, 10_000, 100_000, 1_000_000].into_iter().flat_map(move |pieces| {
        shapes.into_iter().flat_map(move |(nodes, is_irregular)| {
            [Direction::Write, Direction::Read].map(|direction| Case {
                nodes,
                pieces,
                is_irregular,
                direction,
            })
        })
    })
}

#[test]
fn two_phase_takes_at_most_a_megabyte_and_twice_the_view() {
    for case in cases() {
        for (rank, taken) in measure(case, true).iter().enumerate() {
            // The bytes that are sent and that arrive are at most as many as the shared memory of the
            // node's ranks.
            let is_between = case.nodes > 1 && case.is_leader(rank);
            let messages_bytes =
                if is_between { 4 * case.ranks_per_node() * COLLECTIVE_BUFFER_BYTES } else { 0 };
            let most = SLACK_BYTES + taken.view_bytes + messages_bytes;
            println!("{case:?} rank {rank}: {taken:?}");
            assert!(taken.peak_bytes <= most, "{case:?}: rank {rank} took {taken:?}, more than {most}");
            assert!(taken.peak_bytes > 0, "no memory was counted");
        }
    }
}

#[test]
fn independent_access_takes_at_most_a_megabyte_and_twice_the_view() {
    for case in cases().filter(|case| case.nodes == 1) {
        for (rank, taken) in measure(case, false).iter().enumerate() {
            let most = SLACK_BYTES + taken.view_bytes;
            println!("{case:?} rank {rank}: {taken:?}");
            assert!(taken.peak_bytes <= most, "{case:?}: rank {rank} took {taken:?}, more than {most}");
        }
    }
}
