//! The numbers of open channels on one rank.
//!
//! A new channel gets a number only if the number is free on every rank. Each rank proposes the smallest
//! number that is free on it. The ranks reduce the proposals to their minimum and maximum until both are
//! equal. A rank that has not ended the old channel of a number proposes another number. So all ranks
//! have left the memory of a number before a new channel uses it.

/// A set of small numbers. Number 0 is never free.
#[derive(Debug, Default)]
pub struct Ids {
    words: Vec<u64>,
    count: usize,
}

impl Ids {
    /// An empty set.
    pub const fn new() -> Self {
        Ids { words: Vec::new(), count: 0 }
    }

    /// Whether no number is taken.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn holds(&self, id: u32) -> bool {
        self.words.get(id as usize / 64).is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// The smallest free number that is at least `from`, and at least 1.
    pub fn first_free(&self, from: u32) -> u32 {
        let start = from.max(1);
        let mut index = start as usize / 64;
        let mut word = self.words.get(index).copied().unwrap_or(0) | ((1 << (start % 64)) - 1);
        while word == u64::MAX {
            index += 1;
            word = self.words.get(index).copied().unwrap_or(0);
        }
        index as u32 * 64 + word.trailing_ones()
    }

    /// Takes a number.
    pub fn take(&mut self, id: u32) {
        let index = id as usize / 64;
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        self.words[index] |= 1 << (id % 64);
        self.count += 1;
    }

    /// Gives a number back. Has no effect if the number is free.
    pub fn give_back(&mut self, id: u32) {
        if self.holds(id) {
            self.words[id as usize / 64] &= !(1 << (id % 64));
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_smallest_free_ones_and_never_zero() {
        let mut ids = Ids::new();
        for expected in 1..=200 {
            let id = ids.first_free(0);
            assert_eq!(id, expected);
            ids.take(id);
        }
        ids.give_back(64);
        ids.give_back(130);
        assert_eq!(ids.first_free(0), 64);
        assert_eq!(ids.first_free(65), 130);
        assert_eq!(ids.first_free(131), 201);
        assert_eq!(ids.first_free(64 * 9), 64 * 9);
    }

    #[test]
    fn set_is_empty_after_every_number_was_given_back() {
        let mut ids = Ids::new();
        ids.take(5);
        ids.take(70);
        ids.give_back(5);
        ids.give_back(5);
        assert!(!ids.is_empty());
        ids.give_back(70);
        assert!(ids.is_empty());
    }
}
