//! The arithmetic of bounds: how a constructor derives its bounds from the bounds of the types that it
//! places (MPI 4.1, sections 5.1 and 5.1.6 to 5.1.8).

use crate::error::{Result, overflow};

/// Lower and upper bounds of a type, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound.
    pub lb: i64,
    /// Upper bound; `ub - lb` is the extent.
    pub ub: i64,
    /// Offset of the lowest byte of data.
    pub true_lb: i64,
    /// Offset of the end of the highest byte of data.
    pub true_ub: i64,
}

impl Bounds {
    /// The distance between two consecutive instances, in bytes. It may be negative.
    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }
}

/// How the bounds of a type were determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// The type has no entry and no explicit bound. Such a type does not affect the bounds of a type that
    /// contains it.
    Empty,
    /// The bounds follow from the entries and are padded to the strictest alignment among them.
    Natural,
    /// The bounds were set explicitly, here or in a part. Explicit bounds are inherited, and parts
    /// without explicit bounds no longer count (MPI 4.1, section 5.1.7).
    Explicit,
}

/// Lowest and highest displacement of the copies of one type, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    low: i128,
    high: i128,
}

/// A limit far outside the range of bounds, and far inside the range of the arithmetic on them.
const FAR: i128 = 1 << 100;

impl Span {
    pub(crate) fn at(displacement: i64) -> Self {
        Self { low: displacement.into(), high: displacement.into() }
    }

    pub(crate) fn between(low: i64, high: i64) -> Self {
        Self { low: low.into(), high: high.into() }
    }

    /// The span of `n > 0` copies of this span, `stride` bytes apart.
    pub(crate) fn repeated(self, n: u64, stride: i64) -> Result<Self> {
        self.ranged(0, n - 1, stride)
    }

    /// The span of the copies with the numbers `first` to `last` inclusive, `stride` bytes apart.
    pub(crate) fn ranged(self, first: u64, last: u64, stride: i64) -> Result<Self> {
        let one = i128::from(first) * i128::from(stride);
        let other = i128::from(last) * i128::from(stride);
        let low = self.low.saturating_add(one.min(other));
        let high = self.high.saturating_add(one.max(other));
        // A copy lies at each end of the span, so a span that reaches this far cannot return to the range
        // of a bound.
        if low < -FAR || high > FAR { overflow("a displacement") } else { Ok(Self { low, high }) }
    }

    /// The bounds of the data of all copies of a type whose bounds are `part`.
    pub(crate) fn data_bounds(self, part: &Bounds) -> Result<(i64, i64)> {
        Ok((narrow(self.low + i128::from(part.true_lb))?, narrow(self.high + i128::from(part.true_ub))?))
    }
}

/// Collects the bounds of a type from those of its parts.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    explicit: Option<(i128, i128)>,
    data: Option<(i128, i128)>,
    align: u64,
}

fn widen(hull: &mut Option<(i128, i128)>, low: i128, high: i128) {
    *hull = Some(hull.map_or((low, high), |(l, h)| (l.min(low), h.max(high))));
}

fn narrow(value: i128) -> Result<i64> {
    i64::try_from(value).or_else(|_| overflow("a bound"))
}

impl Collector {
    pub(crate) fn new() -> Self {
        Self { explicit: None, data: None, align: 1 }
    }

    /// Adds copies of a part at displacements that reach over all of `span`.
    pub(crate) fn add(&mut self, part: &Bounds, marks: Marks, align: u64, has_data: bool, span: Span) {
        if marks == Marks::Explicit {
            // With a negative extent, the lower bound lies above the upper bound.
            let (low, high) = (span.low + i128::from(part.lb), span.high + i128::from(part.ub));
            widen(&mut self.explicit, low, high);
        }
        if has_data {
            widen(&mut self.data, span.low + i128::from(part.true_lb), span.high + i128::from(part.true_ub));
            self.align = self.align.max(align);
        }
    }

    /// The bounds of the whole type, and how they were determined. The padding of parts does not
    /// accumulate: by the standard, only the padding of the whole type map counts.
    pub(crate) fn finish(self) -> Result<(Bounds, Marks)> {
        let (true_lb, true_ub) = self.data.unwrap_or((0, 0));
        let (marks, lb, ub) = match (self.explicit, self.data) {
            (Some((lb, ub)), _) => (Marks::Explicit, lb, ub),
            (None, Some((lb, ub))) => {
                let align = i128::from(self.align);
                (Marks::Natural, lb, lb + (ub - lb + align - 1) / align * align)
            }
            (None, None) => (Marks::Empty, 0, 0),
        };
        let bounds =
            Bounds { lb: narrow(lb)?, ub: narrow(ub)?, true_lb: narrow(true_lb)?, true_ub: narrow(true_ub)? };
        check(&bounds)?;
        Ok((bounds, marks))
    }
}

/// Checks that the extent and the true extent fit in an `i64`, so that MPI can report them.
pub(crate) fn check(bounds: &Bounds) -> Result<()> {
    if bounds.ub.checked_sub(bounds.lb).is_none() {
        return overflow("the extent");
    }
    if bounds.true_ub.checked_sub(bounds.true_lb).is_none() {
        return overflow("the true extent");
    }
    Ok(())
}
