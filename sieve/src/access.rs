//! One rank's part of an access: which bytes of the file, which bytes of memory, in which order.

use std::ops::Range;

use capulet_datatype::Tiled;
pub use capulet_plan::side::{BeyondLargestOffset, FileSide};

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

/// One rank's part of an access.
#[derive(Debug, Clone)]
pub struct Access {
    side: FileSide,
    memory: Memory,
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
        let side = FileSide::of_view(displacement_bytes, filetype, start, bytes)?;
        Ok(Self { side, memory })
    }

    /// Where its bytes lie in the file.
    pub fn side(&self) -> &FileSide {
        &self.side
    }

    /// Bytes to move.
    pub fn bytes(&self) -> u64 {
        self.side.bytes()
    }

    /// User memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The part of the view that the access lies in. Its offsets count from [`Self::displacement_bytes`].
    pub fn file(&self) -> &Tiled {
        self.side.file()
    }

    /// Where the offsets of [`Self::file`] count from, in bytes of the file.
    pub fn displacement_bytes(&self) -> i64 {
        self.side.displacement_bytes()
    }

    /// Where the access starts in the stream of [`Self::file`], bytes.
    pub fn file_start(&self) -> u64 {
        self.side.file_start()
    }

    /// Whether the file offsets of the access never decrease.
    pub fn is_monotone(&self) -> bool {
        self.side.is_monotone()
    }

    /// The file offset of byte `at` of the access (`at < bytes`).
    pub fn offset_of(&self, at: u64) -> u64 {
        self.side.offset_of(at)
    }

    /// How many bytes of the access lie below the file offset `offset`. Monotone accesses only.
    pub fn bytes_below(&self, offset: u64) -> u64 {
        self.side.bytes_below(offset)
    }

    /// First file offset and one past the last; empty for an access of 0 bytes.
    pub fn span(&self) -> Range<u64> {
        self.side.span()
    }

    /// A number in which every bit is set that the file offset or the length of any run has: a power of two that divides it
    /// divides them all. 0 for an access of 0 bytes.
    pub fn grain(&self) -> u64 {
        self.side.grain()
    }

    /// How many runs of user memory the access has.
    pub fn memory_run_count(&self) -> u64 {
        self.memory.tiled.block_count(0..self.bytes()).unwrap_or(1)
    }

    /// How many runs of the file the access has.
    pub fn run_count(&self) -> u64 {
        self.side.run_count()
    }
}

impl AsRef<FileSide> for Access {
    fn as_ref(&self) -> &FileSide {
        &self.side
    }
}
