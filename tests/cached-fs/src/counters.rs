//! What a mount has done, as exact numbers.

/// Numbers of one mount since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Pages read from the backing file into the cache.
    pub(crate) pages_filled: u64,
    /// Dirty pages written to the backing file.
    pub(crate) pages_written: u64,
    /// Write-backs of at least one dirty page of one file.
    pub(crate) write_backs: u64,
    /// Write-backs that ended with an error. Their dirty pages were lost.
    pub(crate) failed_write_backs: u64,
    /// Times that the clean pages of a file were dropped and the size was taken again.
    pub(crate) revalidations: u64,
    /// Uses of a cached clean page, by a read or by a write of a part, whose bytes differed from the backing
    /// file at that moment.
    pub(crate) stale_page_uses: u64,
    /// Bytes of the backing file that a write-back changed, although no program on this mount had written
    /// them since the write-back before: bytes of other nodes that were lost.
    pub(crate) foreign_bytes: u64,
    /// Locks obtained.
    pub(crate) locks: u64,
}

impl Counters {
    /// One line for each counter: name, blank, number.
    pub(crate) fn text(&self) -> String {
        let rows = [
            ("pages_filled", self.pages_filled),
            ("pages_written", self.pages_written),
            ("write_backs", self.write_backs),
            ("failed_write_backs", self.failed_write_backs),
            ("revalidations", self.revalidations),
            ("stale_page_uses", self.stale_page_uses),
            ("foreign_bytes", self.foreign_bytes),
            ("locks", self.locks),
        ];
        rows.map(|(name, number)| format!("{name} {number}\n")).concat()
    }
}
