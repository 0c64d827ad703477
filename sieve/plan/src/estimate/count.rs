//! A number that the estimate knows exactly or within bounds.

/// A number that is known, or a range that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Lower bound.
    pub least: u64,
    /// Upper bound.
    pub most: u64,
}

impl Count {
    /// A number that is known.
    pub const fn exactly(number: u64) -> Self {
        Self { least: number, most: number }
    }

    /// Whether the number is known.
    pub fn is_exact(self) -> bool {
        self.least == self.most
    }

    /// Whether `number` is within the bounds.
    pub fn allows(self, number: u64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl std::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, count| sum + count)
    }
}
