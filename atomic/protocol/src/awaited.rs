//! Whom a process waits for.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::Rank;

/// Whom a process waits for, as far as it knows. For those who want to be told: no lock goes by it, so that it is no part of a state,
/// and all are equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Awaited(SmallVec<[Rank; 4]>);

impl Awaited {
    pub(crate) fn set(&mut self, ranks: impl IntoIterator<Item = Rank>) {
        self.0.clear();
        self.0.extend(ranks);
    }

    pub(crate) fn ranks(&self) -> &[Rank] {
        &self.0
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
