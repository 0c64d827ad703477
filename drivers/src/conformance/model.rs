//! Long runs of random calls, compared with a model: a file as a list of bytes.

use super::subject::{Case, Subject, content, read, write};

pub(super) const CASES: &[Case] =
    &[Case { name: "random calls act like calls on a list of bytes", run: random_calls }];

/// The longest file of a run.
const SPAN_BYTES: u64 = 20_000;

/// Marsaglia's xorshift generator. It is random enough for choices, and gives the same sequence everywhere.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Up to eight ranges. Some adjoin, some are far apart, some go backwards, and some are empty.
    fn extents(&mut self) -> Vec<(u64, usize)> {
        let mut end = self.below(SPAN_BYTES / 2);
        let mut extents = Vec::new();
        for _ in 0..self.below(9) {
            let offset = match self.below(3) {
                0 => end,
                1 => end + self.below(300),
                _ => self.below(SPAN_BYTES / 2),
            };
            let bytes = self.below(200);
            extents.push((offset, bytes as usize));
            end = offset + bytes;
        }
        extents
    }
}

fn random_calls(subject: &Subject<'_>) {
    for seed in 1..=5_u64 {
        let mut choices = Choices(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let file = subject.create();
        let mut model: Vec<u8> = Vec::new();
        for step in 0..60 {
            match choices.below(10) {
                0..=4 => {
                    let value = choices.below(255) as u8 + 1;
                    let extents = choices.extents();
                    let data: Vec<_> = extents.iter().map(|(_, bytes)| vec![value; *bytes]).collect();
                    let pieces: Vec<_> =
                        extents.iter().zip(&data).map(|((at, _), bytes)| (*at, &bytes[..])).collect();
                    write(&*file, &pieces);
                    for (at, bytes) in pieces.iter().filter(|(_, bytes)| !bytes.is_empty()) {
                        let end = *at as usize + bytes.len();
                        model.resize(model.len().max(end), 0);
                        model[*at as usize..end].copy_from_slice(bytes);
                    }
                }
                5..=7 => {
                    let extents = choices.extents();
                    let (result, memory) = read(&*file, &extents);
                    let (bytes, expected) = model_read(&model, &extents);
                    assert!(result.error.is_none() && result.bytes == bytes, "seed {seed}, step {step}");
                    assert_eq!(memory, expected, "seed {seed}, step {step}");
                }
                8 => {
                    let bytes = choices.below(SPAN_BYTES);
                    file.set_len(bytes).expect("the length is set");
                    model.resize(bytes as usize, 0);
                }
                _ => {
                    let bytes = choices.below(SPAN_BYTES);
                    file.preallocate(bytes).expect("the reservation succeeds");
                    model.resize(model.len().max(bytes as usize), 0);
                }
            }
            assert_eq!(
                file.len().expect("the length is known"),
                model.len() as u64,
                "seed {seed}, step {step}"
            );
        }
        assert!(content(&*file) == model, "seed {seed}: the file differs from the list of bytes");
    }
}

/// The result of a read of these ranges according to the contract.
fn model_read(model: &[u8], extents: &[(u64, usize)]) -> (u64, Vec<Vec<u8>>) {
    let mut memory: Vec<_> = extents.iter().map(|(_, bytes)| vec![0xA5; *bytes]).collect();
    let mut moved = 0;
    for ((offset, bytes), target) in extents.iter().zip(&mut memory) {
        let there = model.len().saturating_sub(*offset as usize).min(*bytes);
        if there > 0 {
            target[..there].copy_from_slice(&model[*offset as usize..][..there]);
        }
        moved += there as u64;
        if there < *bytes {
            break;
        }
    }
    (moved, memory)
}
