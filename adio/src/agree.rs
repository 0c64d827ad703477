//! How the ranks of a file agree: one allreduce, after which all ranks know the same.

use capulet_comm::{Agree, ErrorClass, Pending, ReduceOp, Track};

use crate::error::{Error, Result};

/// Ranks vote on an outcome, on values that must be the same, and on what else a call needs to know of all ranks.
/// One allreduce, whatever is voted on.
pub(crate) struct Ballot {
    values: Vec<u64>,
    ops: Vec<ReduceOp>,
    same: Vec<(&'static str, usize)>,
}

/// What came of a ballot.
#[derive(Debug)]
pub(crate) struct Count {
    values: Vec<u64>,
    same: Vec<(&'static str, usize)>,
    next: usize,
}

impl Ballot {
    pub(crate) fn new() -> Self {
        // the first value is the error class
        Self { values: vec![0], ops: vec![ReduceOp::Max], same: Vec::new() }
    }

    /// A value that must be the same on all ranks; `what` names it in the error. Comes before any [`Self::reduce`].
    pub(crate) fn same(mut self, what: &'static str, value: u64) -> Self {
        debug_assert_eq!(self.values.len(), 1 + 2 * self.same.len(), "values that are reduced come last");
        self.same.push((what, self.values.len()));
        self.values.extend([value, value]);
        self.ops.extend([ReduceOp::Min, ReduceOp::Max]);
        self
    }

    /// A value that is reduced; it is read off in the order of the calls.
    pub(crate) fn reduce(mut self, value: u64, op: ReduceOp) -> Self {
        self.values.push(value);
        self.ops.push(op);
        self
    }

    /// Votes. If `own` is an error on any rank, or a value is not the same, every rank gets an error of one class: ranks
    /// that failed with that class their own, the others [`Error::Remote`].
    pub(crate) fn vote<T>(self, channel: &dyn Agree, own: Result<T>) -> Result<(T, Count)> {
        self.count(own.as_ref().err(), |lanes, ops| Ok(channel.allreduce(lanes, ops)?))?.settle(own)
    }

    /// What comes of it, by whatever way the values are reduced; `own` is this rank's error.
    pub(crate) fn count(
        mut self,
        own: Option<&Error>,
        reduce: impl FnOnce(&mut [u64], &[ReduceOp]) -> Result<()>,
    ) -> Result<Count> {
        self.values[0] = class_of(own);
        reduce(&mut self.values, &self.ops)?;
        Ok(Count { values: self.values, same: self.same, next: 0 })
    }

    /// Votes without waiting; see [`Agree::start_allreduce`]. `own` is this rank's error.
    pub(crate) fn begin(mut self, channel: &dyn Agree, track: Track, own: Option<&Error>) -> Result<Vote> {
        self.values[0] = class_of(own);
        let pending = channel.start_allreduce(track, &self.values, &self.ops)?;
        Ok(Vote { pending, same: self.same })
    }
}

fn class_of(error: Option<&Error>) -> u64 {
    error.map_or(0, |error| error.class().to_wire())
}

/// A ballot under way.
#[derive(Debug)]
pub(crate) struct Vote {
    pending: Box<dyn Pending>,
    same: Vec<(&'static str, usize)>,
}

impl Vote {
    /// Goes on without waiting. What came of it, once.
    pub(crate) fn poll(&mut self) -> Result<Option<Count>> {
        let values = self.pending.poll()?;
        Ok(values.map(|values| Count { values, same: std::mem::take(&mut self.same), next: 0 }))
    }
}

impl Count {
    /// The outcome of all ranks, and the values that were reduced: see [`Ballot::vote`].
    pub(crate) fn settle<T>(mut self, own: Result<T>) -> Result<(T, Count)> {
        if let Some(class) = ErrorClass::from_wire(self.values[0]) {
            return Err(match own {
                Err(error) if error.class() == class => error,
                Err(error) => {
                    tracing::warn!(%error, "this rank failed too, with another class");
                    Error::Remote { class }
                }
                Ok(_) => Error::Remote { class },
            });
        }
        if let Some((what, _)) = self.same.iter().find(|(_, at)| self.values[*at] != self.values[at + 1]) {
            return Err(Error::NotSame { what });
        }
        let own = own?;
        self.next = 1 + 2 * self.same.len();
        Ok((own, self))
    }

    /// The value of the last call of [`Ballot::reduce`]; there must be one.
    pub(crate) fn last(&self) -> u64 {
        *self.values.last().expect("the first value is the error class")
    }

    /// The next reduced value, in the order of the calls of [`Ballot::reduce`].
    pub(crate) fn take(&mut self) -> u64 {
        let value = self.values[self.next];
        self.next += 1;
        value
    }
}

/// Makes the outcome of one rank the outcome of all.
pub(crate) fn outcome<T>(channel: &dyn Agree, own: Result<T>) -> Result<T> {
    Ballot::new().vote(channel, own).map(|(value, _)| value)
}
