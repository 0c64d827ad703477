//! Operations on the words of another process whose requests and replies the caller carries, as one message
//! each. For callers that have messages, but no connection over TCP.
//!
//! The bytes are those of `wire`, so both ways share one decoder and one set of checks.

use crate::error::{Error, Result};
use crate::wire::{
    REPLY_BYTES, REQUEST_BYTES, ReplyHead, Request, RequestHead, Status, WORD_BYTES, extend_with_words,
    words_of,
};
use crate::words::{Word, WordOp, Words};

/// An operation on the words of one process. The methods are as those of [`Client`](crate::Client).
///
/// ```
/// use capulet_word_server::{Operation, Words};
///
/// let words = Words::new(8);
/// let operation = Operation::exchange(2, 1, &[9], 2);
/// let (number, reply) = words.answer(&operation.request(7)?)?;
/// assert_eq!(number, 7);
/// assert!(reply.len() <= operation.reply_bytes());
/// assert_eq!(operation.words_of_reply(7, &reply)?, [0, 9]);
/// # Ok::<(), capulet_word_server::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    request: Request,
    put: Vec<u64>,
}

impl Operation {
    /// Fetches a word. The width of the type `W` is the width of the operation.
    pub fn load<W: Word>(at: usize) -> Self {
        Self::word::<W>(WordOp::Load, at)
    }

    /// Stores a word and fetches its previous value.
    pub fn swap<W: Word>(at: usize, value: W) -> Self {
        Self::word::<W>(WordOp::Swap { value: value.widen() }, at)
    }

    /// Adds to a word and fetches its previous value. The sum wraps.
    pub fn add<W: Word>(at: usize, value: W) -> Self {
        Self::word::<W>(WordOp::Add { value: value.widen() }, at)
    }

    /// Stores `value` in a word of 32 bits if the word has the value `expected`, and fetches its previous
    /// value.
    pub fn compare_swap(at: usize, expected: u32, value: u32) -> Self {
        Self::word::<u32>(WordOp::CompareSwap { expected: expected.into(), value: value.into() }, at)
    }

    /// Stores `put` from word `base + first` on, and fetches the `words` words from word `base` on,
    /// including the stored ones.
    pub fn exchange(base: usize, first: usize, put: &[u64], words: usize) -> Self {
        let request = Request::Exchange { base: base as u64, first: first as u64, words: words as u64 };
        Self { request, put: put.to_vec() }
    }

    /// Fetches the `words` words from word `base` on and, if all of them are zero, stores `value` in word
    /// `base + at`.
    pub fn claim_if_none(base: usize, at: usize, value: u64, words: usize) -> Self {
        let request = Request::Claim { base: base as u64, at: at as u64, value, words: words as u64 };
        Self { request, put: Vec::new() }
    }

    fn word<W: Word>(op: WordOp, at: usize) -> Self {
        Self { request: Request::Word { op, mask: W::MASK, at: at as u64 }, put: Vec::new() }
    }

    /// The length in bytes of a request that stores `put` words.
    pub const fn request_bytes(put: usize) -> usize {
        REQUEST_BYTES + put * WORD_BYTES
    }

    /// The bytes of the request. The reply has the same number.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the operation stores more words than a request can state.
    pub fn request(&self, number: u64) -> Result<Vec<u8>> {
        let put = u32::try_from(self.put.len()).map_err(|_| self.refused())?;
        let mut bytes = Vec::with_capacity(Self::request_bytes(self.put.len()));
        bytes.extend(self.request.encode(put, number));
        extend_with_words(&mut bytes, &self.put);
        Ok(bytes)
    }

    /// The length in bytes of the longest reply to the request.
    pub fn reply_bytes(&self) -> usize {
        usize::try_from(self.request.reply_words())
            .unwrap_or(usize::MAX)
            .saturating_mul(WORD_BYTES)
            .saturating_add(REPLY_BYTES)
    }

    /// The words that the reply to the request `number` brings: one word, or the fetched words.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the other process has refused the request. [`Error::Message`] if the bytes
    /// are no reply to this request.
    pub fn words_of_reply(&self, number: u64, reply: &[u8]) -> Result<Vec<u64>> {
        let malformed = |detail| Error::Message { detail };
        let (head, rest) = reply.split_first_chunk().ok_or(malformed("a reply without a head"))?;
        let head = ReplyHead::decode(head).ok_or(malformed("a reply with a wrong head"))?;
        if head.number != number {
            return Err(malformed("a reply to another request"));
        }
        match head.status {
            Status::Done if u64::from(head.words) != self.request.reply_words() => {
                Err(malformed("a reply with another number of words"))
            }
            Status::Done if rest.len() != head.words as usize * WORD_BYTES => {
                Err(malformed("a reply whose length differs from its head"))
            }
            Status::Done => Ok(words_of(rest)),
            Status::OutOfRange => Err(self.refused()),
            Status::Invalid => Err(self.request.unknown()),
        }
    }

    fn refused(&self) -> Error {
        self.request.refused(self.put.len())
    }
}

impl Words {
    /// Carries out an operation of the process that has the words. Returns what
    /// [`Operation::words_of_reply`] returns to another process.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if a word does not exist, or if the operation is inconsistent in itself.
    pub fn apply(&self, operation: &Operation) -> Result<Vec<u64>> {
        operation.request.apply(self, &operation.put)
    }

    /// Carries out the request of another process. Returns the number of the request and the bytes of the
    /// reply, which states an error if the request is invalid.
    ///
    /// # Errors
    /// [`Error::Message`] if the bytes have no number to reply to. No word is changed.
    pub fn answer(&self, request: &[u8]) -> Result<(u64, Vec<u8>)> {
        let (head, put) =
            request.split_first_chunk().ok_or(Error::Message { detail: "a request without a head" })?;
        let mut head = RequestHead::decode(head);
        if put.len() as u64 != u64::from(head.put) * WORD_BYTES as u64 {
            head.request = None;
        }
        Ok((head.number, head.answer(&words_of(put), self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn operations_give_the_same_result_here_and_by_messages() {
        let (near, far) = (Words::new(6), Words::new(6));
        let operations = [
            Operation::add(1, 5_u64),
            Operation::swap(1, 7_u32),
            Operation::load::<u64>(1),
            Operation::compare_swap(1, 7, 9),
            Operation::claim_if_none(2, 1, 4, 3),
            Operation::exchange(0, 4, &[8, 9], 6),
        ];
        for (number, operation) in (100..).zip(operations) {
            let (answered, reply) = far.answer(&operation.request(number).unwrap()).unwrap();
            assert_eq!((answered, reply.len()), (number, operation.reply_bytes()));
            let words = operation.words_of_reply(number, &reply).unwrap();
            assert_eq!(near.apply(&operation).unwrap(), words, "{operation:?}");
        }
        assert_eq!(near.apply(&Operation::exchange(0, 0, &[], 6)).unwrap(), [0, 9, 0, 4, 8, 9]);
    }

    #[test]
    fn refused_requests_are_errors_of_their_process() {
        let words = Words::new(4);
        for operation in [Operation::load::<u32>(4), Operation::exchange(0, 3, &[1, 2], 4)] {
            let (_, reply) = words.answer(&operation.request(1).unwrap()).unwrap();
            let answer = operation.words_of_reply(1, &reply);
            assert!(matches!(answer, Err(Error::OutOfRange { .. })), "{answer:?}");
        }
        // The length of the message differs from its head.
        let operation = Operation::exchange(0, 0, &[1, 2], 4);
        let mut request = operation.request(1).unwrap();
        request.pop();
        let (_, reply) = words.answer(&request).unwrap();
        assert!(operation.words_of_reply(1, &reply).is_err());
        assert_eq!(words.apply(&Operation::exchange(0, 0, &[], 4)).unwrap(), [0; 4]);
    }

    #[test]
    fn replies_to_other_requests_are_errors() {
        let words = Words::new(4);
        let operation = Operation::exchange(0, 0, &[], 3);
        let (_, reply) = words.answer(&operation.request(5).unwrap()).unwrap();
        let is_foreign = |answer: Result<_>| matches!(answer, Err(Error::Message { .. }));
        assert!(is_foreign(operation.words_of_reply(6, &reply)));
        assert!(is_foreign(operation.words_of_reply(5, &reply[..reply.len() - 1])));
        assert!(is_foreign(operation.words_of_reply(5, &reply[..3])));
        assert!(is_foreign(Operation::load::<u64>(0).words_of_reply(5, &reply)));
        assert!(words.answer(&[0; REQUEST_BYTES - 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_message_is_answered_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let words = Words::new(4);
            if let Ok((number, reply)) = words.answer(&bytes) {
                let _ = Operation::load::<u64>(0).words_of_reply(number, &reply);
            }
            let _ = Operation::exchange(0, 0, &[], 4).words_of_reply(0, &bytes);
        }
    }
}
