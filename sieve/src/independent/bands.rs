//! Bands: runs of the file whose bytes alternate in memory, like the variables of a cell. If the runs
//! were moved one after the other, each run would touch every cache line of memory. A band is moved chunk
//! by chunk instead, a chunk of each run at a time, so that the lines are still in the cache for the next
//! run.

use capulet_datatype::{Cursor, Run};
use capulet_drivers::Direction;

use capulet_plan::way::BAND_RUN_MIN_BYTES;

use super::SIEVE_BUFFER_BYTES;
use crate::access::Access;

/// Greatest number of runs of a band, so that a chunk is at least a page.
const RUNS_MAX: usize = (SIEVE_BUFFER_BYTES / PAGE_BYTES) as usize;
const PAGE_BYTES: u64 = BAND_RUN_MIN_BYTES / 2;
/// Greatest chunk. The cache lines of memory that hold a chunk in small pieces fit in a second-level
/// cache.
const CHUNK_MAX_BYTES: u64 = 16 * 1024;
/// Consecutive runs share cache lines of memory if their bytes are at most this far apart.
const LINE_BYTES: u64 = 64;

/// Consecutive runs of an access that have the same length and whose bytes lie side by side in memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// Where the first run begins in the stream of the access.
    start: u64,
    /// Bytes of each run.
    run_bytes: u64,
    /// Offset in the file layout at which each run begins.
    offsets: Vec<i64>,
    /// Bytes of each run that are moved together.
    chunk_bytes: u64,
}

/// A part of one run: its place in the stream of the access, in the file layout and in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunPart {
    pub(super) stream: u64,
    pub(super) offset: i64,
    pub(super) buffer: u64,
}

impl Band {
    /// The band that begins at byte `start` of the access, to which `file` points. `None` if its runs are
    /// better moved one after the other. Leaves the cursor behind `start`.
    ///
    /// Chunks end where pages of the first run end. The runs of a write must have the same place within a
    /// page. Otherwise each chunk would write parts of two pages, which the system may have to read
    /// first.
    pub(super) fn at(access: &Access, direction: Direction, file: &mut Cursor, start: u64) -> Option<Self> {
        if !access.is_monotone() {
            return None;
        }
        let memory = access.memory().tiled();
        let Run { offset, len: run_bytes } = file.next_run(access.bytes() - start)?;
        if run_bytes < BAND_RUN_MIN_BYTES {
            return None;
        }
        let mut offsets = vec![offset];
        let mut place = memory.offset_of(start);
        while offsets.len() < RUNS_MAX {
            let next = start + run_bytes * offsets.len() as u64;
            if next + run_bytes > access.bytes() {
                break;
            }
            let next_place = memory.offset_of(next);
            if next_place.abs_diff(place) > LINE_BYTES {
                break;
            }
            let run = file.next_run(access.bytes() - next)?;
            let lies_alike = (run.offset - offset) % PAGE_BYTES as i64 == 0;
            if run.len != run_bytes || (direction == Direction::Write && !lies_alike) {
                break;
            }
            offsets.push(run.offset);
            place = next_place;
        }
        let chunk_bytes =
            (SIEVE_BUFFER_BYTES / offsets.len() as u64 / PAGE_BYTES * PAGE_BYTES).min(CHUNK_MAX_BYTES);
        (offsets.len() > 1 && run_bytes >= 2 * chunk_bytes).then_some(Self {
            start,
            run_bytes,
            offsets,
            chunk_bytes,
        })
    }

    /// Bytes of each run.
    pub(super) fn run_bytes(&self) -> u64 {
        self.run_bytes
    }

    /// How many bytes of each run are moved next, after the first `done` bytes of each: up to the end of
    /// a page of the first run.
    pub(super) fn next_chunk_bytes(&self, done: u64, displacement_bytes: i64) -> u64 {
        let first = (displacement_bytes + self.offsets[0]) as u64 + done;
        (self.chunk_bytes - first % PAGE_BYTES).min(self.run_bytes - done)
    }

    /// The parts of the runs behind their first `done` bytes, `bytes` bytes of each.
    pub(super) fn parts(&self, done: u64, bytes: u64) -> impl Iterator<Item = RunPart> + '_ {
        self.offsets.iter().zip(0..).map(move |(offset, number)| RunPart {
            stream: self.start + number * self.run_bytes + done,
            offset: offset + done as i64,
            buffer: number * bytes,
        })
    }

    /// How many bytes of the access, from its start, are moved. The first `done` bytes of each run are
    /// moved, and then `moved` bytes of chunks of `bytes` bytes, the chunk of one run after that of
    /// another.
    pub(super) fn prefix(&self, done: u64, bytes: u64, moved: u64) -> u64 {
        let whole_runs = if done + bytes == self.run_bytes { moved / bytes } else { 0 };
        let rest = (moved - whole_runs * bytes).min(bytes);
        if whole_runs == self.offsets.len() as u64 {
            return self.start + whole_runs * self.run_bytes;
        }
        self.start + whole_runs * self.run_bytes + done + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Memory;
    use capulet_datatype::{Datatype, Named, Tiled};

    /// An access of `runs` runs of the file of `cells` doubles each: one variable of the `stride`
    /// variables of each cell.
    fn access(runs: u64, cells: u64, stride: u64) -> Access {
        let double = Datatype::named(Named::Double);
        let variable = Datatype::resized(0, 8 * stride as i64, &double).expect("the datatype is valid");
        let array = Datatype::contiguous(cells, &variable).expect("the datatype is valid");
        let memory = Datatype::hvector(runs, 1, 8, &array).expect("the datatype is valid");
        let file = Datatype::vector(runs, cells, 2 * cells as i64, &double).expect("the datatype is valid");
        let tiled =
            |datatype: &Datatype| Tiled::new(datatype.layout().clone(), 1).expect("the tiling is small");
        // SAFETY: no byte of this access is moved, so its memory is never used.
        let memory = unsafe { Memory::new(std::ptr::null_mut(), tiled(&memory)) };
        Access::new(0, &tiled(&file), 0, memory, 8 * runs * cells).expect("the offsets are small")
    }

    fn band(access: &Access, start: u64) -> Option<Band> {
        let mut file = Cursor::new(access.file().clone());
        file.seek(access.file_start() + start);
        Band::at(access, Direction::Read, &mut file, start)
    }

    #[test]
    fn band_of_a_write_needs_runs_at_the_same_place_within_a_page() {
        let alike = access(24, 20_480, 24);
        let apart = access(24, 20_000, 24);
        for (access, direction, is_band) in [
            (&alike, Direction::Write, true),
            (&apart, Direction::Write, false),
            (&apart, Direction::Read, true),
        ] {
            let mut file = Cursor::new(access.file().clone());
            assert_eq!(Band::at(access, direction, &mut file, 0).is_some(), is_band, "{direction:?}");
        }
    }

    #[test]
    fn variables_of_cells_form_bands_of_at_most_64_runs() {
        let flash = band(&access(24, 20_000, 24), 0).expect("the runs form a band");
        assert_eq!((flash.offsets.len(), flash.run_bytes, flash.chunk_bytes), (24, 160_000, 8192));
        // A chunk is at least a page, so a band has at most 64 runs; the others are the next band.
        let many = access(100, 5_000, 100);
        assert_eq!(band(&many, 0).map(|band| band.offsets.len()), Some(64));
        assert_eq!(band(&many, 64 * 40_000).map(|band| band.offsets.len()), Some(36));
    }

    #[test]
    fn short_runs_and_runs_apart_in_memory_form_no_band() {
        assert_eq!(band(&access(1, 20_000, 24), 0), None, "one run is no band");
        assert_eq!(band(&access(24, 2_000, 24), 0), None, "the runs are as short as a chunk");
        let double = Datatype::named(Named::Double);
        let contiguous = Datatype::contiguous(48_000, &double).expect("the datatype is valid");
        let tiled = Tiled::new(contiguous.layout().clone(), 1).expect("the tiling is small");
        // SAFETY: no byte of this access is moved, so its memory is never used.
        let memory = unsafe { Memory::new(std::ptr::null_mut(), tiled) };
        let strided = access(24, 2_000, 24);
        let file = strided.file().clone();
        let apart = Access::new(0, &file, 0, memory, 8 * 48_000).expect("the offsets are small");
        assert_eq!(band(&apart, 0), None, "runs are apart in memory");
    }

    #[test]
    fn band_ends_before_a_run_of_another_length() {
        let double = Datatype::named(Named::Double);
        let lengths = [20_000, 20_000, 10_000, 10_000];
        let file = Datatype::indexed(&lengths, &[0, 40_000, 80_000, 120_000], &double)
            .expect("the datatype is valid");
        let tiled = Tiled::new(file.layout().clone(), 1).expect("the tiling is small");
        let memory = access(3, 20_000, 24).memory().clone();
        let access = Access::new(0, &tiled, 0, memory, 8 * 60_000).expect("the offsets are small");
        assert_eq!(band(&access, 0).map(|band| band.offsets.len()), Some(2));
        assert_eq!(band(&access, 8 * 40_000), None, "the memory has another shape");
    }

    #[test]
    fn chunks_end_at_page_ends_of_the_first_run() {
        let flash = band(&access(24, 20_000, 24), 0).expect("the runs form a band");
        assert_eq!(flash.next_chunk_bytes(0, 0), 8192);
        assert_eq!(flash.next_chunk_bytes(0, 4096 + 100), 8192 - 100);
        assert_eq!(flash.next_chunk_bytes(8192 - 100, 100), 8192);
        assert_eq!(flash.next_chunk_bytes(159_000, 0), 1_000);
    }

    #[test]
    fn moved_bytes_count_from_the_start_of_the_access() {
        let flash = band(&access(3, 20_000, 24), 0).expect("the runs form a band");
        assert_eq!(flash.prefix(0, 16384, 0), 0);
        assert_eq!(flash.prefix(0, 16384, 100), 100);
        assert_eq!(flash.prefix(0, 16384, 3 * 16384), 16384, "the rest of the first run is missing");
        assert_eq!(flash.prefix(16384, 16384, 5), 16389);
        assert_eq!(flash.prefix(159_000, 1_000, 1_500), 160_000 + 159_000 + 500);
        assert_eq!(flash.prefix(159_000, 1_000, 3_000), 480_000);
    }

    #[test]
    fn parts_lie_within_their_runs() {
        let flash = band(&access(2, 20_000, 24), 0).expect("the runs form a band");
        let parts: Vec<RunPart> = flash.parts(1_000, 500).collect();
        let part = |stream, offset, buffer| RunPart { stream, offset, buffer };
        assert_eq!(parts, [part(1_000, 1_000, 0), part(161_000, 321_000, 500)]);
    }
}
