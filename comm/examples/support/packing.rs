//! What MPI makes of a type byte by byte, learned from `MPI_Pack`, and what we must make of it.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use capulet_comm::ffi;
use capulet_datatype::{Cursor, Datatype, Named, Tiled, TypedCopy};

use crate::support::{self, Random};

/// What lies where nothing may be written.
const CANARY: u8 = 0xC5;
const MARGIN_BYTES: usize = 64;

/// A type as MPI and we know it.
pub(crate) struct Pair {
    pub(crate) handle: ffi::MPI_Datatype,
    pub(crate) datatype: Datatype,
}

/// Memory that holds some instances of a type, with room on both sides.
#[derive(Clone, PartialEq, Eq)]
struct Memory {
    bytes: Vec<u8>,
    /// Where the base address lies: aligned, so that aligned types are.
    base: usize,
}

impl Memory {
    fn of(datatype: &Datatype, count: u64, fill: impl Fn(usize) -> u8) -> Self {
        let reach = (count as i64 - 1) * datatype.extent();
        let low = datatype.true_lb() + reach.min(0);
        let high = datatype.true_ub() + reach.max(0);
        let base = ((-low).max(0) as usize).next_multiple_of(16) + MARGIN_BYTES;
        let bytes: Vec<u8> = (0..base + high.max(0) as usize + MARGIN_BYTES).map(fill).collect();
        assert_eq!(bytes.as_ptr().addr() % 16, 0, "the allocator aligns");
        Memory { bytes, base }
    }

    fn start(&self) -> *const u8 {
        self.bytes[self.base..].as_ptr()
    }

    fn start_mut(&mut self) -> *mut u8 {
        self.bytes[self.base..].as_mut_ptr()
    }
}

/// `count` instances of a type, as MPI packs them: for each byte of the stream, where in memory it lies.
pub(crate) struct Map<'a> {
    pair: &'a Pair,
    count: u64,
    tiled: Tiled,
    places: Vec<usize>,
    overlaps: bool,
}

impl<'a> Map<'a> {
    /// Learns the map: packs memory whose bytes tell their places, digit by digit.
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

    /// Writes a part of the stream to where it belongs; of bytes at one place the last one stays.
    fn put(&self, range: Range<usize>, data: &[u8], memory: &mut Memory) {
        for (place, byte) in self.places[range].iter().zip(data) {
            memory.bytes[*place] = *byte;
        }
    }

    fn get(&self, range: Range<usize>, memory: &Memory) -> Vec<u8> {
        self.places[range].iter().map(|place| memory.bytes[*place]).collect()
    }

    /// Compares all that only looks: runs, offsets, counts of blocks.
    pub(crate) fn check_walks(&self, random: &mut Random) {
        let base = self.memory(|_| 0).base as i64;
        let mut walked = Vec::with_capacity(self.bytes());
        let mut cursor = Cursor::new(self.tiled.clone());
        while let Some(run) = cursor.next_run(u64::MAX) {
            walked.extend((run.offset..run.offset + run.len as i64).map(|offset| (base + offset) as usize));
        }
        assert!(walked == self.places, "the runs are not where MPI's bytes are");
        for _ in 0..3 {
            let range = self.part(random);
            if !range.is_empty() {
                let offset = self.tiled.offset_of(range.start as u64);
                assert_eq!((base + offset) as usize, self.places[range.start], "offset of byte {range:?}");
            }
            let breaks = self.places[range.clone()].windows(2).filter(|two| two[0] + 1 != two[1]).count();
            let blocks = breaks + usize::from(!range.is_empty());
            let ours = self.tiled.block_count(range.start as u64..range.end as u64).expect("in range");
            assert_eq!(ours, blocks as u64, "blocks in {range:?}");
        }
    }

    /// Compares packing: all of it with `MPI_Pack`, parts with parts of its image.
    pub(crate) fn check_pack(&self, random: &mut Random) {
        let memory = self.memory(noise(random));
        let image = mpi_pack(self.pair, self.count, &memory);
        assert!(image == self.get(0..self.bytes(), &memory), "MPI packs one type in two ways");
        let copy = TypedCopy::new(self.tiled.clone(), bytes_tiled(self.bytes()));
        for range in self.parts(random) {
            let mut packed = vec![CANARY; 2 * MARGIN_BYTES + range.len()];
            let (start, len) = (range.start as u64, range.len() as u64);
            let target = packed[MARGIN_BYTES..].as_mut_ptr().wrapping_sub(range.start);
            // SAFETY: `memory` holds all instances; bytes `range` of the target lie in `packed`.
            assert_eq!(unsafe { copy.run(memory.start(), start, target, start, len) }, len);
            let (before, rest) = packed.split_at(MARGIN_BYTES);
            let (inside, after) = rest.split_at(range.len());
            assert!(inside == &image[range.clone()], "packed bytes {range:?} of {}", self.bytes());
            assert!([before, after].concat().iter().all(|byte| *byte == CANARY), "beyond {range:?}");
        }
    }

    /// Compares unpacking: all of it with `MPI_Unpack`, parts with the map; no other byte may change. Returns whether MPI
    /// took part.
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
            // SAFETY: `ours` holds all instances, and `data` their stream.
            assert_eq!(unsafe { copy.run(source, start, ours.start_mut(), start, len) }, len);
            assert!(ours == expected, "unpacked bytes {range:?} of {}", self.bytes());
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
            // SAFETY: each memory holds all instances of its side, and they are apart.
            let moved = unsafe { copy.run(source.start(), start, ours.start_mut(), end, bytes) };
            assert_eq!(moved, bytes);
            assert!(ours == expected, "copied {len} bytes from {from} to {to}");
        }
    }

    /// All of the stream, and some parts of it.
    fn parts(&self, random: &mut Random) -> [Range<usize>; 4] {
        [0..self.bytes(), self.part(random), self.part(random), self.part(random)]
    }

    fn part(&self, random: &mut Random) -> Range<usize> {
        let start = random.below(self.bytes() as u64 + 1) as usize;
        start..start + random.below((self.bytes() - start) as u64 + 1) as usize
    }
}

/// Bytes that follow no pattern.
fn noise(random: &mut Random) -> impl Fn(usize) -> u8 + use<> {
    let salt = random.next() as usize;
    move |at| ((at ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37) as u8
}

fn bytes_tiled(bytes: usize) -> Tiled {
    Tiled::new(Datatype::named(Named::Byte).layout().clone(), bytes as u64).expect("small")
}

/// `MPI_Pack` of instances that lie in `memory`.
fn mpi_pack(pair: &Pair, count: u64, memory: &Memory) -> Vec<u8> {
    let mut packed = vec![0; (pair.datatype.size() * count) as usize + MARGIN_BYTES];
    let mut position: c_int = 0;
    // SAFETY: every byte of `count` instances lies in `memory`, see `Memory::of`; the target is long enough.
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

/// `MPI_Unpack` to instances that lie in `memory`.
fn mpi_unpack(pair: &Pair, count: u64, data: &[u8], memory: &mut Memory) {
    let mut position: c_int = 0;
    // SAFETY: every byte of `count` instances lies in `memory`, see `Memory::of`; `data` holds as many bytes.
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

/// Open MPI 5.0 packs other bytes than asked for where elements lie at odd addresses.
pub(crate) fn is_open_mpi_5() -> bool {
    let mut text = vec![0_u8; 8192 + 1];
    let mut length = 0;
    // SAFETY: room for MPI_MAX_LIBRARY_VERSION_STRING characters of every MPI.
    unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    text.starts_with(b"Open MPI v5")
}
