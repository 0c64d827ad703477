//! The lanes of a reduction: the check of their number, and their form in a message.

use crate::agree::ReduceOp;
use crate::class::ErrorClass;
use crate::error::{Error, Result};
use crate::message::MESSAGE_BYTES_MAX;

const WORD_BYTES: usize = size_of::<u64>();

/// Returns an error if the numbers of lanes and operations differ, or if the lanes do not fit in a message.
pub(crate) fn check_lanes(lanes: &[u64], ops: &[ReduceOp]) -> Result<()> {
    if lanes.len() != ops.len() || size_of_val(lanes) > MESSAGE_BYTES_MAX {
        let reason = format!("{} lanes with {} operations", lanes.len(), ops.len());
        return Err(Error::invalid(ErrorClass::Arg, reason));
    }
    Ok(())
}

pub(crate) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The words of a message. The message must have exactly `count` words.
pub(crate) fn words_of(bytes: &[u8], count: usize) -> Result<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    if words.len() != count || !rest.is_empty() {
        return Err(Error::Disagreement { what: "the number of values to reduce" });
    }
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_requires_the_exact_number_of_words() {
        let words = [1, u64::MAX, 3];
        assert_eq!(words_of(&bytes_of(&words), 3).expect("three words"), words);
        assert!(words_of(&bytes_of(&words), 2).is_err());
        assert!(words_of(&bytes_of(&words)[..23], 3).is_err());
    }
}
