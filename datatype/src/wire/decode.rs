//! From a message to the constructor tree, through the checked constructors.

use super::error::{Result, WireError};
use super::list::{displacements, values_of};
use super::number::Reader;
use super::{BOUNDS, CHECKSUM_BYTES, MAGIC, NODES_MAX, VERSION, tag};
use crate::error::TypeError;
use crate::named::Named;
use crate::tree::{ArrayOrder, Datatype, Distribution};

/// The type in a message.
pub(super) fn decode(message: &[u8]) -> Result<Datatype> {
    let body = opened(message)?;
    let mut nodes = Nodes { reader: Reader::new(body, MAGIC.len() + 1), built: Vec::new(), used: Vec::new() };
    while nodes.reader.left() > 0 {
        nodes.next()?;
    }
    nodes.last()
}

/// Checks header and checksum, and returns the message without its checksum.
fn opened(message: &[u8]) -> Result<&[u8]> {
    let Some([magic @ .., version]) = message.first_chunk::<{ MAGIC.len() + 1 }>() else {
        return Err(WireError::NotAType);
    };
    if *magic != MAGIC {
        return Err(WireError::NotAType);
    }
    if *version != VERSION {
        return Err(WireError::Version { found: *version });
    }
    let sent = message.split_last_chunk::<CHECKSUM_BYTES>().filter(|(body, _)| body.len() > MAGIC.len());
    let Some((body, checksum)) = sent else {
        return Err(WireError::Truncated { position: message.len() });
    };
    let (expected, found) = (u32::from_le_bytes(*checksum), crc32fast::hash(body));
    if expected == found { Ok(body) } else { Err(WireError::Checksum { expected, found }) }
}

/// The nodes that have been read.
struct Nodes<'a> {
    reader: Reader<'a>,
    built: Vec<Datatype>,
    /// Whether a later node has referred to the node.
    used: Vec<bool>,
}

impl Nodes<'_> {
    fn next(&mut self) -> Result<()> {
        let position = self.reader.position();
        if self.built.len() == NODES_MAX {
            return Err(WireError::TooManyNodes { position, limit: NODES_MAX });
        }
        let refused = |source: TypeError| WireError::Type { position, source };
        let tag = self.reader.byte()?;
        let mut datatype = self.content(tag & !BOUNDS, position)?.map_err(refused)?;
        if tag & BOUNDS != 0 {
            let (lb, extent) = (self.reader.signed()?, self.reader.signed()?);
            datatype = datatype.forced(lb, extent).map_err(refused)?;
        }
        self.built.push(datatype);
        self.used.push(false);
        Ok(())
    }

    fn last(mut self) -> Result<Datatype> {
        self.used.pop();
        if let Some(node) = self.used.iter().position(|used| !used) {
            return Err(WireError::Unused { node });
        }
        self.built.pop().ok_or(WireError::Truncated { position: self.reader.position() })
    }

    /// Reads the arguments of a node and calls its constructor.
    fn content(&mut self, tag: u8, position: usize) -> Result<std::result::Result<Datatype, TypeError>> {
        let reader = &mut self.reader;
        Ok(match tag {
            tag::NAMED => Ok(Datatype::named(plain(reader)?)),
            tag::F90_INTEGER => Ok(Datatype::named(Named::F90Integer { bytes: reader.small()? })),
            tag::F90_REAL => Ok(Datatype::named(Named::F90Real { bytes: reader.small()? })),
            tag::F90_COMPLEX => Ok(Datatype::named(Named::F90Complex { bytes: reader.small()? })),
            tag::OPAQUE => Ok(Datatype::named(Named::Opaque { bytes: reader.small()? })),
            tag::DUP => Datatype::dup(self.old()?),
            tag::CONTIGUOUS => Datatype::contiguous(reader.number()?, self.old()?),
            tag::VECTOR => {
                let (count, blocklength, stride) = vector(reader)?;
                Datatype::vector(count, blocklength, stride, self.old()?)
            }
            tag::HVECTOR => {
                let (count, blocklength, stride) = vector(reader)?;
                Datatype::hvector(count, blocklength, stride, self.old()?)
            }
            tag::INDEXED => {
                let (places, lengths) = lists(reader)?;
                Datatype::indexed(&lengths, &places, self.old()?)
            }
            tag::HINDEXED => {
                let (places, lengths) = lists(reader)?;
                Datatype::hindexed(&lengths, &places, self.old()?)
            }
            tag::INDEXED_BLOCK => {
                let (length, places) = (reader.number()?, displacements(reader)?);
                Datatype::indexed_block(length, &places, self.old()?)
            }
            tag::HINDEXED_BLOCK => {
                let (length, places) = (reader.number()?, displacements(reader)?);
                Datatype::hindexed_block(length, &places, self.old()?)
            }
            tag::STRUCT => {
                let (places, lengths) = lists(reader)?;
                let mut types = Vec::with_capacity(places.len().min(reader.left()));
                for _ in &places {
                    types.push(self.old()?.clone());
                }
                Datatype::structure(&lengths, &places, &types)
            }
            tag::SUBARRAY => self.subarray()?,
            tag::DARRAY => self.darray()?,
            tag::RESIZED => {
                let (lb, extent) = (reader.signed()?, reader.signed()?);
                Datatype::resized(lb, extent, self.old()?)
            }
            _ => return Err(WireError::Tag { position, tag }),
        })
    }

    /// Reads a reference, which is the number of nodes to go back.
    fn old(&mut self) -> Result<&Datatype> {
        let position = self.reader.position();
        let back = self.reader.number()?;
        let nodes = self.built.len();
        let number =
            usize::try_from(back).ok().filter(|back| *back > 0).and_then(|back| nodes.checked_sub(back));
        let Some(number) = number else { return Err(WireError::Reference { position, back, nodes }) };
        self.used[number] = true;
        Ok(&self.built[number])
    }

    fn subarray(&mut self) -> Result<std::result::Result<Datatype, TypeError>> {
        let (dims, order) = dims_and_order(&mut self.reader)?;
        let (mut sizes, mut subsizes, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..dims {
            for list in [&mut sizes, &mut subsizes, &mut starts] {
                list.push(self.reader.number()?);
            }
        }
        Ok(Datatype::subarray(&sizes, &subsizes, &starts, order, self.old()?))
    }

    fn darray(&mut self) -> Result<std::result::Result<Datatype, TypeError>> {
        let rank = self.reader.number()?;
        let (dims, order) = dims_and_order(&mut self.reader)?;
        let (mut sizes, mut distributions, mut processes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..dims {
            sizes.push(self.reader.number()?);
            distributions.push(distribution(&mut self.reader)?);
            processes.push(self.reader.number()?);
        }
        Ok(Datatype::darray(rank, &sizes, &distributions, &processes, order, self.old()?))
    }
}

fn plain(reader: &mut Reader<'_>) -> Result<Named> {
    let position = reader.position();
    let number = usize::try_from(reader.number()?).ok();
    let what = "no predefined type has that number";
    number.and_then(|number| Named::ALL.get(number)).copied().ok_or(WireError::Number { position, what })
}

fn vector(reader: &mut Reader<'_>) -> Result<(u64, u64, i64)> {
    Ok((reader.number()?, reader.number()?, reader.signed()?))
}

fn lists(reader: &mut Reader<'_>) -> Result<(Vec<i64>, Vec<u64>)> {
    let places = displacements(reader)?;
    let lengths = values_of(reader, places.len())?;
    Ok((places, lengths))
}

fn dims_and_order(reader: &mut Reader<'_>) -> Result<(u64, ArrayOrder)> {
    let number = reader.number()?;
    Ok((number >> 1, if number & 1 == 0 { ArrayOrder::C } else { ArrayOrder::Fortran }))
}

fn distribution(reader: &mut Reader<'_>) -> Result<Distribution> {
    let position = reader.position();
    let code = reader.number()?;
    let argument = if code & 1 == 1 { Some(reader.number()?) } else { None };
    match code {
        0 => Ok(Distribution::None),
        2 | 3 => Ok(Distribution::Block(argument)),
        4 | 5 => Ok(Distribution::Cyclic(argument)),
        _ => Err(WireError::Number { position, what: "no distribution has that number" }),
    }
}
