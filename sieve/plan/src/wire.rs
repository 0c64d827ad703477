//! How a rank tells another node where its bytes lie: by its view, or by a list of runs.

use crate::side::FileSide;

/// Bytes of a message fragment before its description.
pub const HEADER_BYTES: usize = 28;
/// Bytes of the description of a view before its layout.
pub const VIEW_HEAD_BYTES: usize = 32;
/// The longest description of a view, in bytes. Decoding one may take a thousand times its memory.
pub const VIEW_BYTES_MAX: usize = 4096;
/// The longest encoding of one run, in bytes.
pub const RUN_BYTES_MAX: usize = 20;

/// Bytes of an entry of an area before its message fragment.
pub const ENTRY_BYTES: usize = 8;
/// The longest description by runs, in bytes. If it does not suffice, more fragments follow.
pub const RUNS_BYTES_MAX: usize = 64 << 10;
/// Greatest sum of the areas of a node's ranks, in bytes. Such a message, with its head, is shorter than
/// 1 GiB.
pub const AREAS_BYTES_MAX: usize = (1 << 30) - (1 << 16);

/// Up to this many nodes, the leaders reduce directly. Equal to `capulet_comm::tree::DIRECT_MAX`.
pub const DIRECT_NODES_MAX: u64 = 4;

/// Encodes the description of a view. `None` if it is longer than `bytes_max`; then runs are sent where
/// they are needed.
pub fn encode_view(side: &FileSide, bytes_max: usize) -> Option<Vec<u8>> {
    let layout = side.file().layout();
    // A long list is refused before it is encoded.
    if layout.heap_bytes() > 8 * bytes_max {
        return None;
    }
    let layout = layout.to_wire().ok()?;
    let mut encoded = Vec::with_capacity(VIEW_HEAD_BYTES + layout.len());
    encoded.extend_from_slice(&side.displacement_bytes().to_le_bytes());
    for number in [side.file_start(), side.bytes(), side.file().count()] {
        encoded.extend_from_slice(&number.to_le_bytes());
    }
    encoded.extend_from_slice(&layout);
    (encoded.len() <= bytes_max).then_some(encoded)
}

/// Encodes runs in units, from the file offset `origin` on.
#[derive(Debug)]
pub struct RunWriter {
    encoded: Vec<u8>,
    /// Where the last encoded run ends. `open` is the run after it, as offset and bytes, which may still
    /// grow.
    end: u64,
    open: Option<(u64, u64)>,
    unit_bytes: u64,
}

impl RunWriter {
    /// A writer of runs that lie at or after the file offset `origin` and consist of whole units.
    pub fn new(origin: u64, unit_bytes: u64) -> Self {
        Self { encoded: Vec::new(), end: origin, open: None, unit_bytes }
    }

    /// Bytes of the description without the last run.
    pub fn encoded_bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Upper bound of the bytes of the description with one run more.
    pub fn bytes_with_one_more(&self) -> usize {
        self.encoded.len() + 2 * RUN_BYTES_MAX
    }

    /// Adds a run of the file. Runs are added in rising order.
    pub fn push(&mut self, offset: u64, bytes: u64) {
        match &mut self.open {
            Some((start, len)) if *start + *len == offset => *len += bytes,
            _ => {
                self.close();
                self.open = Some((offset, bytes));
            }
        }
    }

    fn close(&mut self) {
        if let Some((offset, bytes)) = self.open.take() {
            push_number(&mut self.encoded, (offset - self.end) / self.unit_bytes);
            push_number(&mut self.encoded, bytes / self.unit_bytes);
            self.end = offset + bytes;
        }
    }

    /// Returns the description.
    pub fn finish(mut self) -> Vec<u8> {
        self.close();
        self.encoded
    }
}

fn push_number(encoded: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        encoded.push(number as u8 | 0x80);
        number >>= 7;
    }
    encoded.push(number as u8);
}
