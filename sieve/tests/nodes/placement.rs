//! Which ranks are on which node, and what these know of each other. A placement is the node of each rank; ranks of a node follow
//! one another or not.

use capulet_sieve::two_phase::Nodes;

pub(crate) fn node_count(placement: &[usize]) -> usize {
    placement.iter().max().expect("a rank") + 1
}

/// The ranks of a node.
pub(crate) fn ranks_of(placement: &[usize], node: usize) -> Vec<usize> {
    (0..placement.len()).filter(|rank| placement[*rank] == node).collect()
}

/// The aggregators of each node: as many as it should have, if it has so many ranks.
pub(crate) fn aggregators_of(placement: &[usize], wanted: &[usize]) -> Vec<usize> {
    (0..node_count(placement)).map(|node| ranks_of(placement, node).len().min(wanted[node])).collect()
}

/// What the ranks of a node know of the others.
pub(crate) fn nodes(placement: &[usize], wanted_aggregators: &[usize], node: usize) -> Nodes {
    let mut blocks = vec![0];
    for pair in placement.windows(2) {
        blocks.push(blocks[blocks.len() - 1] + u32::from(pair[0] != pair[1]));
    }
    let own = ranks_of(placement, node).iter().map(|rank| blocks[*rank]).collect();
    Nodes::new(node, &aggregators_of(placement, wanted_aggregators), own, blocks[blocks.len() - 1] + 1)
}
