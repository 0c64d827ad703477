//! Whom a process waits for.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::Rank;

/// Whom a process waits for, as far as it knows. For those who want to be told: no lock goes by it, so that it is no part of a state,
/// and all are equal.
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

    /// Any process of the nodes that these are the first of.
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
