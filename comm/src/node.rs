//! Which ranks share memory.
//!
//! Nodes are found by `MPI_Comm_split_type` (MPI-4.0 section 7.4.2). The environment variable `CAPULET_NODES=k` (as rank 0
//! has it) makes one machine look like k: each real node is cut by rank, rank r of P goes to part floor(r k / P). It
//! changes only who shares windows with whom and who is a leader; files and results are the same. It is meant for tests.

use std::env;
use std::ffi::c_int;

use crate::agree::ReduceOp;
use crate::backoff::note_crowd;
use crate::class::ErrorClass;
use crate::collective;
use crate::error::{Error, Result, check};
use crate::message::{Counters, Wire};
use crate::process::{rank_in, return_errors, size_of_comm};
use crate::rank::Rank;
use crate::{consts, ffi};

/// The name of the environment variable that cuts one machine into several nodes.
pub const NODES_VARIABLE: &str = "CAPULET_NODES";

/// The node of a rank: the ranks of the group that share its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The ranks of this node, ascending.
    pub ranks: Vec<Rank>,
    /// The place of this rank in `ranks`.
    pub place: usize,
    /// The place of this node in `leaders`.
    pub index: usize,
    /// The first rank of each node, ascending.
    pub leaders: Vec<Rank>,
    /// How many ranks each node has, in the order of `leaders`.
    pub sizes: Vec<u32>,
    /// All ranks of the group are this many blocks of consecutive ranks of one node each.
    pub block_count: u32,
    /// The block of each rank in `ranks`, from 0.
    pub blocks: Vec<u32>,
}

impl Node {
    /// How many ranks are on this node.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// The rank that speaks for this node.
    pub fn leader(&self) -> Rank {
        self.ranks[0]
    }

    /// Whether this rank speaks for its node.
    pub fn is_leader(&self) -> bool {
        self.place == 0
    }

    /// How many nodes the group has.
    pub fn node_count(&self) -> usize {
        self.leaders.len()
    }
}

/// What a communicator splits into.
pub(crate) struct Split {
    /// The communicator of this node.
    pub(crate) comm: ffi::MPI_Comm,
    pub(crate) node: Node,
    /// Whether all ranks are on one machine, into however many nodes it is cut.
    pub(crate) is_one_machine: bool,
}

/// Splits a communicator into its nodes. Collective.
pub(crate) fn split(wire: Wire<'_>) -> Result<Split> {
    let parts = simulated_nodes(wire)?;
    let mut real = consts::comm_null();
    // SAFETY: the communicator is ours and valid, and every rank of it calls this; writes one handle.
    let status = unsafe {
        ffi::MPI_Comm_split_type(
            wire.comm,
            consts::comm_type_shared(),
            wire.rank as c_int,
            consts::info_null(),
            &raw mut real,
        )
    };
    check("MPI_Comm_split_type", status)?;
    return_errors(real)?;
    note_crowd(is_crowded(real)?);
    let is_one_machine = size_of_comm(real)? == wire.size;
    let comm = match parts {
        None => real,
        Some(parts) => {
            let color = u64::from(wire.rank) * parts / u64::from(wire.size);
            cut(real, color as c_int, wire.rank)?
        }
    };
    let node = describe(wire, comm)?;
    Ok(Split { comm, node, is_one_machine })
}

/// Whether the ranks of a machine outnumber the cores that they may use. Collective over the machine.
fn is_crowded(machine: ffi::MPI_Comm) -> Result<bool> {
    /// As many cores as a `cpu_set_t` tells apart.
    const WORDS: usize = 16;
    let mut cores = [0_u64; WORDS];
    // SAFETY: the mask is written for at most its size; bits beyond what the kernel knows stay zero.
    let status = unsafe { libc::sched_getaffinity(0, size_of_val(&cores), cores.as_mut_ptr().cast()) };
    if status != 0 {
        cores = [u64::MAX; WORDS];
    }
    let counters = Counters::default();
    let (rank, size) = (rank_in(machine)?, size_of_comm(machine)?);
    let within = Wire { comm: machine, tag: 0, rank, size, counters: &counters };
    collective::allreduce(within, &mut cores, &[ReduceOp::BitOr; WORDS])?;
    Ok(size > cores.iter().map(|word| word.count_ones()).sum())
}

/// Cuts a real node by color, and frees its communicator.
fn cut(mut real: ffi::MPI_Comm, color: c_int, rank: u32) -> Result<ffi::MPI_Comm> {
    let mut part = consts::comm_null();
    // SAFETY: the communicator is ours and valid, and every rank of it calls this; writes one handle.
    let status = unsafe { ffi::MPI_Comm_split(real, color, rank as c_int, &raw mut part) };
    check("MPI_Comm_split", status)?;
    // SAFETY: the communicator is ours, and nothing is under way on it.
    check("MPI_Comm_free", unsafe { ffi::MPI_Comm_free(&raw mut real) })?;
    return_errors(part)?;
    Ok(part)
}

/// How many nodes rank 0 wants to be simulated. Collective, because every rank must cut alike.
fn simulated_nodes(wire: Wire<'_>) -> Result<Option<u64>> {
    const NOT_A_NUMBER: u64 = u64::MAX;
    let mine = match env::var(NODES_VARIABLE) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(parts) if parts > 0 => u64::from(parts),
            _ => NOT_A_NUMBER,
        },
        Err(env::VarError::NotPresent) => 0,
        Err(env::VarError::NotUnicode(_)) => NOT_A_NUMBER,
    };
    let mut data = mine.to_ne_bytes().to_vec();
    collective::broadcast(wire, 0, &mut data)?;
    let agreed = data.as_slice().try_into().map(u64::from_ne_bytes);
    match agreed.map_err(|_| Error::Disagreement { what: "the simulated nodes" })? {
        0 => Ok(None),
        NOT_A_NUMBER => {
            Err(Error::invalid(ErrorClass::Other, format!("{NODES_VARIABLE} must be a whole number from 1")))
        }
        parts => Ok(Some(parts.min(u64::from(wire.size)))),
    }
}

/// Who is where. Collective over the group.
fn describe(wire: Wire<'_>, node_comm: ffi::MPI_Comm) -> Result<Node> {
    let counters = Counters::default();
    let within = Wire {
        comm: node_comm,
        tag: 0,
        rank: rank_in(node_comm)?,
        size: size_of_comm(node_comm)?,
        counters: &counters,
    };
    let ranks = collective::allgather(within, u64::from(wire.rank))?;
    let ranks: Vec<Rank> = ranks.into_iter().map(|rank| Rank(rank as u32)).collect();
    // Each rank names its leader.
    let leader_of = collective::allgather(wire, u64::from(ranks[0].0))?;
    Ok(Node { place: within.rank as usize, ..whole(ranks, &leader_of)? })
}

/// The node of `ranks`, if these are the leaders of all ranks of the group.
fn whole(ranks: Vec<Rank>, leader_of: &[u64]) -> Result<Node> {
    // The distinct names in order are the leaders.
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
    fn a_node_knows_the_others_by_size_and_its_ranks_by_block() {
        let ranks = |list: &[u32]| list.iter().map(|rank| Rank(*rank)).collect::<Vec<_>>();
        let node = whole(ranks(&[1, 2, 5]), &[0, 1, 1, 0, 4, 1]).expect("nodes");
        assert_eq!((node.index, node.leaders, node.sizes), (1, ranks(&[0, 1, 4]), vec![2, 3, 1]));
        assert_eq!((node.blocks, node.block_count), (vec![1, 1, 4], 5));
        let alone = whole(ranks(&[0]), &[0]).expect("a node");
        assert_eq!((alone.sizes, alone.blocks, alone.block_count), (vec![1], vec![0], 1));
        assert!(whole(ranks(&[1]), &[0, 0]).is_err());
    }
}
