//! Whether the displacements of the basic elements never decrease. Each node keeps this fact, because a
//! layout merges elements into blocks and no longer knows single elements.

/// First and last displacement of a type map, and whether displacements decrease anywhere between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// There is no element.
    Empty,
    /// Displacements never decrease from the first to the last, both in bytes.
    Rising { first: i64, last: i64 },
    /// Some displacement is lower than the one before it.
    Falling,
}

impl Order {
    pub(crate) fn is_nondecreasing(self) -> bool {
        self != Self::Falling
    }

    /// The order of the elements moved by `by` bytes. The caller has shown that the displacements of
    /// elements fit in an `i64`, so wrapping sums are exact.
    pub(crate) fn shifted(self, by: i64) -> Self {
        match self {
            Self::Rising { first, last } => {
                Self::Rising { first: first.wrapping_add(by), last: last.wrapping_add(by) }
            }
            other => other,
        }
    }

    pub(crate) fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Empty, other) | (other, Self::Empty) => other,
            (Self::Rising { first, last: seam }, Self::Rising { first: next, last }) if seam <= next => {
                Self::Rising { first, last }
            }
            _ => Self::Falling,
        }
    }

    pub(crate) fn repeated(self, n: u64, stride: i64) -> Self {
        match n {
            0 => Self::Empty,
            1 => self,
            _ => {
                let rest = self.shifted(stride);
                match self.then(rest) {
                    Self::Falling => Self::Falling,
                    _ => self.then(self.shifted(stride.wrapping_mul((n - 1) as i64))),
                }
            }
        }
    }
}
