//! The bytes between a client and a server, version 1. Integers are little-endian.
//!
//! ```text
//! hello, client:    "CapWords" | version: u32 | 0: u32 | secret: 16 bytes
//! welcome, server:  "WordsCap" | version: u32 | 0: u32
//! request, client:  code: u8 | width in bytes: u8 | 0: u16 | put: u32 | operands: 4 x u64 | number: u64 |
//!                   put x u64
//! reply, server:    status: u8 | 0: 3 bytes | words: u32 | number of the request: u64 | words x u64
//! ```
//! A client sends one request at a time. The reply to an invalid request has no words, and comes after the
//! server has discarded the `put` words of the request.

use crate::contact::SECRET_BYTES;
use crate::error::Error;
use crate::words::{self, WordOp, Words};

pub(crate) const WORD_BYTES: usize = size_of::<u64>();
pub(crate) const HELLO_BYTES: usize = 16 + SECRET_BYTES;
pub(crate) const WELCOME_BYTES: usize = 16;
pub(crate) const REQUEST_BYTES: usize = 48;
pub(crate) const REPLY_BYTES: usize = 16;
const VERSION: u32 = 1;

pub(crate) fn hello(secret: &[u8; SECRET_BYTES]) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..16].copy_from_slice(&greeting(*b"CapWords"));
    bytes[16..].copy_from_slice(secret);
    bytes
}

/// The magic numbers of a welcome and of a hello differ, because a socket can be connected to itself.
pub(crate) fn welcome() -> [u8; WELCOME_BYTES] {
    greeting(*b"WordsCap")
}

fn greeting(magic: [u8; 8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// A request without the words that it stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Word { op: WordOp, mask: u64, at: u64 },
    Exchange { base: u64, first: u64, words: u64 },
    Claim { base: u64, at: u64, value: u64, words: u64 },
}

const LOAD: u8 = 1;
const SWAP: u8 = 2;
const ADD: u8 = 3;
const COMPARE_SWAP: u8 = 4;
const EXCHANGE: u8 = 5;
const CLAIM: u8 = 6;

/// The fixed part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// `None` if the code, the width or the zeros are wrong.
    pub(crate) request: Option<Request>,
    /// The number of words that follow the head.
    pub(crate) put: u32,
    pub(crate) number: u64,
}

impl Request {
    /// The fixed part of this request.
    pub(crate) fn encode(self, put: u32, number: u64) -> [u8; REQUEST_BYTES] {
        let (code, mask, operands) = match self {
            Self::Word { op, mask, at } => {
                let (code, value, expected) = match op {
                    WordOp::Load => (LOAD, 0, 0),
                    WordOp::Swap { value } => (SWAP, value, 0),
                    WordOp::Add { value } => (ADD, value, 0),
                    WordOp::CompareSwap { expected, value } => (COMPARE_SWAP, value, expected),
                };
                (code, mask, [at, value, expected, 0])
            }
            Self::Exchange { base, first, words } => (EXCHANGE, u64::MAX, [base, words, first, 0]),
            Self::Claim { base, at, value, words } => (CLAIM, u64::MAX, [base, words, at, value]),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0] = code;
        bytes[1] = if mask == u64::MAX { 8 } else { 4 };
        bytes[4..8].copy_from_slice(&put.to_le_bytes());
        for (target, value) in bytes[8..].chunks_exact_mut(8).zip(operands.into_iter().chain([number])) {
            target.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The name of the operation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Word { op, .. } => op.name(),
            Self::Exchange { .. } => words::EXCHANGE,
            Self::Claim { .. } => words::CLAIM,
        }
    }

    /// The error of a process whose request, with `put` stored words, the home of the words has refused.
    pub(crate) fn refused(self, put: usize) -> Error {
        let detail = match self {
            Self::Word { at, .. } => format!("the server has no word {at}"),
            Self::Exchange { base, words, first } => {
                format!(
                    "the server refuses {put} words stored from {first} on, of {words} words from {base} on"
                )
            }
            Self::Claim { base, words, .. } => format!("the server has no {words} words from {base} on"),
        };
        Error::OutOfRange { operation: self.name(), detail }
    }

    /// The error of a process whose request the home of the words could not decode.
    pub(crate) fn unknown(self) -> Error {
        let detail = "the server does not know the operation".into();
        Error::OutOfRange { operation: self.name(), detail }
    }

    /// The number of words of the reply to a valid request.
    pub(crate) fn reply_words(self) -> u64 {
        match self {
            Self::Word { .. } => 1,
            Self::Exchange { words, .. } | Self::Claim { words, .. } => words,
        }
    }

    /// Carries out the request on the words `all`.
    pub(crate) fn apply(self, all: &Words, put: &[u64]) -> crate::Result<Vec<u64>> {
        match self {
            Self::Word { op, mask, at } => all.update(op, mask, at).map(|before| vec![before]),
            Self::Exchange { base, first, words } => all.exchange(base, first, put, words),
            Self::Claim { base, at, value, words } => all.claim_if_none(base, at, value, words),
        }
    }
}

impl RequestHead {
    pub(crate) fn decode(bytes: &[u8; REQUEST_BYTES]) -> Self {
        let (put, number) = (u32_at(bytes, 4), u64_at(bytes, 40));
        let operands = [8, 16, 24, 32].map(|at| u64_at(bytes, at));
        let is_sound = bytes[2..4] == [0, 0] && (put == 0 || bytes[0] == EXCHANGE);
        let request = if is_sound { decode_request(bytes[0], bytes[1], operands) } else { None };
        Self { request, put, number }
    }

    /// Carries out the request, which stores `put`, on the words `all`. Returns the bytes of its reply.
    pub(crate) fn answer(self, put: &[u64], all: &Words) -> Vec<u8> {
        let apply = |request: Request| {
            request.apply(all, put).map_err(|error| match error {
                Error::OutOfRange { .. } => Status::OutOfRange,
                _ => Status::Invalid,
            })
        };
        reply(self.number, self.request.ok_or(Status::Invalid).and_then(apply))
    }
}

/// The bytes of the reply to the request `number`.
pub(crate) fn reply(number: u64, outcome: Result<Vec<u64>, Status>) -> Vec<u8> {
    let (status, words) = match outcome {
        Ok(words) => (Status::Done, words),
        Err(status) => (status, Vec::new()),
    };
    let head = ReplyHead { status, words: words.len() as u32, number };
    let mut bytes = Vec::with_capacity(REPLY_BYTES + words.len() * WORD_BYTES);
    bytes.extend(head.encode());
    extend_with_words(&mut bytes, &words);
    bytes
}

fn decode_request(code: u8, width: u8, [first, second, third, fourth]: [u64; 4]) -> Option<Request> {
    let mask = match width {
        4 => u64::from(u32::MAX),
        8 => u64::MAX,
        _ => return None,
    };
    let op = match (code, width) {
        (LOAD, _) => WordOp::Load,
        (SWAP, _) => WordOp::Swap { value: second },
        (ADD, _) => WordOp::Add { value: second },
        (COMPARE_SWAP, 4) => WordOp::CompareSwap { expected: third, value: second },
        (EXCHANGE, 8) => return Some(Request::Exchange { base: first, words: second, first: third }),
        (CLAIM, 8) => {
            return Some(Request::Claim { base: first, words: second, at: third, value: fourth });
        }
        _ => return None,
    };
    Some(Request::Word { op, mask, at: first })
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Done = 0,
    OutOfRange = 1,
    Invalid = 2,
}

/// The fixed part of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyHead {
    pub(crate) status: Status,
    pub(crate) words: u32,
    pub(crate) number: u64,
}

impl ReplyHead {
    pub(crate) fn encode(self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[0] = self.status as u8;
        bytes[4..8].copy_from_slice(&self.words.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are no reply.
    pub(crate) fn decode(bytes: &[u8; REPLY_BYTES]) -> Option<Self> {
        let status = match bytes[0] {
            0 => Status::Done,
            1 => Status::OutOfRange,
            2 => Status::Invalid,
            _ => return None,
        };
        let head = Self { status, words: u32_at(bytes, 4), number: u64_at(bytes, 8) };
        (bytes[1..4] == [0; 3] && (status == Status::Done || head.words == 0)).then_some(head)
    }
}

/// The bytes of `words`, behind those that `bytes` already has.
pub(crate) fn extend_with_words(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.reserve(words.len() * WORD_BYTES);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// The words whose bytes are `bytes`. Bytes after the last whole word are dropped.
pub(crate) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<WORD_BYTES>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = Request> {
        let op = |value, expected, mask| {
            prop_oneof![
                Just(WordOp::Load),
                Just(WordOp::Swap { value }),
                Just(WordOp::Add { value }),
                Just(WordOp::CompareSwap { expected, value })
            ]
            .prop_map(move |op| {
                (op, if matches!(op, WordOp::CompareSwap { .. }) { 0xFFFF_FFFF } else { mask })
            })
        };
        let masks = prop_oneof![Just(u64::MAX), Just(u64::from(u32::MAX))];
        (any::<[u64; 4]>(), masks).prop_flat_map(move |([a, b, c, d], mask)| {
            prop_oneof![
                op(b, c, mask).prop_map(move |(op, mask)| Request::Word { op, mask, at: a }),
                Just(Request::Exchange { base: a, first: b, words: c }),
                Just(Request::Claim { base: a, at: b, value: c, words: d }),
            ]
        })
    }

    proptest! {
        #[test]
        fn requests_survive_the_encoding(request in requests(), put: u32, number: u64) {
            let put = if matches!(request, Request::Exchange { .. }) { put } else { 0 };
            let head = RequestHead::decode(&request.encode(put, number));
            prop_assert_eq!(head, RequestHead { request: Some(request), put, number });
        }

        #[test]
        fn replies_survive_the_encoding(words: u32, number: u64, code in 0_usize..3) {
            let status = [Status::Done, Status::OutOfRange, Status::Invalid][code];
            let words = if status == Status::Done { words } else { 0 };
            let head = ReplyHead { status, words, number };
            prop_assert_eq!(ReplyHead::decode(&head.encode()), Some(head));
        }

        #[test]
        fn any_bytes_decode_without_a_panic(request: [u8; 32], rest: [u8; 16], reply: [u8; REPLY_BYTES]) {
            let mut bytes = [0; REQUEST_BYTES];
            bytes[..32].copy_from_slice(&request);
            bytes[32..].copy_from_slice(&rest);
            let head = RequestHead::decode(&bytes);
            if let Some(request) = head.request {
                let again = RequestHead::decode(&request.encode(head.put, head.number));
                prop_assert_eq!(again.request, Some(request));
            }
            ReplyHead::decode(&reply);
        }
    }
}
