//! The words of a process and the operations on them. All operations run under one mutex, so each is atomic
//! with respect to all others. No system call but the futex of the mutex.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The words of a process, zero at start. Their number never changes. A [`Server`](crate::Server) has words
/// of its own. A value of this type is for a caller that carries requests and replies itself
/// ([`Operation`](crate::Operation)).
#[derive(Debug)]
pub struct Words {
    words: Mutex<Box<[u64]>>,
    count: usize,
}

/// An operation on a single word. Operands and result have the width of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordOp {
    Load,
    Swap { value: u64 },
    Add { value: u64 },
    CompareSwap { expected: u64, value: u64 },
}

impl WordOp {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Swap { .. } => "swap",
            Self::Add { .. } => "add",
            Self::CompareSwap { .. } => "compare_swap",
        }
    }
}

impl Words {
    /// `count` words.
    pub fn new(count: usize) -> Self {
        Self { words: Mutex::new(vec![0; count].into()), count }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A panic under the mutex would leave whole words, so a poisoned mutex is used on.
    fn lock(&self) -> MutexGuard<'_, Box<[u64]>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out `op` on the bits `mask` of a word, and returns these bits as they were before.
    pub(crate) fn update(&self, op: WordOp, mask: u64, at: u64) -> Result<u64> {
        let place = span(op.name(), at, 1, self.count)?.start;
        let mut words = self.lock();
        let before = words[place] & mask;
        let after = match op {
            WordOp::Swap { value } => value,
            WordOp::Add { value } => before.wrapping_add(value),
            WordOp::CompareSwap { expected, value } if before == expected => value,
            WordOp::Load | WordOp::CompareSwap { .. } => before,
        };
        words[place] = words[place] & !mask | after & mask;
        Ok(before)
    }

    /// Stores `put` from word `base + first` on, and returns the `words` words from `base` on, including the
    /// stored ones.
    pub(crate) fn exchange(&self, base: u64, first: u64, put: &[u64], words: u64) -> Result<Vec<u64>> {
        let place = check_exchange(first, put.len() as u64, words)?;
        let span = span(EXCHANGE, base, words, self.count)?;
        let mut all = self.lock();
        let all = &mut all[span];
        all[place].copy_from_slice(put);
        Ok(all.to_vec())
    }

    /// Fetches the `words` words from `base` on and, if all of them are zero, stores `value` in word
    /// `base + at`. Returns the words before the store.
    pub(crate) fn claim_if_none(&self, base: u64, at: u64, value: u64, words: u64) -> Result<Vec<u64>> {
        check_claim(at, words)?;
        let span = span(CLAIM, base, words, self.count)?;
        let mut all = self.lock();
        let all = &mut all[span];
        let before = all.to_vec();
        if before.iter().all(|word| *word == 0) {
            all[at as usize] = value;
        }
        Ok(before)
    }
}

pub(crate) const EXCHANGE: &str = "exchange";
pub(crate) const CLAIM: &str = "claim_if_none";

/// The places of the `length` words from `from` on, if a server of `count` words has them.
fn span(operation: &'static str, from: u64, length: u64, count: usize) -> Result<Range<usize>> {
    match from.checked_add(length) {
        Some(end) if end <= count as u64 => Ok(from as usize..end as usize),
        _ => Err(Error::OutOfRange {
            operation,
            detail: format!("{length} words from word {from} on, of {count} words"),
        }),
    }
}

/// The places of the `put` stored words among the `words` fetched words of an exchange.
pub(crate) fn check_exchange(first: u64, put: u64, words: u64) -> Result<Range<usize>> {
    match first.checked_add(put) {
        Some(end) if end <= words => Ok(first as usize..end as usize),
        _ => Err(Error::OutOfRange {
            operation: EXCHANGE,
            detail: format!("{put} words stored from word {first} on, of {words} fetched words"),
        }),
    }
}

pub(crate) fn check_claim(at: u64, words: u64) -> Result<()> {
    if at < words {
        return Ok(());
    }
    Err(Error::OutOfRange {
        operation: CLAIM,
        detail: format!("value stored in word {at}, of {words} fetched words"),
    })
}

/// The integer types of a word: `u32` and `u64`. An operation with `u32` acts on the low half of a word and
/// leaves the high half.
pub trait Word: Copy + sealed::Sealed {
    #[doc(hidden)]
    const MASK: u64;
    #[doc(hidden)]
    fn widen(self) -> u64;
    #[doc(hidden)]
    fn narrow(bits: u64) -> Self;
}

impl Word for u32 {
    const MASK: u64 = u32::MAX as u64;

    fn widen(self) -> u64 {
        u64::from(self)
    }

    fn narrow(bits: u64) -> Self {
        bits as u32
    }
}

impl Word for u64 {
    const MASK: u64 = u64::MAX;

    fn widen(self) -> u64 {
        self
    }

    fn narrow(bits: u64) -> Self {
        bits
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_operations_keep_the_high_half() {
        let words = Words::new(2);
        let high = 0xABCD_0000_0000_0000;
        words.update(WordOp::Swap { value: high | 7 }, u64::MASK, 1).unwrap();
        let add = WordOp::Add { value: u64::from(u32::MAX) };
        assert_eq!(words.update(add, u32::MASK, 1).unwrap(), 7);
        assert_eq!(words.update(WordOp::Load, u64::MASK, 1).unwrap(), high | 6);
        let swap = WordOp::CompareSwap { expected: 6, value: 9 };
        assert_eq!(words.update(swap, u32::MASK, 1).unwrap(), 6);
        assert_eq!(words.update(swap, u32::MASK, 1).unwrap(), 9);
        assert_eq!(words.update(WordOp::Load, u64::MASK, 1).unwrap(), high | 9);
    }

    #[test]
    fn words_outside_are_errors_and_change_nothing() {
        let words = Words::new(4);
        let add = WordOp::Add { value: 1 };
        assert!(words.update(add, u64::MASK, 4).is_err());
        assert!(words.update(add, u64::MASK, u64::MAX).is_err());
        for (base, first, put, count) in
            [(0, 0, 2, 5), (1, 0, 2, 4), (0, 3, 2, 4), (0, u64::MAX, 2, 4), (u64::MAX, 0, 2, 2)]
        {
            assert!(words.exchange(base, first, &vec![1; put], count).is_err(), "{base} {first} {count}");
        }
        for (base, at, count) in [(0, 4, 4), (1, 0, 4), (u64::MAX, 0, 1), (0, 0, 0)] {
            assert!(words.claim_if_none(base, at, 1, count).is_err(), "{base} {at} {count}");
        }
        assert_eq!(words.exchange(0, 0, &[], 4).unwrap(), [0; 4]);
    }

    #[test]
    fn exchange_and_claim_return_the_words_of_their_span() {
        let words = Words::new(6);
        assert_eq!(words.claim_if_none(2, 1, 5, 3).unwrap(), [0, 0, 0]);
        assert_eq!(words.claim_if_none(2, 0, 6, 3).unwrap(), [0, 5, 0]);
        assert_eq!(words.exchange(1, 3, &[8, 9], 5).unwrap(), [0, 0, 5, 8, 9]);
        assert_eq!(words.exchange(0, 0, &[], 6).unwrap(), [0, 0, 0, 5, 8, 9]);
    }
}
