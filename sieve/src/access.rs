//! One rank's part of an access: which bytes of the file, which bytes of memory, in which order.

use capulet_datatype::Tiled;

/// User memory: a layout at an address.
///
/// The address may be null (`MPI_BOTTOM` with absolute displacements). Whoever makes one promises that every byte which
/// the layout reaches from `base` may be read, and for a reading access written, until the access is over.
#[derive(Debug, Clone)]
pub struct Memory {
    base: *mut u8,
    tiled: Tiled,
}

// SAFETY: `Memory` is an address and a value. Whoever made it promised (see `Memory::new`) that the bytes may be used until
// the access is over, from whichever thread carries it out; nothing in it is tied to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Memory at `base`, laid out as `tiled`.
    ///
    /// # Safety
    /// Every byte at `base + offset`, for each offset of `tiled`, must be valid for reads, and for writes if the access
    /// reads from the file, and must not be used otherwise, until the access is over.
    pub unsafe fn new(base: *mut u8, tiled: Tiled) -> Self {
        Self { base, tiled }
    }

    /// The address that the layout's offsets count from.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The layout.
    pub fn tiled(&self) -> &Tiled {
        &self.tiled
    }
}

/// The bytes of an access do not fit the offsets of a file (2^63 - 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the access reaches beyond the largest file offset")]
pub struct BeyondLargestOffset;

/// One rank's part of an access.
#[derive(Debug, Clone)]
pub struct Access {
    file: Tiled,
    displacement_bytes: i64,
    file_start: u64,
    memory: Memory,
    bytes: u64,
}

impl Access {
    /// The access of `bytes` bytes that starts `start` bytes into the stream of a view: `filetype` tiled from
    /// `displacement_bytes` on. The memory must hold at least `bytes` bytes.
    ///
    /// # Errors
    /// [`BeyondLargestOffset`] if a byte would lie beyond the largest file offset.
    ///
    /// # Panics
    /// If `bytes` is not 0 and the filetype is empty, or the memory too small: callers check both.
    pub fn new(
        displacement_bytes: u64,
        filetype: &Tiled,
        start: u64,
        memory: Memory,
        bytes: u64,
    ) -> Result<Self, BeyondLargestOffset> {
        assert!(memory.tiled.size() >= bytes, "memory holds fewer bytes than the access moves");
        let layout = filetype.layout().clone();
        let tile_bytes = layout.size();
        if bytes == 0 {
            let file = Tiled::new(layout, 0).map_err(|_| BeyondLargestOffset)?;
            return Ok(Self { file, displacement_bytes: 0, file_start: 0, memory, bytes });
        }
        assert!(tile_bytes > 0, "an empty filetype holds no bytes");
        let last = start.checked_add(bytes - 1).ok_or(BeyondLargestOffset)?;
        // Whole tiles before the first byte go into the displacement, so that an access inside one tile is
        // monotone even where tiles overlap (a filetype whose size exceeds its extent).
        let first_tile = start / tile_bytes;
        let count = last / tile_bytes - first_tile + 1;
        let origin = i128::from(displacement_bytes) + i128::from(first_tile) * i128::from(layout.extent());
        let file = Tiled::new(layout, count).map_err(|_| BeyondLargestOffset)?;
        if origin + i128::from(file.true_ub()) > i128::from(i64::MAX) || origin > i128::from(i64::MAX) {
            return Err(BeyondLargestOffset);
        }
        Ok(Self { file, displacement_bytes: origin as i64, file_start: start % tile_bytes, memory, bytes })
    }

    /// Bytes to move.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// User memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The part of the view that the access lies in. Its offsets count from [`Self::displacement_bytes`].
    pub fn file(&self) -> &Tiled {
        &self.file
    }

    /// Where the offsets of [`Self::file`] count from, in bytes of the file.
    pub fn displacement_bytes(&self) -> i64 {
        self.displacement_bytes
    }

    /// Where the access starts in the stream of [`Self::file`], bytes.
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

    /// How many bytes of the access lie below the file offset `offset`. Monotone accesses only.
    pub fn bytes_below(&self, offset: u64) -> u64 {
        let relative = i128::from(offset) - i128::from(self.displacement_bytes);
        let Ok(relative) = i64::try_from(relative) else {
            return if relative > 0 { self.bytes } else { 0 };
        };
        self.file.bytes_below(relative).saturating_sub(self.file_start).min(self.bytes)
    }

    /// First file offset and one past the last; empty for an access of 0 bytes.
    pub fn span(&self) -> std::ops::Range<u64> {
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

    /// A number in which every bit is set that the file offset or the length of any run has: a power of two that divides it
    /// divides them all. 0 for an access of 0 bytes.
    pub fn grain(&self) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        // Runs lie at multiples of the granule, but for those that the ends of the access tear.
        let first = self.file_start > 0 || self.bytes < self.file.size();
        let torn = if first { self.offset_of(0) | (self.offset_of(self.bytes - 1) + 1) } else { 0 };
        self.file.granule() | self.displacement_bytes as u64 | torn
    }

    /// How many runs of user memory the access has.
    pub fn memory_run_count(&self) -> u64 {
        self.memory.tiled.block_count(0..self.bytes).unwrap_or(1)
    }

    /// How many runs of the file the access has.
    pub fn run_count(&self) -> u64 {
        let stream = self.file_start..self.file_start + self.bytes;
        self.file.block_count(stream).unwrap_or(1)
    }
}
