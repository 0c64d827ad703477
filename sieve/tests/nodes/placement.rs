//! Which ranks are on which node, and what the ranks of a node know of the other nodes. A placement has
//! the node of each rank; the ranks of a node need not be consecutive.

use capulet_sieve::two_phase::Nodes;

pub(crate) fn node_count(placement: &[usize]) -> usize {
    placement.iter().max().expect("there is a rank") + 1
}

/// The ranks of a node.
pub(crate) fn ranks_of(placement: &[usize], node: usize) -> Vec<usize> {
    (0..placement.len()).filter(|rank| placement[*rank] == node).collect()
}

/// The aggregators of each node: the wanted number, but no more than the node has ranks.
pub(crate) fn aggregators_of(placement: &[usize], wanted: &[usize]) -> Vec<usize> {
    (0..node_count(placement)).map(|node| ranks_of(placement, node).len().min(wanted[node])).collect()
}

/// The nodes as the ranks of one node see them.
pub(crate) fn nodes(placement: &[usize], wanted_aggregators: &[usize], node: usize) -> Nodes {
    let mut blocks = vec![0];
    for pair in placement.windows(2) {
        blocks.push(blocks[blocks.len() - 1] + u32::from(pair[0] != pair[1]));
    }
    let own = ranks_of(placement, node).iter().map(|rank| blocks[*rank]).collect();
    Nodes::new(node, &aggregators_of(placement, wanted_aggregators), own, blocks[blocks.len() - 1] + 1)
}
