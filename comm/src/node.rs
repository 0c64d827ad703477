//! The nodes of a group: the sets of ranks that share memory.
//!
//! `MPI_Comm_split_type` finds the machines (MPI-4.0 section 7.4.2). The environment variable
//! `CAPULET_NODES=k` of rank 0 makes one machine look like k nodes: rank r of P ranks belongs to part
//! floor(r k / P), and a node is the ranks of one machine and one part. The variable changes only which
//! ranks share buffers and which ranks are leaders. Files and results stay the same. The variable is
//! meant for tests.

use std::collections::HashMap;
use std::env;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::agree::ReduceOp;
use crate::backoff::note_crowd;
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result, check};
use crate::members::Members;
use crate::message::Wire;
use crate::node_memory::Slot;
use crate::rank::Rank;
use crate::{consts, ffi};

/// The name of the environment variable that cuts one machine into several nodes.
pub const NODES_VARIABLE: &str = "CAPULET_NODES";

/// The node of a rank: the ranks of the group that share memory with this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The ranks of this node, in ascending order.
    pub ranks: Vec<Rank>,
    /// The index of this rank in `ranks`.
    pub place: usize,
    /// The index of this node in `leaders`.
    pub index: usize,
    /// The first rank of each node, in ascending order.
    pub leaders: Vec<Rank>,
    /// The number of ranks of each node, in the order of `leaders`.
    pub sizes: Vec<u32>,
    /// The number of blocks of the group. A block is a maximal sequence of consecutive ranks that are on
    /// one node.
    pub block_count: u32,
    /// The block of each rank in `ranks`, from 0.
    pub blocks: Vec<u32>,
}

impl Node {
    /// The number of ranks on this node.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// The leader of this node. It exchanges messages with the leaders of the other nodes.
    pub fn leader(&self) -> Rank {
        self.ranks[0]
    }

    /// Whether this rank is the leader of its node.
    pub fn is_leader(&self) -> bool {
        self.place == 0
    }

    /// The number of nodes of the group.
    pub fn node_count(&self) -> usize {
        self.leaders.len()
    }
}

/// The nodes of a set of processes.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    pub(crate) node: Node,
    /// The number of ranks of the group on this machine, even if `CAPULET_NODES` cuts the machine into
    /// several nodes.
    pub(crate) machine_size: u32,
}

/// The known sets of processes, so that later groups of the same processes need no second split: the
/// processes, the number of parts, and the nodes.
static KNOWN: Mutex<Vec<(Members, u64, Split)>> = Mutex::new(Vec::new());
/// The maximum number of sets in `KNOWN`. Further sets are not remembered.
const KNOWN_MAX: usize = 32;

/// The nodes of these processes, if this rank knows them. `parts` is as in [`split`]. Local.
pub(crate) fn known(comm: ffi::MPI_Comm, parts: u64) -> Result<Option<Split>> {
    let members = Members::of(comm)?;
    let mut found = None;
    for (known, cut, split) in &*KNOWN.lock().unwrap_or_else(PoisonError::into_inner) {
        if *cut == parts && known.are(&members)? {
            found = Some(split.clone());
            break;
        }
    }
    members.free();
    Ok(found)
}

/// Splits a communicator into its nodes. Each machine is cut into `parts` parts; 0 means one part.
/// Collective.
pub(crate) fn split(wire: Wire<'_>, parts: u64) -> Result<Split> {
    /// Stands for a rank that could not find the leader of its machine: all ranks fail then.
    const FAILED: u64 = u64::MAX;
    let own_leader = machine_leader(wire);
    let number = own_leader.as_ref().map_or(FAILED, |leader| u64::from(*leader));
    let machine_leaders = collective::allgather(wire, number)?;
    own_leader?;
    if machine_leaders.contains(&FAILED) {
        return Err(Error::Elsewhere { class: ErrorClass::Other });
    }
    let split = split_of(wire.rank, &machine_leaders, parts)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // A rank that fails here only asks again for the next group: it must not fail alone.
    if known.len() < KNOWN_MAX
        && let Ok(members) = Members::of(wire.comm)
    {
        known.push((members, parts, split.clone()));
    }
    Ok(split)
}

/// The first rank on the machine of this rank. Collective. Blocks inside MPI, because no MPI library has
/// a nonblocking form of this split.
fn machine_leader(wire: Wire<'_>) -> Result<u32> {
    let mut machine = consts::comm_null();
    // SAFETY: MPI-4.0 section 7.4.2: the call is collective. The communicator is private to this crate
    // and valid, and every rank of the communicator makes this call. MPI writes one handle.
    let status = unsafe {
        ffi::MPI_Comm_split_type(
            wire.comm,
            consts::comm_type_shared(),
            wire.rank as c_int,
            consts::info_null(),
            &raw mut machine,
        )
    };
    check("MPI_Comm_split_type", status)?;
    let (own, all) = (Members::of(machine)?, Members::of(wire.comm)?);
    let leader = own.first_in(&all);
    own.free();
    all.free();
    // SAFETY: this function has created the communicator, and no operation is in progress on it.
    check("MPI_Comm_free", unsafe { ffi::MPI_Comm_free(&raw mut machine) })?;
    leader
}

/// The nodes from the view of rank `me`. `machine_leaders` holds the first rank on the machine of each
/// rank.
fn split_of(me: u32, machine_leaders: &[u64], parts: u64) -> Result<Split> {
    let size = machine_leaders.len() as u64;
    let part_of = |rank: u64| if parts == 0 { 0 } else { rank * parts / size };
    let machine_of = |rank: u64| machine_leaders[rank as usize];
    let shares_node =
        |left: u64, right: u64| machine_of(left) == machine_of(right) && part_of(left) == part_of(right);
    let me = u64::from(me);
    let machine_size = (0..size).filter(|rank| machine_of(*rank) == machine_of(me)).count() as u32;
    let ranks: Vec<Rank> =
        (0..size).filter(|rank| shares_node(*rank, me)).map(|rank| Rank(rank as u32)).collect();
    // The first rank of each node, by the machine and the part of the node.
    let mut firsts = HashMap::new();
    let leader_of: Vec<u64> =
        (0..size).map(|rank| *firsts.entry((machine_of(rank), part_of(rank))).or_insert(rank)).collect();
    let place = ranks.iter().position(|rank| u64::from(rank.0) == me).unwrap_or(0);
    Ok(Split { node: Node { place, ..whole(ranks, &leader_of)? }, machine_size })
}

/// The number of words of a `cpu_set_t`.
const CORE_WORDS: usize = 16;

/// Notes whether the ranks of this machine outnumber the cores that the ranks of this node may use.
/// Collective over the node.
pub(crate) fn note_cores(slot: &Slot, machine_size: u32) -> Result<()> {
    const COUNTING: u64 = 1 << 62;
    let mut cores = [0_u64; CORE_WORDS];
    // SAFETY: sched_getaffinity(2): the call writes at most `size_of_val(&cores)` bytes to `cores`. The
    // bits of cores that the kernel does not know stay zero.
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), cores.as_mut_ptr().cast()) };
    if status != 0 {
        cores = [u64::MAX; CORE_WORDS];
    }
    slot.reduce(COUNTING, &mut cores, &[ReduceOp::BitOr; CORE_WORDS])?;
    if machine_size > cores.iter().map(|word| word.count_ones()).sum() {
        note_crowd();
    }
    Ok(())
}

/// The number of nodes that the environment of this rank asks for: 0 for none, [`NOT_A_NUMBER`] for an
/// invalid value. The ranks use the value of rank 0.
pub(crate) fn simulated_nodes() -> u64 {
    match env::var(NODES_VARIABLE) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(parts) if parts > 0 => u64::from(parts),
            _ => NOT_A_NUMBER,
        },
        Err(env::VarError::NotPresent) => 0,
        Err(env::VarError::NotUnicode(_)) => NOT_A_NUMBER,
    }
}

const NOT_A_NUMBER: u64 = u64::MAX;

/// The number of parts that rank 0 asks for, at most `size`, the number of ranks.
pub(crate) fn checked_parts(asked: u64, size: u32) -> Result<u64> {
    if asked == NOT_A_NUMBER {
        return Err(Error::invalid(
            ErrorClass::Other,
            format!("{NODES_VARIABLE} must be a whole number from 1"),
        ));
    }
    Ok(asked.min(u64::from(size)))
}

/// The node with the ranks `ranks`. `leader_of` holds the leader of each rank of the group.
fn whole(ranks: Vec<Rank>, leader_of: &[u64]) -> Result<Node> {
    // The distinct values of `leader_of`, in order, are the leaders.
    let mut leaders = leader_of.to_vec();
    leaders.sort_unstable();
    leaders.dedup();
    let disagreement = Error::Disagreement { what: "the nodes" };
    let mut sizes = vec![0; leaders.len()];
    for leader in leader_of {
        sizes[leaders.binary_search(leader).map_err(|_| disagreement.clone())?] += 1;
    }
    let mut block = 0;
    let block_of: Vec<u32> = (0..leader_of.len())
        .map(|rank| {
            block += u32::from(rank > 0 && leader_of[rank] != leader_of[rank - 1]);
            block
        })
        .collect();
    let blocks = ranks.iter().map(|rank| block_of.get(rank.index()).copied()).collect::<Option<_>>();
    let blocks = blocks.ok_or_else(|| disagreement.clone())?;
    let leaders: Vec<Rank> = leaders.into_iter().map(|rank| Rank(rank as u32)).collect();
    let index = leaders.binary_search(&ranks[0]).map_err(|_| disagreement)?;
    Ok(Node { place: 0, ranks, index, leaders, sizes, block_count: block + 1, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_has_the_sizes_of_all_nodes_and_the_blocks_of_its_ranks() {
        let ranks = |list: &[u32]| list.iter().map(|rank| Rank(*rank)).collect::<Vec<_>>();
        let node = whole(ranks(&[1, 2, 5]), &[0, 1, 1, 0, 4, 1]).expect("nodes");
        assert_eq!((node.index, node.leaders, node.sizes), (1, ranks(&[0, 1, 4]), vec![2, 3, 1]));
        assert_eq!((node.blocks, node.block_count), (vec![1, 1, 4], 5));
        let alone = whole(ranks(&[0]), &[0]).expect("a node");
        assert_eq!((alone.sizes, alone.blocks, alone.block_count), (vec![1], vec![0], 1));
        assert!(whole(ranks(&[1]), &[0, 0]).is_err());
    }

    #[test]
    fn nodes_are_the_machines_or_their_parts() {
        // The machines are {0, 2, 3} and {1, 4, 5}.
        let machines = [0, 1, 0, 0, 1, 1];
        let split = |rank, parts| split_of(rank, &machines, parts).expect("nodes");
        let seen = |rank, parts| {
            let Split { node, machine_size } = split(rank, parts);
            (node.ranks.iter().map(|rank| rank.0).collect::<Vec<_>>(), node.place, node.index, machine_size)
        };
        assert_eq!(seen(3, 0), (vec![0, 2, 3], 2, 0, 3));
        assert_eq!(seen(4, 0), (vec![1, 4, 5], 1, 1, 3));
        // The parts are {0, 1, 2} and {3, 4, 5}. So there are four nodes: {0, 2}, {1}, {3} and {4, 5}.
        assert_eq!(seen(3, 2), (vec![3], 0, 2, 3));
        assert_eq!(seen(5, 2), (vec![4, 5], 1, 3, 3));
        assert_eq!(split(2, 2).node.leaders.len(), 4);
        assert!((0..6).all(|rank| split(rank, 6).node.size() == 1));
    }
}
