//! From the constructor tree to a message.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use smallvec::SmallVec;

use super::list::{put_displacements, put_values};
use super::number::{put, put_signed};
use super::{BOUNDS, CHECKSUM_BYTES, MAGIC, VERSION, tag};
use crate::named::Named;
use crate::tree::{ArrayOrder, Combiner, Datatype, Distribution, Node};

/// The message for a type.
pub(super) fn encode(datatype: &Datatype) -> Vec<u8> {
    let mut encoder = Encoder {
        out: Vec::with_capacity(64),
        nodes: 0,
        nodes_written: Seen::new(),
        named_written: Seen::new(),
    };
    encoder.out.extend(MAGIC);
    encoder.out.push(VERSION);
    encoder.node(datatype);
    let mut message = encoder.out;
    let checksum = crc32fast::hash(&message);
    message.reserve_exact(CHECKSUM_BYTES);
    message.extend(checksum.to_le_bytes());
    message
}

struct Encoder {
    out: Vec<u8>,
    nodes: u64,
    /// The numbers of nodes, by address.
    nodes_written: Seen<*const Node>,
    /// The numbers of predefined types. Each predefined type needs only one node, however many nodes it has
    /// in memory.
    named_written: Seen<Named>,
}

impl Encoder {
    /// Writes a node after all nodes that it uses, unless it was written before. Returns the number of the
    /// node.
    fn node(&mut self, datatype: &Datatype) -> u64 {
        let address = Arc::as_ptr(&datatype.0);
        let named = match datatype.combiner() {
            Combiner::Named(named) if !datatype.0.bounds_are_forced => Some(*named),
            _ => None,
        };
        let written = match named {
            Some(named) => self.named_written.get(&named),
            None => self.nodes_written.get(&address),
        };
        if let Some(number) = written {
            return number;
        }
        self.content(datatype);
        if datatype.0.bounds_are_forced {
            put_signed(&mut self.out, datatype.lb());
            put_signed(&mut self.out, datatype.extent());
        }
        let number = self.nodes;
        self.nodes += 1;
        match named {
            Some(named) => self.named_written.insert(named, number),
            None => self.nodes_written.insert(address, number),
        }
        number
    }

    fn content(&mut self, datatype: &Datatype) {
        let bounds = if datatype.0.bounds_are_forced { BOUNDS } else { 0 };
        match datatype.combiner() {
            Combiner::Named(named) => self.named(*named, bounds),
            Combiner::Dup { old } => self.over(old, tag::DUP | bounds, |_| ()),
            Combiner::Contiguous { count, old } => {
                self.over(old, tag::CONTIGUOUS | bounds, |out| put(out, *count));
            }
            Combiner::Vector { count, blocklength, stride, old } => {
                self.over(old, tag::VECTOR | bounds, |out| put_vector(out, *count, *blocklength, *stride));
            }
            Combiner::Hvector { count, blocklength, stride_bytes: stride, old } => {
                self.over(old, tag::HVECTOR | bounds, |out| put_vector(out, *count, *blocklength, *stride));
            }
            Combiner::Indexed { blocklengths, displacements, old } => {
                self.over(old, tag::INDEXED | bounds, |out| {
                    put_lists(out, displacements, blocklengths.iter());
                });
            }
            Combiner::Hindexed { blocklengths, displacements_bytes, old } => {
                let lists = |out: &mut Vec<u8>| put_lists(out, displacements_bytes, blocklengths.iter());
                self.over(old, tag::HINDEXED | bounds, lists);
            }
            Combiner::IndexedBlock { blocklength, displacements, old } => {
                let list = |out: &mut Vec<u8>| put_blocks(out, *blocklength, displacements);
                self.over(old, tag::INDEXED_BLOCK | bounds, list);
            }
            Combiner::HindexedBlock { blocklength, displacements_bytes, old } => {
                let list = |out: &mut Vec<u8>| put_blocks(out, *blocklength, displacements_bytes);
                self.over(old, tag::HINDEXED_BLOCK | bounds, list);
            }
            Combiner::Struct { blocklengths, displacements_bytes, types } => {
                let numbers: SmallVec<[u64; 16]> = types.iter().map(|old| self.node(old)).collect();
                self.out.push(tag::STRUCT | bounds);
                put_lists(&mut self.out, displacements_bytes, blocklengths.iter().copied());
                numbers.iter().for_each(|number| put(&mut self.out, self.nodes - number));
            }
            Combiner::Subarray { sizes, subsizes, starts, order, old } => {
                self.over(old, tag::SUBARRAY | bounds, |out| {
                    put_order(out, sizes.len(), *order);
                    for ((size, subsize), start) in sizes.iter().zip(subsizes).zip(starts) {
                        put(out, *size);
                        put(out, *subsize);
                        put(out, *start);
                    }
                });
            }
            Combiner::Darray { rank, gsizes, distributions, psizes, order, old } => {
                self.over(old, tag::DARRAY | bounds, |out| {
                    put(out, *rank);
                    put_order(out, gsizes.len(), *order);
                    for ((size, distribution), processes) in gsizes.iter().zip(distributions).zip(psizes) {
                        put(out, *size);
                        put_distribution(out, *distribution);
                        put(out, *processes);
                    }
                });
            }
            Combiner::Resized { lb, extent, old } => {
                self.over(old, tag::RESIZED | bounds, |out| {
                    put_signed(out, *lb);
                    put_signed(out, *extent);
                });
            }
        }
    }

    /// Writes a node over one old type.
    fn over(&mut self, old: &Datatype, tag: u8, arguments: impl FnOnce(&mut Vec<u8>)) {
        let number = self.node(old);
        self.out.push(tag);
        arguments(&mut self.out);
        put(&mut self.out, self.nodes - number);
    }

    fn named(&mut self, named: Named, bounds: u8) {
        let (tag, number) = match named {
            Named::F90Integer { bytes } => (tag::F90_INTEGER, bytes.into()),
            Named::F90Real { bytes } => (tag::F90_REAL, bytes.into()),
            Named::F90Complex { bytes } => (tag::F90_COMPLEX, bytes.into()),
            Named::Opaque { bytes } => (tag::OPAQUE, bytes.into()),
            plain => (tag::NAMED, Named::ALL.iter().take_while(|&&other| other != plain).count() as u64),
        };
        self.out.push(tag | bounds);
        put(&mut self.out, number);
    }
}

fn put_vector(out: &mut Vec<u8>, count: u64, blocklength: u64, stride: i64) {
    put(out, count);
    put(out, blocklength);
    put_signed(out, stride);
}

fn put_lists(
    out: &mut Vec<u8>,
    displacements: &[i64],
    blocklengths: impl ExactSizeIterator<Item = u64> + Clone,
) {
    put_displacements(out, displacements);
    put_values(out, blocklengths);
}

fn put_blocks(out: &mut Vec<u8>, blocklength: u64, displacements: &[i64]) {
    put(out, blocklength);
    put_displacements(out, displacements);
}

fn put_order(out: &mut Vec<u8>, dims: usize, order: ArrayOrder) {
    put(out, (dims as u64) << 1 | u64::from(order == ArrayOrder::Fortran));
}

/// Writes twice the kind, plus one if the argument is not the default, and then the argument.
fn put_distribution(out: &mut Vec<u8>, distribution: Distribution) {
    let (kind, argument) = match distribution {
        Distribution::None => (0, None),
        Distribution::Block(argument) => (1, argument),
        Distribution::Cyclic(argument) => (2, argument),
    };
    put(out, kind << 1 | u64::from(argument.is_some()));
    if let Some(argument) = argument {
        put(out, argument);
    }
}

/// Numbers by key: a short list that is searched, and a map for further keys.
struct Seen<K> {
    short: SmallVec<[(K, u64); SHORT]>,
    long: HashMap<K, u64>,
}

const SHORT: usize = 16;

impl<K: Eq + Hash + Copy> Seen<K> {
    fn new() -> Self {
        Self { short: SmallVec::new(), long: HashMap::new() }
    }

    fn get(&self, key: &K) -> Option<u64> {
        let found = self.short.iter().find(|(other, _)| other == key).map(|(_, number)| *number);
        found.or_else(|| self.long.get(key).copied())
    }

    fn insert(&mut self, key: K, number: u64) {
        if self.short.len() < SHORT {
            self.short.push((key, number));
        } else {
            self.long.insert(key, number);
        }
    }
}
