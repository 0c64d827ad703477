//! Numbers in a message: seven bits per byte, the lowest first. The highest bit of a byte is set if more
//! bytes follow.

use super::error::{Result, WireError};

/// Length of the longest number (64 bits), in bytes.
const BYTES_MAX: usize = 10;

pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Number of bytes that `value` takes.
pub(super) fn varint_bytes(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// The part of a message that has not been read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    message: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads from `position` to the end of `message`.
    pub(super) fn new(message: &'a [u8], position: usize) -> Self {
        Self { message, position }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Number of bytes left.
    pub(super) fn left(&self) -> usize {
        self.message.len() - self.position
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let Some(&byte) = self.message.get(self.position) else { return self.truncated() };
        self.position += 1;
        Ok(byte)
    }

    pub(super) fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.left() {
            return self.truncated();
        }
        let bytes = &self.message[self.position..self.position + n];
        self.position += n;
        Ok(bytes)
    }

    fn truncated<T>(&self) -> Result<T> {
        Err(WireError::Truncated { position: self.message.len() })
    }

    /// An unsigned number, which must be in its shortest form.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64> {
        match self.message.get(self.position) {
            Some(&byte) if byte < 0x80 => {
                self.position += 1;
                Ok(byte.into())
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64> {
        let position = self.position;
        let mut value = 0;
        for i in 0..BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if i == BYTES_MAX - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * i);
            if byte < 0x80 {
                if byte == 0 && i > 0 {
                    return Err(WireError::Number { position, what: "a number is longer than it need be" });
                }
                return Ok(value);
            }
        }
        Err(WireError::Number { position, what: "a number does not fit in 64 bits" })
    }

    pub(super) fn signed(&mut self) -> Result<i64> {
        self.number().map(unzigzag)
    }

    /// The size of an element in bytes.
    pub(super) fn small(&mut self) -> Result<u32> {
        let position = self.position;
        let what = "the size of an element does not fit in 32 bits";
        u32::try_from(self.number()?).map_err(|_| WireError::Number { position, what })
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, put, unzigzag, varint_bytes, zigzag};
    use crate::wire::WireError;

    #[test]
    fn numbers_survive_a_round_trip() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]);
        for value in edges {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(bytes.len(), varint_bytes(value), "{value:#x}");
            let mut reader = Reader::new(&bytes, 0);
            assert_eq!((reader.number(), reader.left()), (Ok(value), 0));
            assert_eq!(zigzag(unzigzag(value)), value);
            let position = bytes.len() - 1;
            let cut = Reader::new(&bytes[..position], 0).number();
            assert_eq!(cut, Err(WireError::Truncated { position }));
        }
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
    }

    #[test]
    fn only_the_shortest_form_of_a_number_is_accepted() {
        let read = |bytes: &[u8]| Reader::new(bytes, 0).number();
        let long = Err(WireError::Number { position: 0, what: "a number is longer than it need be" });
        assert_eq!(read(&[0x80, 0]), long);
        assert_eq!(read(&[0xff, 0x80, 0]), long);
        let large = Err(WireError::Number { position: 0, what: "a number does not fit in 64 bits" });
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), large);
        assert_eq!(read(&[0xff; 11]), large);
    }
}
