//! The cached pages of one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::counters::Counters;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The times of the last change of content and of attributes, in seconds and nanoseconds: what an NFS client
/// takes for a change counter.
type Change = [(i64, i64); 2];

/// A page of the file. Bytes from the locally known size on were zero when the page was filled.
#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    /// The bytes that were written here since the last write-back, if the page is dirty.
    written: Option<Vec<bool>>,
}

/// The pages of one file, and its size as far as this mount knows.
#[derive(Debug)]
pub(crate) struct Pages {
    table: BTreeMap<u64, Page>,
    /// The dirty pages of the table.
    dirty: BTreeSet<u64>,
    size: u64,
    change: Change,
}

fn change_of(file: &File) -> io::Result<Change> {
    let metadata = file.metadata()?;
    Ok([(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())])
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes.
fn read_full(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Splits the bytes of a file from `offset` on into parts of pages: page, bytes of the page.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (page_bytes, end) = (PAGE_BYTES as u64, offset + bytes as u64);
    (offset / page_bytes..end.div_ceil(page_bytes)).map(move |page| {
        let start = page * page_bytes;
        let first = offset.saturating_sub(start) as usize;
        (page, first..(end - start).min(page_bytes) as usize)
    })
}

impl Pages {
    /// No pages, and the size of the backing file.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        Ok(Self {
            table: BTreeMap::new(),
            dirty: BTreeSet::new(),
            size: file.metadata()?.len(),
            change: change_of(file)?,
        })
    }

    /// Number of dirty pages.
    pub(crate) fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// The end of the last byte that was written here since the last write-back.
    pub(crate) fn dirty_end(&self) -> u64 {
        let Some(&page) = self.dirty.last() else { return 0 };
        let written = self.table[&page].written.as_ref();
        let bytes = written.and_then(|written| written.iter().rposition(|&written| written));
        page * PAGE_BYTES as u64 + bytes.map_or(0, |last| last as u64 + 1)
    }

    /// Whether the backing file was changed since the last revalidation, other than by write-backs from here.
    pub(crate) fn has_changed(&self, file: &File) -> io::Result<bool> {
        Ok(change_of(file)? != self.change)
    }

    /// Drops the clean pages, and takes size and change counter of the backing file.
    pub(crate) fn revalidate(&mut self, file: &File, counters: &mut Counters) -> io::Result<()> {
        counters.revalidations += 1;
        self.table.retain(|_, page| page.written.is_some());
        self.change = change_of(file)?;
        self.size = file.metadata()?.len().max(self.dirty_end());
        Ok(())
    }

    /// Number of bytes of a page that lie below the locally known size.
    fn valid_bytes(&self, page: u64) -> usize {
        self.size.saturating_sub(page * PAGE_BYTES as u64).min(PAGE_BYTES as u64) as usize
    }

    /// The bytes of a page as the backing file has them, zero from the locally known size on.
    fn backing_bytes(&self, file: &File, page: u64) -> io::Result<Vec<u8>> {
        let (mut bytes, valid) = (vec![0; PAGE_BYTES], self.valid_bytes(page));
        read_full(file, page * PAGE_BYTES as u64, &mut bytes[..valid])?;
        Ok(bytes)
    }

    /// The page for a read or a write of a part. Fills the page if it is absent.
    fn page(&mut self, file: &File, page: u64, counters: &mut Counters) -> io::Result<&mut Page> {
        let is_dirty = self.table.get(&page).map(|page| page.written.is_some());
        if is_dirty != Some(true) {
            let bytes = self.backing_bytes(file, page)?;
            match self.table.get(&page) {
                None => {
                    counters.pages_filled += 1;
                    self.table.insert(page, Page { bytes, written: None });
                }
                Some(cached) => counters.stale_page_uses += u64::from(cached.bytes != bytes),
            }
        }
        Ok(self.table.get_mut(&page).expect("the page is present or was inserted"))
    }

    /// Reads up to `bytes` bytes, up to the locally known size.
    pub(crate) fn read(
        &mut self,
        file: &File,
        offset: u64,
        bytes: usize,
        counters: &mut Counters,
    ) -> io::Result<Vec<u8>> {
        let bytes = self.size.saturating_sub(offset).min(bytes as u64) as usize;
        let mut data = Vec::with_capacity(bytes);
        if bytes == 0 {
            return Ok(data);
        }
        for (page, part) in parts(offset, bytes) {
            data.extend_from_slice(&self.page(file, page, counters)?.bytes[part]);
        }
        Ok(data)
    }

    /// Writes into the pages.
    pub(crate) fn write(
        &mut self,
        file: &File,
        offset: u64,
        data: &[u8],
        counters: &mut Counters,
    ) -> io::Result<()> {
        let mut rest = data;
        for (page, part) in parts(offset, data.len()) {
            let (now, later) = rest.split_at(part.len());
            rest = later;
            if part.len() == PAGE_BYTES {
                let written = Some(vec![true; PAGE_BYTES]);
                self.table.insert(page, Page { bytes: now.to_vec(), written });
            } else {
                let content = self.page(file, page, counters)?;
                content.bytes[part.clone()].copy_from_slice(now);
                content.written.get_or_insert_with(|| vec![false; PAGE_BYTES])[part.clone()].fill(true);
            }
            self.dirty.insert(page);
            self.size = self.size.max(page * PAGE_BYTES as u64 + part.end as u64);
        }
        Ok(())
    }

    /// Writes all dirty pages to the backing file, each whole up to the locally known size. With `failure`,
    /// fails instead. After an error the dirty pages are dropped, as an NFS client does, and the size is that
    /// of the backing file.
    pub(crate) fn write_back(
        &mut self,
        file: &File,
        failure: Option<i32>,
        counters: &mut Counters,
    ) -> io::Result<()> {
        counters.write_backs += 1;
        let ended = match failure {
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => self.write_dirty(file, counters),
        };
        if ended.is_err() {
            counters.failed_write_backs += 1;
            for page in std::mem::take(&mut self.dirty) {
                self.table.remove(&page);
            }
            self.size = file.metadata()?.len();
        }
        ended
    }

    fn write_dirty(&mut self, file: &File, counters: &mut Counters) -> io::Result<()> {
        let is_own = !self.has_changed(file)?;
        let mut old = vec![0; PAGE_BYTES];
        while let Some(&page) = self.dirty.first() {
            let (start, valid) = (page * PAGE_BYTES as u64, self.valid_bytes(page));
            let content = self.table.get_mut(&page).expect("dirty pages are in the table");
            let there = read_full(file, start, &mut old[..valid])?;
            let bytes = content.bytes[..there].iter().zip(&old).zip(content.written.iter().flatten());
            counters.foreign_bytes +=
                bytes.filter(|((new, old), written)| !**written && new != old).count() as u64;
            file.write_all_at(&content.bytes[..valid], start)?;
            counters.pages_written += 1;
            content.written = None;
            self.dirty.remove(&page);
        }
        if is_own { self.accept_change(file) } else { Ok(()) }
    }

    /// Takes the change counter of the backing file after a change that came from this mount.
    pub(crate) fn accept_change(&mut self, file: &File) -> io::Result<()> {
        self.change = change_of(file)?;
        Ok(())
    }

    /// Sets the locally known size. No page may be dirty.
    pub(crate) fn truncate(&mut self, size: u64) {
        self.table.split_off(&size.div_ceil(PAGE_BYTES as u64));
        if let Some(last) = self.table.get_mut(&(size / PAGE_BYTES as u64)) {
            last.bytes[(size % PAGE_BYTES as u64) as usize..].fill(0);
        }
        self.size = size;
    }

    /// Takes note of a write that went past the cache: drops the pages of these bytes. No page may be dirty.
    pub(crate) fn written_directly(&mut self, offset: u64, bytes: usize) {
        for (page, _) in parts(offset, bytes) {
            self.table.remove(&page);
        }
        self.size = self.size.max(offset + bytes as u64);
    }
}
