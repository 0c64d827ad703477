//! Who gathers bytes in a collective access.

use std::sync::Arc;

use capulet_comm::Node;
use capulet_plan::aggregators::aggregators_by_node;
use capulet_sieve::two_phase::Nodes;

use crate::hints::Hints;

/// Who gathers, as the ranks of one node see it: what the hints in force make of the nodes.
#[derive(Debug, Clone)]
pub(crate) struct Gathering {
    /// Aggregators over all nodes.
    pub(crate) aggregators: u64,
    /// Those of this node when it gathers without the others: then it needs one.
    pub(crate) own: usize,
    /// None if there is but one node.
    pub(crate) nodes: Option<Arc<Nodes>>,
}

impl Gathering {
    pub(crate) fn new(node: &Node, names: &[String], hints: &Hints) -> Self {
        let counts = aggregators_by_node(hints.aggregators, &hints.config_list, names, &node.sizes);
        let nodes = (node.node_count() > 1).then(|| {
            let counts: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
            Arc::new(Nodes::new(node.index, &counts, node.blocks.clone(), node.block_count))
        });
        let aggregators = counts.iter().map(|count| u64::from(*count)).sum();
        Self { aggregators, own: counts[node.index].max(1) as usize, nodes }
    }
}
