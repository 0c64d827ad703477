//! Two types from untrusted senders, and numbers that select the counts and the parts: every way to move
//! their bytes moves exactly the bytes that the definition of the constructors gives, and no others.
//!
//! `scripts/fuzz.sh` runs this target. It starts from pairs of the messages in the corpus of `wire`.

#![no_main]

#[path = "../../tests/wire/copying.rs"]
mod copying;
#[path = "../../tests/wire/naive.rs"]
mod naive;

use capulet_datatype::Datatype;
use copying::{Known, check_one, check_two};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((numbers, nodes)) = input.split_at_checked(11) else { return Corpus::Reject };
    let split = usize::from(numbers[10]).min(nodes.len());
    let (one, other) = nodes.split_at(split);
    let [Some(from), Some(to)] = [(one, numbers[0]), (other, numbers[1])].map(|(nodes, count)| {
        let mut message = [b"CDT\x01", nodes].concat();
        message.extend(crc32fast::hash(&message).to_le_bytes());
        Known::of(&Datatype::from_wire(&message).ok()?, u64::from(count % 70))
    }) else {
        return Corpus::Reject;
    };
    let number = |i: usize| u16::from_le_bytes([numbers[i], numbers[i + 1]]);
    check_one(&from, [number(2), number(4)]);
    check_one(&to, [number(6), number(8)]);
    check_two(&from, &to, [number(2), number(4), number(6), number(8)]);
    check_two(&to, &from, [number(6), number(8), number(2), number(4)]);
    Corpus::Keep
});
