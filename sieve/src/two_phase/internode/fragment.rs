//! Message fragments: the bytes of one rank in the collective buffers of another node, as a message. Pure
//! encoding and decoding.
//!
//! ```text
//! fragment     place (u32), form (u32), description bytes (u32), start (u64), bytes (u64),
//!              description, payload
//! description  view:  displacement (i64), first stream byte (u64), access bytes (u64), tiles (u64),
//!                     layout (wire form)
//!              known: nothing
//!              runs:  per run its distance from the end of the last one, then its length,
//!                     in units, 7 bits a byte
//! ```
//! Numbers are little endian. `place` is the place of the rank on its node. `start` counts from the start
//! of its access. A fragment of a write has the payload, a fragment of a read requests it. The results of
//! [`Fragments`] are consistent in themselves. The reader must check whether the bytes lie in its
//! collective buffers.

use std::ops::Range;
use std::sync::Arc;

use capulet_datatype::{Datatype, Layout, Tiled};

pub(super) use capulet_plan::wire::{HEADER_BYTES, RunWriter, VIEW_BYTES_MAX, encode_view};

use crate::access::FileSide;

/// The part of a message that is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// How a fragment tells where its bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// By the view of the rank, which the fragment contains.
    View = 0,
    /// By the view of the rank, which an earlier fragment contained.
    Known = 1,
    /// By a list of runs.
    Runs = 2,
}

/// The header of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The place of the rank on its node.
    pub(super) place: u32,
    pub(super) form: Form,
    pub(super) description_bytes: u32,
    /// The first byte, counted from the start of the rank's access.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut encoded = [0; HEADER_BYTES];
        encoded[..4].copy_from_slice(&self.place.to_le_bytes());
        encoded[4..8].copy_from_slice(&(self.form as u32).to_le_bytes());
        encoded[8..12].copy_from_slice(&self.description_bytes.to_le_bytes());
        encoded[12..20].copy_from_slice(&self.start.to_le_bytes());
        encoded[20..].copy_from_slice(&self.bytes.to_le_bytes());
        encoded
    }

    pub(super) fn decode(encoded: &[u8; HEADER_BYTES]) -> Result<Self, Malformed> {
        let mut rest = &encoded[..];
        let (place, form, description_bytes) =
            (take_u32(&mut rest)?, take_u32(&mut rest)?, take_u32(&mut rest)?);
        let (start, bytes) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let form = match form {
            0 => Form::View,
            1 => Form::Known,
            2 => Form::Runs,
            _ => return Err(Malformed("the form of a message fragment")),
        };
        if bytes == 0 || start.checked_add(bytes).is_none() {
            return Err(Malformed("the range of a message fragment"));
        }
        Ok(Self { place, form, description_bytes, start, bytes })
    }
}

/// A fragment of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    pub(super) header: Header,
    pub(super) description: &'a [u8],
    /// As many bytes as the header says; empty if the fragment requests them.
    pub(super) payload: &'a [u8],
}

/// The fragments of a message, in order. Ends at the first one that is incomplete or malformed.
#[derive(Debug, Clone)]
pub(super) struct Fragments<'a> {
    rest: &'a [u8],
    has_payload: bool,
}

impl<'a> Fragments<'a> {
    pub(super) fn new(message: &'a [u8], has_payload: bool) -> Self {
        Self { rest: message, has_payload }
    }

    fn take(&mut self) -> Result<Fragment<'a>, Malformed> {
        let torn = Malformed("the length of a message");
        let (header, rest) = self.rest.split_first_chunk::<HEADER_BYTES>().ok_or(torn)?;
        let header = Header::decode(header)?;
        let (description, rest) = rest.split_at_checked(header.description_bytes as usize).ok_or(torn)?;
        let payload_bytes = if self.has_payload { header.bytes } else { 0 };
        let payload_bytes = usize::try_from(payload_bytes).map_err(|_| torn)?;
        let (payload, rest) = rest.split_at_checked(payload_bytes).ok_or(torn)?;
        self.rest = rest;
        Ok(Fragment { header, description, payload })
    }
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Result<Fragment<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let fragment = self.take();
        if fragment.is_err() {
            self.rest = &[];
        }
        Some(fragment)
    }
}

/// Decodes the view of a description. `layout_of` gets the wire form of its layout, and decodes it or
/// finds it.
pub(super) fn decode_view(
    description: &[u8],
    layout_of: impl FnOnce(&[u8]) -> Result<Arc<Layout>, Malformed>,
) -> Result<FileSide, Malformed> {
    if description.len() > VIEW_BYTES_MAX {
        return Err(Malformed("the length of a view"));
    }
    let mut rest = description;
    let displacement_bytes = take_u64(&mut rest)?.cast_signed();
    let (file_start, bytes, tiles) = (take_u64(&mut rest)?, take_u64(&mut rest)?, take_u64(&mut rest)?);
    let tiled =
        Tiled::new(layout_of(rest)?, tiles).map_err(|_| Malformed("the number of tiles of a view"))?;
    FileSide::new(tiled, displacement_bytes, file_start, bytes).ok_or(Malformed("the offsets of a view"))
}

/// Decodes a layout from its wire form. The sender need not be trusted.
pub(super) fn decode_layout(wire: &[u8]) -> Result<Arc<Layout>, Malformed> {
    let datatype = Datatype::from_wire(wire).map_err(|_| Malformed("the layout of a view"))?;
    Ok(datatype.layout().clone())
}

/// The runs of a description, as ranges of the file. Ends at the first one that is not within `domain`.
#[derive(Debug, Clone)]
pub(super) struct Runs<'a> {
    rest: &'a [u8],
    at: u64,
    end: u64,
    unit_bytes: u64,
}

impl<'a> Runs<'a> {
    /// The runs of a fragment that has `bytes` bytes in `domain`. They are checked.
    ///
    /// # Errors
    /// If a run is incomplete or leaves the domain, or if the sum of the lengths is not `bytes`.
    pub(super) fn checked(
        description: &'a [u8],
        domain: &Range<u64>,
        unit_bytes: u64,
        bytes: u64,
    ) -> Result<Self, Malformed> {
        let runs = Self { rest: description, at: domain.start, end: domain.end, unit_bytes };
        let mut check = runs.clone();
        let mut left = bytes;
        while !check.rest.is_empty() {
            let run = check.next_run().ok_or(Malformed("a run of a message fragment"))?;
            left = left.checked_sub(run.end - run.start).ok_or(Malformed("the sum of the run lengths"))?;
        }
        if left == 0 { Ok(runs) } else { Err(Malformed("the sum of the run lengths")) }
    }

    fn next_run(&mut self) -> Option<Range<u64>> {
        let gap = take_number(&mut self.rest)?.checked_mul(self.unit_bytes)?;
        let bytes = take_number(&mut self.rest)?.checked_mul(self.unit_bytes)?;
        let start = self.at.checked_add(gap)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.end && bytes > 0)?;
        self.at = end;
        Some(start..end)
    }
}

impl Iterator for Runs<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        self.next_run()
    }
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        let bits = u64::from(byte & 0x7F);
        if (bits << shift) >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, Malformed> {
    let (number, left) = rest.split_first_chunk::<4>().ok_or(Malformed("an incomplete number"))?;
    *rest = left;
    Ok(u32::from_le_bytes(*number))
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let (number, left) = rest.split_first_chunk::<8>().ok_or(Malformed("an incomplete number"))?;
    *rest = left;
    Ok(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use capulet_datatype::Named;
    use proptest::prelude::*;

    use super::*;

    fn side(runs: &[(i64, u64)], tiles: u64, extent: i64, displacement: i64, start: u64) -> FileSide {
        let byte = Datatype::named(Named::Byte);
        let (places, lengths): (Vec<i64>, Vec<u64>) = runs.iter().copied().unzip();
        let listed = Datatype::hindexed(&lengths, &places, &byte).expect("the datatype is valid");
        let tile = Datatype::resized(0, extent, &listed).expect("the datatype is valid");
        let tiled = Tiled::new(tile.layout().clone(), tiles).expect("the tiling is small");
        let bytes = tiled.size() - start;
        FileSide::new(tiled, displacement, start, bytes).expect("the bytes lie in a file, in order")
    }

    fn runs() -> impl Strategy<Value = Vec<(i64, u64)>> {
        prop::collection::vec((1i64..50, 1u64..30), 1..20).prop_map(|pairs| {
            let mut at = 0;
            let run = |(gap, len): (i64, u64)| {
                let start = at + gap;
                at = start + len as i64;
                (start, len)
            };
            pairs.into_iter().map(run).collect()
        })
    }

    fn headers() -> impl Strategy<Value = Header> {
        let form = prop::sample::select(vec![Form::View, Form::Known, Form::Runs]);
        (any::<u32>(), form, 0u32..40, any::<u64>(), 1u64..60).prop_map(
            |(place, form, description_bytes, start, bytes)| Header {
                place,
                form,
                description_bytes,
                start: start.min(u64::MAX - bytes),
                bytes,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn fragments_round_trip_and_cuts_are_noticed(
            headers in prop::collection::vec(headers(), 0..8),
            has_payload: bool,
        ) {
            let mut message = Vec::new();
            for (number, header) in headers.iter().enumerate() {
                message.extend_from_slice(&header.encode());
                message.extend(std::iter::repeat_n(number as u8, header.description_bytes as usize));
                let payload_bytes = if has_payload { header.bytes as usize } else { 0 };
                message.extend(std::iter::repeat_n(!(number as u8), payload_bytes));
            }
            let fragments = Fragments::new(&message, has_payload).collect::<Result<Vec<_>, _>>()
                .expect("all fragments are complete");
            prop_assert_eq!(fragments.len(), headers.len());
            for (number, (fragment, header)) in fragments.iter().zip(&headers).enumerate() {
                prop_assert_eq!(fragment.header, *header);
                prop_assert_eq!(fragment.description.len(), header.description_bytes as usize);
                prop_assert!(fragment.description.iter().all(|byte| *byte == number as u8));
                prop_assert!(fragment.payload.iter().all(|byte| *byte == !(number as u8)));
            }
            // Every cut is noticed, except a cut between two fragments.
            for cut in 0..message.len() {
                let whole = Fragments::new(&message[..cut], has_payload).collect::<Result<Vec<_>, _>>();
                if let Ok(fragments) = whole {
                    let length = |header: &Header| {
                        let payload = if has_payload { header.bytes as usize } else { 0 };
                        HEADER_BYTES + header.description_bytes as usize + payload
                    };
                    prop_assert_eq!(headers[..fragments.len()].iter().map(length).sum::<usize>(), cut);
                }
            }
        }

        #[test]
        fn views_round_trip(runs in runs(), tiles in 1u64..5, pad in 0i64..9, displacement in 0i64..1 << 40) {
            let last = runs.last().expect("there is a run");
            let extent = last.0 + last.1 as i64 + pad;
            let sent = side(&runs, tiles, extent, displacement, 1.min(runs[0].1 - 1));
            let wire = encode_view(&sent, VIEW_BYTES_MAX).expect("the view is short");
            let got = decode_view(&wire, decode_layout).expect("the view decodes");
            prop_assert_eq!((sent.bytes(), sent.file_start()), (got.bytes(), got.file_start()));
            for at in 0..sent.bytes() {
                prop_assert_eq!(sent.offset_of(at), got.offset_of(at));
            }
        }

        #[test]
        fn runs_round_trip_and_wrong_totals_are_refused(
            runs in runs(),
            unit in prop::sample::select(vec![1u64, 8, 64]),
            origin in 0u64..1 << 40,
        ) {
            let places: Vec<_> = runs
                .iter()
                .map(|(start, len)| origin + *start as u64 * unit..origin + (*start as u64 + len) * unit)
                .collect();
            let mut writer = RunWriter::new(origin, unit);
            for run in &places {
                prop_assert!(writer.bytes_with_one_more() >= writer.encoded_bytes() + 2);
                // in two parts, as a cursor may give them
                writer.push(run.start, unit);
                if run.end > run.start + unit {
                    writer.push(run.start + unit, run.end - run.start - unit);
                }
            }
            let encoded = writer.finish();
            let bytes: u64 = places.iter().map(|run| run.end - run.start).sum();
            let domain = origin..places.last().expect("there is a run").end;
            let read = Runs::checked(&encoded, &domain, unit, bytes).expect("the runs decode");
            prop_assert_eq!(read.collect::<Vec<_>>(), places);
            let shorter = domain.start..domain.end - 1;
            prop_assert!(Runs::checked(&encoded, &shorter, unit, bytes).is_err());
            prop_assert!(Runs::checked(&encoded, &domain, unit, bytes + unit).is_err());
            prop_assert!(Runs::checked(&encoded, &domain, unit, bytes - unit).is_err());
            prop_assert!(Runs::checked(&encoded[..encoded.len() - 1], &domain, unit, bytes).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_decode_to_inconsistent_fragments(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            unit in 0u32..13,
            total in any::<u64>(),
        ) {
            for fragment in Fragments::new(&bytes, true).flatten() {
                prop_assert_eq!(fragment.payload.len() as u64, fragment.header.bytes);
            }
            let _ = Fragments::new(&bytes, false).count();
            let _ = decode_view(&bytes, decode_layout);
            let domain = 100..1 << 62;
            if let Ok(runs) = Runs::checked(&bytes, &domain, 1 << unit, total) {
                prop_assert!(runs.map(|run| run.end - run.start).sum::<u64>() == total);
            }
        }

        #[test]
        fn modified_view_is_refused_or_lies_in_a_file(
            runs in runs(), at in 0usize..200, bit in 0u8..8, numbers in prop::array::uniform4(any::<u64>())
        ) {
            let last = runs.last().expect("there is a run");
            let sent = side(&runs, 3, last.0 + last.1 as i64, 1 << 20, 0);
            let mut wire = encode_view(&sent, VIEW_BYTES_MAX).expect("the view is short");
            let at = at % wire.len();
            wire[at] ^= 1 << bit;
            let mut other = wire.clone();
            for (place, number) in numbers.iter().enumerate().filter(|(_, number)| **number % 2 == 0) {
                other[place * 8..place * 8 + 8].copy_from_slice(&(number >> (number % 64)).to_le_bytes());
            }
            for wire in [wire, other] {
                let Ok(got) = decode_view(&wire, decode_layout) else { continue };
                if got.bytes() > 0 {
                    prop_assert!(got.offset_of(0) <= got.offset_of(got.bytes() - 1));
                    prop_assert!(got.offset_of(got.bytes() - 1) < i64::MAX as u64);
                    prop_assert_eq!(got.bytes_below(u64::MAX), got.bytes());
                }
            }
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        let mut longest: &[u8] = &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(take_number(&mut longest), Some(u64::MAX));
        let mut beyond: &[u8] = &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2];
        assert_eq!(take_number(&mut beyond), None);
        let mut endless: &[u8] = &[0x80; 11];
        assert_eq!(take_number(&mut endless), None);
    }

    #[test]
    fn long_list_is_not_encoded_as_a_view() {
        let runs: Vec<_> =
            (0..10_000_i64).map(|at| (at * 20 + ((at * 2_654_435_761) >> 9) % 11, 3)).collect();
        assert!(encode_view(&side(&runs, 1, 1 << 30, 0, 0), VIEW_BYTES_MAX).is_none());
    }
}
