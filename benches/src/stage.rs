//! The memory that all contenders of a row share, so that no contender has warmer or luckier pages than
//! another.

use crate::random::Random;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Bytes that begin at a cache line.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` bytes of `value`. Every page has been written to.
    pub(crate) fn filled(len: usize, value: u8) -> Self {
        // The first value is not zero: the system maps zeroed memory to one shared page, which is read
        // faster than any other memory.
        let mut bytes = vec![1; len + LINE_BYTES];
        bytes.fill(value);
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        Self { bytes, start, len }
    }

    /// Random doubles between 1 and 2, no two alike. Every conversion of them is in range.
    pub(crate) fn doubles(len: usize, seed: u64) -> Self {
        let mut buffer = Self::filled(len, 0);
        let mut random = Random::new(seed);
        for chunk in buffer.as_mut().chunks_mut(size_of::<f64>()) {
            let value = 1.0 + (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            chunk.copy_from_slice(&value.to_ne_bytes()[..chunk.len()]);
        }
        buffer
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}
