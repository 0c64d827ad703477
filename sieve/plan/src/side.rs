//! Where the bytes of one rank's part of an access lie in the file.

use std::ops::Range;

use capulet_datatype::Tiled;

/// A byte of the access lies beyond the largest file offset, 2^63 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the access reaches beyond the largest file offset")]
pub struct BeyondLargestOffset;

/// Where the bytes of one rank's part of an access lie in the file.
#[derive(Debug, Clone)]
pub struct FileSide {
    file: Tiled,
    displacement_bytes: i64,
    file_start: u64,
    bytes: u64,
}

impl AsRef<FileSide> for FileSide {
    fn as_ref(&self) -> &FileSide {
        self
    }
}

impl FileSide {
    /// The `bytes` bytes that start `start` bytes into the stream of a view. The view is `filetype`,
    /// tiled from `displacement_bytes` on.
    ///
    /// # Errors
    /// [`BeyondLargestOffset`] if a byte would lie beyond the largest file offset.
    ///
    /// # Panics
    /// If `bytes` is not 0 and the filetype is empty. Callers check the filetype.
    pub fn of_view(
        displacement_bytes: u64,
        filetype: &Tiled,
        start: u64,
        bytes: u64,
    ) -> Result<Self, BeyondLargestOffset> {
        let layout = filetype.layout().clone();
        let tile_bytes = layout.size();
        if bytes == 0 {
            let file = Tiled::new(layout, 0).map_err(|_| BeyondLargestOffset)?;
            return Ok(Self { file, displacement_bytes: 0, file_start: 0, bytes });
        }
        assert!(tile_bytes > 0, "an empty filetype holds no bytes");
        let last = start.checked_add(bytes - 1).ok_or(BeyondLargestOffset)?;
        // Whole tiles before the first byte go into the displacement. So an access inside one tile is
        // monotone even if tiles overlap, as they do if the size of a filetype exceeds its extent.
        let first_tile = start / tile_bytes;
        let count = last / tile_bytes - first_tile + 1;
        let origin = i128::from(displacement_bytes) + i128::from(first_tile) * i128::from(layout.extent());
        let file = Tiled::new(layout, count).map_err(|_| BeyondLargestOffset)?;
        if origin + i128::from(file.true_ub()) > i128::from(i64::MAX) || origin > i128::from(i64::MAX) {
            return Err(BeyondLargestOffset);
        }
        Ok(Self { file, displacement_bytes: origin as i64, file_start: start % tile_bytes, bytes })
    }

    /// The `bytes` bytes from byte `file_start` of the stream of `file` on. The offsets of `file` count
    /// from `displacement_bytes`. `None` if an offset is not one of a file, if the stream is shorter, or
    /// if offsets decrease.
    pub fn new(file: Tiled, displacement_bytes: i64, file_start: u64, bytes: u64) -> Option<Self> {
        let lowest = i128::from(displacement_bytes) + i128::from(file.true_lb());
        let end = i128::from(displacement_bytes) + i128::from(file.true_ub());
        let fits = file_start.checked_add(bytes).is_some_and(|end| end <= file.size());
        let is_file = lowest >= 0 && end <= i128::from(i64::MAX);
        (fits && is_file && file.is_monotone()).then_some(Self {
            file,
            displacement_bytes,
            file_start,
            bytes,
        })
    }

    /// Bytes to move.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The part of the view that holds the access. Its offsets count from [`Self::displacement_bytes`].
    #[inline]
    pub fn file(&self) -> &Tiled {
        &self.file
    }

    /// The file offset, in bytes, from which the offsets of [`Self::file`] count.
    #[inline]
    pub fn displacement_bytes(&self) -> i64 {
        self.displacement_bytes
    }

    /// The byte of the stream of [`Self::file`] at which the access starts.
    #[inline]
    pub fn file_start(&self) -> u64 {
        self.file_start
    }

    /// Whether the file offsets of the access never decrease.
    pub fn is_monotone(&self) -> bool {
        self.bytes == 0 || self.file.is_monotone()
    }

    /// The file offset of byte `at` of the access (`at < bytes`).
    pub fn offset_of(&self, at: u64) -> u64 {
        debug_assert!(at < self.bytes);
        (self.displacement_bytes + self.file.offset_of(self.file_start + at)) as u64
    }

    /// How many bytes of the access lie below the file offset `offset`. For monotone accesses only.
    pub fn bytes_below(&self, offset: u64) -> u64 {
        let relative = i128::from(offset) - i128::from(self.displacement_bytes);
        let Ok(relative) = i64::try_from(relative) else {
            return if relative > 0 { self.bytes } else { 0 };
        };
        self.file.bytes_below(relative).saturating_sub(self.file_start).min(self.bytes)
    }

    /// The bytes of the access, counted from its start, that lie in the range `file` of the file and are
    /// at or after byte `from` of the access.
    pub fn within(&self, file: &Range<u64>, from: u64) -> Range<u64> {
        let start = self.bytes_below(file.start).max(from);
        start..self.bytes_below(file.end).max(start)
    }

    /// The first file offset and the offset after the last; empty for an access of 0 bytes.
    pub fn span(&self) -> Range<u64> {
        if self.bytes == 0 {
            return 0..0;
        }
        if self.is_monotone() {
            return self.offset_of(0)..self.offset_of(self.bytes - 1) + 1;
        }
        let low = self.displacement_bytes + self.file.true_lb();
        let high = self.displacement_bytes + self.file.true_ub();
        low as u64..high as u64
    }

    /// A number in which every bit is set that is set in the file offset or the length of any run. A power
    /// of two that divides the number divides all of them. 0 for an access of 0 bytes.
    pub fn grain(&self) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        // Runs lie at multiples of the granule, apart from the runs that the ends of the access cut.
        let first = self.file_start > 0 || self.bytes < self.file.size();
        let torn = if first { self.offset_of(0) | (self.offset_of(self.bytes - 1) + 1) } else { 0 };
        self.file.granule() | self.displacement_bytes as u64 | torn
    }

    /// The number of runs of the file that the access has.
    pub fn run_count(&self) -> u64 {
        self.run_count_of(0..self.bytes)
    }

    /// The number of runs of the file that the bytes `part` of the access, counted from its start,
    /// consist of.
    pub fn run_count_of(&self, part: Range<u64>) -> u64 {
        self.file.block_count(self.file_start + part.start..self.file_start + part.end).unwrap_or(1)
    }
}
