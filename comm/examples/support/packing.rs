//! Compares packing, unpacking and typed copies with MPI byte by byte. The places of the bytes of a type
//! come from `MPI_Pack`.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use capulet_comm::ffi;
use capulet_datatype::{Cursor, Datatype, Named, Tiled, TypedCopy};

use crate::support::{self, Random};

/// The byte that fills memory before a copy. It must survive wherever the copy may not write.
const CANARY: u8 = 0xC5;
const MARGIN_BYTES: usize = 64;

/// A type as an MPI handle and as a description.
pub(crate) struct Pair {
    pub(crate) handle: ffi::MPI_Datatype,
    pub(crate) datatype: Datatype,
}

/// Memory that holds some instances of a type, with a margin on both sides.
#[derive(Clone, PartialEq, Eq)]
struct Memory {
    bytes: Vec<u8>,
    /// The index of the base address of the instances, aligned to 16 bytes, so that the elements of an
    /// aligned type are aligned.
    base: usize,
}

impl Memory {
    fn of(datatype: &Datatype, count: u64, fill: impl Fn(usize) -> u8) -> Self {
        let reach = (count as i64 - 1) * datatype.extent();
        let low = datatype.true_lb() + reach.min(0);
        let high = datatype.true_ub() + reach.max(0);
        let base = ((-low).max(0) as usize).next_multiple_of(16) + MARGIN_BYTES;
        let bytes: Vec<u8> = (0..base + high.max(0) as usize + MARGIN_BYTES).map(fill).collect();
        assert_eq!(bytes.as_ptr().addr() % 16, 0, "the allocator aligns to 16 bytes");
        Memory { bytes, base }
    }

    fn start(&self) -> *const u8 {
        self.bytes[self.base..].as_ptr()
    }

    fn start_mut(&mut self) -> *mut u8 {
        self.bytes[self.base..].as_mut_ptr()
    }
}

/// The place in memory of each byte of the packed stream, for `count` instances of a type, as MPI packs
/// them.
pub(crate) struct Map<'a> {
    pair: &'a Pair,
    count: u64,
    tiled: Tiled,
    places: Vec<usize>,
    overlaps: bool,
}

impl<'a> Map<'a> {
    /// Determines the places. Each byte of the packed memory contains one digit of its own place, to the
    /// base 256. Three packs give the three digits.
    pub(crate) fn learn(pair: &'a Pair, count: u64) -> Self {
        let digit = |which: u32| {
            let memory = Memory::of(&pair.datatype, count, |at| (at >> (8 * which)) as u8);
            mpi_pack(pair, count, &memory)
        };
        let digits = [digit(0), digit(1), digit(2)];
        let place = |at: usize| (0..3).map(|which| usize::from(digits[which][at]) << (8 * which)).sum();
        let places: Vec<usize> = (0..digits[0].len()).map(place).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let overlaps = sorted.windows(2).any(|two| two[0] == two[1]);
        let tiled = Tiled::new(pair.datatype.layout().clone(), count).expect("small");
        assert_eq!(tiled.size(), places.len() as u64);
        Map { pair, count, tiled, places, overlaps }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.places.len()
    }

    fn memory(&self, fill: impl Fn(usize) -> u8) -> Memory {
        Memory::of(&self.pair.datatype, self.count, fill)
    }

    /// Writes a part of the stream to its places. If several bytes have one place, the last byte stays.
    fn put(&self, range: Range<usize>, data: &[u8], memory: &mut Memory) {
        for (place, byte) in self.places[range].iter().zip(data) {
            memory.bytes[*place] = *byte;
        }
    }

    fn get(&self, range: Range<usize>, memory: &Memory) -> Vec<u8> {
        self.places[range].iter().map(|place| memory.bytes[*place]).collect()
    }

    /// Compares the queries with the places: runs, offsets and numbers of blocks.
    pub(crate) fn check_walks(&self, random: &mut Random) {
        let base = self.memory(|_| 0).base as i64;
        let mut walked = Vec::with_capacity(self.bytes());
        let mut cursor = Cursor::new(self.tiled.clone());
        while let Some(run) = cursor.next_run(u64::MAX) {
            walked.extend((run.offset..run.offset + run.len as i64).map(|offset| (base + offset) as usize));
        }
        assert!(walked == self.places, "the runs differ from the places of MPI");
        for _ in 0..3 {
            let range = self.part(random);
            if !range.is_empty() {
                let offset = self.tiled.offset_of(range.start as u64);
                assert_eq!(
                    (base + offset) as usize,
                    self.places[range.start],
                    "the offset of the first byte of {range:?} differs"
                );
            }
            let breaks = self.places[range.clone()].windows(2).filter(|two| two[0] + 1 != two[1]).count();
            let blocks = breaks + usize::from(!range.is_empty());
            let ours = self.tiled.block_count(range.start as u64..range.end as u64).expect("in range");
            assert_eq!(ours, blocks as u64, "the number of blocks in {range:?} differs");
        }
    }

    /// Compares packing: the whole stream with the stream of `MPI_Pack`, and parts with parts of that
    /// stream.
    pub(crate) fn check_pack(&self, random: &mut Random) {
        let memory = self.memory(noise(random));
        let image = mpi_pack(self.pair, self.count, &memory);
        assert!(
            image == self.get(0..self.bytes(), &memory),
            "MPI packs the type at other places than before"
        );
        let copy = TypedCopy::new(self.tiled.clone(), bytes_tiled(self.bytes()));
        for range in self.parts(random) {
            let mut packed = vec![CANARY; 2 * MARGIN_BYTES + range.len()];
            let (start, len) = (range.start as u64, range.len() as u64);
            let target = packed[MARGIN_BYTES..].as_mut_ptr().wrapping_sub(range.start);
            // SAFETY: `# Safety` of `TypedCopy::run`: `memory` holds all instances, see `Memory::of`. The
            // bytes `range` of the target stream lie in `packed`.
            assert_eq!(unsafe { copy.run(memory.start(), start, target, start, len) }, len);
            let (before, rest) = packed.split_at(MARGIN_BYTES);
            let (inside, after) = rest.split_at(range.len());
            assert!(inside == &image[range.clone()], "packed bytes {range:?} of {} differ", self.bytes());
            assert!(
                [before, after].concat().iter().all(|byte| *byte == CANARY),
                "a byte beyond {range:?} changed"
            );
        }
    }

    /// Compares unpacking: the whole stream with `MPI_Unpack`, and parts with the places. No other byte may
    /// change. Returns whether `MPI_Unpack` was compared, which is not done if places overlap.
    pub(crate) fn check_unpack(&self, random: &mut Random) -> bool {
        let data: Vec<u8> = (0..self.bytes()).map(noise(random)).collect();
        let copy = TypedCopy::new(bytes_tiled(self.bytes()), self.tiled.clone());
        for range in self.parts(random) {
            let mut expected = self.memory(|_| CANARY);
            let mut ours = expected.clone();
            self.put(range.clone(), &data[range.clone()], &mut expected);
            if range.len() == self.bytes() && !self.overlaps {
                let mut theirs = ours.clone();
                mpi_unpack(self.pair, self.count, &data, &mut theirs);
                assert!(theirs == expected, "MPI unpacks to other places than it packs from");
            }
            let (start, len) = (range.start as u64, range.len() as u64);
            let source = data.as_ptr();
            // SAFETY: `# Safety` of `TypedCopy::run`: `ours` holds all instances, see `Memory::of`, and
            // `data` their whole stream.
            assert_eq!(unsafe { copy.run(source, start, ours.start_mut(), start, len) }, len);
            assert!(ours == expected, "unpacked bytes {range:?} of {} differ", self.bytes());
        }
        !self.overlaps
    }

    /// Compares the typed copy from this type to `target` with MPI's packing and unpacking.
    pub(crate) fn check_copy(&self, target: &Map<'_>, random: &mut Random) {
        let source = self.memory(noise(random));
        let image = self.get(0..self.bytes(), &source);
        let copy = TypedCopy::new(self.tiled.clone(), target.tiled.clone());
        let whole = self.bytes().min(target.bytes());
        let mut parts = vec![(0, 0, whole)];
        for _ in 0..3 {
            let (from, to) = (self.part(random), target.part(random));
            parts.push((from.start, to.start, from.len().min(to.len())));
            let same = from.start.min(to.start);
            parts.push((same, same, (whole - same.min(whole)).min(from.len())));
        }
        for (from, to, len) in parts {
            let mut expected = target.memory(|_| CANARY);
            let mut ours = expected.clone();
            target.put(to..to + len, &image[from..from + len], &mut expected);
            if len == target.bytes() && !target.overlaps {
                let mut theirs = ours.clone();
                mpi_unpack(target.pair, target.count, &image[from..from + len], &mut theirs);
                assert!(theirs == expected, "MPI unpacks to other places than it packs from");
            }
            let (start, end, bytes) = (from as u64, to as u64, len as u64);
            // SAFETY: `# Safety` of `TypedCopy::run`: each memory holds all instances of its side, see
            // `Memory::of`. The two memories are different allocations.
            let moved = unsafe { copy.run(source.start(), start, ours.start_mut(), end, bytes) };
            assert_eq!(moved, bytes);
            assert!(ours == expected, "{len} bytes copied from {from} to {to} differ");
        }
    }

    /// The whole stream, and three random parts.
    fn parts(&self, random: &mut Random) -> [Range<usize>; 4] {
        [0..self.bytes(), self.part(random), self.part(random), self.part(random)]
    }

    fn part(&self, random: &mut Random) -> Range<usize> {
        let start = random.below(self.bytes() as u64 + 1) as usize;
        start..start + random.below((self.bytes() - start) as u64 + 1) as usize
    }
}

/// Bytes without a pattern.
fn noise(random: &mut Random) -> impl Fn(usize) -> u8 + use<> {
    let salt = random.next() as usize;
    move |at| ((at ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37) as u8
}

fn bytes_tiled(bytes: usize) -> Tiled {
    Tiled::new(Datatype::named(Named::Byte).layout().clone(), bytes as u64).expect("small")
}

/// `MPI_Pack` of the instances in `memory`.
fn mpi_pack(pair: &Pair, count: u64, memory: &Memory) -> Vec<u8> {
    let mut packed = vec![0; (pair.datatype.size() * count) as usize + MARGIN_BYTES];
    let mut position: c_int = 0;
    // SAFETY: every byte of `count` instances lies in `memory`, see `Memory::of`. MPI writes at most
    // `packed.len()` bytes.
    let status = unsafe {
        ffi::MPI_Pack(
            memory.start().cast::<c_void>(),
            count as c_int,
            pair.handle,
            packed.as_mut_ptr().cast::<c_void>(),
            packed.len() as c_int,
            &raw mut position,
            support::world(),
        )
    };
    assert_eq!(status, 0);
    packed.truncate(position as usize);
    packed
}

/// `MPI_Unpack` to the instances in `memory`.
fn mpi_unpack(pair: &Pair, count: u64, data: &[u8], memory: &mut Memory) {
    let mut position: c_int = 0;
    // SAFETY: every byte of `count` instances lies in `memory`, see `Memory::of`. MPI reads at most
    // `data.len()` bytes of `data`.
    let status = unsafe {
        ffi::MPI_Unpack(
            data.as_ptr().cast::<c_void>(),
            data.len() as c_int,
            &raw mut position,
            memory.start_mut().cast::<c_void>(),
            count as c_int,
            pair.handle,
            support::world(),
        )
    };
    assert_eq!((status, position as usize), (0, data.len()));
}

/// Whether this MPI is Open MPI 5.0, which packs wrong bytes of types whose elements lie at unaligned
/// addresses.
pub(crate) fn is_open_mpi_5() -> bool {
    let mut text = vec![0_u8; 8192 + 1];
    let mut length = 0;
    // SAFETY: the buffer has room for MPI_MAX_LIBRARY_VERSION_STRING characters of every supported MPI. MPI
    // also writes one int.
    unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    text.starts_with(b"Open MPI v5")
}
