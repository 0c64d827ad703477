//! Random datatypes together with the bytes that they name. The bytes are listed without the library.

use capulet_datatype::{Datatype, Named};
use proptest::prelude::*;

/// How a type is made. Its lower bound is 0. Its upper bound is the end of its last block, or the end of
/// its padding.
#[derive(Debug, Clone)]
pub(crate) enum Spec {
    Bytes(u64),
    Vector {
        count: u64,
        length: u64,
        gap: u64,
        of: Box<Spec>,
    },
    /// Gaps and lengths of the blocks.
    List {
        blocks: Vec<(u64, u64)>,
        of: Box<Spec>,
    },
    Pair {
        first: Box<Spec>,
        gap: u64,
        second: Box<Spec>,
    },
    Padded {
        gap: u64,
        of: Box<Spec>,
    },
}

/// The places of the bytes of one instance, in the order of the type map, and its extent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bytes {
    pub(crate) places: Vec<usize>,
    pub(crate) extent: usize,
}

impl Bytes {
    /// The place of byte `k` of consecutive instances.
    pub(crate) fn place(&self, k: usize) -> usize {
        k / self.places.len() * self.extent + self.places[k % self.places.len()]
    }

    /// Adds `length` instances of another type, the first one at `at`.
    fn add(&mut self, at: usize, length: u64, of: &Self) {
        for instance in 0..length as usize {
            self.places.extend(of.places.iter().map(|place| at + instance * of.extent + place));
        }
        self.extent = self.extent.max(at + length as usize * of.extent);
    }
}

fn byte() -> Datatype {
    Datatype::named(Named::Byte)
}

/// Places the blocks of a list one behind the other. If `turned`, the last block comes first in the type
/// map.
fn placed(blocks: &[(u64, u64)], extent: usize, turned: bool) -> Vec<(usize, u64)> {
    let mut at = 0;
    let mut placed: Vec<(usize, u64)> = blocks
        .iter()
        .map(|&(gap, length)| {
            let here = at + gap as usize;
            at = here + length as usize * extent;
            (here, length)
        })
        .collect();
    if turned {
        placed.reverse();
    }
    placed
}

impl Spec {
    /// Returns the type and its bytes. A type of a file has rising offsets. A type of memory may have
    /// lists in reverse order.
    pub(crate) fn made(&self, is_memory: bool) -> (Datatype, Bytes) {
        let mut bytes = Bytes::default();
        let made = match self {
            Self::Bytes(n) => {
                bytes.add(0, *n, &Bytes { places: vec![0], extent: 1 });
                Datatype::contiguous(*n, &byte())
            }
            Self::Vector { count, length, gap, of } => {
                let (old, inner) = of.made(is_memory);
                let stride = *length as usize * inner.extent + *gap as usize;
                (0..*count as usize).for_each(|i| bytes.add(i * stride, *length, &inner));
                Datatype::hvector(*count, *length, stride as i64, &old)
            }
            Self::List { blocks, of } => {
                let (old, inner) = of.made(is_memory);
                let placed = placed(blocks, inner.extent, is_memory);
                for &(at, length) in &placed {
                    bytes.add(at, length, &inner);
                }
                let lengths: Vec<u64> = placed.iter().map(|block| block.1).collect();
                let places: Vec<i64> = placed.iter().map(|block| block.0 as i64).collect();
                Datatype::hindexed(&lengths, &places, &old)
            }
            Self::Pair { first, gap, second } => {
                let ((old, inner), (next, last)) = (first.made(is_memory), second.made(is_memory));
                let at = inner.extent + *gap as usize;
                bytes.add(0, 1, &inner);
                bytes.add(at, 1, &last);
                Datatype::structure(&[1, 1], &[0, at as i64], &[old, next])
            }
            Self::Padded { gap, of } => {
                let (old, inner) = of.made(is_memory);
                bytes.add(0, 1, &inner);
                bytes.extent += *gap as usize;
                Ok(old)
            }
        };
        let made = Datatype::resized(0, bytes.extent as i64, &made.expect("the datatype is small"))
            .expect("the datatype is small");
        (made, bytes)
    }
}

/// Types of some depth, with some hundred bytes.
pub(crate) fn specs() -> impl Strategy<Value = Spec> {
    let leaf = prop_oneof![4 => 1u64..20, 1 => Just(0), 1 => 20u64..400].prop_map(Spec::Bytes);
    leaf.prop_recursive(4, 12, 2, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (0u64..9, 1u64..4, 0u64..40, boxed()).prop_map(|(count, length, gap, of)| Spec::Vector {
                count,
                length,
                gap,
                of
            }),
            (prop::collection::vec((0u64..50, 0u64..4), 0..12), boxed())
                .prop_map(|(blocks, of)| Spec::List { blocks, of }),
            (boxed(), 0u64..60, boxed()).prop_map(|(first, gap, second)| Spec::Pair { first, gap, second }),
            (0u64..300, boxed()).prop_map(|(gap, of)| Spec::Padded { gap, of }),
        ]
    })
}
