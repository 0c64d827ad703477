//! Lists in a message, in the shortest of several forms.
//!
//! A list of displacements is sent as its first entry and the differences that follow; a list of lengths is
//! sent as its values. Both are then lists of *terms*. Each term is a multiple of one power of two, because
//! displacements of elements usually are multiples of the element size.
//!
//! | form | bytes for m terms | used for |
//! |---|---|---|
//! | packed | m times 1, 2, 4 or 8, little endian, above the lowest term | most; decodes at memory speed |
//! | varint | the sum of the lengths of the terms | lists with few large terms |
//! | bitmap | the span in units / 8 | dense rising displacements |
//! | equal | none | lengths; their number is that of the displacements before |
//!
//! No form holds more than eight entries per byte, so the decoded list is never larger than 64 times the
//! message.

use super::error::{Result, WireError};
use super::number::{Reader, put, put_signed, unzigzag, varint_bytes, zigzag};

/// The form of a list, in the low three bits of its first byte. The other bits hold the shift of its terms.
/// The number of a packed form is the logarithm of its width in bytes.
const PACKED_MAX: u8 = 3;
const VARINT: u8 = 4;
const BITMAP: u8 = 5;
const EQUAL: u8 = 6;
const SHIFT_MAX: u32 = 31;

fn bad<T>(position: usize, what: &'static str) -> Result<T> {
    Err(WireError::List { position, what })
}

/// The properties of all terms that determine the form.
#[derive(Debug, Clone, Copy)]
struct Survey {
    low: i64,
    high: i64,
    shift: u32,
}

impl Survey {
    /// Surveys at least one term.
    fn of(terms: impl Iterator<Item = i64>) -> Self {
        let (mut low, mut high, mut bits) = (i64::MAX, i64::MIN, 0);
        for term in terms {
            low = low.min(term);
            high = high.max(term);
            bits |= term;
        }
        let shift = bits.trailing_zeros().min(SHIFT_MAX);
        Self { low: low >> shift, high: high >> shift, shift }
    }

    /// Bytes of a packed term.
    fn width(self) -> usize {
        match self.high.wrapping_sub(self.low) as u64 {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        }
    }
}

fn differences(list: &[i64]) -> impl Iterator<Item = i64> + Clone {
    // Any two numbers have a difference modulo 2^64, and adding it to the first number gives the second.
    list.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]))
}

/// Writes displacements: their number, the first one, and the differences.
pub(super) fn put_displacements(out: &mut Vec<u8>, list: &[i64]) {
    put(out, list.len() as u64);
    let [first, .., last] = list else {
        if let Some(&only) = list.first() {
            put_signed(out, only);
        }
        return;
    };
    put_signed(out, *first);
    let survey = Survey::of(differences(list));
    let span = i128::from(*last) - i128::from(*first);
    let units = u64::try_from(span >> survey.shift).unwrap_or(u64::MAX);
    let rises = survey.low > 0 && i64::try_from(span).is_ok();
    if rises && units / 8 + 1 < (list.len() as u64 - 1) * survey.width() as u64 {
        out.push(BITMAP | (survey.shift as u8) << 3);
        put(out, units);
        put_bitmap(out, list, survey.shift, units);
    } else {
        put_terms(out, differences(list), list.len() - 1, survey);
    }
}

/// Writes values. The reader must know their number.
pub(super) fn put_values(out: &mut Vec<u8>, list: impl ExactSizeIterator<Item = u64> + Clone) {
    let Some(first) = list.clone().next() else { return };
    let (n, values) = (list.len(), list.map(|value| value as i64));
    let survey = Survey::of(values.clone());
    if survey.low == survey.high {
        out.push(EQUAL);
        put(out, first);
    } else {
        put_terms(out, values, n, survey);
    }
}

fn put_terms(out: &mut Vec<u8>, terms: impl Iterator<Item = i64> + Clone, n: usize, survey: Survey) {
    let (width, shift) = (survey.width(), survey.shift);
    let varint = |term: i64| zigzag(term >> shift);
    // If a packed term takes one byte, no form is shorter.
    if width > 1 && terms.clone().map(|term| varint_bytes(varint(term))).sum::<usize>() < n * width {
        out.push(VARINT | (shift as u8) << 3);
        terms.for_each(|term| put(out, varint(term)));
        return;
    }
    out.push(width.trailing_zeros() as u8 | (shift as u8) << 3);
    put_signed(out, survey.low);
    let above = terms.map(|term| (term >> shift).wrapping_sub(survey.low) as u64);
    let start = out.len();
    out.resize(start + n * width, 0);
    let room = &mut out[start..];
    match width {
        1 => room.iter_mut().zip(above).for_each(|(byte, term)| *byte = term as u8),
        2 => pack::<2>(room, above),
        4 => pack::<4>(room, above),
        _ => pack::<8>(room, above),
    }
}

fn pack<const WIDTH: usize>(room: &mut [u8], terms: impl Iterator<Item = u64>) {
    for (bytes, term) in room.as_chunks_mut::<WIDTH>().0.iter_mut().zip(terms) {
        bytes.copy_from_slice(&term.to_le_bytes()[..WIDTH]);
    }
}

fn put_bitmap(out: &mut Vec<u8>, list: &[i64], shift: u32, units: u64) {
    let start = out.len();
    out.resize(start + bitmap_bytes(units), 0);
    let map = &mut out[start..];
    for place in list {
        let unit = place.wrapping_sub(list[0]) as u64 >> shift;
        map[(unit / 8) as usize] |= 1 << (unit % 8);
    }
}

/// Bytes of a bitmap whose last set bit is bit `units`.
fn bitmap_bytes(units: u64) -> usize {
    (units / 8 + 1) as usize
}

/// Reads displacements.
pub(super) fn displacements(reader: &mut Reader<'_>) -> Result<Vec<i64>> {
    let position = reader.position();
    let n = reader.number()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let first = reader.signed()?;
    // Each entry except the first takes at least one bit.
    if (n - 1) / 8 > reader.left() as u64 {
        return bad(position, "a list has more entries than the message has room for");
    }
    if n == 1 {
        return Ok(vec![first]);
    }
    let (form, shift) = form(reader)?;
    if form == BITMAP {
        return bitmap(reader, first, n as usize, shift);
    }
    let mut list = Vec::with_capacity(n as usize);
    list.push(first);
    let mut place = first;
    terms(reader, form, shift, n as usize - 1, &mut list, |term| {
        place = place.wrapping_add(term);
        place
    })?;
    Ok(list)
}

/// Reads `n` values, where `n` is the length of a list that was read before.
pub(super) fn values_of(reader: &mut Reader<'_>, n: usize) -> Result<Vec<u64>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    let position = reader.position();
    let (form, shift) = form(reader)?;
    if form == EQUAL {
        let value = reader.number()?;
        return if shift == 0 {
            Ok(vec![value; n])
        } else {
            bad(position, "a list of equal values must not have a shift")
        };
    }
    if form == BITMAP {
        return bad(position, "a list of values must not be a bitmap");
    }
    let mut list = Vec::with_capacity(n.min(reader.left()));
    terms(reader, form, shift, n, &mut list, |term| term as u64)?;
    Ok(list)
}

fn form(reader: &mut Reader<'_>) -> Result<(u8, u32)> {
    let byte = reader.byte()?;
    Ok((byte & 7, u32::from(byte >> 3)))
}

/// Reads `n` terms, and appends the result of `each` for every term.
fn terms<T>(
    reader: &mut Reader<'_>,
    form: u8,
    shift: u32,
    n: usize,
    list: &mut Vec<T>,
    mut each: impl FnMut(i64) -> T,
) -> Result<()> {
    let position = reader.position();
    match form {
        0..=PACKED_MAX => {
            let low = reader.signed()?;
            let Some(bytes) = n.checked_mul(1 << form) else { return bad(position, "a list is too long") };
            let bytes = reader.bytes(bytes)?;
            let mut term = |above: u64| each(low.wrapping_add(above as i64) << shift);
            match form {
                0 => list.extend(bytes.iter().map(|byte| term((*byte).into()))),
                1 => list
                    .extend(bytes.as_chunks().0.iter().map(|bytes| term(u16::from_le_bytes(*bytes).into()))),
                2 => list
                    .extend(bytes.as_chunks().0.iter().map(|bytes| term(u32::from_le_bytes(*bytes).into()))),
                _ => list.extend(bytes.as_chunks().0.iter().map(|bytes| term(u64::from_le_bytes(*bytes)))),
            }
        }
        VARINT => {
            for _ in 0..n {
                list.push(each(unzigzag(reader.number()?) << shift));
            }
        }
        _ => return bad(position, "a list has an unknown form"),
    }
    Ok(())
}

fn bitmap(reader: &mut Reader<'_>, first: i64, n: usize, shift: u32) -> Result<Vec<i64>> {
    let position = reader.position();
    let units = reader.number()?;
    if units / 8 >= reader.left() as u64 {
        return bad(position, "a bitmap is longer than the message");
    }
    let map = reader.bytes(bitmap_bytes(units))?;
    let set: usize = map.iter().map(|byte| byte.count_ones() as usize).sum();
    let top = map[map.len() - 1].checked_ilog2();
    if set != n || map[0] & 1 == 0 || top.map(u64::from) != Some(units % 8) {
        return bad(position, "the bits of a bitmap do not match its length and its number of entries");
    }
    let mut list = Vec::with_capacity(n);
    let mut at = 0_u64;
    let (words, rest) = map.as_chunks::<8>();
    for word in words {
        put_bits(&mut list, u64::from_le_bytes(*word), at, first, shift);
        at += 64;
    }
    for byte in rest {
        put_bits(&mut list, u64::from(*byte), at, first, shift);
        at += 8;
    }
    Ok(list)
}

fn put_bits(list: &mut Vec<i64>, mut word: u64, at: u64, first: i64, shift: u32) {
    while word != 0 {
        let unit = at + u64::from(word.trailing_zeros());
        list.push(first.wrapping_add((unit as i64) << shift));
        word &= word - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{displacements, put_displacements, put_values, values_of};
    use crate::wire::WireError;
    use crate::wire::number::Reader;

    /// The number of bytes of a list on the wire. Checks that the list can be decoded, and that no prefix
    /// of it can.
    fn bytes_of(list: &[i64]) -> usize {
        let mut out = Vec::new();
        put_displacements(&mut out, list);
        let mut reader = Reader::new(&out, 0);
        assert_eq!(displacements(&mut reader).as_deref(), Ok(list));
        assert_eq!(reader.left(), 0);
        for cut in (0..out.len()).step_by(if cfg!(miri) { 29 } else { 1 }) {
            assert!(
                displacements(&mut Reader::new(&out[..cut], 0)).is_err(),
                "accepted {cut} of {} bytes",
                out.len()
            );
        }
        out.len()
    }

    fn value_bytes_of(list: &[u64]) -> usize {
        let mut out = Vec::new();
        put_values(&mut out, list.iter().copied());
        let mut reader = Reader::new(&out, 0);
        assert_eq!(values_of(&mut reader, list.len()).as_deref(), Ok(list));
        assert_eq!(reader.left(), 0);
        out.len()
    }

    #[test]
    fn displacements_take_the_shortest_form() {
        let head = 6;
        let squares = |n: i64| (0..n).map(|i| i * i * 8).collect::<Vec<_>>();
        assert_eq!(bytes_of(&[]), 1);
        assert_eq!(bytes_of(&[i64::MIN]), 11);
        assert!(bytes_of(&squares(100)) <= 100 + head, "each term takes one byte after a shift by three");
        if !cfg!(miri) {
            assert!(bytes_of(&squares(1000)) <= 2 * 1000 + head);
        }
        let mut jump: Vec<i64> = (0..100).map(|i| i * (i % 3) * 4).collect();
        jump[50] = 1 << 50;
        assert!(bytes_of(&jump) < 250, "the list is sent as varints");
        let dense: Vec<i64> = (0..1000).filter(|i| i % 5 != 3).map(|i| 40 + i * 8).collect();
        assert!(bytes_of(&dense) <= 1000 / 8 + head, "each place takes one bit");
        let wild: Vec<i64> = (0..100_i64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)).collect();
        assert!(bytes_of(&wild) <= 99 * 8 + 23);
        bytes_of(&[i64::MAX, i64::MIN, 0, i64::MAX, -1]);
        bytes_of(&[i64::MIN, i64::MAX]);
        bytes_of(&[0, 0, 0]);
        bytes_of(&[i64::MIN, 0, i64::MAX]);
    }

    #[test]
    fn values_take_the_shortest_form() {
        assert_eq!(value_bytes_of(&[]), 0);
        assert_eq!(value_bytes_of(&[7; 1000]), 2);
        assert_eq!(value_bytes_of(&(0..200).collect::<Vec<_>>()), 202);
        assert_eq!(
            value_bytes_of(&[0, u64::MAX, 1 << 40]),
            9,
            "the values are sent as numbers, the largest as -1"
        );
        value_bytes_of(&[1 << 63, 0, 1 << 62]);
        value_bytes_of(&[u64::MAX, u64::MAX]);
    }

    #[test]
    fn malformed_lists_are_refused() {
        let read = |bytes: &[u8]| displacements(&mut Reader::new(bytes, 0));
        let list = |position, what| Err(WireError::List { position, what });
        let room = "a list has more entries than the message has room for";
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 1, 1]), list(0, room));
        assert_eq!(read(&[3, 0, super::EQUAL, 1]), list(3, "a list has an unknown form"));
        let bits = "the bits of a bitmap do not match its length and its number of entries";
        assert_eq!(read(&[3, 0, super::BITMAP, 7, 0b1000_0010]), list(3, bits));
        assert_eq!(read(&[3, 0, super::BITMAP, 7, 0b1000_0001]), list(3, bits));
        assert_eq!(read(&[2, 0, super::BITMAP, 6, 0b1000_0001]), list(3, bits));
        assert_eq!(read(&[2, 0, super::BITMAP, 8, 0b1000_0001, 0]), list(3, bits));
        assert_eq!(read(&[2, 0, super::BITMAP, 7, 0b1000_0001]), Ok(vec![0, 7]));
        assert_eq!(read(&[2, 0, super::BITMAP, 70, 1]), list(3, "a bitmap is longer than the message"));
    }
}
