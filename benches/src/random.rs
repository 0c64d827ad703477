//! Random numbers that are the same in every run, because the cases must be the same for all MPIs.

/// A generator after Marsaglia's xorshift64*.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The upper bits have the better quality.
        (self.next() >> 11) % end
    }

    /// Shuffles the items so that every order is equally likely (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// `count` different numbers below `end`, in random order.
    pub(crate) fn draw(&mut self, count: usize, end: usize) -> Vec<i64> {
        let mut all: Vec<i64> = (0..end as i64).collect();
        self.shuffle(&mut all);
        all.truncate(count);
        all
    }
}
