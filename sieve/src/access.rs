//! One rank's part of an access: which bytes of the file, which bytes of memory, in which order.

use std::ops::Range;

use capulet_datatype::Tiled;
pub use capulet_plan::side::{BeyondLargestOffset, FileSide};

/// User memory: a layout at an address.
///
/// The address may be null (`MPI_BOTTOM` with absolute displacements). The maker of a value promises that
/// every byte which the layout reaches from `base` may be read, and written if the access reads from the
/// file, until the access is over.
#[derive(Debug, Clone)]
pub struct Memory {
    base: *mut u8,
    tiled: Tiled,
}

// SAFETY: `# Safety` of `Memory::new`: the bytes may be used until the access is over, by the thread that
// carries it out. An address and a layout are plain values, and no part of them is tied to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Memory at `base`, with the layout `tiled`.
    ///
    /// # Safety
    /// Every byte at `base + offset`, for each offset of `tiled`, must be valid for reads, and for writes if
    /// the access reads from the file, and must not be used otherwise, during every access that is made from
    /// this value or a clone of it. Two such accesses at the same time are two uses, if one of them reads
    /// from the file.
    pub unsafe fn new(base: *mut u8, tiled: Tiled) -> Self {
        Self { base, tiled }
    }

    /// The address from which the offsets of the layout count.
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
    /// The access of `bytes` bytes that starts `start` bytes into the stream of a view. The view is
    /// `filetype`, tiled from `displacement_bytes` on. The memory must hold at least `bytes` bytes.
    ///
    /// # Errors
    /// [`BeyondLargestOffset`] if a byte would lie beyond the largest file offset.
    ///
    /// # Panics
    /// If `bytes` is not 0 and the filetype is empty, or if the memory is too small. Callers check both.
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

    /// Where the bytes of the access lie in the file.
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

    /// The part of the view that holds the access. Its offsets count from [`Self::displacement_bytes`].
    pub fn file(&self) -> &Tiled {
        self.side.file()
    }

    /// The file offset, in bytes, from which the offsets of [`Self::file`] count.
    pub fn displacement_bytes(&self) -> i64 {
        self.side.displacement_bytes()
    }

    /// The byte of the stream of [`Self::file`] at which the access starts.
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

    /// How many bytes of the access lie below the file offset `offset`. For monotone accesses only.
    pub fn bytes_below(&self, offset: u64) -> u64 {
        self.side.bytes_below(offset)
    }

    /// The first file offset and the offset after the last; empty for an access of 0 bytes.
    pub fn span(&self) -> Range<u64> {
        self.side.span()
    }

    /// A number in which every bit is set that is set in the file offset or the length of any run. A power
    /// of two that divides the number divides all of them. 0 for an access of 0 bytes.
    pub fn grain(&self) -> u64 {
        self.side.grain()
    }

    /// The number of runs of user memory that the access has.
    pub fn memory_run_count(&self) -> u64 {
        self.memory.tiled.block_count(0..self.bytes()).unwrap_or(1)
    }

    /// The number of runs of the file that the access has.
    pub fn run_count(&self) -> u64 {
        self.side.run_count()
    }
}

impl AsRef<FileSide> for Access {
    fn as_ref(&self) -> &FileSide {
        &self.side
    }
}
