//! The processes that a process waits for.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::Rank;

/// The processes that a process waits for, as far as it knows. Only messages use them: no step of a lock
/// depends on them. So they are no part of the lock's state: all values are equal and have the same hash,
/// and a model checker does not tell states apart by them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Awaited {
    ranks: SmallVec<[Rank; 4]>,
    are_nodes: bool,
}

impl Awaited {
    pub(crate) fn set(&mut self, ranks: impl IntoIterator<Item = Rank>) {
        self.are_nodes = false;
        self.ranks.clear();
        self.ranks.extend(ranks);
    }

    /// Sets nodes, each named by its first process. The awaited process may be any process of the node.
    pub(crate) fn set_nodes(&mut self, leaders: impl IntoIterator<Item = Rank>) {
        self.set(leaders);
        self.are_nodes = true;
    }

    pub(crate) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    pub(crate) fn are_nodes(&self) -> bool {
        self.are_nodes
    }
}

impl PartialEq for Awaited {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Awaited {}

impl Hash for Awaited {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
