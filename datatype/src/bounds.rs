//! The arithmetic of bounds: what a constructor does to the bounds of what it places (MPI 4.1, 5.1 and 5.1.6 to 5.1.8).

use crate::error::{Result, overflow};

/// Lower and upper bounds of a type, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound.
    pub lb: i64,
    /// Upper bound; `ub - lb` is the extent.
    pub ub: i64,
    /// Lowest byte of data.
    pub true_lb: i64,
    /// End of the highest byte of data.
    pub true_ub: i64,
}

impl Bounds {
    /// The distance between two consecutive instances, in bytes; may be negative.
    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }
}

/// How the bounds of a type came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// No entry and no explicit bound: such a type leaves the bounds of what contains it alone.
    Empty,
    /// From the entries, padded to the strictest alignment among them.
    Natural,
    /// Set explicitly below: explicit bounds stick, and entries without them no longer count (MPI 4.1, 5.1.7).
    Explicit,
}

/// Lowest and highest displacement at which copies of one type lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    low: i128,
    high: i128,
}

/// Far outside the range of bounds, and far inside that of the arithmetic on them.
const FAR: i128 = 1 << 100;

impl Span {
    pub(crate) fn at(displacement: i64) -> Self {
        Self { low: displacement.into(), high: displacement.into() }
    }

    pub(crate) fn between(low: i64, high: i64) -> Self {
        Self { low: low.into(), high: high.into() }
    }

    /// The span of `n > 0` copies of this one, `stride` bytes apart.
    pub(crate) fn repeated(self, n: u64, stride: i64) -> Result<Self> {
        self.ranged(0, n - 1, stride)
    }

    /// The span of the copies numbered `first` to `last` inclusive, `stride` bytes apart.
    pub(crate) fn ranged(self, first: u64, last: u64, stride: i64) -> Result<Self> {
        let one = i128::from(first) * i128::from(stride);
        let other = i128::from(last) * i128::from(stride);
        let low = self.low.saturating_add(one.min(other));
        let high = self.high.saturating_add(one.max(other));
        // Both ends are really reached, so what is that far out cannot come back into the range of a bound.
        if low < -FAR || high > FAR { overflow("a displacement") } else { Ok(Self { low, high }) }
    }

    /// The bounds of the data of all copies of a type with these bounds.
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

    /// Adds copies of a part, placed all over `span`.
    pub(crate) fn add(&mut self, part: &Bounds, marks: Marks, align: u64, has_data: bool, span: Span) {
        if marks == Marks::Explicit {
            // With a negative extent, the lower bound lies above the upper one.
            let (low, high) = (span.low + i128::from(part.lb), span.high + i128::from(part.ub));
            widen(&mut self.explicit, low, high);
        }
        if has_data {
            widen(&mut self.data, span.low + i128::from(part.true_lb), span.high + i128::from(part.true_ub));
            self.align = self.align.max(align);
        }
    }

    /// The bounds of the whole, and how they came about. The padding of parts does not add up: by the standard, only that
    /// of the whole type map counts.
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

/// Extent and true extent must be numbers that MPI can report.
pub(crate) fn check(bounds: &Bounds) -> Result<()> {
    if bounds.ub.checked_sub(bounds.lb).is_none() {
        return overflow("the extent");
    }
    if bounds.true_ub.checked_sub(bounds.true_lb).is_none() {
        return overflow("the true extent");
    }
    Ok(())
}
