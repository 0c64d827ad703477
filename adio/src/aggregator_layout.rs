//! The aggregators of collective accesses.

use std::sync::Arc;

use capulet_comm::Node;
use capulet_plan::aggregators::aggregators_by_node;
use capulet_sieve::two_phase::Nodes;

use crate::hints::Hints;

/// The aggregators of all nodes, as the ranks of one node see them. They follow from the hints in force.
#[derive(Debug, Clone)]
pub(crate) struct AggregatorLayout {
    /// The number of aggregators of all nodes.
    pub(crate) aggregators: u64,
    /// The number of aggregators of this node if it gathers without the other nodes. At least one.
    pub(crate) own_aggregators: usize,
    /// `None` if there is only one node.
    pub(crate) nodes: Option<Arc<Nodes>>,
}

impl AggregatorLayout {
    pub(crate) fn new(node: &Node, names: &[String], hints: &Hints) -> Self {
        let counts = aggregators_by_node(hints.aggregators, &hints.config_list, names, &node.sizes);
        let nodes = (node.node_count() > 1).then(|| {
            let counts: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
            Arc::new(Nodes::new(node.index, &counts, node.blocks.clone(), node.block_count))
        });
        let aggregators = counts.iter().map(|count| u64::from(*count)).sum();
        Self { aggregators, own_aggregators: counts[node.index].max(1) as usize, nodes }
    }
}
