//! Agreements of the ranks of a file: one allreduce, after which all ranks know the same values.

use capulet_comm::{Agree, CombinedOfNodes, ErrorClass, NodeValues, Pending, ReduceOp, Track};

use crate::error::{Error, Result};

/// The values of an agreement: the outcome of each rank, values that must be the same on all ranks, and
/// any other values that a call needs to know of all ranks. The agreement costs one allreduce, whatever
/// its values.
pub(crate) struct Agreement {
    values: Vec<u64>,
    ops: Vec<ReduceOp>,
    same: Vec<(&'static str, usize)>,
}

/// The result of an agreement.
#[derive(Debug)]
pub(crate) struct AgreedValues {
    values: Vec<u64>,
    same: Vec<(&'static str, usize)>,
    next: usize,
}

impl Agreement {
    pub(crate) fn new() -> Self {
        // The first value is the error class.
        Self { values: vec![0], ops: vec![ReduceOp::Max], same: Vec::new() }
    }

    /// Adds a value that must be the same on all ranks; `what` names it in the error. These values come
    /// before those of [`Self::reduce`].
    pub(crate) fn same(mut self, what: &'static str, value: u64) -> Self {
        debug_assert_eq!(
            self.values.len(),
            1 + 2 * self.same.len(),
            "values that must be the same come before values to reduce"
        );
        self.same.push((what, self.values.len()));
        self.values.extend([value, value]);
        self.ops.extend([ReduceOp::Min, ReduceOp::Max]);
        self
    }

    /// Adds a value to reduce. [`AgreedValues::take`] returns the results in the order of these calls.
    pub(crate) fn reduce(mut self, value: u64, op: ReduceOp) -> Self {
        self.values.push(value);
        self.ops.push(op);
        self
    }

    /// Agrees with all ranks. Collective; blocks for the other ranks. If `own` is an error on any rank,
    /// or if a value of [`Self::same`] differs, every rank gets an error of one class. A rank that failed
    /// with that class gets its own error, the other ranks get [`Error::Remote`].
    pub(crate) fn agree<T>(self, channel: &dyn Agree, own: Result<T>) -> Result<(T, AgreedValues)> {
        self.agree_by(own.as_ref().err(), |lanes, ops| Ok(channel.allreduce(lanes, ops)?))?.outcome(own)
    }

    /// As [`Self::agree`], and combines values in the order of the nodes, if there are several.
    pub(crate) fn agree_with_nodes<T>(
        self,
        channel: &dyn Agree,
        own: Result<T>,
        of_nodes: Option<NodeValues>,
    ) -> Result<(T, AgreedValues, Option<CombinedOfNodes>)> {
        let Some(of_nodes) = of_nodes else {
            return self.agree(channel, own).map(|(own, values)| (own, values, None));
        };
        let mut combined = None;
        let values = self.agree_by(own.as_ref().err(), |lanes, ops| {
            combined = channel.allreduce_with_nodes(lanes, ops, of_nodes)?;
            Ok(())
        })?;
        let (own, values) = values.outcome(own)?;
        Ok((own, values, combined))
    }

    /// Agrees with all ranks by `reduce`, which reduces the values over all ranks. `own` is the error of
    /// this rank.
    pub(crate) fn agree_by(
        mut self,
        own: Option<&Error>,
        reduce: impl FnOnce(&mut [u64], &[ReduceOp]) -> Result<()>,
    ) -> Result<AgreedValues> {
        self.values[0] = class_of(own);
        reduce(&mut self.values, &self.ops)?;
        Ok(AgreedValues { values: self.values, same: self.same, next: 0 })
    }

    /// Starts the agreement and does not wait; see [`Agree::start_allreduce`]. `own` is the error of this
    /// rank.
    pub(crate) fn start(
        mut self,
        channel: &dyn Agree,
        track: Track,
        own: Option<&Error>,
    ) -> Result<PendingAgreement> {
        self.values[0] = class_of(own);
        let pending = channel.start_allreduce(track, &self.values, &self.ops)?;
        Ok(PendingAgreement { pending, same: self.same })
    }
}

fn class_of(error: Option<&Error>) -> u64 {
    error.map_or(0, |error| error.class().to_wire())
}

/// An agreement in progress.
#[derive(Debug)]
pub(crate) struct PendingAgreement {
    pending: Box<dyn Pending>,
    same: Vec<(&'static str, usize)>,
}

impl PendingAgreement {
    /// Advances the agreement without waiting. Returns the result once, when it is known.
    pub(crate) fn poll(&mut self) -> Result<Option<AgreedValues>> {
        let values = self.pending.poll()?;
        Ok(values.map(|values| AgreedValues { values, same: std::mem::take(&mut self.same), next: 0 }))
    }
}

impl AgreedValues {
    /// The outcome of all ranks, and the reduced values; see [`Agreement::agree`].
    pub(crate) fn outcome<T>(mut self, own: Result<T>) -> Result<(T, AgreedValues)> {
        if let Some(class) = ErrorClass::from_wire(self.values[0]) {
            return Err(error_of_class(class, own.err()));
        }
        if let Some((what, _)) = self.same.iter().find(|(_, at)| self.values[*at] != self.values[at + 1]) {
            return Err(Error::NotSame { what });
        }
        let own = own?;
        self.next = 1 + 2 * self.same.len();
        Ok((own, self))
    }

    /// The value of the last call of [`Agreement::reduce`]. There must be one.
    pub(crate) fn last(&self) -> u64 {
        *self.values.last().expect("the first value is the error class")
    }

    /// The next reduced value, in the order of the calls of [`Agreement::reduce`].
    pub(crate) fn take(&mut self) -> u64 {
        let value = self.values[self.next];
        self.next += 1;
        value
    }
}

/// The error of this rank if the error of all ranks has the class `class`.
pub(crate) fn error_of_class(class: ErrorClass, own: Option<Error>) -> Error {
    match own {
        Some(error) if error.class() == class => error,
        Some(error) => {
            tracing::warn!(%error, "this rank failed too, with another error class");
            Error::Remote { class }
        }
        None => Error::Remote { class },
    }
}

/// Makes the outcome of one rank the outcome of all ranks. Collective; blocks for the other ranks.
pub(crate) fn agree_on_outcome<T>(channel: &dyn Agree, own: Result<T>) -> Result<T> {
    Agreement::new().agree(channel, own).map(|(value, _)| value)
}
